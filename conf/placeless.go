package conf

import (
	"fmt"
	"net/netip"
)

// meansUnicast reports whether an instance is meant for unicast.
func (b *builder) meansUnicast(v *values) bool {
	return v.given("unicast_peer") || v.has("unicast_fault_no_peer") && get[bool](v, "unicast_fault_no_peer")
}

// placeless checks an instance without interface: it is wherever its source address
// is, and what needs a certain interface is an error.
func (b *builder) placeless(v *values, in *Instance) {
	if v.given("interface") {
		return
	}
	key := "unicast_src_ip"
	if !v.given(key) {
		key = "mcast_src_ip" // the same by unicast
	}
	src := get[netip.Addr](v, key)
	switch {
	case !in.Unicast || !v.given(key):
		b.interfaceMissing(v)
		return
	case src.Is6() && src.IsLinkLocalUnicast():
		b.say(Error, v, key, "vrrp_instance.interface/linklocal", src.String()+" is link-local, and there is no interface",
			"every interface has such addresses for itself; add interface, or write another address of this machine")
	}
	if v.given("use_vmac") && get[*UseVMAC](v, "use_vmac") != nil {
		b.say(Error, v, "use_vmac", "vrrp_instance.use_vmac/interface", "there is no interface that the link with the virtual MAC could be on",
			"add interface, or write use_vmac behind the virtual addresses that are to have it: \"ADDRESS dev IF use_vmac\"")
	}
	if get[bool](v, "dont_track_primary") {
		b.say(Warning, v, "dont_track_primary", "vrrp_instance.dont_track_primary/interface", "has no effect without interface",
			"no interface is tracked but those in track_interface; take it out")
	}
	for _, list := range [][]vip{get[[]vip](v, "virtual_ipaddress"), get[[]vip](v, "virtual_ipaddress_excluded")} {
		for _, a := range list {
			if a.Dev == "" {
				b.sayAt(Error, a.it, a.path, "vrrp_instance.virtual_ipaddress/dev", fmt.Sprintf("%s has no dev, and the instance no interface", a.Prefix.Addr()),
					fmt.Sprintf("write \"%s dev IF\", or add interface", a.Prefix.Addr()))
			}
		}
	}
}

// interfaceMissing reports that there is no interface though one is needed.
func (b *builder) interfaceMissing(v *values) {
	detail := "add interface: where adverts are sent and heard, and where addresses go that name no other device"
	if v.block.name == instanceBlock.name {
		detail += "\nby unicast it may be left out: with unicast_peer, and unicast_src_ip = this director's own address"
	}
	b.say(Error, v, "", "vrrp_instance.interface/required", "interface is missing", detail)
}
