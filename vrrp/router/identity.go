package router

import (
	"fmt"
	"net/netip"
	"slices"

	"vipd/vrrp"
)

// key finds the instances an advert by multicast is for.
type key struct {
	iface string
	ipv6  bool
	vrid  uint8
	group netip.Addr
}

// local finds the instances an advert by unicast is for; the interface counts for
// link-local addresses only.
type local struct {
	iface string
	addr  netip.Addr
	vrid  uint8
}

// recent is an instance that was found for a key; nil: there is none.
type recent struct {
	key      key
	instance *instance
}

// wireKey is what an advert by multicast for the instance is found by.
func (a *Instance) wireKey() key { return key{a.wire(), a.IPv6, a.VRID, a.Group} }

// place is the interface, or what stands for it in texts and keys of an instance that has none: no interface is called
// like that.
func (a *Instance) place() string {
	if a.Interface == "" {
		return "from " + a.Source.String()
	}
	return a.Interface
}

// sharesPeer reports whether a machine other than the two themselves is a peer of both.
func (a *Instance) sharesPeer(b *Instance) bool {
	return slices.ContainsFunc(a.Peers, func(p vrrp.Peer) bool {
		own := a.Source == b.Source && p.Address == a.Source // one file may list all directors
		return !own && b.lists(p.Address)
	})
}

// lists reports whether an address is one of the peers.
func (a *Instance) lists(peer netip.Addr) bool {
	return slices.ContainsFunc(a.Peers, func(p vrrp.Peer) bool { return p.Address == peer })
}

// clash reports whether adverts for a and b could not be told apart: those by multicast differ in their group, those by
// unicast in the address that they are sent to or, where that is the same, in the peer that they are from.
func clash(a, b *Instance) bool {
	switch {
	case a.IPv6 != b.IPv6 || a.VRID != b.VRID || a.Unicast != b.Unicast:
		return false
	case !a.Unicast:
		return a.Interface == b.Interface && a.Group == b.Group
	}
	same := a.Interface == b.Interface // each sends from an address of it, or one does so and the other may
	if a.Source.IsValid() && b.Source.IsValid() {
		same = a.Source == b.Source && (same || !a.Source.IsLinkLocalUnicast())
	}
	return same && a.sharesPeer(b)
}

// check finds instances that exclude each other.
func check(instances []Instance) error {
	names := map[string]bool{}
	before := map[uint8][]*Instance{} // by VRID
	for i := range instances {
		in := &instances[i]
		if names[in.Name] {
			return fmt.Errorf("applying instances: the name %q is used twice", in.Name)
		}
		names[in.Name] = true
		for _, other := range before[in.VRID] {
			if clash(other, in) {
				return fmt.Errorf("applying instances: %q and %q both use VRID %d on %s", other.Name, in.Name, in.VRID, in.place())
			}
		}
		before[in.VRID] = append(before[in.VRID], in)
	}
	return nil
}

// same reports whether b is the virtual router that a was, by what its peers see of it.
func (a *Instance) same(b *Instance) bool {
	if a.Unicast != b.Unicast {
		return false
	}
	if !a.Unicast {
		return a.Group == b.Group
	}
	return a.Source == b.Source && a.sharesPeer(b)
}

// base is what virtual routers have in common of which one can become the other.
type base struct {
	place string
	ipv6  bool
	vrid  uint8
}

func (a *Instance) base() base { return base{a.place(), a.IPv6, a.VRID} }

// successors finds, for each instance of a new configuration, the one at work that it continues; nil: none. What peers
// see of it counts for more than its name; the only one with a VRID is the same whatever changed.
func successors(old []*instance, now []Instance) []*instance {
	left, wanted := map[base][]*instance{}, map[base][]int{}
	for _, in := range old {
		left[in.cfg.base()] = append(left[in.cfg.base()], in)
	}
	for i := range now {
		wanted[now[i].base()] = append(wanted[now[i].base()], i)
	}
	found := make([]*instance, len(now))
	take := func(b base, i int, is func(*instance) bool) {
		n := slices.IndexFunc(left[b], func(o *instance) bool { return o.cfg.SameRouter(&now[i].Config) && is(o) })
		if found[i] == nil && n >= 0 {
			found[i] = left[b][n]
			left[b] = slices.Delete(left[b], n, n+1)
		}
	}
	for b, list := range wanted {
		for _, i := range list {
			take(b, i, func(o *instance) bool { return o.cfg.same(&now[i]) })
		}
		for _, i := range list {
			take(b, i, func(o *instance) bool { return o.cfg.Name == now[i].Name })
		}
		list = slices.DeleteFunc(list, func(i int) bool { return found[i] != nil })
		if len(list) == 1 && len(left[b]) == 1 {
			take(b, list[0], func(*instance) bool { return true })
		}
	}
	return found
}
