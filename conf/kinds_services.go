package conf

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The kinds of values that say what services are and how packets are forwarded.
var (
	methodKind = &kind{"method", `"NAT", "DR" or "TUN [type {ipip|gue port 1..65535|gre} [nocsum|csum|remcsum]]"`, []string{"type", "word", "tunnel"}, parseMethod}
	rangesKind = &kind{"ranges", `an array of "ADDRESS [PORT]", "FIRST-LAST [PORT]" or "NETWORK/LENGTH [PORT]"`, []string{"type", "syntax", "host", "size", "twice"}, parseRanges}
	marksKind  = &kind{"marks", `an array of marks 1..4294967295: 7, "7 inet6" or { fwmark = 7, ip_family = "inet6" }`, []string{"type", "syntax", "range", "twice"}, parseMarks}
)

// forwarding is the finished value of lvs_method.
type forwarding struct {
	Method string
	Tunnel Tunnel
}

// methods are the ways IPVS forwards a packet.
var methods = []string{"NAT", "DR", "TUN"}

// parseMethod reads lvs_method.
func parseMethod(f field) (any, bool) {
	words, ok := f.methodWords()
	if !ok {
		return nil, false
	}
	if len(words) == 0 || !slices.Contains(methods, words[0]) {
		return f.bad("word", shown(f.it)+" is no forwarding method"+didYouMean(strings.Join(words, " "), methods))
	}
	out := forwarding{Method: words[0]}
	if len(words) > 1 && out.Method != "TUN" {
		return f.badAt(f.it, f.path, "tunnel", fmt.Sprintf("%s has no tunnel", out.Method), "write "+out.Method+" alone, or TUN")
	}
	message := out.Tunnel.parse(words[1:])
	if message != "" {
		return f.bad("tunnel", shown(f.it)+": "+message)
	}
	return out, true
}

// methodWords returns lvs_method as keepalived's words.
func (f field) methodWords() ([]string, bool) {
	words, ok := f.words("method")
	if ok && f.it.kind == tableItem {
		// The value of checksum stands alone in the line, and the order in a table is free.
		var kind, port, sum, rest []string
		for i := 1; i+1 < len(words); i += 2 {
			pair := words[i : i+2]
			switch pair[0] {
			case "type":
				kind = pair
			case "port":
				port = pair
			case "checksum":
				sum = pair[1:]
			default:
				rest = append(rest, pair...)
			}
		}
		words = slices.Concat(words[:1], kind, port, sum, rest)
	}
	return words, ok
}

// parse reads what follows TUN and returns what is wrong with it.
func (t *Tunnel) parse(words []string) (message string) {
	if len(words) == 0 {
		return ""
	}
	if words[0] != "type" || len(words) < 2 {
		return strconv.Quote(words[0]) + " cannot follow TUN; the type of the tunnel comes first"
	}
	kind := words[1]
	if words = words[2:]; len(words) >= 2 && words[0] == "port" {
		n, err := strconv.ParseUint(words[1], 10, 16)
		if err != nil || n == 0 {
			return strconv.Quote(words[1]) + " is no port"
		}
		t.Port, words = uint16(n), words[2:]
	}
	sum := ""
	if len(words) > 0 {
		sum, words = words[0], words[1:]
	}
	switch {
	case !slices.Contains([]string{"ipip", "gue", "gre"}, kind):
		return strconv.Quote(kind) + " is no type of tunnel"
	case !slices.Contains([]string{"", "nocsum", "csum", "remcsum"}, sum):
		return strconv.Quote(sum) + " is not known here"
	case len(words) > 0:
		return strconv.Quote(words[0]) + " is too much"
	case kind == "gue" && t.Port == 0:
		return "gue needs the UDP port that the real servers listen on: type gue port 6080"
	case kind != "gue" && t.Port != 0:
		return "only gue has a port"
	case kind == "ipip" && (sum == "csum" || sum == "remcsum"), kind == "gre" && sum == "remcsum":
		return kind + " has no " + sum
	}
	if kind != "ipip" {
		t.Type = kind
	}
	if sum != "nocsum" {
		t.Checksum = sum
	}
	return ""
}

// maxServices bounds the services of a group. Each is one in the kernel, with all its servers.
const maxServices = 16384

// parseRanges reads the address list of a virtual_server_group.
func parseRanges(f field) (any, bool) {
	return parseEntries(f, field.serviceRange, ServiceRange.String)
}

