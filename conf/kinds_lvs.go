package conf

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The kinds of values of virtual and real servers.
var (
	endpointKind    = &kind{"endpoint", `an address with a port ("192.0.2.1:80", "[2001:db8::1]:80" or "192.0.2.1 80")`, []string{"type", "syntax", "host"}, parseEndpoint}
	persistenceKind = &kind{"persistence", `a time 1s..31d in whole seconds ("50s", 360), or true for 360 s`, []string{"type", "syntax", "range", "whole"}, parsePersistence}
	maskKind        = &kind{"mask", `a network mask ("255.255.255.0") or a prefix length (24; for IPv6 1..128)`, []string{"type", "syntax", "range"}, parseMask}
	pathKind        = &kind{"path", `a path that starts with "/" and has no blanks ("/health?full=1")`, []string{"type", "syntax"}, parsePath}
	statusKind      = &kind{"status", `HTTP codes 100..599: 200, "200-299", "200-299 301" or [200, 301]`, []string{"type", "syntax", "range"}, parseStatus}
	flushKind       = &kind{"flush", `true, false or "VS"`, []string{"type", "word"}, parseFlush}
	digestKind      = &kind{"digest", `32 hexadecimal digits, the MD5 of the page ("curl -s URL | md5sum")`, []string{"type", "syntax"}, parseDigest}
)

// parseEndpoint reads an address with or without a port; without, the port is 0.
func parseEndpoint(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	e, ok := endpoint(s)
	if !ok {
		message := shown(f.it) + " is no address with a port"
		switch {
		case strings.Contains(s, "/"):
			message += "; leave out the prefix length"
		case strings.HasSuffix(s, ":0"), strings.HasSuffix(s, " 0"):
			message += "; for every port leave the port out"
		}
		return f.bad("syntax", message)
	}
	if !unicast(e.Addr()) {
		return f.bad("host", shown(f.it)+" is not the address of one host")
	}
	return e, true
}

// endpoint reads "a:p", "[a]:p", "a p", "[a]" or "a".
func endpoint(s string) (netip.AddrPort, bool) {
	host, port, spaced := strings.Cut(s, " ")
	switch {
	case spaced:
		if port = strings.TrimLeft(port, " "); host == "" || port == "" {
			return netip.AddrPort{}, false
		}
	case strings.HasPrefix(s, "["):
		var ok bool
		if host, port, ok = strings.Cut(s, "]"); !ok || port != "" && port[0] != ':' || port == ":" {
			return netip.AddrPort{}, false
		}
		host, port = host+"]", strings.TrimPrefix(port, ":")
	case strings.Count(s, ":") == 1:
		if host, port, _ = strings.Cut(s, ":"); port == "" {
			return netip.AddrPort{}, false
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return netip.AddrPort{}, false
		}
	}
	a, ok := address(host)
	if !ok {
		return netip.AddrPort{}, false
	}
	number := uint64(0)
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return netip.AddrPort{}, false
		}
		number = n
	}
	return netip.AddrPortFrom(a, uint16(number)), true
}

// parsePersistence reads persistence_timeout. 0 means off.
func parsePersistence(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		if on {
			return 360 * time.Second, true
		}
		return time.Duration(0), true
	}
	d, ok := f.duration()
	switch {
	case !ok:
		return nil, false
	case d == 0:
		return f.badAt(f.it, f.path, "range", "0 is no time to keep a client with its server", "leave persistence_timeout out, or write false, to switch it off\n"+f.k.must())
	case int64(d) < f.k.min || int64(d) > f.k.max:
		return f.bad("range", shown(f.it)+" is out of range")
	case d%time.Second != 0:
		return f.bad("whole", shown(f.it)+" is not in whole seconds: the kernel counts in seconds")
	}
	return d, true
}

// parseMask reads persistence_granularity as a prefix length.
func parseMask(f field) (any, bool) {
	n := int64(0)
	switch v := f.it.value.(type) {
	case int64:
		n = v
	case string:
		if a, ok := address(v); ok && a.Is4() {
			b := a.As4()
			mask := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
			if n = int64(bits.LeadingZeros32(^mask)); mask<<n != 0 {
				return f.bad("syntax", shown(f.it)+" has holes and is no network mask")
			}
			break
		}
		var err error
		if n, err = strconv.ParseInt(v, 10, 32); err != nil {
			return f.bad("syntax", shown(f.it)+" is no network mask")
		}
	default:
		return f.wrongType("string")
	}
	if n < 1 || n > 128 {
		return f.bad("range", shown(f.it)+" is out of range")
	}
	return n, true
}

// parsePath reads the path of a url.
func parsePath(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if !strings.HasPrefix(s, "/") || !printable(s) || strings.Contains(s, " ") {
		return f.bad("syntax", shown(f.it)+" is no path")
	}
	return s, true
}

// parseStatus reads status codes and ranges of them.
func parseStatus(f field) (any, bool) {
	entries := []*item{f.it}
	if f.it.kind == arrayItem {
		entries = f.it.list
	}
	var ranges []StatusRange
	for _, e := range entries {
		switch v := e.value.(type) {
		case int64:
			ranges = append(ranges, StatusRange{int(min(max(v, 0), 1000)), int(min(max(v, 0), 1000))})
		case string:
			for _, word := range strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
				from, to, _ := strings.Cut(word, "-")
				if !strings.Contains(word, "-") {
					to = from
				}
				a, errA := strconv.ParseUint(from, 10, 16)
				b, errB := strconv.ParseUint(to, 10, 16)
				if errA != nil || errB != nil {
					return f.badAt(e, f.path, "syntax", strconv.Quote(word)+" is no status code and no range of them", f.k.must())
				}
				ranges = append(ranges, StatusRange{int(a), int(b)})
			}
		default:
			return field{f.c, f.b, f.k, e, f.path}.wrongType("number or string")
		}
	}
	for _, r := range ranges {
		if r.From < 100 || r.To > 599 || r.From > r.To {
			text := fmt.Sprintf("%d-%d", r.From, r.To)
			if r.From == r.To {
				text = shown(f.it)
			}
			return f.bad("range", text+" is out of range")
		}
	}
	if len(ranges) == 0 {
		return f.bad("syntax", "no status code is given")
	}
	return ranges, true
}

// parseDigest reads an MD5 digest.
func parseDigest(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if b, err := hex.DecodeString(s); err != nil || len(b) != 16 {
		return f.bad("syntax", shown(f.it)+" is no MD5 digest")
	}
	return strings.ToLower(s), true
}

// The values of lvs_flush_on_stop; "" is off.
const (
	FlushAll = "all" // services of others go, too
	flushVS  = "VS"
)

// parseFlush reads lvs_flush_on_stop.
func parseFlush(f field) (any, bool) {
	switch v := f.it.value.(type) {
	case bool:
		if v {
			return FlushAll, true
		}
		return "", true
	case string:
		if v == flushVS {
			return flushVS, true
		}
		return f.bad("word", shown(f.it)+" is not known here")
	}
	return f.wrongType("boolean")
}
