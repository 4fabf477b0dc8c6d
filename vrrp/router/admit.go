package router

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
)

// admit adds to the machine's checks what only the router knows: all addresses of
// this host. An advert of ours that comes back on another interface is ours. On the
// interface that it was sent by nothing of ours comes back: the sockets do not loop.
// What has our address there is another's.
func (r *Router) admit(in *instance, a *packet.Advert, src netip.Addr, ttl uint8, now time.Time) packet.DropReason {
	if src != r.other { // mostly one master is all that is heard
		if _, own := r.own[src]; own && src == in.source {
			return packet.DropTwin
		} else if own {
			return packet.DropOwnSource
		}
		r.other = src
	}
	return in.machine.Admit(now, a, src, ttl)
}

// drop counts an advert that is not acted on and reports it now and then.
func (r *Router) drop(in *instance, src netip.Addr, reason packet.DropReason) {
	in.drops[reason]++
	now := time.Now()
	switch reason {
	case packet.DropForeign:
		in.foreign, in.foreignAt = src, now
	case packet.DropTwin:
		in.twinAt = now
	}
	if r.limit.allow(limitKey{instance: in.cfg.Name, reason: reason, source: src}, now) {
		r.ports.Observer.Dropped(Drop{Instance: in.cfg.Name, Source: src, Reason: reason, Count: in.drops[reason]})
	}
}

// Twin tells that adverts from src, the address that instances on the interface send
// from, came from another machine.
func (r *Router) Twin(iface string, src netip.Addr, mac string) {
	r.post(func() {
		now := time.Now()
		for _, in := range r.list {
			if r.home(in) != iface || in.source != src {
				continue
			}
			in.drops[packet.DropTwin]++
			in.twinAt = now
			r.note(in.cfg.Name, now, fmt.Sprintf("the machine with the MAC address %s sends adverts from our own address %v: each takes itself for the master; give one of them another address (if the MAC is ours: a loop in the network sends our frames back)", mac, src))
		}
	})
}

// Claimed tells that another machine, with a MAC address, answers for addresses that an
// instance has on an interface.
func (r *Router) Claimed(instance string, addrs []netip.Addr, iface, mac string) {
	r.post(func() {
		now := time.Now()
		in := r.byName[instance]
		if in == nil || in.machine.State() != vrrp.Master || !r.limit.allow(limitKey{instance: instance, text: iface + mac}, now) {
			return
		}
		r.note(instance, now, fmt.Sprintf("the machine with the MAC address %s on %s answers for %s, too, and clients may reach it in place of this director: a real server of LVS-DR needs arp_ignore = 1 and arp_announce = 2; on any other machine take the address away", mac, iface, Several(addrs)))
	})
}

// Several names the first of some addresses and how many more there are.
func Several(addrs []netip.Addr) string {
	if len(addrs) == 1 {
		return addrs[0].String()
	}
	return fmt.Sprintf("%v and %d more of our addresses", addrs[0], len(addrs)-1)
}
