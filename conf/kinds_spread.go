package conf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"vipd/conf/spread"
)

// The kinds of values of vip_spread.
var (
	directorsKind  = &kind{"directors", `an array of "NAME [weight 1..100]" or { name = "NAME", weight = N }, at most 64`, []string{"type", "syntax", "range", "twice", "count"}, parseDirectors}
	vridsKind      = &kind{"vrids", `"FROM-TO" with numbers 1..255 ("51-62")`, []string{"type", "syntax", "range"}, parseVRIDs}
	spreadVIPsKind = &kind{"spread_vips", `an array of addresses, blocks ("203.0.113.64/28") and ranges ("203.0.113.10-29"), each with options ("… dev bond0")`, []string{"type", "syntax", "host", "option", "value", "label", "size"}, parseSpreadVIPs}
)

// maxBlock is the number of addresses that one block or range may hold: more
// than 255 adverts can name.
const maxBlock = 1 << 16

// director is one entry of directors.
type director struct {
	name   string
	weight int
}

// parseDirectors reads the list of directors.
func parseDirectors(f field) (any, bool) {
	all, ok := parseEntries(f, field.director, func(d director) string { return strconv.Quote(d.name) })
	if n := len(all); ok && (n == 0 || n > spread.MaxDirectors) {
		return f.bad("count", fmt.Sprintf("there are %d directors", n))
	}
	return all, ok
}

// director reads one entry.
func (f field) director() (director, bool) {
	d := director{weight: 1}
	words, ok := f.words("name")
	switch {
	case !ok:
		return d, false
	case len(words) == 0:
		f.bad("syntax", "is empty")
		return d, false
	case len(words) != 1 && (len(words) != 3 || words[1] != "weight"):
		f.bad("syntax", shown(f.it)+" is no director")
		return d, false
	}
	if d.name = words[0]; !validName(d.name) {
		f.bad("syntax", strconv.Quote(d.name)+" cannot be a name")
		return d, false
	}
	if len(words) == 3 {
		n, err := strconv.Atoi(words[2])
		if err != nil {
			f.bad("syntax", strconv.Quote(words[2])+" is no weight")
			return d, false
		}
		if n < 1 || n > spread.MaxWeight {
			f.bad("range", fmt.Sprintf("weight %d is out of range", n))
			return d, false
		}
		d.weight = n
	}
	return d, true
}

// vrids is a range of VRIDs.
type vrids struct{ from, to int }

// parseVRIDs reads a range of VRIDs.
func parseVRIDs(f field) (any, bool) {
	r := vrids{}
	switch v := f.it.value.(type) {
	case int64:
		if v < 1 || v > 255 {
			return f.bad("range", fmt.Sprintf("%d is out of range", v))
		}
		return vrids{int(v), int(v)}, true
	case string:
		from, to, found := strings.Cut(v, "-")
		if !found {
			to = from
		}
		var err1, err2 error
		r.from, err1 = strconv.Atoi(strings.TrimSpace(from))
		r.to, err2 = strconv.Atoi(strings.TrimSpace(to))
		if err1 != nil || err2 != nil {
			return f.bad("syntax", shown(f.it)+" is no range of numbers")
		}
	default:
		return f.wrongType("string")
	}
	switch {
	case r.from < 1 || r.to > 255:
		return f.bad("range", shown(f.it)+" is out of range")
	case r.from > r.to:
		return f.bad("range", fmt.Sprintf("%d comes after %d", r.from, r.to))
	}
	return r, true
}

// parseSpreadVIPs reads the addresses of a spread.
func parseSpreadVIPs(f field) (any, bool) {
	entries, ok := f.entries()
	var all []vip
	for _, e := range entries {
		vips, good := e.spreadVIPs()
		if ok = ok && good; good {
			all = append(all, vips...)
		}
		if len(all) > maxBlock {
			return e.badAt(e.it, e.path, "size", fmt.Sprintf("up to here there are %d addresses", len(all)), fmt.Sprintf("at most %d; write smaller blocks", maxBlock))
		}
	}
	return all, ok
}

// spreadVIPs reads one entry: an address, or a block or range of them.
func (f field) spreadVIPs() ([]vip, bool) {
	words, ok := f.words("address", vipFlags...)
	if !ok {
		return nil, false
	}
	if len(words) == 0 {
		f.bad("syntax", "is empty")
		return nil, false
	}
	first, count := addressBlock(words[0])
	if count == 0 {
		v, ok := f.vipWords(words)
		return []vip{v}, ok
	}
	if count > maxBlock {
		f.badAt(f.it, f.path, "size", strconv.Quote(words[0])+" holds too many addresses", fmt.Sprintf("at most %d; write a smaller block", maxBlock))
		return nil, false
	}
	all := make([]vip, 0, count)
	for a := first; len(all) < count; a = a.Next() {
		v, ok := f.vipWords(append([]string{a.String()}, words[1:]...))
		if !ok {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

// addressBlock returns the first address of a block whose host bits are 0, or of
// a range, and their number, more than maxBlock standing for all that is too
// much. The number is 0 when s is neither.
func addressBlock(s string) (first netip.Addr, count int) {
	if p, err := netip.ParsePrefix(s); err == nil && !p.Addr().Is4In6() && p.Masked() == p && p.Bits() > 0 && p.Bits() < p.Addr().BitLen() {
		return p.Addr(), 1 << min(p.Addr().BitLen()-p.Bits(), 17)
	}
	from, to, found := strings.Cut(s, "-")
	first, ok := address(from)
	if !found || !ok {
		return netip.Addr{}, 0
	}
	last, ok := address(to)
	if !ok { // the last part alone, as in keepalived's 10.0.0.1-20
		separator := "."
		if first.Is6() {
			separator = ":"
		}
		last, ok = address(from[:strings.LastIndex(from, separator)+1] + to)
	}
	if !ok || last.Is4() != first.Is4() || last.Less(first) {
		return netip.Addr{}, 0
	}
	return first, distanceOf(first, last) + 1
}

// distanceOf returns how far two addresses are apart, at most maxBlock.
func distanceOf(first, last netip.Addr) int {
	a, b := first.As16(), last.As16()
	if [8]byte(a[:8]) != [8]byte(b[:8]) {
		return maxBlock
	}
	return int(min(binary.BigEndian.Uint64(b[8:])-binary.BigEndian.Uint64(a[8:]), maxBlock))
}
