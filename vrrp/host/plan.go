package host

import (
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp/firewall"
	"vipd/vrrp/host/fib"
)

type jobKind uint8

const (
	jobNone    jobKind = iota // nothing to do before wake
	jobRemove                 // remove entries
	jobRestore                // put back debts
	jobAdd                    // add entries
	jobList                   // write the state file
	jobRefuse                 // have the shield refuse these addresses and no others
	jobRead                   // read the kernel: a write is not confirmed yet
	jobPaths                  // change routes and rules
)

// job is the next thing that the worker has to do.
type job struct {
	kind    jobKind
	entries []*entry
	recs    []Addr // what to add, as entries
	links   []int  // interfaces of the additions or removals, as entries
	debts   []bystander
	refused []firewall.Address
	steps   []fib.Step
	objects []byte // routes and rules, as listing
	listing []item // write this to the state file first; nil: no need
	wake    time.Time
}

// item is one line of the state file.
type item struct {
	Interface string       `json:"interface"`
	Address   netip.Prefix `json:"address"`
}

// next returns the most urgent thing to do at now and takes it off the queues; added or removed must
// follow.
func (b *book) next(now time.Time) job {
	b.wakeRetries(now)
	if steps := b.fib.Urgent(now, b.env(), pathBatch); len(steps) > 0 {
		return job{kind: jobPaths, steps: steps}
	}
	if j, ok := b.nextRemoval(now); ok {
		return j
	}
	if due := b.nextDebts(now); len(due) > 0 {
		return job{kind: jobRestore, debts: due}
	}
	if j, ok := b.nextRefusal(now); ok {
		return j
	}
	if j, ok := b.nextAdditions(now); ok {
		return j
	}
	b.batch = 0
	if j, ok := b.nextPaths(now); ok {
		return j
	}
	if (b.unlisted || b.fib.Changed()) && b.last.Links != nil {
		return job{kind: jobList, listing: b.list(), objects: b.objects()}
	}
	return b.rest(now)
}

// rest verifies the last write or says until when there is nothing to do (zero: until something happens).
func (b *book) rest(now time.Time) job {
	var wake time.Time
	if b.last.Links == nil || !b.lastOp.IsZero() && !b.last.At.After(b.lastOp) {
		wake = b.lastOp
		if b.lastRead.After(wake) {
			wake = b.lastRead
		}
		wake = wake.Add(verifyAfter)
		if !now.Before(wake) {
			b.lastRead = now
			return job{kind: jobRead}
		}
	}
	earlier := func(t time.Time) {
		if wake.IsZero() || t.Before(wake) {
			wake = t
		}
	}
	for _, e := range b.retries {
		earlier(e.retryAt)
	}
	if b.guard.dirty {
		earlier(b.guard.at)
	}
	for _, o := range b.debts {
		earlier(o.retryAt)
	}
	if t := b.fib.Wake(now); !t.IsZero() {
		earlier(t)
	}
	return job{wake: wake}
}

func (b *book) wakeRetries(now time.Time) {
	var due []*entry
	b.retries = slices.DeleteFunc(b.retries, func(e *entry) bool {
		if e.retryAt.After(now) {
			return false
		}
		due = append(due, e)
		return true
	})
	for _, e := range due {
		e.waiting = false
		if u := e.active(); e.fought && u != nil && u.inst.set.Static {
			e.fought, e.losses = false, nil
		}
		b.evaluate(now, e)
	}
}

// nextRemoval takes up to removeBatch removals, the last queued first: secondaries before the primary address that
// was added before them.
func (b *book) nextRemoval(now time.Time) (job, bool) {
	j := job{kind: jobRemove}
	for len(b.removals) > 0 && len(j.entries) < removeBatch {
		e := b.removals[len(b.removals)-1]
		b.removals = b.removals[:len(b.removals)-1]
		e.queued = false
		if !e.present || !e.ours || e.active() != nil && !e.stale {
			b.evaluate(now, e)
			continue
		}
		l := b.last.Links[e.dev]
		if l == nil { // it went with its interface
			b.removed(now, e, nil)
			continue
		}
		j.entries, j.links = append(j.entries, e), append(j.links, l.Index)
	}
	return j, len(j.entries) > 0
}

