package router

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
)

// refresh brings sockets and machines in line with links, trackers and
// configuration. Sockets come first: listening counts from when it is possible.
func (r *Router) refresh() {
	if r.links == nil || r.over() {
		return
	}
	r.ownAddresses()
	r.syncSockets()
	for _, in := range r.list {
		in.own = r.ownEnvironment(in)
	}
	for _, in := range r.list {
		r.updateEnv(in)
		r.move(in)
	}
}

// updateGroup tells an instance, and those that share its lot, what has changed.
func (r *Router) updateGroup(in *instance) {
	if r.links == nil || r.over() {
		return
	}
	in.own = r.ownEnvironment(in)
	if in.group == nil {
		r.updateEnv(in)
		return
	}
	for _, m := range in.group.members {
		r.updateEnv(m)
	}
}

// ownAddresses collects the addresses our own adverts may come from. The virtual
// addresses do not belong to them: the owner of one sends from it, and we hold it
// while the owner is away.
func (r *Router) ownAddresses() {
	r.own, r.other = map[netip.Addr]struct{}{}, netip.Addr{}
	for _, l := range r.links {
		for _, a := range l.Addrs {
			r.own[a] = struct{}{}
		}
	}
	for _, in := range r.list {
		if in.cfg.Owner() {
			continue
		}
		for _, a := range in.cfg.Addresses {
			delete(r.own, a)
		}
	}
	for _, l := range r.links {
		for _, a := range []netip.Addr{l.Source4, l.Source6} {
			if a.IsValid() && !r.virtual(a) {
				r.own[a] = struct{}{}
			}
		}
	}
}

// virtual reports whether a is an address that an instance of ours holds for
// another router.
func (r *Router) virtual(a netip.Addr) bool {
	return slices.ContainsFunc(r.list, func(in *instance) bool {
		return !in.cfg.Owner() && slices.Contains(in.cfg.Addresses, a)
	})
}

// syncSockets opens and closes sockets when the set wanted has changed.
func (r *Router) syncSockets() {
	if r.links == nil {
		return
	}
	want := make([]Endpoint, 0, len(r.list))
	clear(r.byLocal)
	for _, in := range r.list {
		if e, ok := r.endpoint(in); ok {
			want = append(want, e)
		}
	}
	if r.endpoints != nil && slices.EqualFunc(want, r.endpoints, Endpoint.Equal) {
		return
	}
	r.endpoints = want
	r.socketErr = r.ports.Sender.Sync(slices.Clone(want))
	if len(r.socketErr) > 0 {
		r.retryAt = time.Now().Add(syncRetry)
		r.wake(r.retryAt)
	}
}

// endpoint works out what an instance needs of the sockets, if anything now. By
// unicast that depends on its source; one that is gone is kept for priority 0.
func (r *Router) endpoint(in *instance) (Endpoint, bool) {
	l, ok := r.links[in.cfg.wire()]
	if in.cfg.Interface != "" && (!ok || l.Problem != "") {
		return Endpoint{}, false
	}
	e := Endpoint{
		Instance: in.cfg.Name, Interface: in.cfg.wire(), Index: l.Index,
		IPv6: in.cfg.IPv6, Group: in.cfg.Group, VRID: in.cfg.VRID,
	}
	if in.cfg.Interface != "" && in.cfg.wire() != in.cfg.Interface {
		parent, ok := r.links[in.cfg.Interface]
		if !ok {
			return Endpoint{}, false
		}
		e.Parent = parent.Index
	}
	if in.cfg.Auth != nil {
		e.Keys = in.cfg.Auth.Keys
	}
	if !in.cfg.Unicast {
		return e, true
	}
	var reason string
	if e.Local, reason = r.source(in); reason != "" {
		e.Local = in.source
	}
	if !e.Local.IsValid() {
		return Endpoint{}, false
	}
	e.TTL, e.PatchedToo = in.cfg.UnicastTTL, in.cfg.PatchedToo
	if e.TTL == 0 {
		e.TTL = packet.TTL
	}
	for _, p := range in.cfg.Peers {
		if p.Address != e.Local { // one file may list all directors
			e.Peers = append(e.Peers, p.Address)
		}
	}
	k := local{e.Unicast().Interface, e.Local, e.VRID}
	r.byLocal[k] = append(r.byLocal[k], in)
	return e, true
}

// updateEnv tells the machine its environment when it has changed.
func (r *Router) updateEnv(in *instance) {
	if r.links == nil || r.stopped && !in.machine.Leaving() {
		return
	}
	env := in.environment()
	if in.envSent && env.Equal(&in.env) {
		return
	}
	first := !in.envSent
	in.env, in.envSent = env, true
	if env.Source.IsValid() {
		in.source = env.Source
	}
	before := in.machine.Status().EffectivePriority
	r.feed(in, vrrp.Event{Kind: vrrp.EventEnv, Env: env})
	if now := in.machine.Status().EffectivePriority; now != before && !first {
		r.ports.Observer.Priority(PriorityEvent{Instance: in.cfg.Name, State: in.machine.State(), From: before, To: now, Weights: strings.Join(in.weights, "; ")})
	}
}

