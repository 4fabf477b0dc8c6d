// Package run decides when health checks run and keeps what they found.
//
// One goroutine (Run) owns a heap of due times. An attempt of a
// [healthcheck.Waiter] is begun and ended there: the loop waits for the descriptors of
// all of them. Any other attempt runs in a goroutine that lives as long as the attempt. A job has at most one attempt in flight, so a
// server that hangs costs one descriptor, and at most one goroutine, however short
// its interval. Of very many jobs those that are due within a few milliseconds
// begin together.
//
// Schedule: the first attempt comes at a random time in 0..Warmup, the others
// every Interval after the time the previous one was due (not after it ended),
// so the cadence does not drift and the random spread of the start stays. A
// slot that passes while an attempt is still in flight is left out. Retries
// come DelayBeforeRetry after the failure and do not move the cadence.
//
// Bound: at most Options.Concurrency attempts at once. Jobs whose last attempt
// took more than half of their timeout may take only half of these places, so
// servers that hang cannot hold up the checks of those that do not.
package run

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
)

const (
	grace      = time.Second // how long after its deadline a check must have returned
	sweepEvery = time.Second // how often alarms are looked for
	idleWait   = time.Hour   // without a job nothing is to be looked for
	drainWait  = 2 * time.Second
)

// Options are the settings of a Scheduler; the zero value is fit for use.
type Options struct {
	// Concurrency bounds the attempts in flight. 0: what the limit of open
	// files leaves (RLIMIT_NOFILE less 256 for the rest of the daemon), at
	// least 64 and at most 16384; each costs one descriptor and 8 to 16 KiB.
	Concurrency int
	// Seed makes the spread of the first attempts repeatable; 0 is random.
	Seed uint64
	// OnChange is called after verdicts or alarms changed: one call for any
	// number of changes, never two at once, from a goroutine of its own, so it
	// may block without holding up the checks. It reads Snapshot. After a call that
	// took long the next one may come up to a second later.
	OnChange func()
	// Log gets one line a transition and a bounded number a second on alarms.
	Log *zap.Logger
}

// Scheduler runs jobs. Its methods may be called from any goroutine.
type Scheduler struct {
	opts    Options
	log     *zap.Logger
	wake    chan struct{} // the loop has something to look at
	changed chan struct{} // OnChange is due

	mu       sync.Mutex // guards all following fields
	rng      *rand.Rand
	jobs     map[string]*entry
	queue    queue // waiting for their due time
	lanes    [2]lane
	inFlight [2]int
	started  uint64
	late     punctuality
	ctx      context.Context // of Run; nil when not running
	attempts sync.WaitGroup
	outcomes []outcome     // to be told
	nextLook time.Time     // when the loop looks again by itself
	gather   time.Duration // the loop does not look more often
	waiters
}

// New makes a Scheduler without jobs.
func New(opts Options) *Scheduler {
	if opts.Concurrency <= 0 {
		opts.Concurrency = defaultConcurrency()
	}
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	return &Scheduler{
		opts: opts, log: opts.Log,
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		rng:  rand.New(rand.NewPCG(opts.Seed, 0)),
		jobs: make(map[string]*entry),
	}
}

// Run runs the jobs until ctx ends, then cancels the attempts in flight and
// waits for them. It returns nil, or an error that names the checks that did
// not return within 2 s. It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var callbacks sync.WaitGroup
	defer callbacks.Wait()
	defer cancel()
	defer s.closeSet()
	callbacks.Go(func() { s.notify(ctx) })

	s.mu.Lock()
	if s.ctx != nil {
		s.mu.Unlock()
		return errors.New("running the check scheduler: it was started before")
	}
	s.ctx = ctx
	s.restart(time.Now())
	s.mu.Unlock()

	defer context.AfterFunc(ctx, s.wakeUp)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweep := time.Now().Add(sweepEvery)
	for {
		now := time.Now()
		if !now.Before(sweep) {
			s.sweep(now)
			sweep = now.Add(sweepEvery)
		}
		next := s.dispatch(now, sweep)
		if ctx.Err() != nil {
			return s.drain()
		}
		s.rest(ctx, now, next, timer)
	}
}

