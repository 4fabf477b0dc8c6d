// Package reconcile keeps the kernel's IPVS table equal to the wanted one.
//
// Start-up, health change, reload and repair are the same call, [Reconciler.Set]. One goroutine, [Reconciler.Run], diffs
// the wanted table against what the kernel has acknowledged and applies the difference: first what adds capacity, then
// what removes it, and the second only for pools whose wanted servers are really there. A change that the kernel refuses
// is retried with back-off, while the others go on.
//
// Services are ours when they are, or were since the last clean stop, in a wanted table; all others are never touched.
// A file remembers them, so that what a crashed predecessor left behind is taken over in place if it is still wanted, and
// deleted if not. The kernel sends no events: it is compared every few seconds, at most [MaxLoad] of one CPU, and what
// others changed is put right.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"vipd/ipvs"
)

const (
	// CheckPeriod is the time between two looks at the kernel's table while a look is cheap.
	CheckPeriod = 2 * time.Second
	// FullReadPeriod is the longest time between two complete reads; the cheap look in between may miss rare fields.
	FullReadPeriod = 30 * time.Second
	// MaxLoad is the share of one CPU that looking may take; a look that costs more than CheckPeriod*MaxLoad is made less often.
	MaxLoad = 0.02

	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	pause    = time.Millisecond // the least time between two passes that nobody asked for
	passes   = 3                // attempts in a row to get in step after an error, before waiting
)

// Kernel is the table to keep right. Calls must return in bounded time.
type Kernel interface {
	// Read returns the whole table, foreign services too.
	Read() (ipvs.Snapshot, error)
	// Same reports, cheaply, whether the services of t still look like this in the kernel; others do not matter.
	Same(t ipvs.Table) (bool, error)
	// Apply makes the changes in order and returns an error (nil for success) for each.
	Apply(ops []ipvs.Op) []error
}

// Reconciler owns the services it is told of. Its methods may be called from any goroutine.
type Reconciler struct {
	kernel    Kernel
	stateFile string
	log       *zap.Logger

	wake     chan struct{}
	requests chan request
	done     chan struct{} // closed when Run has returned
	claim    atomic.Bool   // the next read makes all services ours

	mu       sync.Mutex // guards what follows
	next     ipvs.Table // newest wanted table not yet taken; nil when none
	reread   bool       // the kernel is to be read, asked for by Reread
	released bool
	state    state // written by the loop only
}

// state is what the loop knows and Status shows.
type state struct {
	kernel   ipvs.Snapshot // our services as read, and changed by every acknowledged change; Table is nil before the first read
	stale    bool          // kernel may be wrong and must be read; used by the loop only
	want     ipvs.Table    // nil before the first Set; never modified
	owned    map[ipvs.Key]bool
	failures map[ipvs.Target]*Failure
	held     []ipvs.Op // removals kept back by the last pass
	pending  int
	repairs  uint64
	readErr  error
	fileErr  error
	lastRead time.Time
	lastSync time.Time
	lastPass time.Time // of the loop, successful or not
	period   time.Duration
}

type request struct {
	release bool
	read    bool       // the kernel is to be read, too
	answer  chan error // buffered
}

// New returns a reconciler of kernel. stateFile remembers which services are ours; empty for none, losing it does no harm.
func New(kernel Kernel, stateFile string, log *zap.Logger) *Reconciler {
	return &Reconciler{
		kernel: kernel, stateFile: stateFile, log: log,
		wake: make(chan struct{}, 1), requests: make(chan request), done: make(chan struct{}),
		state: state{owned: map[ipvs.Key]bool{}, failures: map[ipvs.Target]*Failure{}, period: CheckPeriod},
	}
}

