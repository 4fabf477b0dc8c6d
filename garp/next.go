package garp

import (
	"fmt"
	"net/netip"
	"time"
)

const (
	// RetryDelay is the pause of a queue whose frame met a full kernel queue.
	RetryDelay = 2 * time.Millisecond
	// retryMax is how often in a row that may happen before a frame is dropped.
	retryMax = 100
)

// Frame is one frame to be sent now. Exactly one of Sent, Retry and Drop must
// follow before any other call on the planner.
type Frame struct {
	Target
	Kind     Kind
	Form     Form
	Outbound string // interface to send on: not the target's when that carries no ARP
	Index    int
	MAC      MAC
	Router   bool

	target *target
	queue  *queue
}

// Drop tells of frames given up.
type Drop struct {
	Instance string
	Address  netip.Addr
	Frames   int
	Reason   string // what is wrong, with the interface's name
}

// Next does what is due and hands out the next frame, if one may be sent now.
func (p *Planner) Next(now time.Time) (Frame, bool) {
	p.expire(now)
	for i := range p.queues {
		at := (p.turn + i) % len(p.queues)
		q := p.queues[at]
		if now.Before(q.ready()) {
			continue
		}
		for !q.empty() {
			t := q.pop()
			t.queue = nil
			out := p.outbound(t)
			l := p.links[out]
			if reason := unusable(out, l); reason != "" {
				p.abandon(t, reason)
				continue
			}
			p.turn = at + 1
			return Frame{
				Target: t.Target, Kind: q.key.kind, Form: t.form(), Outbound: out,
				Index: l.Index, MAC: l.MAC, Router: l.Router, target: t, queue: q,
			}, true
		}
	}
	return Frame{}, false
}

// Deadline tells when Next has something to do; false: not before a new call.
func (p *Planner) Deadline() (time.Time, bool) {
	at, ok := p.timer, !p.timer.IsZero()
	for _, q := range p.queues {
		if !q.empty() && (!ok || q.ready().Before(at)) {
			at, ok = q.ready(), true
		}
	}
	return at, ok
}

// Sent says that the frame went out.
func (p *Planner) Sent(now time.Time, f Frame) {
	t, q := f.target, f.queue
	q.last, t.full = now, 0
	p.last[queueKey{p.base(f.Outbound), f.Kind}] = now
	t.fresh = false
	t.pending--
	t.inst.stats.Sent++
	t.inst.stats.LastSent = now
	if t.pending > 0 {
		p.enqueue(t)
		return
	}
	t.reply = false
	t.inst.stats.Completed++
}

// Retry says that the kernel's queue is full: the frame is asked for again
// after RetryDelay. It reports false when it was given up after many times.
func (p *Planner) Retry(now time.Time, f Frame, reason string) bool {
	t, q := f.target, f.queue
	t.full++
	q.hold = now.Add(max(RetryDelay, q.gap))
	if t.full > retryMax {
		p.Drop(f, reason)
		return false
	}
	t.inst.stats.Retried++
	q.pushBack(t, p.grouped(f.Outbound))
	return true
}

// Drop says that the frame cannot be sent; the others of its address that are
// queued would fare the same and go too.
func (p *Planner) Drop(f Frame, reason string) {
	p.abandon(f.target, reason)
}

// Drops hands out what was given up since the last call.
func (p *Planner) Drops() []Drop {
	d := p.drops
	p.drops = nil
	return d
}

// want asks for announcements of an address, at least this many from now on.
func (p *Planner) want(t *target, times int) {
	t.pending = max(t.pending, t.frames()*max(times, 1))
	if t.queue != nil && t.fresh && !t.early {
		p.dequeue(t)
	}
	if t.queue == nil {
		p.enqueue(t)
	}
}

// enqueue lists a target that wants frames.
func (p *Planner) enqueue(t *target) {
	t.queue, t.early = p.queueOf(t), t.fresh
	switch {
	case t.fresh:
		t.queue.first.push(t)
	case !t.inst.gather.IsZero():
		t.inst.held.push(t)
	default:
		t.queue.repeat.push(t)
	}
}

// dequeue takes a target out of its list; what it wants stays.
func (p *Planner) dequeue(t *target) {
	if t.queue == nil {
		return
	}
	same := func(o *target) bool { return o == t }
	t.queue.first.remove(same)
	t.queue.repeat.remove(same)
	t.inst.held.remove(same)
	t.queue = nil
}

// cancel ends all that is planned for one target.
func (p *Planner) cancel(t *target) {
	p.dequeue(t)
	t.pending, t.second, t.more = 0, time.Time{}, time.Time{}
}

// abandon gives up the frames that a target, listed nowhere, waits for.
func (p *Planner) abandon(t *target, reason string) {
	t.full = 0
	if !t.once {
		p.drops = append(p.drops, Drop{t.Instance, t.Address, t.pending, reason})
	}
	t.inst.stats.Dropped += uint64(t.pending)
	t.inst.stats.LastError = reason
	t.pending = 0
}

// frames is how many frames one announcement is.
func (t *target) frames() int {
	if t.inst.cfg.Form == Both && KindOf(t.Address) == ARP {
		return 2
	}
	return 1
}

// form is that of the frame whose turn it is; the request of a pair goes first.
func (t *target) form() Form {
	switch f := t.inst.cfg.Form; {
	case t.reply && KindOf(t.Address) == ARP:
		return Reply
	case f != Both:
		return f
	case KindOf(t.Address) == NA || t.pending%2 == 0:
		return Request
	}
	return Reply
}

// unusable tells why nothing can be sent on the link; "" when it can.
func unusable(name string, l Link) string {
	switch {
	case l.Index == 0:
		return fmt.Sprintf("interface %q does not exist", name)
	case !l.ARP:
		return fmt.Sprintf("interface %q carries no ARP (loopback or NOARP)", name)
	case !l.Up:
		return fmt.Sprintf("interface %q is down", name)
	}
	return ""
}
