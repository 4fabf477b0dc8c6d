package conf

import (
	"fmt"
	"net/netip"
	"slices"
)

// advertMTU is the packet size that adverts must fit in: that of Ethernet.
const advertMTU = 1500

// advertRoom returns how many addresses one advert can hold: the count has 8
// bits, and the packet must not exceed advertMTU. Version 2 carries 8 more bytes
// of authentication (RFC 3768 §5.3, RFC 9568 §5.2).
func advertRoom(version uint8, ipv6, signed bool) int {
	trailer := 0
	if signed {
		trailer = 28 // auth_hmac
	}
	if ipv6 {
		return min(255, (advertMTU-40-8-trailer)/16)
	}
	room := advertMTU - 20 - 8 - trailer
	if version == 2 {
		room -= 8
	}
	return min(255, room/4)
}

// addresses settles the family and the virtual addresses of an instance.
func (b *builder) addresses(v *values, in *Instance) {
	vips, excluded := get[[]vip](v, "virtual_ipaddress"), get[[]vip](v, "virtual_ipaddress_excluded")
	wrong := v.wrong("virtual_ipaddress") || v.wrong("virtual_ipaddress_excluded")
	b.unclear = b.unclear || wrong
	b.guessed = wrong && len(vips) == 0
	switch {
	case len(vips) > 0:
		in.IPv6 = vips[0].Prefix.Addr().Is6()
	case len(excluded) > 0:
		in.IPv6 = excluded[0].Prefix.Addr().Is6()
	case v.has("mcast_src_ip"):
		in.IPv6 = get[netip.Addr](v, "mcast_src_ip").Is6()
	case v.has("unicast_src_ip"):
		in.IPv6 = get[netip.Addr](v, "unicast_src_ip").Is6()
	case len(get[[]peer](v, "unicast_peer")) > 0:
		in.IPv6 = get[[]peer](v, "unicast_peer")[0].Address.Is6()
	case v.has("mcast_dst_ip"):
		in.IPv6 = get[netip.Addr](v, "mcast_dst_ip").Is6()
	}
	for _, a := range vips {
		if a.Prefix.Addr().Is6() != in.IPv6 {
			b.sayAt(Error, a.it, a.path, "vrrp_instance.virtual_ipaddress/family", fmt.Sprintf("%s is %s, but the first address is %s", a.Prefix.Addr(), family(!in.IPv6), family(in.IPv6)),
				"an advert carries one family; move it to virtual_ipaddress_excluded or to an instance of its own")
		}
		in.VIPs = append(in.VIPs, b.address(v.name, a, in))
	}
	for _, a := range excluded {
		in.Excluded = append(in.Excluded, b.address(v.name, a, in))
	}
	b.room(v, vips, in)
	b.emptiness(v, in)
	if in.IPv6 && len(vips) > 0 && !vips[0].Prefix.Addr().IsLinkLocalUnicast() {
		b.sayAt(Warning, vips[0].it, vips[0].path, "vrrp_instance.virtual_ipaddress/linklocal", "the first IPv6 address should be link-local",
			"RFC 9568 §5.2.9 wants the link-local address of the virtual router first (\"fe80::…\"); some routers ignore adverts without it")
	}
}

// address checks one virtual address and fills in its device.
func (b *builder) address(instance string, a vip, in *Instance) VIP {
	if a.Dev == "" {
		a.Dev = in.Interface
	}
	host := a.Prefix.Addr()
	b.take(instance, a, "")
	if a.Dev == "lo" {
		b.loopback(a, in)
	}
	subnet := a.Prefix.Bits() < host.BitLen()
	if subnet && (host.Is4() || !a.NoPrefixRoute) {
		b.sayAt(Warning, a.it, a.path, "vrrp_instance.virtual_ipaddress/prefix", fmt.Sprintf("%s has the prefix length of a subnet", a.Prefix),
			fmt.Sprintf("the kernel adds a route to %s along with it, and addresses of one subnet can vanish together; write %s", a.Prefix.Masked(), host))
	}
	return a.VIP
}

