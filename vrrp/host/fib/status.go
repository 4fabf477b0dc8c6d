package fib

import (
	"fmt"
	"slices"
)

// Status is one object as the kernel has it, or not.
type Status struct {
	Want
	Present bool   // it is in the kernel, whether wanted or not
	Problem string // why it is not there, or stays there; "": nothing to say
}

// Status tells of all objects of an owner, in the order configured.
func (b *Book) Status(name string) []Status {
	var all []Status
	o := b.owners[name]
	if o == nil {
		return nil
	}
	for _, w := range o.set.Wants {
		e := b.entries[w.key()]
		all = append(all, Status{w, e.present, e.problem()})
	}
	return all
}

// problem says why an entry is not as it should be.
func (e *entry) problem() string {
	wanted := e.active() != nil
	switch {
	case wanted == e.present && len(e.parts) == 0:
		return ""
	case !wanted && !e.remains():
		return "somebody else added it"
	case e.err != nil:
		return e.err.Error()
	case e.fought:
		return "others remove it again and again: find out who"
	case e.dropped:
		return "it was removed, and is not tracked"
	}
	return e.waits
}

// Missing is a static object that is not there and cannot be added now.
type Missing struct {
	Object Object
	Group  string
	Why    string
}

// Missing lists the static objects that cannot be put back.
func (b *Book) Missing() []Missing {
	var all []Missing
	for _, o := range b.order {
		for _, w := range o.set.Wants {
			if e := b.entries[w.key()]; o.set.Static && o.wanted && !e.present && e.problem() != "" {
				all = append(all, Missing{w.Object, w.Group, e.problem()})
			}
		}
	}
	return all
}

// Recorded returns what the state file has to say: every object that is ours or may be
// at any moment from now on.
func (b *Book) Recorded() []Object {
	b.changed = false
	var all []Object
	for _, list := range [][]*entry{b.list, b.orphans} {
		for _, e := range list {
			if e.recorded = e.marked() || e.remains() || !e.present && e.active() != nil; e.recorded {
				all = append(all, e.Object)
			}
		}
	}
	return all
}

// Changed reports whether Recorded has something new to say.
func (b *Book) Changed() bool { return b.changed }

// Leftover is an object that was there when vipd started and matched what vipd has, had
// or may have.
type Leftover struct {
	Object  Object
	Removed bool   // or about to be
	Reason  string // why it was removed or left
}

// String is a sentence for the log.
func (l Leftover) String() string {
	what := "left"
	if l.Removed {
		what = "removed"
	}
	return fmt.Sprintf("%s %s %s: %s", what, l.Object.Kind(), l.Object, l.Reason)
}

// Any reports whether anything is configured.
func (b *Book) Any() bool { return len(b.list) > 0 }

// All returns the queries that show everything that is configured or recorded.
func (b *Book) All(recorded []Object, env Env) []Query {
	var all []Query
	add := func(o Object) {
		if o.Route == nil {
			return
		}
		r, ok := settle(o.Route, env)
		q := Query{IPv6: r.IPv6(), Table: r.Table}
		if ok && !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	for _, e := range b.list {
		add(e.Object)
	}
	for _, o := range recorded {
		add(o)
	}
	return all
}

// Sweep finds what a predecessor left behind; Urgent then removes it. recorded is its
// state file.
func (b *Book) Sweep(s *State, recorded []Object, env Env) []Leftover {
	var left []Leftover
	known := map[*entry]bool{}
	for _, o := range recorded {
		if o.Route == nil && o.Rule == nil {
			continue
		}
		e := b.entry(o)
		known[e] = true
		if len(e.users) == 0 {
			b.orphans = append(b.orphans, e)
		}
	}
	f := s.finder()
	for _, e := range slices.Concat(b.list, slices.Clone(b.orphans)) {
		got := f.find(e.settled(env), false)
		if e.present = got.all; !got.all {
			if known[e] || e.marked() {
				e.parts, e.was = got.parts, len(got.parts) > 0
			}
			if len(e.users) == 0 && len(e.parts) == 0 {
				b.drop(e)
			}
			continue
		}
		e.was, e.recorded = true, known[e]
		e.ours = known[e] || e.marked()
		l := Leftover{Object: e.Object, Removed: e.ours}
		switch {
		case e.active() != nil:
			continue
		case known[e]:
			l.Reason = "an earlier vipd added it (state file)"
		case e.marked():
			l.Reason = "it is configured for an instance that is not master, and has the mark of vipd (proto keepalived)"
		default:
			l.Reason = "it is configured, but somebody else added it; remove it by hand if it is not wanted while this director is not master"
		}
		left = append(left, l)
	}
	b.changed, b.leaving = true, true
	return left
}
