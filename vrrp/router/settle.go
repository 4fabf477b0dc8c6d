package router

import (
	"fmt"
	"maps"
	"time"

	"vipd/vrrp"
)

// LinkDelay is how long an interface must be down, or up again, before that
// counts. A link that comes back within Down was never down.
type LinkDelay struct{ Down, Up time.Duration }

// remakeTime is how long a link with a virtual MAC may be away, or down, while the
// interface it is on is fine: it is ours, and made again at once.
const remakeTime = 200 * time.Millisecond

// settled is what counts as the state of an interface.
type settled struct {
	usable bool
	change time.Time // since when the interface is otherwise; zero: it is not
}

// Delay sets the delays of interfaces, by name; the others have none.
func (r *Router) Delay(delays map[string]LinkDelay) {
	delays = maps.Clone(delays)
	r.post(func() {
		r.delays = delays
		r.settleLinks()
	})
}

// Hold makes all instances wait in INIT until a time; why completes "waiting for".
func (r *Router) Hold(until time.Time, why string) {
	r.post(func() {
		r.holdUntil, r.holdWhy = until, why
		r.wake(until)
		r.refresh()
	})
}

// holding tells what all instances wait for, "" if nothing.
func (r *Router) holding() string {
	if r.holdUntil.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s, until %s", r.holdWhy, r.holdUntil.Format(time.TimeOnly))
}

// settleLinks works out the links that count and passes news on.
func (r *Router) settleLinks() {
	if r.seen == nil {
		return
	}
	first := r.links == nil
	now := time.Now()
	links := make(map[string]Link, len(r.seen))
	for name, l := range r.seen {
		s := r.settled[name]
		usable := l.Up && l.Carrier
		switch {
		case s == nil && first: // what is up at the start has been so for long
			s = &settled{usable: usable}
			r.settled[name] = s
		case s == nil:
			s = &settled{}
			r.settled[name] = s
		}
		links[name] = r.settle(name, l, s, usable, now)
	}
	for name, s := range r.settled {
		if _, ok := r.seen[name]; ok {
			continue
		}
		if old := r.links[name]; s.usable && r.remade(old) {
			if s.change.IsZero() {
				s.change = now
			}
			if due := s.change.Add(r.delay(name).Down); now.Before(due) {
				r.wake(due)
				links[name] = old
				continue
			}
		}
		delete(r.settled, name)
	}
	r.links = links
	r.refresh()
}

// settle returns the state of one interface that counts.
func (r *Router) settle(name string, l Link, s *settled, usable bool, now time.Time) Link {
	if usable == s.usable {
		s.change = time.Time{}
		return l
	}
	if s.change.IsZero() {
		s.change = now
	}
	delay := r.delay(name).Up
	if s.usable {
		delay = r.delay(name).Down
	}
	due := s.change.Add(delay)
	if !now.Before(due) {
		*s = settled{usable: usable}
		return l
	}
	r.wake(due)
	if s.usable {
		l.Up, l.Carrier = true, true
	} else {
		l.hold = fmt.Sprintf("%s is up again, which counts after %v (interface_up_down_delays)", name, delay)
	}
	return l
}

// delay returns the delays of an interface. A link with a virtual MAC has those of the interface it is on.
func (r *Router) delay(name string) LinkDelay {
	l := r.seen[name]
	if l.Parent == "" {
		l.Parent = r.links[name].Parent // it is away
	}
	if l.Parent == "" {
		return r.delays[name]
	}
	d := r.delays[l.Parent]
	if r.remade(l) {
		d.Down = max(d.Down, remakeTime)
	}
	return d
}

// remade reports whether a link has a virtual MAC and nothing keeps it from being
// made again.
func (r *Router) remade(l Link) bool {
	p := r.seen[l.Parent]
	return l.Parent != "" && l.Problem == "" && p.Up && p.Carrier
}

// nextLink is when the next delayed change of a link counts; zero: none waits.
func (r *Router) nextLink() time.Time {
	var next time.Time
	for name, s := range r.settled {
		if s.change.IsZero() {
			continue
		}
		delay := r.delay(name).Up
		if s.usable {
			delay = r.delay(name).Down
		}
		if at := s.change.Add(delay); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// deaf makes a link that is down count as such when the listening of a BACKUP on it
// ends: who can hear nobody must not take over, whatever the delay.
func (r *Router) deaf(in *instance) bool {
	s := r.settled[in.cfg.Interface]
	if s == nil || !s.usable || s.change.IsZero() || in.machine.State() != vrrp.Backup {
		return false
	}
	*s = settled{}
	r.settleLinks()
	return true
}