// serviceRange reads one entry.
func (f field) serviceRange() (ServiceRange, bool) {
	if s, ok := f.it.value.(string); ok && !strings.ContainsAny(s, "-/") {
		if e, ok := endpoint(s); ok {
			return f.validRange(ServiceRange{e.Addr(), e.Addr(), e.Port()})
		}
	}
	words, ok := f.words("address")
	if !ok {
		return ServiceRange{}, false
	}
	if len(words) == 3 && words[1] == "port" && f.it.kind == tableItem {
		words = []string{words[0], words[2]}
	}
	var r ServiceRange
	if len(words) == 2 {
		n, err := strconv.ParseUint(words[1], 10, 16)
		if err != nil || n == 0 {
			f.bad("syntax", strconv.Quote(words[1])+" is no port; for every port leave the port out")
			return r, false
		}
		r.Port = uint16(n)
	}
	message := ""
	if len(words) == 1 || len(words) == 2 {
		r.First, r.Last, message = addressRange(words[0])
	}
	if message != "" || !r.First.IsValid() {
		if message == "" {
			message = "is no range of addresses"
		}
		f.bad("syntax", f.shown()+" "+message)
		return r, false
	}
	return f.validRange(r)
}

// validRange checks the addresses of a range and their number.
func (f field) validRange(r ServiceRange) (ServiceRange, bool) {
	if !unicast(r.First) || !unicast(r.Last) {
		f.bad("host", f.shown()+" has addresses that no host can have")
		return r, false
	}
	if r.count() > maxServices {
		f.badAt(f.it, f.path, "size", fmt.Sprintf("%s has too many addresses", f.shown()),
			fmt.Sprintf("a group may have %d services; for more mark the packets by a rule of nftables and make it one service: fwmark = [7]", maxServices))
		return r, false
	}
	return r, true
}

// count is the number of addresses, or a larger one than is allowed.
func (r ServiceRange) count() int {
	n := new(big.Int).Sub(number16(r.Last), number16(r.First))
	if !n.IsInt64() || n.Int64() > maxServices {
		return maxServices + 1
	}
	return int(n.Int64()) + 1
}

func number16(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// addressRange reads "A", "A-B" with B an address or its last part, and "NETWORK/LENGTH". The message says what is wrong.
func addressRange(s string) (first, last netip.Addr, message string) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if p != p.Masked() {
			return first, last, "is no network: it begins at " + p.Masked().String()
		}
		return p.Addr(), lastOf(p), ""
	}
	from, to, ranged := strings.Cut(s, "-")
	first, ok := address(from)
	switch {
	case !ok:
		return netip.Addr{}, last, ""
	case !ranged:
		return first, first, ""
	}
	if last, ok = address(to); !ok {
		if last, ok = lastPart(first, to); !ok {
			return netip.Addr{}, last, ""
		}
	}
	switch {
	case first.Is4() != last.Is4():
		return first, last, "begins and ends in different families"
	case last.Less(first):
		return first, last, "ends before it begins"
	}
	return first, last, ""
}

// lastPart replaces the last part of an address: the number after the last dot, or the hexadecimal one after the last colon.
func lastPart(first netip.Addr, part string) (netip.Addr, bool) {
	if first.Is4() {
		n, err := strconv.ParseUint(part, 10, 8)
		b := first.As4()
		b[3] = byte(n)
		return netip.AddrFrom4(b), err == nil
	}
	n, err := strconv.ParseUint(part, 16, 16)
	b := first.As16()
	b[14], b[15] = byte(n>>8), byte(n)
	return netip.AddrFrom16(b), err == nil
}

// lastOf is the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b) // as long as it was
	return a
}

// parseMarks reads the fwmark list of a virtual_server_group.
func parseMarks(f field) (any, bool) {
	if _, one := f.it.value.(int64); one {
		m, ok := f.serviceMark()
		return []ServiceMark{m}, ok
	}
	return parseEntries(f, field.serviceMark, ServiceMark.String)
}

// serviceMark reads one entry.
func (f field) serviceMark() (ServiceMark, bool) {
	words := []string{""}
	if n, ok := f.it.value.(int64); ok {
		words[0] = strconv.FormatInt(n, 10)
	} else if words, ok = f.words("fwmark"); !ok {
		return ServiceMark{}, false
	}
	if len(words) == 3 && words[1] == "ip_family" && f.it.kind == tableItem {
		words = []string{words[0], words[2]}
	}
	m := ServiceMark{}
	if len(words) == 2 {
		m.Family = words[1]
	}
	if len(words) == 0 || len(words) > 2 || !slices.Contains([]string{"", "inet", "inet6"}, m.Family) {
		f.bad("syntax", f.shown()+" is no firewall mark")
		return m, false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	switch {
	case err != nil:
		f.bad("syntax", f.shown()+" is no firewall mark")
	case n < 1 || n > 1<<32-1:
		f.bad("range", f.shown()+" is out of range")
		return m, false
	}
	m.Mark = uint32(n)
	return m, err == nil
}
