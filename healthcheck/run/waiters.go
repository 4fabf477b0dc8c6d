package run

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/ready"
)

// waiters are the attempts that are only waited for. The scheduler's mutex guards them.
type waiters struct {
	refused  bool // the kernel gave no set: goroutines do it
	flying   map[uint64]*entry
	last     uint64 // number of an attempt
	expiries expiries

	descriptors atomic.Pointer[ready.Set] // nil: not opened yet, or broken; set by the loop alone
}

// waiting is what an entry knows of its attempt that is only waited for.
type waiting struct {
	on    healthcheck.Waiter
	id    uint64
	fd    int
	index int // in the expiries
}

// openSet reports whether there is a set, and opens it at first. Called with mu held.
func (s *Scheduler) openSet() bool {
	if s.descriptors.Load() != nil || s.refused {
		return !s.refused
	}
	set, err := ready.New()
	if err != nil {
		s.refuse(err)
		return false
	}
	s.flying = map[uint64]*entry{}
	s.descriptors.Store(set)
	return true
}

// refuse has goroutines wait from now on. Called with mu held.
func (s *Scheduler) refuse(err error) {
	s.refused = true
	s.log.Error("checks wait in goroutines of their own from now on, which takes more memory", zap.NamedError("err", err))
}

// closeSet ends the waiting for descriptors. Called by the loop.
func (s *Scheduler) closeSet() {
	if set := s.descriptors.Swap(nil); set != nil {
		_ = set.Close() // nothing was written to it
	}
}

// wakeUp has the loop look again.
func (s *Scheduler) wakeUp() {
	poke(s.wake)
	if set := s.descriptors.Load(); set != nil {
		set.Wake()
	}
}

// rest waits until there is something to do for the loop, at the latest until next. What
// descriptors tell is recorded.
func (s *Scheduler) rest(ctx context.Context, now, next time.Time, timer *time.Timer) {
	set := s.descriptors.Load()
	if set == nil {
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wake:
		}
		return
	}
	select {
	case <-s.wake:
		next = now
	default:
	}
	events, err := set.Wait(now, next)
	if err != nil {
		// What is in it ends when its time is over, and is judged by what its descriptor says then.
		s.closeSet()
		s.mu.Lock()
		s.refuse(err)
		s.mu.Unlock()
		return
	}
	if len(events) > 0 {
		s.land(events)
	}
}

// land ends the attempts whose descriptors are ready.
func (s *Scheduler) land(events []ready.Event) {
	now := time.Now()
	s.mu.Lock()
	for _, ev := range events {
		if e := s.flying[ev.ID]; e != nil {
			s.end(e, ev.Why, now)
		}
	}
	told := s.takeOutcomes()
	s.mu.Unlock()
	s.tellOutcomes(told)
}

// begin begins an attempt that is only waited for. Called with mu held.
func (s *Scheduler) begin(e *entry, w healthcheck.Waiter) {
	e.waiting = waiting{on: w, fd: -1, index: -1}
	var r healthcheck.Result
	stack := guarded(&r, func() { e.waiting.fd, r = w.Begin() })
	if stack != nil || e.waiting.fd < 0 {
		s.settle(e, r, stack != nil, stack, time.Now())
		return
	}
	s.last++
	e.waiting.id = s.last
	s.flying[e.waiting.id] = e
	heap.Push(&s.expiries, e)
	if err := s.descriptors.Load().Add(e.waiting.fd, e.waiting.id); err != nil {
		s.forget(e)
		_, _ = s.close(e, healthcheck.Over)
		s.settle(e, healthcheck.Result{Detail: err.Error(), LocalFault: true}, false, nil, time.Now())
	}
}

// expire ends attempts whose time is over, at most a chunk of them, and says how many.
// Called with mu held.
func (s *Scheduler) expire(now time.Time) (n int) {
	for ; n < chunk && len(s.expiries) > 0 && !s.expiries[0].deadline.After(now); n++ {
		s.end(s.expiries[0], healthcheck.Over, now)
	}
	return n
}

// end ends an attempt and records its result. Called with mu held.
func (s *Scheduler) end(e *entry, why healthcheck.Reason, now time.Time) {
	s.forget(e)
	r, stack := s.close(e, why)
	s.settle(e, r, stack != nil, stack, now)
}

// close has the attempt ended. Called with mu held.
func (s *Scheduler) close(e *entry, why healthcheck.Reason) (r healthcheck.Result, stack []byte) {
	stack = guarded(&r, func() { r = e.waiting.on.End(e.waiting.fd, why, e.deadline.Sub(e.startedAt)) })
	return r, stack
}

// forget takes an attempt out of what is waited for. Called with mu held.
func (s *Scheduler) forget(e *entry) {
	delete(s.flying, e.waiting.id)
	if e.waiting.index >= 0 {
		heap.Remove(&s.expiries, e.waiting.index)
	}
}

// drop ends an attempt of a job that is not wanted any more. Called with mu held.
func (s *Scheduler) drop(e *entry) {
	s.forget(e)
	_, _ = s.close(e, healthcheck.Over)
	e.running = false
	s.inFlight[e.lane]--
}

// dropAll drops all attempts that are only waited for.
func (s *Scheduler) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.flying {
		s.drop(e)
	}
}

// guarded calls do. If it panics, the result says so and the stack is returned.
func guarded(r *healthcheck.Result, do func()) (stack []byte) {
	defer func() {
		if p := recover(); p != nil {
			*r = healthcheck.Result{Detail: fmt.Sprintf("panic in the check: %v", p)}
			stack = debug.Stack()
		}
	}()
	do()
	return nil
}

// Of very many jobs those that are due within this time of each other begin together, at
// most, and within a fiftieth of the shortest interval.
const gatherMost = 5 * time.Millisecond

// gathering returns it. Called with mu held.
func (s *Scheduler) gathering() time.Duration {
	gather := gatherMost
	for _, e := range s.jobs {
		gather = min(gather, e.job.Interval/50)
	}
	return gather
}

// expiries is a heap of attempts by deadline.
type expiries []*entry

func (q expiries) Len() int           { return len(q) }
func (q expiries) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }
func (q expiries) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].waiting.index, q[j].waiting.index = i, j
}

// Push implements heap.Interface.
func (q *expiries) Push(x any) {
	e := x.(*entry)
	e.waiting.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *expiries) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.waiting.index = -1
	return e
}
