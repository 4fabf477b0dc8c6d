package conf

import (
	"fmt"
	"slices"
	"strconv"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the address as 00:00:5e:00:01:33.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// VirtualMAC returns the MAC of a virtual router (RFC 9568 §7.3).
func VirtualMAC(vrid uint8, ipv6 bool) MAC {
	m := MAC{0, 0, 0x5e, 0, 1, vrid}
	if ipv6 {
		m[4] = 2
	}
	return m
}

// parentGroup as UseVMAC.Group stands for the group of the parent interface.
const parentGroup = -1

// UseVMAC is use_vmac as written.
type UseVMAC struct {
	Name   string // of the link
	MAC    MAC    // zero: that of the RFC
	Group  int    // interface group; -1: that of the parent
	Notify bool   // netlink_notify_msg
	short  bool   // the last octet of MAC is the VRID, yet to be added
}

// VMAC is a link with a virtual MAC, a macvlan in private mode, that an instance needs.
type VMAC struct {
	Name   string
	Parent string // the interface it is made on
	MAC    MAC
	Group  int  // interface group; -1: that of the parent
	Notify bool // the parent is announced anew to others that listen to netlink
	IPv4   bool // it carries IPv4
	IPv6   bool // it carries IPv6
}

// OwnVMAC returns the link with the virtual MAC of the instance itself, nil when it has none.
func (in *Instance) OwnVMAC() *VMAC {
	if in.UseVMAC == nil || len(in.VMACs) == 0 {
		return nil
	}
	return &in.VMACs[0]
}

// On returns the link that the address sits on.
func (v *VIP) On() string {
	if v.Link != "" {
		return v.Link
	}
	return v.Dev
}

// mac is the virtual MAC of an instance for a family.
func (in *Instance) mac(ipv6 bool) MAC {
	if u := in.UseVMAC; u != nil && u.MAC != (MAC{}) {
		return u.MAC
	}
	return VirtualMAC(in.VRID, ipv6)
}

// vmacSay reports what is wrong with use_vmac of an instance, or of its address v when v is not nil.
type vmacSay func(in *Instance, v *VIP, rule, message, detail string)

// vmacPlan works out the links with virtual MACs, and which address sits on which.
type vmacPlan struct {
	c     *Config
	say   vmacSay
	names map[string]*Instance // of links with a virtual MAC
	real  map[string]bool      // interfaces that are there anyway
	macs  map[vmacPlace]*Instance
}

// vmacPlace is where a MAC must be the only one of its kind.
type vmacPlace struct {
	parent string
	mac    MAC
}

// placeVMACs fills in Instance.VMACs, their names, and VIP.Link. Names are keepalived's: prefix.VRID, or with a 6 or a
// number after the prefix when that is taken, those of IPv4 instances first.
func (c *Config) placeVMACs(say vmacSay) {
	p := &vmacPlan{c, say, map[string]*Instance{}, map[string]bool{"lo": true}, map[vmacPlace]*Instance{}}
	for i := range c.Instances {
		in := &c.Instances[i]
		p.real[in.Interface] = true
		if in.UseVMAC != nil && in.UseVMAC.Name != "" {
			p.claim(in, in.UseVMAC.Name)
		}
	}
	for _, ipv6 := range []bool{false, true} {
		for i := range c.Instances {
			if in := &c.Instances[i]; in.UseVMAC != nil && in.IPv6 == ipv6 {
				p.own(in)
			}
		}
	}
	for i := range c.Instances {
		in := &c.Instances[i]
		for _, list := range [][]VIP{in.VIPs, in.Excluded} {
			for j := range list {
				p.address(in, &list[j])
			}
		}
	}
}

// claim takes a name that was written.
func (p *vmacPlan) claim(in *Instance, name string) {
	if first, taken := p.names[name]; taken {
		p.say(in, nil, "taken", fmt.Sprintf("the link %s is also that of %q", name, first.Name), "every instance needs a link of its own; leave the name out to have one chosen")
		return
	}
	p.names[name] = in
}

// own makes the link of the instance itself.
func (p *vmacPlan) own(in *Instance) {
	u := in.UseVMAC
	if u.Name == "" {
		u.Name = p.free(p.c.Global.VMACPrefix, in, in.IPv6)
	} else if p.real[u.Name] {
		p.say(in, nil, "taken", fmt.Sprintf("%s is an interface that adverts run on", u.Name), "use_vmac names the link that is to be made; leave the name out to have one chosen")
	}
	in.VMACs = append(in.VMACs, VMAC{u.Name, in.Interface, in.mac(in.IPv6), u.Group, u.Notify, !in.IPv6, in.IPv6})
	p.place(in, nil, &in.VMACs[0])
}

// free chooses a name.
func (p *vmacPlan) free(prefix string, in *Instance, ipv6 bool) string {
	vrid := "." + strconv.Itoa(int(in.VRID))
	names := []string{prefix + vrid}
	if ipv6 {
		names = append(names, prefix+"6"+vrid)
	}
	for i := 1; ; i++ {
		for _, name := range names {
			if p.names[name] == nil && !p.real[name] {
				p.names[name] = in
				return name
			}
		}
		names = []string{prefix + strconv.Itoa(i) + vrid}
	}
}

// place checks that a link can be where it is to be, with its MAC.
func (p *vmacPlan) place(in *Instance, v *VIP, l *VMAC) {
	if l.Parent == "lo" {
		p.say(in, v, "parent", "lo cannot have a link with a virtual MAC", "name an Ethernet interface, or take use_vmac out")
	}
	if other := p.names[l.Parent]; other != nil {
		p.say(in, v, "parent", fmt.Sprintf("%s is itself the link with a virtual MAC of %q", l.Parent, other.Name), "name the interface that it is on")
	}
	k := vmacPlace{l.Parent, l.MAC}
	if first, taken := p.macs[k]; taken {
		p.say(in, v, "mac", fmt.Sprintf("the virtual MAC %s is also that of %q on %s", l.MAC, first.Name, l.Parent), "every virtual MAC is there once on an interface; choose another virtual_router_id, or write a MAC of its own in use_vmac")
		return
	}
	p.macs[k] = in
}

// address finds the link of a virtual address, a new one if need be.
func (p *vmacPlan) address(in *Instance, v *VIP) {
	own := in.OwnVMAC()
	ipv6 := v.Prefix.Addr().Is6()
	if own != nil && v.Dev == own.Name { // as some write it
		v.Dev = in.Interface
	}
	here := v.Dev == in.Interface
	apart := v.UseVMAC || in.UseVMACAddr && (!here || ipv6 != in.IPv6)
	switch {
	case !apart && own != nil && here:
		v.Link = own.Name
		own.carry(ipv6)
		return
	case !apart:
		return
	}
	mac := in.mac(ipv6)
	i := slices.IndexFunc(in.VMACs, func(l VMAC) bool { return l.Parent == v.Dev && l.MAC == mac })
	if i < 0 {
		l := VMAC{Name: p.free(p.c.Global.VMACAddrPrefix, in, ipv6), Parent: v.Dev, MAC: mac, Group: parentGroup}
		if u := in.UseVMAC; u != nil {
			l.Group, l.Notify = u.Group, u.Notify
		}
		p.place(in, v, &l)
		i, in.VMACs = len(in.VMACs), append(in.VMACs, l)
	}
	v.Link = in.VMACs[i].Name
	in.VMACs[i].carry(ipv6)
}

// carry notes that the link has an address of the family.
func (l *VMAC) carry(ipv6 bool) {
	l.IPv6 = l.IPv6 || ipv6
	l.IPv4 = l.IPv4 || !ipv6
}

// String returns use_vmac as one line; "" when the instance has none.
func (u *UseVMAC) String() string {
	if u == nil {
		return ""
	}
	line := u.Name
	if u.Name == "group" || u.Name == "name" || u.Name == "netlink_notify_msg" {
		line = "name " + line
	}
	if u.MAC != (MAC{}) {
		line += " " + u.MAC.String()
	}
	if u.Group != parentGroup {
		line += " group " + strconv.Itoa(u.Group)
	}
	if u.Notify {
		line += " netlink_notify_msg"
	}
	return line
}

// vmacSettings lists what concerns virtual MACs of an instance.
func (in Instance) vmacSettings() []setting {
	return []setting{
		{"use_vmac", in.UseVMAC.String()},
		{"use_vmac_addr", unless(in.UseVMACAddr, false)},
		{"vmac_xmit_base", unless(in.XmitBase, false)},
		{"dont_track_primary", unless(in.DontTrackPrimary, false)},
		{"virtual MAC links", unwritten{list(texts(in.VMACs))}},
		{"addresses on them", unwritten{list(in.onVMACs())}},
	}
}

// vmacSettings lists what concerns virtual MACs in general.
func (g Global) vmacSettings() []setting {
	return []setting{
		{"vmac_prefix", g.VMACPrefix},
		{"vmac_addr_prefix", g.VMACAddrPrefix},
		{"disable_local_igmp", unless(g.DisableLocalIGMP, false)},
	}
}

// String returns the link as ip(8) shows it, with what tells it from others.
func (l VMAC) String() string {
	u := UseVMAC{l.Name + "@" + l.Parent, l.MAC, l.Group, l.Notify, false}
	line := u.String()
	if l.IPv4 {
		line += " IPv4"
	}
	if l.IPv6 {
		line += " IPv6"
	}
	return line
}

// onVMACs lists which address sits on which link.
func (in *Instance) onVMACs() []string {
	var all []string
	for _, list := range [][]VIP{in.VIPs, in.Excluded} {
		for i := range list {
			if list[i].Link != "" {
				all = append(all, list[i].Prefix.String()+" on "+list[i].Link)
			}
		}
	}
	return all
}
