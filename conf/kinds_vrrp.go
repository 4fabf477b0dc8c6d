package conf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The kinds of values of instances and scripts.
var (
	weightKind  = &kind{"weight", "", []string{"type", "syntax", "range"}, parseWeight}
	tracksKind  = &kind{"tracks", "", []string{"type", "syntax", "range", "twice"}, parseTracks}
	vipsKind    = &kind{"vips", `an array of addresses with options ("203.0.113.10/32 dev bond0 label bond0:1")`, []string{"type", "syntax", "host", "option", "later", "value", "label"}, parseVIPs}
	commandKind = &kind{"command", `a string ("/usr/local/bin/check --fast") or an array of words (["/bin/sh", "-c", "…"])`, []string{"type", "syntax", "shell"}, parseCommand}
)

// weight is the weight of a tracker.
type weight struct {
	n       int
	reverse bool
}

// parseWeight reads the weight of a script.
func parseWeight(f field) (any, bool) {
	w := weight{}
	n := int64(0)
	switch v := f.it.value.(type) {
	case int64:
		n = v
	case string:
		words := strings.Fields(v)
		var err error
		if len(words) > 0 {
			n, err = strconv.ParseInt(words[0], 10, 32)
		}
		if len(words) == 2 && words[1] == "reverse" {
			w.reverse = true
		} else if len(words) != 1 {
			err = strconv.ErrSyntax
		}
		if err != nil {
			return f.bad("syntax", shown(f.it)+" is no weight")
		}
	default:
		return f.wrongType("number")
	}
	if n < f.k.min || n > f.k.max {
		return f.bad("range", fmt.Sprintf("%d is out of range", n))
	}
	w.n = int(n)
	return w, true
}

// track is one line of track_interface, track_script, track_file or track_process.
type track struct {
	name     string
	weight   weight
	weighted bool // a weight or reverse was given
	numbered bool // a weight was given
	it       *item
	path     string
}

// parseTracks reads track_interface or track_script.
func parseTracks(f field) (any, bool) {
	return parseEntries(f, field.track, func(t track) string { return strconv.Quote(t.name) })
}

// track reads one entry.
func (f field) track() (track, bool) {
	t := track{it: f.it, path: f.path}
	words, ok := f.words("name", "reverse")
	if !ok {
		return t, false
	}
	if len(words) == 0 {
		f.bad("syntax", "is empty")
		return t, false
	}
	t.name = words[0]
	for words = words[1:]; len(words) > 0; words = words[1:] {
		switch words[0] {
		case "reverse":
			t.weight.reverse, t.weighted = true, true
		case "weight":
			if len(words) < 2 {
				f.bad("syntax", `"weight" needs a number after it`)
				return t, false
			}
			n, err := strconv.ParseInt(words[1], 10, 32)
			if err != nil {
				f.bad("syntax", strconv.Quote(words[1])+" is no weight")
				return t, false
			}
			if n < f.k.min || n > f.k.max {
				f.bad("range", fmt.Sprintf("weight %d is out of range", n))
				return t, false
			}
			t.weight.n, t.weighted, t.numbered = int(n), true, true
			words = words[1:]
		default:
			f.bad("syntax", strconv.Quote(words[0])+" is not known here"+didYouMean(words[0], []string{"weight", "reverse"}))
			return t, false
		}
	}
	return t, true
}

// vip is one line of virtual_ipaddress.
type vip struct {
	VIP
	it   *item
	path string
}

// vipOptions are the options of an address; true: a value follows.
var vipOptions = map[string]bool{"dev": true, "label": true, "scope": true, "brd": true, "broadcast": true, "preferred_lft": true, "noprefixroute": false, "no_track": false, "use_vmac": false}

// vipFlags are the options without a value.
var vipFlags = []string{"noprefixroute", "no_track", "use_vmac"}

// vipLater are options that keepalived has and vipd has not yet.
var vipLater = []string{"peer", "home", "-nodad", "mngtmpaddr", "autojoin"}

// parseVIPs reads virtual_ipaddress or virtual_ipaddress_excluded.
func parseVIPs(f field) (any, bool) { return parseEntries(f, field.vip, nil) }

// vip reads one entry.
func (f field) vip() (vip, bool) {
	v := vip{it: f.it, path: f.path}
	words, ok := f.words("address", vipFlags...)
	if !ok {
		return v, false
	}
	if len(words) == 0 {
		f.bad("syntax", "is empty")
		return v, false
	}
	return f.vipWords(words)
}

