package fib

import (
	"slices"
	"time"
)

// Step is one change to be made. Done must follow.
type Step struct {
	Add    bool
	Object Object // with its table settled
	entry  *entry
	part   bool // only what the kernel left of the entry
}

// Outcome is what the kernel said to a step.
type Outcome uint8

// The outcomes.
const (
	OK     Outcome = iota
	Exists         // there is an equal one
	Gone           // there was nothing to remove
	Failed
)

// Urgent returns removals that must be made before their owners' addresses go: rules
// first, then routes, the last added first.
func (b *Book) Urgent(now time.Time, env Env, most int) []Step {
	if !b.leaving {
		return nil
	}
	steps := b.removals(now, env, most, false)
	b.leaving = len(steps) > 0 || len(b.Outstanding()) > 0
	return steps
}

func (b *Book) removals(now time.Time, env Env, most int, retired bool) []Step {
	var steps []Step
	for _, list := range [][]*entry{b.orphans, b.list} {
		for _, e := range slices.Backward(list) {
			if len(steps) >= most {
				return steps
			}
			if e.retired != retired || e.retryAt.After(now) || e.active() != nil {
				continue
			}
			steps = append(steps, e.leftovers()...)
			if e.present && e.ours {
				steps = append(steps, Step{Object: e.settled(env), entry: e})
			}
		}
	}
	return steps
}

// Next returns additions, and when there are none, removals of what was replaced.
func (b *Book) Next(now time.Time, env Env, most int) []Step {
	var steps []Step
	for _, e := range b.list {
		if len(steps) >= most {
			return steps
		}
		if e.present || e.active() == nil || e.dropped || !e.due(now) {
			continue
		}
		if e.waits = possible(e, env); e.waits != "" {
			continue
		}
		steps = append(steps, e.leftovers()...)
		steps = append(steps, Step{Add: true, Object: e.settled(env), entry: e})
	}
	if len(steps) == 0 {
		return b.removals(now, env, most, true)
	}
	return steps
}

// leftovers removes what the kernel left of the entry.
func (e *entry) leftovers() []Step {
	var steps []Step
	for _, r := range e.parts {
		steps = append(steps, Step{Object: Object{Route: &r}, entry: e, part: true})
	}
	return steps
}

// due reports whether the entry's pause is over. A static object that was fought over
// is forgiven then.
func (e *entry) due(now time.Time) bool {
	if e.retryAt.After(now) {
		return false
	}
	if e.fought && e.active().owner.set.Static && !e.retryAt.IsZero() {
		e.fought = false
	}
	return !e.fought
}

// Done notes the outcome of a step. err is the kernel's, when it is Failed.
func (b *Book) Done(now time.Time, s Step, out Outcome, err error) {
	e := s.entry
	e.changed = now
	switch {
	case s.part && out == Failed:
		b.failed(now, e, err)
	case s.part:
		e.parts = slices.DeleteFunc(e.parts, func(r Route) bool { return r.String() == s.Object.String() })
		if len(e.users) == 0 && !e.remains() {
			b.drop(e)
		}
	case s.Add && out == OK:
		again := e.was
		e.present, e.ours, e.was, e.alien = true, true, true, false
		e.err, e.backoff, e.retryAt, e.waits = nil, 0, time.Time{}, ""
		b.changed = b.changed || !e.recorded
		if again {
			b.tell(EventBack, e, nil)
		}
	case s.Add && out == Exists && b.makeWay(e):
		e.retryAt = now
	case s.Add:
		e.alien = out == Exists
		b.failed(now, e, err)
	case out == Failed:
		b.failed(now, e, err)
	default:
		e.present, e.ours, e.alien, e.retired = false, false, false, false
		e.err, e.backoff, e.retryAt = nil, 0, time.Time{}
		if len(e.users) == 0 {
			b.drop(e)
		}
	}
}

// makeWay has what was replaced, and leads where e leads, removed at once: it is in the way of e. It reports whether
// there was any that was not tried before: if not, something else is in the way.
func (b *Book) makeWay(e *entry) (made bool) {
	for _, o := range b.orphans {
		if o.retired && (e.Route == nil || o.Route == nil || o.Route.Dst == e.Route.Dst) {
			made = made || o.err == nil
			o.retired, b.leaving = false, true
		}
	}
	return made
}

func (b *Book) failed(now time.Time, e *entry, err error) {
	e.err = err
	e.backoff = min(max(2*e.backoff, backoffMin), backoffMax)
	e.retryAt = now.Add(e.backoff)
	b.tell(EventError, e, err)
}

// Wake returns when there may be more to do, zero: when something happens.
func (b *Book) Wake(now time.Time) time.Time {
	var wake time.Time
	for _, list := range [][]*entry{b.list, b.orphans} {
		for _, e := range list {
			waits := !e.present && e.active() != nil && !e.dropped || e.remains() && e.active() == nil
			if waits && e.retryAt.After(now) && (wake.IsZero() || e.retryAt.Before(wake)) {
				wake = e.retryAt
			}
		}
	}
	return wake
}

// Outstanding names what Release still waits for.
func (b *Book) Outstanding() []string {
	var names []string
	for _, list := range [][]*entry{b.list, b.orphans} {
		for _, e := range list {
			if e.remains() && e.active() == nil {
				s := e.Kind() + " " + e.String()
				if e.err != nil {
					s += " (" + e.err.Error() + ")"
				}
				names = append(names, s)
			}
		}
	}
	return names
}
