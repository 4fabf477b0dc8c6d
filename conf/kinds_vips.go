package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The kinds of lists of addresses.
var (
	vipsKind       = &kind{"vips", `an array of addresses with options ("203.0.113.10/32 dev bond0 label bond0:1")`, []string{"type", "syntax", "host", "option", "value", "label"}, parseVIPs}
	staticVIPsKind = &kind{"static_vips", `an array of addresses with options ("10.0.0.1/24 dev eth1 track_group G")`, []string{"type", "syntax", "host", "option", "value", "label"}, parseVIPs}
)

// vip is one line of virtual_ipaddress.
type vip struct {
	VIP
	group string // track_group, of static addresses
	it    *item
	path  string
}

// vipOptions are the options of an address; true: a value follows.
var vipOptions = map[string]bool{
	"dev": true, "label": true, "scope": true, "brd": true, "broadcast": true, "peer": true, "preferred_lft": true, "track_group": true,
	"noprefixroute": false, "no_track": false, "home": false, "-nodad": false, "mngtmpaddr": false, "autojoin": false, "use_vmac": false,
}

// vipFlags are the options without a value.
var vipFlags = []string{"noprefixroute", "no_track", "home", "-nodad", "mngtmpaddr", "autojoin", "use_vmac"}

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
		f.bad("syntax", strconv.Quote(words[0])+" is no address"+vipSlip(words[0]))
		return v, false
	}
	if reason := f.noHost(v.Prefix, words); reason != "" {
		f.bad("host", strconv.Quote(words[0])+" is "+reason)
		return v, false
	}
	v.Deprecated = v.Prefix.Addr().Is6() && v.Prefix.Bits() == 128
	seen, brd := map[string]bool{}, []string(nil)
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
		switch {
		case option == "track_group" && f.static() && validName(argument):
			v.group = argument
		case option == "track_group" && f.static():
			return v, f.vipValue(option, argument, "the name of a track_group")
		case option == "track_group" || (option == "no_track" || option == "use_vmac") && f.static():
			return v, f.vipUnknown(option)
		case option == "brd" || option == "broadcast":
			brd = []string{option, argument} // once the length is known, which may be the peer's
		case !f.vipOption(&v.VIP, option, argument):
			return v, false
		}
	}
	if brd != nil && !f.vipBroadcast(&v.VIP, brd[0], brd[1]) {
		return v, false
	}
	if seen["peer"] && !seen["preferred_lft"] {
		v.Deprecated = v.Prefix.Addr().Is6() && v.Prefix.Bits() == 128
	}
	return v, true
}

// static reports whether the key is one of objects that every state has.
func (f field) static() bool { return strings.HasPrefix(f.k.name, "static_") }