// Set gives the wanted table; the latest wins. It never blocks. The caller must not modify want afterwards.
func (r *Reconciler) Set(want ipvs.Table) {
	if want == nil {
		want = ipvs.Table{}
	}
	r.mu.Lock()
	if !r.released {
		r.next = want
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Reread has the kernel read and put right soon, without waiting for the next look. It never blocks.
func (r *Reconciler) Reread() {
	r.mu.Lock()
	r.reread = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Refresh reads the kernel now and returns the status with fresh connection counts, or the last known one with an error.
func (r *Reconciler) Refresh(ctx context.Context) (Status, error) {
	err := r.ask(ctx, request{read: true, answer: make(chan error, 1)})
	return r.Status(), err
}

// Settle returns when all that was wanted before has been made so, or has failed, or with ctx.
func (r *Reconciler) Settle(ctx context.Context) error {
	return r.ask(ctx, request{answer: make(chan error, 1)})
}

// Release deletes our services from the kernel and returns when they are gone, or with an error that names what is left.
// From then on Set does nothing. It may be called while Run runs or after it.
func (r *Reconciler) Release(ctx context.Context) error {
	r.mu.Lock()
	r.released, r.next = true, nil
	r.mu.Unlock()
	err := r.ask(ctx, request{release: true, answer: make(chan error, 1)})
	if errors.Is(err, errStopped) {
		return r.release()
	}
	return err
}

var errStopped = errors.New("the IPVS reconciler has stopped")

func (r *Reconciler) ask(ctx context.Context, q request) error {
	select {
	case r.requests <- q:
	case <-r.done:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting for the IPVS reconciler: %w", ctx.Err())
	}
	select {
	case err := <-q.answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the IPVS reconciler: %w", ctx.Err())
	}
}

// Run works until ctx ends, which is no error. It may be called once.
func (r *Reconciler) Run(ctx context.Context) error {
	defer close(r.done)
	r.loadOwned()
	l := loop{Reconciler: r}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var q request
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		case q = <-r.requests:
		}
		var err error
		switch {
		case q.release:
			err = r.release()
		default:
			err = l.step(q.read)
		}
		if q.answer != nil {
			q.answer <- err
		}
		timer.Reset(l.untilNext())
	}
}

// loop is the part of the state that only Run's goroutine needs.
type loop struct {
	*Reconciler
	readRetry time.Time // when a failed read may be tried again
	readDelay time.Duration
	nextCheck time.Time
	nextFull  time.Time        // when the cheap check no longer suffices
	suspicion bool             // the cheap check saw a change
	looks     [3]time.Duration // what the last ones took
}

// step brings the kernel as near to the wanted table as it will go now.
func (l *loop) step(refresh bool) error {
	fresh, asked := l.takeWant(), l.takeReread()
	if l.idle() {
		return nil
	}
	if asked && fresh && l.known() {
		// Both come with a reload. To read a large table takes long: what is wanted anew comes first.
		l.lookFirst()
		if l.known() {
			l.sync(fresh)
		}
	}
	refresh = refresh || asked
	if refresh || l.state.kernel.Table == nil {
		l.state.stale = true
	}
	if fresh || refresh {
		l.readRetry = time.Time{}
	}
	l.check()
	l.lookFirst()
	var readErr error
	for range passes {
		if l.state.stale && !time.Now().Before(l.readRetry) {
			readErr = l.read()
		}
		if l.state.kernel.Table == nil || l.state.want == nil {
			break
		}
		if ok := l.sync(fresh); ok {
			break
		}
		fresh, l.state.stale = false, true
	}
	return readErr
}

// known reports that the kernel's table is, as far as is known, as we have it, and that there is something to make of it.
func (l *loop) known() bool {
	return !l.state.stale && l.state.kernel.Table != nil && l.state.want != nil
}

// idle reports that no service is wanted and none is ours: the kernel, which may have no IPVS, is none of our business.
func (r *Reconciler) idle() bool {
	return len(r.state.want) == 0 && len(r.state.owned) == 0 && !r.claim.Load()
}

// takeWant makes the newest wanted table the current one and its services ours. New ones may be in the kernel already:
// then a read finds them and they are corrected in place.
func (l *loop) takeWant() bool {
	l.mu.Lock()
	if l.next == nil {
		l.mu.Unlock()
		return false
	}
	l.state.want, l.next = l.next, nil
	grown := false
	for k := range l.state.want {
		grown = grown || !l.state.owned[k]
		l.state.owned[k] = true
	}
	l.mu.Unlock()
	if grown {
		l.state.stale = true
		l.saveOwned()
	}
	return true
}

// takeReread reports, once, that the kernel is to be read.
func (l *loop) takeReread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.reread
	l.reread = false
	return asked
}

// untilNext returns how long the loop may sleep.
func (l *loop) untilNext() time.Duration {
	next := l.nextCheck
	if l.idle() {
		return time.Hour // Set wakes
	}
	if l.state.want == nil {
		next = time.Now().Add(time.Hour) // nothing to compare with; a failed read is retried all the same
	}
	if l.state.stale || l.state.kernel.Table == nil {
		next = l.readRetry
	}
	for _, f := range l.state.failures {
		// What was due in the last pass and not tried waits for something else: its service, or a server to replace it.
		if f.Next.After(l.state.lastPass) && f.Next.Before(next) {
			next = f.Next
		}
	}
	return max(time.Until(next), pause)
}

func fields(op ipvs.Op) []zap.Field {
	t := op.Target()
	f := []zap.Field{zap.Stringer("service", t.Service)}
	if t.Destination.IsValid() {
		f = append(f, zap.Stringer("dest", t.Destination))
	}
	return f
}

// sortedTargets returns the keys of m in order.
func sortedTargets[V any](m map[ipvs.Target]V) []ipvs.Target {
	return slices.SortedFunc(maps.Keys(m), func(a, b ipvs.Target) int {
		if c := a.Service.Compare(b.Service); c != 0 {
			return c
		}
		return a.Destination.Compare(b.Destination)
	})
}