// nextAdditions takes additions, from each instance in turn: one alone when there was nothing to add before, so that it
// can be announced at once, then more and more, as a thousand calls of the kernel cost more than a thousand additions.
func (b *book) nextAdditions(now time.Time) (job, bool) {
	b.batch = min(max(1, batchGrowth*b.batch), addBatch)
	j := job{kind: jobAdd}
	listed := true
	for len(j.entries) < b.batch && (len(b.ring) > 0 || b.freshenMore(now)) {
		e := b.popAddition()
		if e == nil {
			continue
		}
		u := e.active()
		if u == nil || e.present || !b.addable(e, u) || e.retryAt.After(now) {
			b.evaluate(now, e)
			continue
		}
		if b.exposed(e, u) {
			e.retryAt = b.guard.next(now)
			b.evaluate(now, e)
			continue
		}
		e.queued = true // for others, too, who ask for it while the rest is gathered
		e.rec = u.record()
		listed = listed && e.listed
		j.entries, j.recs, j.links = append(j.entries, e), append(j.recs, e.rec), append(j.links, b.last.Links[e.dev].Index)
	}
	for _, e := range j.entries {
		e.queued = false
	}
	if !listed {
		j.listing, j.objects = b.list(), b.objects()
	}
	return j, len(j.entries) > 0
}

// popAddition takes the next entry off the queue of the instance whose turn it is; nil when that has none.
func (b *book) popAddition() *entry {
	if len(b.ring) == 0 {
		return nil
	}
	in := b.ring[0]
	b.ring = b.ring[1:]
	if len(in.queue) == 0 {
		return nil
	}
	e := in.queue[0]
	in.queue = in.queue[1:]
	e.queued = false
	if len(in.queue) > 0 {
		b.ring = append(b.ring, in)
	} else {
		in.queue = nil
	}
	return e
}

// list returns what the state file has to say: every address that is ours or may be at any moment from now on. Where
// the kernel keeps marks, which tell whether a listed address really is ours, these are all configured ones, so that
// no takeover waits for a disk; elsewhere they are those that are wanted.
func (b *book) list() []item {
	b.unlisted = false
	marks := b.last.marks()
	items := make([]item, 0, len(b.entries))
	note := func(e *entry) {
		if e.listed {
			items = append(items, item{e.dev, e.prefix})
		}
	}
	for _, e := range b.entries {
		e.listed = e.present && e.ours || !e.present && (e.active() != nil || marks && len(e.users) > 0)
		if len(e.users) == 0 {
			note(e)
		}
	}
	for _, in := range b.order {
		for _, u := range in.users {
			if u.entry.users[0] == u {
				note(u.entry)
			}
		}
	}
	return items
}

// added notes the outcome of an addition. exists is what was there already, or nil.
func (b *book) added(now time.Time, e *entry, index int, exists *Addr, err error) {
	b.wrote(now, e)
	if err != nil {
		b.failed(now, e, err)
		b.evaluate(now, e)
		return
	}
	e.present, e.was, e.index = true, true, index
	e.err, e.backoff, e.retryAt = nil, 0, time.Time{}
	switch {
	case exists == nil:
		e.ours = true
	case e.ours:
		// It was never lost: a stale snapshot said so.
		e.losses = e.losses[:max(0, len(e.losses)-1)]
	default:
		e.rec = *exists
		b.adopt(e, *exists)
		b.unlisted = b.unlisted || !e.ours
	}
	b.evaluate(now, e)
}

// removed notes the outcome of a removal.
func (b *book) removed(now time.Time, e *entry, err error) {
	b.wrote(now, e)
	if err != nil && !gone(err) {
		b.failed(now, e, err)
		b.evaluate(now, e)
		return
	}
	e.present, e.ours, e.stale = false, false, false
	b.guard.dirty = true
	e.err, e.backoff, e.retryAt = nil, 0, time.Time{}
	for _, u := range e.users {
		u.told = false
	}
	b.unlisted = b.unlisted || e.listed && (len(e.users) == 0 || !b.last.marks())
	b.evaluate(now, e)
	if len(e.users) == 0 && !e.queued {
		delete(b.entries, e.key)
	}
}

func (b *book) wrote(now time.Time, e *entry) {
	e.changed = now
	if now.After(b.lastOp) {
		b.lastOp = now
	}
}

func (b *book) failed(now time.Time, e *entry, err error) {
	e.err = err
	e.backoff = pause(e.backoff)
	e.retryAt = now.Add(e.backoff)
	b.tell(eventError, e, err)
}

// pause returns the pause after the one before.
func pause(before time.Duration) time.Duration { return min(max(2*before, backoffMin), backoffMax) }

// outstanding lists the addresses of ours that are to be removed and still there.
func (b *book) outstanding() []*entry {
	var out []*entry
	for _, e := range b.entries {
		if e.present && e.ours && e.active() == nil {
			out = append(out, e)
		}
	}
	return out
}