// vipPrefix reads an address with or without prefix length.
func vipPrefix(s string) (netip.Prefix, bool) {
	if a, ok := address(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil && !p.Addr().Is4In6() && p.Bits() > 0
}

// vipUnknown reports an option that addresses do not have.
func (f field) vipUnknown(option string) bool {
	names := []string{"dev", "label", "scope", "brd", "peer", "noprefixroute", "preferred_lft", "home", "-nodad", "mngtmpaddr", "autojoin"}
	if f.static() {
		names = append(names, "track_group")
	} else {
		names = append(names, "no_track", "use_vmac")
	}
	f.badAt(f.it, f.path, "option", strconv.Quote(option)+" is no option of an address"+didYouMean(option, names), "options are "+strings.Join(names, ", "))
	return false
}

// vipValue reports a wrong value of an option.
func (f field) vipValue(option, argument, allowed string) bool {
	f.badAt(f.it, f.path, "value", fmt.Sprintf("%s %q is wrong", option, argument), option+" must be "+allowed)
	return false
}

// vipOption applies one option.
func (f field) vipOption(v *VIP, option, argument string) bool {
	value := func(allowed string) bool { return f.vipValue(option, argument, allowed) }
	switch option {
	case "noprefixroute":
		v.NoPrefixRoute = true
	case "use_vmac":
		v.UseVMAC = true
	case "no_track":
		v.NoTrack = true
	case "home", "-nodad", "mngtmpaddr", "autojoin":
		return f.vipFlag(v, option)
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
		case argument != "global" && argument != "link" && argument != "host" && argument != "site" && argument != "nowhere":
			return value("global, link, site, host, nowhere or 0..255")
		}
		v.Scope = argument
	case "preferred_lft":
		n, err := strconv.ParseUint(argument, 10, 31)
		if argument != "forever" && err != nil {
			return value("forever, or a number of seconds below 2147483648")
		}
		if v.Prefix.Addr().Is4() && n > 0 {
			return value("0 or forever: the kernel has no other one for an IPv4 address that is valid for ever")
		}
		v.Deprecated, v.PreferredLft = argument != "forever" && n == 0, uint32(n)
	case "peer":
		p, ok := vipPrefix(argument)
		if !ok || !unicast(p.Addr()) || p.Addr().Is6() != v.Prefix.Addr().Is6() || p.Addr() == v.Prefix.Addr() {
			return value("the address of another host, of the same family, with or without a prefix length")
		}
		v.Peer, v.Prefix = p.Addr(), netip.PrefixFrom(v.Prefix.Addr(), p.Bits())
	}
	return true
}

// vipSlip guesses what is wrong with an address.
func vipSlip(word string) string {
	if strings.Count(word, ":") == 1 {
		return "; leave out the port"
	}
	address, length, ok := strings.Cut(word, "/")
	a, err := netip.ParseAddr(address)
	if !ok || err != nil || a.Zone() != "" || a.Is4In6() {
		return ""
	}
	return fmt.Sprintf(": the length %q of its network is not 1..%d", length, a.BitLen())
}

// noHost says why no host can have an address, "" if one can.
func (f field) noHost(p netip.Prefix, words []string) string {
	a := p.Addr()
	switch {
	case !unicast(a) && !(f.static() && a.IsMulticast() && slices.Contains(words, "autojoin")):
		return "not the address of one host"
	case a.IsLoopback() && !f.static():
		return "a loopback address, which no other machine can reach"
	case !a.Is4() || p.Bits() > 30:
		return ""
	case a == p.Masked().Addr():
		return "the address of a network, not of one host"
	}
	if all, ok := broadcast(p, "+"); ok && all == a {
		return "the broadcast address of its network, not that of one host"
	}
	return ""
}

// vipBroadcast applies brd.
func (f field) vipBroadcast(v *VIP, option, argument string) bool {
	if v.Prefix.Addr().Is6() {
		return f.vipValue(option, argument, "left out: IPv6 has no broadcast")
	}
	of := v.Prefix
	if v.Peer.IsValid() {
		of = netip.PrefixFrom(v.Peer, of.Bits())
	}
	a, ok := broadcast(of, argument)
	if !ok {
		return f.vipValue(option, argument, `an IPv4 address, "+" or "-"`)
	}
	v.Broadcast = a
	return true
}

// vipFlag applies one of the flags that not every address can have.
func (f field) vipFlag(v *VIP, option string) bool {
	wrong := func(message, detail string) bool {
		f.badAt(f.it, f.path, "value", message, detail)
		return false
	}
	ip := v.Prefix.Addr()
	switch {
	case option == "autojoin" && !ip.IsMulticast():
		return wrong("autojoin is for multicast addresses", "the kernel refuses it for the address of a host; leave it out")
	case option != "autojoin" && ip.Is4():
		return wrong(option+" is for IPv6 addresses", "leave it out")
	}
	switch option {
	case "home":
		v.Home = true
	case "-nodad":
		v.DAD = true
	case "mngtmpaddr":
		v.ManageTemp = true
	case "autojoin":
		v.AutoJoin = true
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
