package router

import (
	"time"

	"vipd/vrrp"
)

const (
	// lateTick is how late the end of a BACKUP's listening may be noticed before
	// the process is taken for one that was frozen.
	lateTick = 10 * time.Millisecond
	// lead is how long before a take-over the loop turns once more.
	lead = time.Millisecond
	// mostPatience is how late an advert may be handled at most; for a BACKUP it is
	// this part of its skew time, which begins with the advert's arrival. A MASTER that
	// hears a better one is to give way sooner.
	mostPatience   = 40 * time.Millisecond
	patienceOf     = 8
	masterPatience = 20 * time.Millisecond
	// listenGrace is how long a process that was frozen listens to what waits in
	// its sockets before it claims anything.
	listenGrace = 3 * time.Millisecond
)

// until is when the loop is to turn next. Before a take-over that is twice: what
// runs just after a sleep is slow, and then the sleep is short.
func (r *Router) until() time.Time {
	if r.claims {
		if at := r.next.Add(-lead); time.Now().Before(at) {
			return at
		}
	}
	return r.next
}

// await lowers the patience to that of an instance.
func (r *Router) await(in *instance) {
	switch in.machine.State() {
	case vrrp.Backup:
		r.patience = min(r.patience, in.machine.SkewTime()/patienceOf)
	case vrrp.Master:
		r.patience = min(r.patience, masterPatience)
	}
}

// rehearse does in advance what the coming take-over begins with, and throws it away:
// what is done for the first time in minutes is slow.
func (r *Router) rehearse(now time.Time) {
	for _, in := range r.list {
		if at, ok := in.machine.Deadline(); ok && in.machine.State() == vrrp.Backup && at.Sub(now) <= lead {
			_ = r.deaf(in)
			_ = r.ports.Sender.Listening(in.cfg.Name)
			in.machine.Rehearse(&r.trial)
		}
	}
}

// wakeFor is wake for a deadline of an instance.
func (r *Router) wakeFor(in *instance, at time.Time) {
	if r.next.IsZero() || at.Before(r.next) {
		r.next, r.claims = at, in.machine.State() == vrrp.Backup
	}
}

// wake makes sure the loop turns at the given time.
func (r *Router) wake(at time.Time) {
	if r.next.IsZero() || at.Before(r.next) {
		r.next = at
	}
}

// tick does what is due: adverts first, then what was received, then the rest. A
// BACKUP therefore takes over only when nothing it received forbids it.
func (r *Router) tick(now time.Time) {
	switch {
	case r.next.IsZero():
		return
	case now.Before(r.next):
		if r.claims && !now.Before(r.next.Add(-lead)) {
			r.rehearse(now)
		}
		return
	}
	for _, in := range r.list {
		if in.machine.State() == vrrp.Master && in.due(now) {
			r.feed(in, vrrp.Event{Kind: vrrp.EventTick})
		}
	}
	for range len(r.received) {
		r.receive(<-r.received)
	}
	var due []*instance // all at first: those of a sync group take over together
	for _, in := range r.list {
		if in.due(now) && !r.deaf(in) && !r.unplugged(in, now) {
			due = append(due, in)
		}
	}
	for _, in := range due {
		if at, ok := in.machine.Deadline(); ok && !now.Before(at) {
			r.feed(in, vrrp.Event{Kind: vrrp.EventTick})
		}
	}
	for _, in := range r.list {
		if !in.foughtUntil.IsZero() && !now.Before(in.foughtUntil) {
			in.foughtUntil, in.foughtKind, in.foughtOver = time.Time{}, "", ""
			r.updateGroup(in)
		}
	}
	if at := r.nextLink(); !at.IsZero() && !now.Before(at) {
		r.settleLinks()
	}
	if !r.holdUntil.IsZero() && !now.Before(r.holdUntil) {
		r.holdUntil = time.Time{}
		r.refresh()
	}
	if !r.retryAt.IsZero() && !now.Before(r.retryAt) {
		r.retryAt = time.Time{}
		r.endpoints = nil
		r.refresh()
	}
	r.rearm()
}

// rearm finds the next time something is due. Deadlines that moved later since
// the last call cost one turn of the loop, so receiving an advert costs nothing.
func (r *Router) rearm() {
	r.next, r.claims, r.patience = time.Time{}, false, mostPatience
	for _, g := range r.groups {
		g.known = false
	}
	for _, in := range r.list {
		r.await(in)
		if at, ok := in.deadlineOnce(); ok {
			r.wakeFor(in, latest(at, in.listenUntil))
		}
		if !in.foughtUntil.IsZero() {
			r.wake(in.foughtUntil)
		}
	}
	for _, at := range []time.Time{r.retryAt, r.holdUntil, r.nextLink()} {
		if !at.IsZero() {
			r.wake(at)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// due reports whether the machine's tick is to be given now. A tick that comes
// much too late means that the process was frozen: others may have taken over
// meanwhile, so what they sent is heard first.
func (in *instance) due(now time.Time) bool {
	at, ok := in.machine.Deadline()
	if ok && !now.Before(at) { // else the others need not be asked
		at, ok = in.deadline()
	}
	if !ok || now.Before(at) {
		in.listenUntil = time.Time{}
		return false
	}
	allowed := lateTick
	if in.machine.State() == vrrp.Master {
		allowed = in.machine.DownInterval()
	}
	if in.listenUntil.IsZero() && now.Sub(at) > allowed {
		in.listenUntil = now.Add(listenGrace)
	}
	if now.Before(in.listenUntil) {
		return false
	}
	in.listenUntil = time.Time{}
	return true
}

// unplugged reports whether a BACKUP whose listening is over could not hear anybody,
// nor another of its sync group: the interface is gone, and the word of that is on
// its way (a process that was frozen has much to catch up with). It is asked again
// until then.
func (r *Router) unplugged(in *instance, now time.Time) bool {
	if in.machine.State() != vrrp.Backup {
		return false
	}
	members := []*instance{in}
	if in.group != nil {
		members = in.group.members
	}
	for _, m := range members {
		// A socket that was opened a moment ago has heard nothing yet.
		if r.socketErr[m.cfg.Name] != nil || r.ports.Sender.Listening(m.cfg.Name) != nil {
			in.listenUntil = now.Add(listenGrace)
			return true
		}
	}
	return false
}

// timerWaiter is a Waiter on the standard library's timer.
type timerWaiter struct {
	timer *time.Timer
	wake  chan struct{}
}

func newTimerWaiter() *timerWaiter {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timerWaiter{timer: t, wake: make(chan struct{}, 1)}
}

// Wait implements Waiter.
func (w *timerWaiter) Wait(until time.Time, _ time.Duration) error {
	if until.IsZero() {
		<-w.wake
		return nil
	}
	w.timer.Reset(time.Until(until))
	select {
	case <-w.wake:
	case <-w.timer.C:
	}
	return nil
}

// Wake implements Waiter.
func (w *timerWaiter) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
