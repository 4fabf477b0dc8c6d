package router

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// receive hands an advert to its instance.
func (r *Router) receive(p *socket.Received) {
	defer p.Release()
	src, now := p.Src, p.At
	in, reason := r.find(p)
	switch {
	case in == nil && reason == packet.DropNone:
		return
	case in == nil:
		r.strays.Add(1)
		if r.limit.allow(limitKey{reason: reason, source: src, text: p.Interface}, now) {
			r.ports.Observer.Dropped(Drop{Source: src, Reason: reason, Count: r.strays.Load()})
		}
		return
	case reason == packet.DropNone:
		reason = r.admit(in, &p.Advert, src, p.TTL, now)
	}
	if reason != packet.DropNone {
		r.drop(in, src, reason)
		return
	}
	in.receivedCount++
	r.unproven(in, src)
	if in.machine.AddressMismatch() != in.mismatch {
		in.mismatch = !in.mismatch
		if in.mismatch {
			r.note(in.cfg.Name, now, fmt.Sprintf("%v advertises other addresses than we, though some in common: compare virtual_ipaddress on both", src))
		}
	}
	if p.Advert.Form == packet.FormPatched {
		r.patched(in, src)
	} else {
		r.compareForm(in, p.Advert.Form, src)
	}
	r.feedAt(in, now, vrrp.Event{Kind: vrrp.EventAdvert, Advert: &p.Advert, From: src})
}

// find returns the instance an advert is for, and whether that speaks the other way
// of the two: one side by unicast, the other by multicast, and both are master. No
// instance and DropNone mean that another socket has the advert too.
func (r *Router) find(p *socket.Received) (*instance, packet.DropReason) {
	vrid, multicast := p.Advert.VRID, p.Dst.IsMulticast()
	if p.Unicast {
		if list := r.byLocal[local{p.Interface, p.Dst, vrid}]; len(list) > 0 {
			return partner(list, p.Src), packet.DropNone
		}
		return nil, packet.DropUnknownVRID
	}
	if !multicast && (len(r.byLocal[local{p.Interface, p.Dst, vrid}]) > 0 || len(r.byLocal[local{"", p.Dst, vrid}]) > 0) {
		return nil, packet.DropNone
	}
	k := key{p.Interface, p.IPv6, vrid, p.Group}
	if multicast {
		k.group = p.Dst
	}
	in := r.lookup(k)
	switch {
	case in != nil && multicast:
		return in, packet.DropNone
	case in != nil:
		return in, packet.DropByUnicast
	case !multicast && len(r.watched[k]) > 0:
		return nil, packet.DropNone
	}
	for _, in := range r.watched[k] {
		if in.related(&p.Advert) {
			return in, packet.DropByMulticast
		}
	}
	return nil, packet.DropUnknownVRID // or others' own affair, in the group that we are not in
}

// partner is, of the instances that speak unicast from one address with one VRID, the
// one that src is a peer of. From others, the first that hears anybody takes an advert;
// if there is none, the first refuses it.
func partner(list []*instance, src netip.Addr) *instance {
	if len(list) == 1 {
		return list[0]
	}
	for _, is := range []func(*instance) bool{
		func(in *instance) bool { return in.cfg.lists(src) },
		func(in *instance) bool { return in.cfg.AnySource },
	} {
		if n := slices.IndexFunc(list, is); n >= 0 {
			return list[n]
		}
	}
	return list[0]
}

// lookup is byKey, with a shorter way for what was found last.
func (r *Router) lookup(k key) *instance {
	found := &r.recent[k.vrid]
	if found.key != k {
		*found = recent{k, r.byKey[k]}
	}
	return found.instance
}

// related reports whether an advert by multicast is about the addresses of an
// instance that speaks unicast. A peer may have another virtual router of the same VRID.
func (in *instance) related(a *packet.Advert) bool {
	return len(a.Addrs) == 0 ||
		slices.ContainsFunc(a.Addrs, func(v netip.Addr) bool { return slices.Contains(in.cfg.Addresses, v) })
}

// unproven counts an admitted advert without good signature and tells of it what a
// stricter mode of auth_hmac would do. That others do not sign yet is what
// receive-only is for.
func (r *Router) unproven(in *instance, src netip.Addr) {
	reason := in.machine.Unproven()
	if reason == packet.DropNone {
		return
	}
	in.unproven[reason]++
	now := time.Now()
	if reason == packet.DropUnsigned && in.cfg.Auth.Mode == vrrp.AuthReceiveOnly ||
		!r.limit.allow(limitKey{instance: in.cfg.Name, text: "unproven", reason: reason, source: src}, now) {
		return
	}
	r.ports.Observer.Dropped(Drop{Instance: in.cfg.Name, Source: src, Reason: reason, Count: in.unproven[reason], Accepted: true})
}

// patched counts an advert in packet.FormPatched and says once which peer sends them.
func (r *Router) patched(in *instance, src netip.Addr) {
	in.patchedCount++
	if slices.Contains(in.patchedFrom, src) {
		return
	}
	in.patchedFrom = append(in.patchedFrom, src) // of the peers alone: bounded
	r.note(in.cfg.Name, time.Now(), fmt.Sprintf("%v sends wrong checksums, as keepalived 2.4 does by unicast with v3_checksum_as_v2 to all peers but its first; they are accepted here, but other routers refuse them: take v3_checksum_as_v2 out on all directors", src))
}

// compareForm reports a peer whose checksums over IPv4 are of the other form than
// ours. Both are accepted here, but that peer may refuse ours, and then there are
// two masters.
func (r *Router) compareForm(in *instance, form packet.Form, src netip.Addr) {
	if in.cfg.IPv6 || in.cfg.Version != packet.Version3 || form == in.cfg.Form {
		return
	}
	now := time.Now()
	if src == in.otherForm && now.Sub(in.otherFormAt) < limitPeriod {
		return // without the work of a text
	}
	in.otherForm, in.otherFormAt = src, now
	plain := form == packet.FormPlain
	theirs, ours := "with", "without"
	if plain {
		theirs, ours = ours, theirs
	}
	r.note(in.cfg.Name, now, fmt.Sprintf("%v sends checksums %s the IPv4 pseudo-header, we send them %s: it may refuse our adverts; set v3_checksum_as_v2 = %t here, or change it there", src, theirs, ours, plain))
}
