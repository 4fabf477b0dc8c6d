package fib

import (
	"fmt"
	"slices"
	"time"
)

// Stir notes which interfaces went down, or lost addresses: what the kernel took away
// with them was no fight. changed says that anything about interfaces is otherwise than
// before: what the kernel refused may be possible now.
func (b *Book) Stir(now time.Time, less []string, changed bool) {
	for _, d := range less {
		b.stirred[d] = now
	}
	for d, at := range b.stirred {
		if now.Sub(at) > stirTime {
			delete(b.stirred, d)
		}
	}
	if !changed {
		return
	}
	for _, e := range b.list {
		if e.err != nil && !e.present {
			e.backoff = 0
			if soon := now.Add(backoffMin); e.retryAt.After(soon) {
				e.retryAt = soon
			}
		}
	}
}

// Observe takes in a reading. It says nothing about objects that changed after it began,
// or whose table was not read.
func (b *Book) Observe(now time.Time, s *State, env Env) {
	if s == nil {
		return
	}
	f := s.finder()
	look := func(e *entry) {
		q, ok := e.query(env)
		if !e.changed.Before(s.At) || !ok || e.Route != nil && !s.covers(q) {
			return
		}
		got := f.find(e.settled(env), e.alien)
		known := e.was || len(e.parts) > 0
		e.parts = nil
		if known && !got.all {
			e.parts = got.parts
			b.leaving = b.leaving || len(e.parts) > 0
		}
		switch {
		case got.all && !e.present:
			b.appeared(e)
		case !got.all && e.present:
			b.lost(now, e, env)
		}
	}
	for _, e := range b.list {
		look(e)
	}
	for _, e := range slices.Clone(b.orphans) {
		look(e)
		if !e.present && len(e.parts) == 0 {
			b.drop(e)
		}
	}
}

// appeared notes that the object is there although we did not add it just now.
func (b *Book) appeared(e *entry) {
	e.present, e.was = true, true
	e.err, e.waits, e.backoff, e.retryAt = nil, "", 0, time.Time{}
	e.ours = e.ours || e.active() != nil && e.marked() && !e.alien
	b.tell(EventBack, e, nil)
}

// drop forgets an entry that nobody has.
func (b *Book) drop(e *entry) {
	b.orphans = slices.DeleteFunc(b.orphans, func(o *entry) bool { return o == e })
	b.forget(e)
}

// lost notes that the kernel has the object no more. It is a loss, to be counted, only
// when nothing but somebody's deletion explains it.
func (b *Book) lost(now time.Time, e *entry, env Env) {
	e.present, e.ours, e.alien = false, false, false
	u := e.active()
	if u == nil {
		return
	}
	b.tell(EventLost, e, nil)
	if e.Route != nil && (possible(e, env) != "" || b.explained(now, e.Route)) {
		return
	}
	if u.want.NoTrack {
		e.dropped = true
		return
	}
	e.losses = slices.DeleteFunc(e.losses, func(t time.Time) bool { return now.Sub(t) > fightWindow })
	if e.losses = append(e.losses, now); len(e.losses) < fightLimit {
		return
	}
	e.fought, e.losses = true, nil
	if u.owner.set.Static {
		e.retryAt = now.Add(fightPause)
	}
	b.tell(EventFought, e, nil)
}

// explained reports whether an interface that the route depends on has just lost something.
func (b *Book) explained(now time.Time, r *Route) bool {
	devs := r.devs()
	for d, at := range b.stirred {
		if now.Sub(at) <= stirTime && (len(devs) == 0 || r.Src.IsValid() || slices.Contains(devs, d)) {
			return true
		}
	}
	return false
}

// possible says what the object waits for, "" if it can be added now.
func possible(e *entry, env Env) string {
	if e.Rule != nil {
		return ""
	}
	r := e.Route
	if r.VRF != "" {
		if l, ok := env.Link(r.VRF); !ok || l.VRFTable == 0 {
			return fmt.Sprintf("waits for the VRF %s", r.VRF)
		}
	}
	for _, h := range r.Hops {
		if h.Dev == "" {
			continue
		}
		switch l, ok := env.Link(h.Dev); {
		case !ok:
			return fmt.Sprintf("waits for interface %s, which does not exist", h.Dev)
		case !l.Up:
			return fmt.Sprintf("waits for interface %s, which is down", h.Dev)
		}
	}
	if r.Src.IsValid() && !env.Has(r.Src) {
		return fmt.Sprintf("waits for the address %s", r.Src)
	}
	return ""
}
