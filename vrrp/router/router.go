package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

const (
	// receiveQueue is how many adverts may wait for the loop.
	receiveQueue = 1024
	// commandQueue is how many inputs other than adverts may wait for the loop.
	commandQueue = 64
	// turnSize is how many of them are handled before the next look at the deadlines.
	turnSize = 16
	// fightHold is how long an instance stays in FAULT after its VIP was fought over.
	fightHold = 30 * time.Second
	// syncRetry is how long after a failed Sync the next one is tried.
	syncRetry = time.Second
)

// ErrStopped is returned by calls that reach a router whose Run has returned.
var ErrStopped = errors.New("the VRRP router has stopped")

// Router runs virtual routers. New, then Run in a goroutine of the caller's; every
// other method may be called from any goroutine, but only Deliver from a port's
// method: the others may wait for the loop. None of them waits for a Run that has
// returned.
type Router struct {
	ports    Ports
	received chan *socket.Received
	commands chan func()
	done     chan struct{}
	ending   atomic.Bool // the context of Run is over
	overruns atomic.Uint64
	strays   atomic.Uint64

	// All that follows belongs to the goroutine of Run.
	list      []*instance // sorted by name
	byName    map[string]*instance
	byKey     map[key]*instance
	recent    [256]recent // of byKey, by VRID
	groups    map[string]*group
	byLocal   map[local]*instance // those with unicast peers
	seen      map[string]Link     // as the host told
	links     map[string]Link     // those that count, after delays; nil: not known yet
	settled   map[string]*settled
	delays    map[string]LinkDelay
	holdUntil time.Time // all wait in INIT; zero: they do not
	holdWhy   string
	blocked   map[string]string // instances that must not work, with the reason
	results   map[tracker]int   // last result of each tracker that has one
	own       map[netip.Addr]struct{}
	other     netip.Addr // the last source that is not among them
	endpoints []Endpoint
	socketErr map[string]error
	retryAt   time.Time           // next Sync after an error; zero: none
	next      time.Time           // no instance wants anything before; zero: never
	claims    bool                // what is next may be a take-over
	hindered  map[string][]string // told from outside, by instance
	stopped   bool
	left      chan struct{} // closed when no instance has anything to give up any more
	limit     limiter
}

// recent is an instance that was found for a key; nil: there is none.
type recent struct {
	key      key
	instance *instance
}

// key finds the instance an advert is for.
type key struct {
	iface string
	ipv6  bool
	vrid  uint8
}

// local finds the instance an advert by unicast is for; the interface counts for
// link-local addresses only.
type local struct {
	iface string
	addr  netip.Addr
	vrid  uint8
}

// New returns a router without instances.
func New(ports Ports) *Router {
	if ports.Waiter == nil {
		ports.Waiter = newTimerWaiter()
	}
	return &Router{
		ports:    ports,
		received: make(chan *socket.Received, receiveQueue),
		commands: make(chan func(), commandQueue),
		done:     make(chan struct{}),
		left:     make(chan struct{}),
		byName:   map[string]*instance{},
		byKey:    map[key]*instance{},
		byLocal:  map[local]*instance{},
		results:  map[tracker]int{},
		groups:   map[string]*group{},
		settled:  map[string]*settled{},
		limit:    limiter{},
	}
}

// Run owns all machines until ctx ends. Then every instance gives its addresses up
// (as by Stop) and Run returns nil. It returns an error only when the Waiter fails:
// nothing can be on time then. It may be called once.
func (r *Router) Run(ctx context.Context) error {
	defer close(r.done)
	stop := context.AfterFunc(ctx, func() {
		r.ending.Store(true)
		r.ports.Waiter.Wake()
	})
	defer stop()
	for {
		r.tick(time.Now())
		switch {
		case r.ending.Load():
			r.shutdown(0)
			return nil
		case r.turn():
			continue
		}
		if err := r.ports.Waiter.Wait(r.until()); err != nil {
			r.shutdown(0)
			return fmt.Errorf("waiting in the VRRP router: %w", err)
		}
	}
}

// turn takes one command and some adverts, and reports whether there was anything.
func (r *Router) turn() (any bool) {
	select {
	case f := <-r.commands:
		f()
		any = true
	default:
	}
	for n := min(len(r.received), turnSize); n > 0; n-- {
		r.receive(<-r.received)
		any = true
	}
	return any
}

