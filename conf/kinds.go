package conf

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// kind is a type of value: how it is read, and which rules it can break.
type kind struct {
	name    string
	allowed string   // what may be written; empty where it depends on the key
	rules   []string // suffixes of rule identifiers
	parse   func(f field) (any, bool)
}

// The kinds of single values.
var (
	boolKind      = &kind{"bool", "true or false", []string{"type"}, parseBool}
	intKind       = &kind{"int", "", []string{"type", "range"}, parseInt}
	timeKind      = &kind{"time", "", []string{"type", "syntax", "range"}, parseTime}
	choiceKind    = &kind{"choice", "", []string{"type", "word"}, parseChoice}
	textKind      = &kind{"text", "a string", []string{"type", "length", "characters"}, parseText}
	solidKind     = &kind{"solid", "a string without blanks", []string{"type", "length", "characters"}, parseSolid}
	interfaceKind = &kind{"interface", `the name of a network interface, at most 15 characters ("eth0")`, []string{"type", "syntax"}, parseInterface}
	addressKind   = &kind{"address", `an IPv4 or IPv6 address of one host ("192.0.2.1")`, []string{"type", "syntax", "host"}, parseAddress}
	group4Kind    = &kind{"group4", `an IPv4 multicast address ("224.0.0.18")`, []string{"type", "syntax", "group"}, parseGroup}
	group6Kind    = &kind{"group6", `an IPv6 multicast address of link-local scope ("ff02::12")`, []string{"type", "syntax", "group"}, parseGroup}
	groupKind     = &kind{"group", `a multicast address ("224.0.0.18" or, of link-local scope, "ff02::12")`, []string{"type", "syntax", "group"}, parseGroup}
)

