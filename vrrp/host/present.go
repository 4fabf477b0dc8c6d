package host

import (
	"net/netip"
	"slices"
	"time"
)

// base reports whether the instance's interface has an address of the machine's own.
func (b *book) base(in *instance) bool {
	skip := func(ip netip.Addr) bool { return b.vips[ip] }
	if in.set.Interface == "" {
		return b.holds(in.set.Source)
	}
	l := b.last.Links[in.set.Interface]
	if in.set.IPv6 {
		return l.Source6(skip).IsValid()
	}
	return l.Source4(skip).IsValid()
}

// holds reports whether an interface has the address.
func (b *book) holds(a netip.Addr) bool {
	for _, l := range b.last.Links {
		if slices.ContainsFunc(l.Addrs, func(x Addr) bool { return x.Prefix.Addr() == a }) {
			return true
		}
	}
	return false
}

// judge renews each instance's fitness for repairs.
func (b *book) judge() {
	type place struct {
		dev    string
		ipv6   bool
		source netip.Addr // in place of dev
	}
	bases := map[place]bool{} // an interface may have hundreds of instances and thousands of addresses
	for _, in := range b.order {
		if in.set.Static {
			in.fit = true
			continue
		}
		if !in.wanted {
			continue
		}
		p := place{dev: in.set.Interface, ipv6: in.set.IPv6}
		if p.dev == "" {
			p.source = in.set.Source
		}
		base, ok := bases[p]
		if !ok {
			base = b.base(in)
			bases[p] = base
		}
		in.hadBase = in.hadBase || base
		in.fit = (p.dev == "" || b.last.Links[p.dev].Usable()) && (in.set.Owner || !in.hadBase || base)
	}
}

// state takes in a snapshot. It says nothing about entries that changed after its reading began.
func (b *book) state(now time.Time, s State) {
	b.freshenAll(now)
	if s.Start().Before(b.last.Start()) {
		return
	}
	b.stir(now, s)
	b.last, b.has = s, nil
	b.judge()
	have := b.lookup(s)
	var missing []*entry
	for k, e := range b.entries {
		if !e.changed.Before(s.At) {
			continue
		}
		a, ok := have[k]
		switch {
		case ok && !e.present:
			e.present, e.was, e.rec = true, true, a.Addr
			b.guard.dirty = true
			b.adopt(e, a.Addr)
		case !ok && e.present:
			missing = append(missing, e)
		}
		if ok {
			e.index = a.index
		}
	}
	for _, e := range missing {
		b.follow(e)
		if !b.leaving(e) {
			b.lost(now, e)
		}
	}
	b.evaluateAll(now)
	b.fib.Observe(now, s.FIB, b.env())
}

// leaving reports whether the address is about to be removed where it was seen last. A snapshot without it is no reason
// to forget it: a dump of thousands of addresses can miss some while others go. The removal tells.
func (b *book) leaving(e *entry) bool {
	l := b.last.Links[e.dev]
	return e.ours && e.active() == nil && l != nil && l.Index == e.index
}

type located struct {
	Addr
	index int
}

// lookup indexes the addresses of the interfaces that entries are on.
func (b *book) lookup(s State) map[key]located {
	devs := map[string]bool{}
	for k := range b.entries {
		devs[k.dev] = true
	}
	have := map[key]located{}
	for dev := range devs {
		if l := s.Links[dev]; l != nil {
			for _, a := range l.Addrs {
				have[key{dev, a.Prefix}] = located{a, l.Index}
			}
		}
	}
	return have
}

// adopt decides whether an address that was found, not added, is ours to remove (see the package comment).
func (b *book) adopt(e *entry, a Addr) {
	if e.ours || e.owned() {
		return
	}
	u := e.active()
	if u != nil && u.inst.set.Static {
		e.ours = a.Proto == ProtoStatic
		return
	}
	e.ours = u != nil && (a.Proto == Proto || !b.sole(e.key))
}

// sole reports whether the interface has no other address of the family but virtual ones: removing this one could
// cut the machine off.
func (b *book) sole(k key) bool {
	l := b.last.Links[k.dev]
	return l != nil && !slices.ContainsFunc(l.Addrs, func(a Addr) bool {
		ip := a.Prefix.Addr()
		return a.Prefix != k.prefix && ip.Is4() == k.prefix.Addr().Is4() && a.Proto != Proto && !b.vips[ip]
	})
}

// lost notes that the kernel has the address no more. It is a loss, to be counted, only when nothing but somebody's
// deletion explains it.
func (b *book) lost(now time.Time, e *entry) {
	e.present, e.stale = false, false
	b.guard.dirty = true
	for _, u := range e.users {
		u.told = false
	}
	u := e.active()
	if u == nil {
		e.ours = false
		return
	}
	b.tell(eventLost, e, nil)
	if l := b.last.Links[e.dev]; !b.repairable(e, u) || l.Index != e.index {
		return
	}
	if u.address.NoTrack {
		e.dropped = true
		return
	}
	e.losses = slices.DeleteFunc(e.losses, func(t time.Time) bool { return now.Sub(t) > fightWindow })
	e.losses = append(e.losses, now)
	if len(e.losses) >= fightLimit {
		e.fought = true
		if u.inst.set.Static { // nobody asks for it anew
			e.retryAt = now.Add(fightPause)
			b.due(now, e)
		}
		b.tell(eventFought, e, nil)
	}
}

// follow removes our address from an interface that was renamed and took it along.
func (b *book) follow(e *entry) {
	l := b.last.ByIndex(e.index)
	if !e.ours || l == nil || l.Name == e.dev || !b.last.Has(l.Name, e.prefix) {
		return
	}
	moved := b.entry(key{l.Name, e.prefix})
	if len(moved.users) == 0 {
		moved.ours = true
	}
}

// repairable reports whether the address could be put back now: its interface exists and is up, and so is the
// instance's, which still has its base address. Otherwise the instance is about to fail, not the address.
func (b *book) repairable(e *entry, u *user) bool {
	l := b.last.Links[e.dev]
	return l != nil && l.Up && u.inst.fit
}