// drain waits for the attempts that the end of Run's context has cancelled, and drops those
// that are only waited for.
func (s *Scheduler) drain() error {
	s.dropAll()
	done := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { s.attempts.Wait(); close(done) })
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-done:
		waiter.Wait()
		return nil
	case <-timer.C:
		return fmt.Errorf("stopping health checks: %v did not return within %v of being cancelled", s.stuck(), drainWait)
	}
}

func (s *Scheduler) stuck() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.jobs {
		if e.running {
			keys = append(keys, key)
		}
	}
	return keys
}

// notify calls OnChange when something changed, at once after a while without a change.
// One that takes long, for there are thousands of servers, is given a rest in between:
// when all of them start, a change comes every few milliseconds.
func (s *Scheduler) notify(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			began := time.Now()
			s.tell()
			rest.Reset(min(restShare*time.Since(began), restMost))
		}
	}
}

// OnChange works at most one part in restShare+1 of the time, unless it takes very long.
const (
	restShare = 4
	restMost  = time.Second
)

// tell calls OnChange. A fault there must not end the daemon: the next change calls it
// again.
func (s *Scheduler) tell() {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("acting on a changed check met a fault in vipd", zap.Any("err", p), zap.String("stack", string(debug.Stack())))
		}
	}()
	if s.opts.OnChange != nil {
		s.opts.OnChange()
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// restart draws the first due time of every job that never ran anew, so that
// jobs configured long before Run do not all start at once. Called with mu held.
func (s *Scheduler) restart(now time.Time) {
	for _, key := range slices.Sorted(maps.Keys(s.jobs)) { // in order: the same seed gives the same times
		if e := s.jobs[key]; e.runs == 0 && e.index >= 0 {
			s.first(e, now)
			heap.Fix(&s.queue, e.index)
		}
	}
}

// first sets the due time of the first attempt. Called with mu held.
func (s *Scheduler) first(e *entry, now time.Time) {
	spread := e.job.Warmup
	if e.job.Inherit != healthcheck.Unknown {
		spread = min(spread, e.job.Interval)
	}
	e.since = now
	e.slot = now.Add(s.random(spread))
	e.due = e.slot
}

func (s *Scheduler) random(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(spread) + 1))
}

// chunk is how many attempts are begun before others may look at the jobs, and the clock is
// read again.
const chunk = 8

// dispatch ends what had its time, starts what is due and says when to look again, at the
// latest at limit.
func (s *Scheduler) dispatch(now, limit time.Time) time.Time {
	s.mu.Lock()
	ended := s.expire(now)
	for len(s.queue) > 0 && !s.queue[0].due.After(now) {
		e := heap.Pop(&s.queue).(*entry)
		s.lanes[e.lane].push(e)
	}
	begun := 0
	for ; begun < chunk; begun++ {
		e := s.next()
		if e == nil {
			break
		}
		s.start(e, now)
	}
	s.nextLook = s.lookAgain(now, limit, begun+ended)
	next, told := s.nextLook, s.takeOutcomes()
	s.mu.Unlock()
	s.tellOutcomes(told)
	return next
}

// lookAgain says when, after so much was done. Called with mu held.
func (s *Scheduler) lookAgain(now, limit time.Time, done int) time.Time {
	if done >= chunk {
		return now // there may be more
	}
	if len(s.jobs) == 0 {
		return now.Add(idleWait) // Configure ends it
	}
	next := limit
	if len(s.queue) > 0 && s.queue[0].due.Before(next) {
		next = s.queue[0].due
	}
	if len(s.expiries) > 0 && s.expiries[0].deadline.Before(next) {
		next = s.expiries[0].deadline
	}
	if soon := now.Add(s.gather); done > 0 && next.Before(soon) {
		return soon
	}
	return next
}

// next takes the job that may start now and is due longest. Called with mu held.
func (s *Scheduler) next() *entry {
	if s.inFlight[fast]+s.inFlight[slow] >= s.opts.Concurrency {
		return nil
	}
	f, w := s.lanes[fast].front(), s.lanes[slow].front()
	if w != nil && s.inFlight[slow] >= max(1, s.opts.Concurrency/2) {
		w = nil
	}
	switch {
	case f == nil && w == nil:
		return nil
	case w == nil || f != nil && !w.due.Before(f.due):
		return s.lanes[fast].pop()
	default:
		return s.lanes[slow].pop()
	}
}