// take notes whose an address is, and reports one that is taken. instance is "" for
// a static address.
func (b *builder) take(instance string, a vip, what string) {
	host := a.Prefix.Addr()
	place := host
	if host.IsLinkLocalUnicast() && host.Is6() {
		place = host.WithZone(a.Dev) // every link has these addresses for itself
	}
	first, taken := b.vips[place]
	if !taken {
		b.vips[place] = claim{instance, a.it}
		return
	}
	rule, whose := "vrrp_instance.virtual_ipaddress/taken", "an address of this instance"
	switch {
	case what != "":
		rule, whose = "file.static_ipaddress/taken", what
	case first.instance == "":
		whose = "a static address"
	case first.instance != instance:
		whose = fmt.Sprintf("an address of %q", first.instance)
	}
	detail := "an address can belong to one virtual router only; take one of the two out"
	if first.instance == "" {
		detail = "a static address never moves; take one of the two out"
	}
	b.sayAt(Error, a.it, a.path, rule, fmt.Sprintf("%s is already %s at %s", host, whose, first.it.src.place(first.it.at)), detail)
}

// loopback warns of an address on lo. Announcements of it leave through the
// instance's interface; whether Linux answers there depends on the family.
func (b *builder) loopback(a vip, in *Instance) {
	host, what, why := a.Prefix.Addr(), "sits on lo", "it is announced through "+in.Interface+", and Linux answers ARP for it there only while arp_ignore is 0"
	if in.Interface == "" {
		why = "it is announced nowhere, as there is no interface: right where the network routes it here, else"
		b.sayAt(Warning, a.it, a.path, "vrrp_instance.virtual_ipaddress/loopback", fmt.Sprintf("%s %s", host, what), why+" put it on the interface that faces the network")
		return
	}
	if host.Is6() {
		what, why = "on lo cannot be reached", "Linux answers neighbour solicitations for an IPv6 address only on the interface where it sits"
	}
	b.sayAt(Warning, a.it, a.path, "vrrp_instance.virtual_ipaddress/loopback", fmt.Sprintf("%s %s", host, what),
		why+"; put it on the interface that faces the network")
}

// untracked warns of addresses on interfaces that nobody watches: when such a
// link goes, the instance stays master and its addresses answer nowhere.
func (b *builder) untracked(v *values, in *Instance) {
	watched := func(dev string) bool {
		return slices.ContainsFunc(in.TrackInterfaces, func(t TrackRef) bool { return t.Name == dev })
	}
	for _, list := range [][]vip{get[[]vip](v, "virtual_ipaddress"), get[[]vip](v, "virtual_ipaddress_excluded")} {
		for _, a := range list {
			if a.Dev == "" || a.Dev == in.Interface || a.Dev == "lo" || watched(a.Dev) || in.UseVMAC != nil && a.Dev == in.UseVMAC.Name {
				continue
			}
			b.sayAt(Warning, a.it, a.path, "vrrp_instance.virtual_ipaddress/untracked", fmt.Sprintf("%s sits on %s, which this instance does not watch", a.Prefix.Addr(), a.Dev),
				fmt.Sprintf("when %s fails this director stays master and the address answers nowhere; write track_interface = [%q]", a.Dev, a.Dev))
		}
	}
}

// room checks that an advert can hold the addresses.
func (b *builder) room(v *values, vips []vip, in *Instance) {
	version := uint8(b.global.num("vrrp_version"))
	if v.has("version") {
		version = uint8(v.num("version"))
	}
	if limit := advertRoom(version, in.IPv6, v.given("auth_hmac")); len(vips) > limit {
		b.sayAt(Error, vips[limit].it, vips[limit].path, "vrrp_instance.virtual_ipaddress/count",
			fmt.Sprintf("%d addresses are too many: one advert holds %d", len(vips), limit),
			fmt.Sprintf("move this one and those after it to virtual_ipaddress_excluded: they move with the instance, but are not in adverts\n(the count in an advert goes up to 255, and a packet of %d bytes holds %d IPv6 addresses)", advertMTU, advertRoom(3, true, v.given("auth_hmac"))))
	}
}

// emptiness checks an instance without addresses.
func (b *builder) emptiness(v *values, in *Instance) {
	meant := get[bool](v, "no_virtual_ipaddress")
	switch {
	case meant && len(in.VIPs)+len(in.Excluded) > 0:
		b.say(Error, v, "no_virtual_ipaddress", "vrrp_instance.no_virtual_ipaddress/contradiction", "there are virtual addresses in spite of it", "take no_virtual_ipaddress out, or the addresses")
	case !meant && len(in.VIPs)+len(in.Excluded) == 0 && !v.wrong("virtual_ipaddress") && !v.wrong("virtual_ipaddress_excluded"):
		b.say(Warning, v, "", "vrrp_instance.virtual_ipaddress/none", "there are no virtual addresses", "add virtual_ipaddress = [\"…\"], or no_virtual_ipaddress = true when a script moves them")
	}
}