// Deliver takes over a received advert and releases it when it was handled. It
// never blocks: when too many wait, the advert is dropped and counted.
func (r *Router) Deliver(p *socket.Received) {
	select {
	case r.received <- p:
		r.ports.Waiter.Wake()
	default:
		r.overruns.Add(1)
		p.Release()
	}
}

// Take is Deliver for the Waiter: it is called from Wait alone, in the goroutine of
// Run, and handles the advert at once.
func (r *Router) Take(p *socket.Received) { r.receive(p) }

// Overruns is the number of adverts dropped because too many waited.
func (r *Router) Overruns() uint64 { return r.overruns.Load() }

// Strays is the number of adverts delivered for no instance of this router.
func (r *Router) Strays() uint64 { return r.strays.Load() }

// HostState tells the state of all interfaces. The map is not changed afterwards
// by either side. Instances hear only what changed for them.
func (r *Router) HostState(links map[string]Link) {
	r.post(func() {
		r.seen = links
		r.settleLinks()
	})
}

// SocketsChanged tells that the Sender has opened a socket, or cannot.
func (r *Router) SocketsChanged() {
	r.post(func() {
		r.endpoints = nil
		r.refresh()
	})
}

// Fought tells that others keep removing something of the instance, which kind names
// ("VIP", "route", "rule"): the instance goes to FAULT and tries again after 30 s.
func (r *Router) Fought(instance, kind, what string) {
	r.post(func() {
		if in, ok := r.byName[instance]; ok {
			in.foughtUntil, in.foughtKind, in.foughtOver = time.Now().Add(fightHold), kind, what
			r.wake(in.foughtUntil)
			r.updateGroup(in)
		}
	})
}

// Block puts instances into FAULT, for the reason given, until a call that does not
// name them: what they need is missing in this machine. It replaces what was said
// before.
func (r *Router) Block(reasons map[string]string) {
	r.post(func() {
		r.blocked = reasons
		r.refresh()
	})
}

// Hinder says, by instance, what keeps instances from taking part beside all that the
// router knows itself. It replaces what was said before.
func (r *Router) Hinder(reasons map[string][]string) {
	reasons = maps.Clone(reasons)
	r.post(func() {
		r.hindered = reasons
		r.refresh()
	})
}

// Status returns a snapshot of all instances, sorted by name; nil once Run has
// returned.
func (r *Router) Status() []InstanceStatus {
	var out []InstanceStatus
	if err := r.do(context.Background(), func() {
		out = make([]InstanceStatus, 0, len(r.list))
		for _, in := range r.list {
			s := in.status()
			s.Waiting = in.waiting(time.Now())
			out = append(out, s)
		}
	}); err != nil {
		return nil
	}
	return out
}

// post hands f to the loop without waiting for it to run.
func (r *Router) post(f func()) {
	select {
	case r.commands <- f:
		r.ports.Waiter.Wake()
	case <-r.done:
	}
}

// do runs f in the loop and waits for it.
func (r *Router) do(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case r.commands <- func() { f(); close(ran) }:
		r.ports.Waiter.Wake()
	case <-r.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-r.done:
		select {
		case <-ran:
			return nil
		default:
			return ErrStopped
		}
	}
}

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
	var own *instance
	if len(r.byLocal) > 0 {
		own = r.byLocal[local{p.Interface, p.Dst, p.Advert.VRID}]
	}
	if p.Unicast {
		if own == nil {
			return nil, packet.DropUnknownVRID
		}
		return own, packet.DropNone
	}
	in := r.lookup(key{p.Interface, p.IPv6, p.Advert.VRID})
	multicast := p.Dst.IsMulticast()
	switch {
	case !multicast && (own != nil || r.byLocal[local{"", p.Dst, p.Advert.VRID}] != nil):
		return nil, packet.DropNone
	case in == nil:
		return nil, packet.DropUnknownVRID
	case !in.cfg.Unicast && multicast:
		return in, packet.DropNone
	case !in.cfg.Unicast:
		return in, packet.DropByUnicast
	case !multicast:
		return nil, packet.DropNone
	case !in.related(&p.Advert, p.Src):
		return nil, packet.DropUnknownVRID // others' own affair, in the group that we are not in
	}
	return in, packet.DropByMulticast
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
// instance that speaks unicast.
func (in *instance) related(a *packet.Advert, src netip.Addr) bool {
	return len(a.Addrs) == 0 || slices.ContainsFunc(in.cfg.Peers, func(p vrrp.Peer) bool { return p.Address == src }) ||
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