// ownEnvironment works out what the machine has to know but for what others of its
// sync group add.
func (r *Router) ownEnvironment(in *instance) vrrp.Env {
	var env vrrp.Env
	fault := func(format string, args ...any) { env.Faults = append(env.Faults, fmt.Sprintf(format, args...)) }

	if reason := r.linksFault(in); reason != "" {
		fault("%s", reason)
	} else if src, reason := r.source(in); reason != "" {
		fault("%s", reason)
	} else {
		env.Source, env.Ear = src, r.ear(in)
		switch err := r.socketErr[in.cfg.Name]; {
		case errors.Is(err, ErrOpening):
			env.Pending = "the opening of the VRRP socket on " + in.cfg.ground()
		case err != nil:
			fault("no VRRP socket on %s: %v", in.cfg.ground(), err)
		case in.cfg.Unicast && !in.hasPeer(src):
			fault("unicast_peer lists no other director: there is nobody to send adverts to")
		}
	}
	if env.Pending == "" {
		env.Pending = r.holding()
	}
	r.track(in, &env)
	if reason := r.blocked[in.cfg.Name]; reason != "" {
		fault("%s", reason)
	}
	env.Faults = append(env.Faults, r.hindered[in.cfg.Name]...)
	if !in.foughtUntil.IsZero() {
		fault("%s fought over: %s was removed by others again and again; next try at %s",
			in.foughtKind, in.foughtOver, in.foughtUntil.Format(time.TimeOnly))
	}
	return env
}

// ear is what adverts for an instance are heard by: the interface, of which another
// one of that name is not the same. A socket for unicast over IPv4 depends on none.
func (r *Router) ear(in *instance) int {
	if r.socketErr[in.cfg.Name] != nil {
		return 0
	}
	if in.cfg.Unicast && (!in.cfg.IPv6 || in.cfg.Interface == "") {
		return -1
	}
	return r.links[in.cfg.Interface].Index
}

// hasPeer reports whether there is a peer other than ourselves.
func (in *instance) hasPeer(src netip.Addr) bool {
	return slices.ContainsFunc(in.cfg.Peers, func(p vrrp.Peer) bool { return p.Address != src })
}

// linksFault says why an instance cannot work on its interface and on the link with its virtual MAC, "" if it can.
func (r *Router) linksFault(in *instance) string {
	for _, name := range []string{in.cfg.Interface, in.cfg.VMAC} {
		if name == "" {
			continue
		}
		l, ok := r.links[name]
		switch reason := r.linkFault(name); {
		case reason == "", in.cfg.DontTrack && ok && l.Problem == "":
		case name == in.cfg.VMAC:
			return "the virtual-MAC link " + reason
		default:
			return reason
		}
	}
	return ""
}

// linkFault says why nothing can be sent or received on an interface, "" if it can.
func (r *Router) linkFault(name string) string {
	switch l, ok := r.links[name]; {
	case !ok:
		return name + " does not exist"
	case l.Problem != "":
		return name + " is not there: " + l.Problem
	case !l.Up:
		return name + " is down"
	case !l.Carrier:
		return name + " has no carrier"
	case l.hold != "":
		return l.hold
	}
	return ""
}

// holder is the interface that has an address, the first by name; "": none.
func (r *Router) holder(a netip.Addr) string {
	holder := ""
	for name, l := range r.links {
		if (holder == "" || name < holder) && slices.Contains(l.Addrs, a) {
			holder = name
		}
	}
	return holder
}

// home is the interface that an instance is on: its own, or that which has its source address.
func (r *Router) home(in *instance) string {
	if in.cfg.Interface != "" {
		return in.cfg.Interface
	}
	return r.holder(in.cfg.Source)
}

// move announces the source address of an instance without interface from the one it has moved to: the peers would
// send to the old one for a while.
func (r *Router) move(in *instance) {
	before := in.home
	in.home = r.home(in)
	if in.cfg.Interface == "" && before != "" && in.home != "" && before != in.home && in.env.Source.IsValid() {
		r.announceSource(in)
	}
}

// source returns the address an instance sends from, or why there is none.
func (r *Router) source(in *instance) (netip.Addr, string) {
	l := r.links[in.cfg.Interface]
	if src := in.cfg.Source; src.IsValid() {
		name := r.holder(src)
		if name == "" {
			return netip.Addr{}, fmt.Sprintf("the configured source address %v is on no interface", src)
		}
		if failed, unready := r.links[name].Unready[src]; unready {
			return netip.Addr{}, "the configured source address may not be used: " + dadText(src, failed)
		}
		return src, ""
	}
	src, what := l.Source4, "IPv4 address"
	if in.cfg.IPv6 {
		src, what = l.Source6, "link-local address"
	}
	// A virtual address is no base: it would vanish with the state it supports.
	if !src.IsValid() || !in.cfg.Owner() && slices.Contains(in.cfg.Addresses, src) {
		reason := fmt.Sprintf("%s has no %s", in.cfg.Interface, what)
		if in.cfg.IPv6 && l.Tentative6.IsValid() {
			return netip.Addr{}, reason + " that may be used: " + dadText(l.Tentative6, l.Duplicate6)
		}
		if a := r.onlyVirtual(&l, in.cfg.IPv6); a.IsValid() {
			reason += fmt.Sprintf(" of its own: %v is a virtual address", a)
		}
		return netip.Addr{}, reason
	}
	return src, ""
}

// dadText says why an IPv6 address is not used yet.
func dadText(a netip.Addr, failed bool) string {
	if failed {
		return fmt.Sprintf("another machine has %v too (duplicate address detection failed)", a)
	}
	return fmt.Sprintf("%v waits for duplicate address detection", a)
}

// onlyVirtual returns a virtual address that could be the source if it were the
// interface's own.
func (r *Router) onlyVirtual(l *Link, ipv6 bool) netip.Addr {
	for _, a := range l.Addrs {
		if a.Is6() == ipv6 && (!ipv6 || a.IsLinkLocalUnicast()) && r.virtual(a) {
			return a
		}
	}
	return netip.Addr{}
}