// vipWords reads the words of one entry.
func (f field) vipWords(words []string) (vip, bool) {
	v := vip{it: f.it, path: f.path, VIP: VIP{Scope: "global"}}
	ok := false
	if v.Prefix, ok = vipPrefix(words[0]); !ok {
		message := strconv.Quote(words[0]) + " is no address"
		if strings.Count(words[0], ":") == 1 {
			message += "; leave out the port"
		}
		f.bad("syntax", message)
		return v, false
	}
	if !unicast(v.Prefix.Addr()) {
		f.bad("host", strconv.Quote(words[0])+" is not the address of one host")
		return v, false
	}
	v.Deprecated = v.Prefix.Addr().Is6() && v.Prefix.Bits() == 128
	seen := map[string]bool{}
	for words = words[1:]; len(words) > 0; words = words[1:] {
		option := words[0]
		valued, known := vipOptions[option]
		switch {
		case !known:
			return v, f.vipUnknown(option)
		case seen[option]:
			f.bad("option", strconv.Quote(option)+" is given twice")
			return v, false
		case valued && len(words) < 2:
			f.bad("option", strconv.Quote(option)+" needs a value after it")
			return v, false
		}
		seen[option] = true
		argument := ""
		if valued {
			argument, words = words[1], words[1:]
		}
		if !f.vipOption(&v.VIP, option, argument) {
			return v, false
		}
	}
	return v, true
}

// vipPrefix reads an address with or without prefix length.
func vipPrefix(s string) (netip.Prefix, bool) {
	if a, ok := address(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil && !p.Addr().Is4In6() && p.Bits() > 0
}

// vipUnknown reports an option that is not built.
func (f field) vipUnknown(option string) bool {
	for _, l := range vipLater {
		if l == option {
			f.badAt(f.it, f.path, "later", strconv.Quote(option)+" is an option of keepalived that this version of vipd does not support yet", "take it out")
			return false
		}
	}
	names := []string{"dev", "label", "scope", "brd", "noprefixroute", "no_track", "preferred_lft", "use_vmac"}
	f.badAt(f.it, f.path, "option", strconv.Quote(option)+" is no option of an address"+didYouMean(option, names), "options are "+strings.Join(names, ", "))
	return false
}

// vipOption applies one option.
func (f field) vipOption(v *VIP, option, argument string) bool {
	value := func(allowed string) bool {
		f.badAt(f.it, f.path, "value", fmt.Sprintf("%s %q is wrong", option, argument), option+" must be "+allowed)
		return false
	}
	switch option {
	case "noprefixroute":
		v.NoPrefixRoute = true
	case "no_track":
		v.NoTrack = true
	case "use_vmac":
		v.UseVMAC = true
	case "dev":
		if !validInterface(argument) {
			return value(interfaceKind.allowed)
		}
		v.Dev = argument
	case "label":
		if len(argument) > 15 || !printable(argument) {
			return value("1..15 printable characters")
		}
		if v.Prefix.Addr().Is6() {
			f.badAt(f.it, f.path, "label", "an IPv6 address cannot have a label", "Linux knows labels for IPv4 only; leave out label "+argument)
			return false
		}
		v.Label = argument
	case "scope":
		n, err := strconv.ParseUint(argument, 10, 8)
		switch {
		case err == nil:
			argument = strconv.FormatUint(n, 10)
		case argument != "global" && argument != "link" && argument != "host" && argument != "site":
			return value("global, link, site, host or 0..255")
		}
		v.Scope = argument
	case "preferred_lft":
		if argument != "0" && argument != "forever" {
			return value("0 or forever")
		}
		v.Deprecated = argument == "0"
	case "brd", "broadcast":
		if v.Prefix.Addr().Is6() {
			return value("left out: IPv6 has no broadcast")
		}
		broadcast, ok := broadcast(v.Prefix, argument)
		if !ok {
			return value(`an IPv4 address, "+" or "-"`)
		}
		v.Broadcast = broadcast
	}
	return true
}

// broadcast resolves the value of brd: "+" is all host bits set, "-" all clear.
func broadcast(p netip.Prefix, argument string) (netip.Addr, bool) {
	if argument != "+" && argument != "-" {
		a, ok := address(argument)
		return a, ok && a.Is4()
	}
	if p.Bits() >= 31 {
		return netip.Addr{}, true // no host bits: no broadcast address
	}
	b := p.Masked().Addr().As4()
	if argument == "+" {
		for i := p.Bits(); i < 32; i++ {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	return netip.AddrFrom4(b), true
}
