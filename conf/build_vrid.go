package conf

import (
	"fmt"
	"net/netip"
	"slices"
)

// vridUser is an instance that has a VRID.
type vridUser struct {
	v  *values
	in *Instance
}

// claim takes the VRID of an instance. Another may have it when adverts for the two can be told apart where they arrive:
// by multicast they differ in the group, by unicast in the address that they are sent to or in the peer that they are
// from.
func (b *builder) claim(v *values, in *Instance) {
	for _, first := range b.vrids[in.VRID] {
		where, remedy := shared(first.in, in)
		if where == "" {
			continue
		}
		it, _ := first.v.place("virtual_router_id")
		b.say(Error, v, "virtual_router_id", "vrrp_instance.virtual_router_id/taken",
			fmt.Sprintf("%d already used %s by %q at %s", in.VRID, where, first.v.name, it.src.place(it.at)),
			"every virtual router on a network needs its own number, 1..255; "+remedy)
		return
	}
	b.vrids[in.VRID] = append(b.vrids[in.VRID], vridUser{v, in})
}

// shared says where adverts for both instances arrive, and what would tell them apart; "": they do not meet.
func shared(a, b *Instance) (where, remedy string) {
	switch {
	case a.IPv6 != b.IPv6 || a.Unicast != b.Unicast:
		return "", ""
	case !a.Unicast && a.Interface == b.Interface && a.Group == b.Group:
		return fmt.Sprintf("on %s (%s) with the group %v", a.Interface, family(a.IPv6), a.Group),
			"two share one only with different groups (mcast_dst_ip)"
	case !a.Unicast:
		return "", ""
	}
	peer := sharedPeer(a, b)
	if !peer.IsValid() {
		return "", ""
	}
	const others = "two share one only with different peers, or from different addresses (unicast_src_ip in both)"
	if a.Source.IsValid() && b.Source.IsValid() {
		if a.Source != b.Source || a.Source.IsLinkLocalUnicast() && a.Interface != b.Interface {
			return "", ""
		}
		return fmt.Sprintf("from %v to %v", a.Source, peer), others
	}
	if a.Interface != b.Interface {
		return "", ""
	}
	return fmt.Sprintf("on %s (%s) to %v", a.Interface, family(a.IPv6), peer), others
}

// sharedPeer is a machine, other than this one, that is a peer of both; invalid: none is.
func sharedPeer(a, b *Instance) netip.Addr {
	for _, p := range a.Peers {
		own := a.Source == b.Source && p.Address == a.Source // one file may list all directors
		if !own && slices.ContainsFunc(b.Peers, func(q Peer) bool { return q.Address == p.Address }) {
			return p.Address
		}
	}
	return netip.Addr{}
}
