package conf

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The kinds of values of mail, and of names of daemons and namespaces.
var (
	mailboxKind     = &kind{"mailbox", `an address ("ops@example.com")`, []string{"type", "syntax"}, parseMailbox}
	mailboxesKind   = &kind{"mailboxes", `an address ("ops@example.com"), or an array of addresses`, []string{"type", "syntax", "twice"}, parseMailboxes}
	relayKind       = &kind{"relay", `"ADDRESS|NAME [PORT]" or { address = "…", port = N } ("10.0.0.5 25", "[2001:db8::1] 25")`, []string{"type", "syntax"}, parseRelay}
	hostKind        = &kind{"host", `a host name ("lvs-1.example.com")`, []string{"type", "syntax"}, parseHost}
	placeKind       = &kind{"place", "a name of at most 64 letters, digits and . _ -", []string{"type", "syntax"}, parsePlace}
	placeOrTrueKind = &kind{"place or true", "true, or a name of at most 64 letters, digits and . _ -", []string{"type", "syntax"}, parsePlaceOrTrue}
)

// The bounds of SMTP (RFC 5321 §4.5.3.1) and of names in paths.
const (
	mailboxMax  = 254
	localMax    = 64
	hostMax     = 253
	placeMax    = 64
	relayPort   = 25
	letters     = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	localChars  = letters + "!#$%&'*+/=?^_`{|}~-."
	hostChars   = letters + "-_."
	placeChars  = letters + "._-"
	mailDefault = "keepalived"
)

// only reports whether s is not empty and has only some characters.
func only(s, chars string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(chars, r) })
}

// validHost reports whether s can be the name of a host.
func validHost(s string) bool {
	return len(s) <= hostMax && only(s, hostChars) && !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "-") && !strings.Contains(s, "..")
}

// validMailbox reports whether s is an address in the form of RFC 5321 without
// quoted parts.
func validMailbox(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	dots := strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..")
	return ok && len(s) <= mailboxMax && len(local) <= localMax && only(local, localChars) && !dots && validHost(domain)
}

// mailbox reads an address.
func (f field) mailbox() (string, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		f.wrongType("string")
		return "", false
	}
	if validMailbox(s) {
		return s, true
	}
	hint := ""
	if !strings.Contains(s, "@") && validMailbox(s+"@localhost") {
		hint = "; write " + s + "@ and the name of a host"
	} else if _, inside, found := strings.Cut(s, "<"); found && validMailbox(strings.TrimSuffix(inside, ">")) {
		hint = "; write " + strings.TrimSuffix(inside, ">") + " alone"
	}
	f.bad("syntax", shown(f.it)+" is no mail address"+hint)
	return "", false
}

func parseMailbox(f field) (any, bool) {
	s, ok := f.mailbox()
	return s, ok
}

// parseMailboxes reads one address or more.
func parseMailboxes(f field) (any, bool) {
	entries, ok := f.entries()
	all := []string{}
	for _, e := range entries {
		s, good := e.mailbox()
		switch {
		case !good:
			ok = false
		case slices.Contains(all, s):
			e.badAt(e.it, e.path, "twice", shown(e.it)+" is listed twice", "keep one of the two entries")
			ok = false
		default:
			all = append(all, s)
		}
	}
	return all, ok
}

// relay is the value of smtp_server.
type relay struct {
	host string
	port int
}

// parseRelay reads a server and its port.
func parseRelay(f field) (any, bool) {
	words, ok := f.words("address")
	if !ok {
		return nil, false
	}
	if f.it.kind == tableItem && len(words) == 3 && words[1] == "port" {
		words = []string{words[0], words[2]}
	} else if f.it.kind == tableItem && len(words) > 1 {
		return f.bad("syntax", strconv.Quote(words[1])+" is not known here"+didYouMean(words[1], []string{"address", "port"}))
	}
	if len(words) == 1 { // the form of all other addresses here
		if host, port, found := cutPort(words[0]); found {
			words = []string{host, port}
		}
	}
	r := relay{port: relayPort}
	if len(words) == 0 || len(words) > 2 {
		return f.bad("syntax", shown(f.it)+" is no mail server")
	}
	r.host = strings.TrimSuffix(strings.TrimPrefix(words[0], "["), "]")
	if a, ok := address(r.host); !ok && (strings.Contains(r.host, ":") || r.host != words[0] || !validHost(r.host)) || ok && !unicast(a) {
		return f.bad("syntax", strconv.Quote(words[0])+" is neither an IP address nor a host name")
	}
	if len(words) == 2 {
		n, err := strconv.ParseUint(words[1], 10, 16)
		if err != nil || n == 0 {
			return f.bad("syntax", strconv.Quote(words[1])+" is no port")
		}
		r.port = int(n)
	}
	return r, true
}

// cutPort splits "HOST:PORT" and "[ADDRESS]:PORT".
func cutPort(s string) (host, port string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return s, "", false // of IPv6
	}
	return s[:i], s[i+1:], true
}

func parseHost(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if _, isAddress := address(strings.Trim(s, "[]")); !validHost(s) && !isAddress {
		return f.bad("syntax", shown(f.it)+" is no host name")
	}
	return s, true
}

// parsePlace reads a name that can be a part of a path.
func parsePlace(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if len(s) > placeMax || !only(s, placeChars) || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "-") || path.Base(s) != s {
		return f.bad("syntax", shown(f.it)+" cannot be a name")
	}
	return s, true
}

// parsePlaceOrTrue reads the same, or true.
func parsePlaceOrTrue(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		if !on {
			return f.bad("type", "false has no meaning; leave the key out")
		}
		return true, true
	}
	return parsePlace(f)
}
