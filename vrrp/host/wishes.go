package host

import (
	"slices"
	"time"
)

// configure replaces all sets. What is the same before and after is not touched.
func (b *book) configure(now time.Time, sets []Set) {
	b.freshenAll(now)
	old, told := b.instances, b.forgetUsers()
	b.instances = make(map[string]*instance, len(sets))
	b.order = nil
	clear(b.vips)
	b.guard.used = slices.ContainsFunc(sets, func(s Set) bool { return s.NoAccept })
	var begun []*instance
	for _, set := range sets {
		in := &instance{set: set}
		o := old[set.Instance]
		switch {
		case o != nil:
			in.wanted, in.hadBase = o.wanted, o.hadBase && o.set.Interface == set.Interface
		case b.early[set.Instance] && !b.closed:
			in.wanted = true
			begun = append(begun, in)
		}
		if set.Static && !b.closed {
			in.wanted = true
			if o == nil {
				begun = append(begun, in)
			}
		}
		delete(b.early, set.Instance)
		b.instances[set.Instance] = in
		b.order = append(b.order, in)
		for _, a := range set.Addresses {
			b.use(in, a, told)
		}
	}
	for _, in := range begun {
		in.hadBase = b.base(in)
		for _, u := range in.users {
			u.begin()
		}
	}
	for _, e := range b.entries {
		if u := e.active(); u != nil && e.present && e.ours {
			e.stale = !e.rec.same(u.record())
		}
	}
	b.configurePaths(sets)
	b.unlisted, b.guard.dirty = true, true
	b.judge()
	b.evaluateAll(now)
}

// telling names one instance's use of one address.
type telling struct {
	key
	instance string
}

// forgetUsers takes all instances off the entries and returns who was told that its address is present.
func (b *book) forgetUsers() map[telling]bool {
	told := map[telling]bool{}
	for k, e := range b.entries {
		for _, u := range e.users {
			if u.told {
				told[telling{k, u.inst.set.Instance}] = true
			}
		}
		e.users = nil
	}
	for _, in := range b.order {
		for _, e := range in.queue {
			e.queued = false
		}
	}
	b.ring = nil
	return told
}

// use notes that the instance has the address.
func (b *book) use(in *instance, a Address, told map[telling]bool) {
	e := b.entry(key{in.set.dev(a), a.Prefix})
	if slices.ContainsFunc(e.users, func(u *user) bool { return u.inst == in }) {
		return
	}
	u := &user{inst: in, entry: e, address: a, told: told[telling{e.key, in.set.Instance}]}
	e.users, in.users = append(e.users, u), append(in.users, u)
	if !in.set.Static {
		b.vips[a.Prefix.Addr()] = true
	}
}

// entry returns the entry of k, a new one if need be, with what the newest snapshot knows of it.
func (b *book) entry(k key) *entry {
	e := b.entries[k]
	if e == nil {
		e = &entry{key: k}
		if a := b.last.find(k.dev, k.prefix); a != nil {
			e.present, e.rec, e.index = true, *a, b.last.Links[k.dev].Index
		}
		b.entries[k] = e
	}
	return e
}

// want notes whether the instance's addresses shall be there.
func (b *book) want(now time.Time, name string, wanted bool) {
	wanted = wanted && !b.closed
	b.fib.Want(name, wanted)
	in := b.instances[name]
	if in == nil {
		b.early[name] = wanted
		return
	}
	if in.wanted == wanted {
		return
	}
	in.wanted, b.guard.dirty = wanted, true
	if !wanted {
		in.fresh = nil
		b.judge()
		for _, u := range in.users {
			b.evaluate(now, u.entry)
		}
		return
	}
	in.hadBase = b.base(in)
	b.judge()
	in.fresh = in.users
	b.freshen(now, in, firstFresh)
}

const (
	firstFresh = 1  // of a thousand wanted addresses the first is added before the others are looked at
	moreFresh  = 64 // as many are then looked at whenever there is nothing to add
)

// freshen begins the term of wanting for the next n uses of an instance.
func (b *book) freshen(now time.Time, in *instance, n int) {
	n = min(n, len(in.fresh))
	for _, u := range in.fresh[:n] {
		u.begin()
		b.evaluate(now, u.entry)
		if b.last.Links != nil && b.last.Links[u.entry.dev] == nil {
			b.events = append(b.events, event{kind: eventWaits, instance: in.set.Instance, address: u.address, dev: u.entry.dev})
		}
	}
	in.fresh = in.fresh[n:]
}

// freshenMore looks at more of what was asked for, and reports whether there was any.
func (b *book) freshenMore(now time.Time) bool {
	any := false
	for _, in := range b.order {
		if len(in.fresh) > 0 {
			b.freshen(now, in, moreFresh)
			any = true
		}
	}
	return any
}

func (b *book) freshenAll(now time.Time) {
	for b.freshenMore(now) {
	}
}

// begin starts a new term of wanting: past fights and errors are forgiven, everything present is told again.
func (u *user) begin() {
	u.told = false
	e := u.entry
	e.losses, e.fought, e.dropped = nil, false, false
	if !e.present {
		e.was, e.backoff, e.retryAt, e.err = false, 0, time.Time{}, nil
	}
}

func (b *book) release(now time.Time) {
	b.closed = true
	b.fib.Release()
	clear(b.early)
	for name := range b.instances {
		b.want(now, name, false)
	}
}