// shown names the value of an item in a message.
func shown(it *item) string {
	switch it.kind {
	case tableItem:
		return "a table"
	case arrayItem:
		return "an array"
	}
	switch v := it.value.(type) {
	case string:
		if len(v) > 80 {
			v = v[:80] + "…"
		}
		return strconv.Quote(strings.ToValidUTF8(v, "?"))
	case time.Time:
		return "a date"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(it.value)
}

// shown names the value of the key, unless it is a password.
func (f field) shown() string {
	if f.k.secret {
		return "the value"
	}
	return shown(f.it)
}

// wrongType reports a value of another TOML type.
func (f field) wrongType(want string) (any, bool) {
	is := " is no " + want
	if f.it.kind == scalarItem {
		switch v := f.it.value.(type) {
		case string:
			is = " is a string, not a " + want
			if _, err := strconv.ParseInt(v, 10, 64); err == nil && want == "number" || want == "boolean" && (v == "true" || v == "false") {
				is += "; write " + v + " without quotes"
			}
		case int64, float64:
			is = " is a number, not a " + want
		case bool:
			is = " is a boolean, not a " + want
		}
	}
	return f.bad("type", f.shown()+is)
}

// parseBool reads true or false.
func parseBool(f field) (any, bool) {
	if b, ok := f.it.value.(bool); ok {
		return b, true
	}
	return f.wrongType("boolean")
}

// parseInt reads a whole number within the bounds of the key.
func parseInt(f field) (any, bool) {
	n, ok := f.it.value.(int64)
	if !ok {
		if _, float := f.it.value.(float64); float {
			return f.bad("type", shown(f.it)+" is no whole number")
		}
		return f.wrongType("number")
	}
	if n < f.k.min || n > f.k.max {
		return f.bad("range", fmt.Sprintf("%d is out of range", n))
	}
	return n, true
}

// parseTime reads a time: a number of seconds, or a string with a unit.
func parseTime(f field) (any, bool) {
	d, ok := f.duration()
	if !ok {
		return nil, false
	}
	if int64(d) < f.k.min || int64(d) > f.k.max {
		return f.bad("range", shown(f.it)+" is out of range")
	}
	return d, true
}

// duration reads a time of any length.
func (f field) duration() (time.Duration, bool) {
	seconds := 0.0
	switch v := f.it.value.(type) {
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	case string:
		d, ok := timeText(v)
		if !ok {
			message := shown(f.it) + " is no time"
			if _, err := strconv.ParseFloat(v, 64); err == nil {
				message = shown(f.it) + " has no unit; write " + v + ` or "` + v + `s"`
			}
			f.bad("syntax", message)
		}
		return d, ok
	default:
		f.wrongType("time")
		return 0, false
	}
	const limit = float64(math.MaxInt64 / int64(time.Second))
	if !(math.Abs(seconds) < limit) {
		f.bad("range", shown(f.it)+" is out of range")
		return 0, false
	}
	d := time.Duration(math.Round(seconds*1e6)) * time.Microsecond
	if d == 0 && seconds != 0 {
		f.bad("range", shown(f.it)+" is out of range")
		return 0, false
	}
	return d, true
}

// timeText reads "250ms", "1m30s", "2d" and the like.
func timeText(s string) (time.Duration, bool) {
	days := time.Duration(0)
	if before, after, found := strings.Cut(s, "d"); found {
		n, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return 0, false
		}
		days = time.Duration(n) * 24 * time.Hour
		if s = after; s == "" {
			return days, true
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || !strings.ContainsAny(s, "hmsuµn") || d < 0 || d > math.MaxInt64-days {
		return 0, false
	}
	return days + d, true
}

// parseChoice reads one of the words of the key.
func parseChoice(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if slices.Contains(f.k.words, s) {
		return s, true
	}
	if first, more, ok := strings.Cut(s, " "); ok && slices.Contains(f.k.words, first) {
		return f.bad("word", fmt.Sprintf("%q after %q is not supported yet; write %q alone", more, first, first))
	}
	if advice := choiceAdvice[f.k.name+" "+s]; advice != "" {
		return f.badAt(f.it, f.path, "word", shown(f.it)+" is not supported", advice+"\n"+f.k.must())
	}
	return f.bad("word", shown(f.it)+" is not known"+didYouMean(s, f.k.words))
}

// choiceAdvice holds what to do about words that keepalived knows and vipd
// does not.
var choiceAdvice = map[string]string{
	"auth_type AH": "RFC 9568 dropped it and it never worked across vendors; use PASS, or version = 3 without authentication",
}

// parseText reads a string.
func parseText(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if n := int64(len(s)); n < f.k.min || n > f.k.max {
		message := fmt.Sprintf("%s has %d bytes", f.shown(), n)
		if n == 0 {
			message = "is empty"
		}
		return f.badAt(f.it, f.path, "length", message, fmt.Sprintf("must be a string of %d..%d bytes", f.k.min, f.k.max))
	}
	if !printable(s) {
		return f.badAt(f.it, f.path, "characters", f.shown()+" contains a control character", "must be a string of printable characters, on one line")
	}
	return s, true
}

// parseSolid reads a string without blanks.
func parseSolid(f field) (any, bool) {
	if s, ok := f.it.value.(string); ok && blank(s) && printable(s) {
		return f.badAt(f.it, f.path, "characters", f.shown()+" contains a blank", "must be a string without blanks")
	}
	return parseText(f)
}

// printable reports whether a string can stand in a log line.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// blank reports whether a string contains a blank of any kind.
func blank(s string) bool { return strings.ContainsFunc(s, unicode.IsSpace) }

// parseInterface reads the name of an interface.
func parseInterface(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if !validInterface(s) {
		return f.bad("syntax", shown(f.it)+" cannot be the name of an interface")
	}
	return s, true
}

// validInterface reports whether Linux would take s as an interface name.
func validInterface(s string) bool {
	return s != "" && len(s) <= 15 && s != "." && s != ".." && printable(s) && !strings.ContainsAny(s, "/:") && !blank(s)
}

// parseAddress reads an address without port, length or zone.
func parseAddress(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	a, ok := address(s)
	if !ok {
		return f.bad("syntax", shown(f.it)+" is no IP address"+addressHint(s))
	}
	if !unicast(a) {
		return f.bad("host", shown(f.it)+" is not the address of one host")
	}
	return a, true
}

// unicast reports whether an address can belong to one host.
func unicast(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// address reads an IPv4 or IPv6 address.
func address(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == "" && !a.Is4In6()
}

// addressHint says what is wrong with something that is almost an address.
func addressHint(s string) string {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() != "" {
		return "; leave out %" + a.Zone()
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is4In6() {
		return "; write " + a.Unmap().String()
	}
	if _, err := netip.ParsePrefix(s); err == nil {
		return "; leave out the prefix length"
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return "; leave out the port"
	}
	return ""
}

// parseGroup reads a multicast group of the family that the kind names.
func parseGroup(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	a, ok := address(s)
	if !ok {
		return f.bad("syntax", shown(f.it)+" is no IP address"+addressHint(s))
	}
	fits := a.Is4() && f.k.kind.name != "group6" && a.IsMulticast() || a.Is6() && f.k.kind.name != "group4" && a.IsLinkLocalMulticast()
	if !fits {
		return f.bad("group", shown(f.it)+" does not fit")
	}
	return a, true
}
