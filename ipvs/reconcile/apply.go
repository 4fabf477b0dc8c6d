package reconcile

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"vipd/ipvs"
)

// logEach is the number of changes up to which each has its own line in the log.
const logEach = 20

// errHeld is why a removal waits.
var errHeld = errors.New("kept in the pool: none of the servers that should replace it could be added yet")

// sync applies the difference between the acknowledged and the wanted table. fresh lifts the back-off of changes that a
// new wanted table has altered. It reports whether the kernel took everything that was tried.
func (r *Reconciler) sync(fresh bool) bool {
	now := time.Now()
	r.state.lastPass = now
	ops := ipvs.Diff(r.state.kernel.Table, r.state.want, func(k ipvs.Key) bool { return r.state.owned[k] })
	r.forget(ops)
	cut := 0
	for cut < len(ops) && !ops[cut].Removes() {
		cut++
	}
	ok := r.apply(r.ready(ops[:cut], now, fresh), now)
	removals, held := r.split(ops[cut:])
	ok = r.apply(r.ready(removals, now, fresh), now) && ok
	r.finish(held, now)
	return ok
}

// forget drops the failures of what need not be done any more.
func (r *Reconciler) forget(ops []ipvs.Op) {
	if len(r.state.failures) == 0 {
		return
	}
	needed := make(map[ipvs.Target]bool, len(ops))
	for _, op := range ops {
		needed[op.Target()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.state.failures {
		if !needed[t] {
			delete(r.state.failures, t)
		}
	}
}

// ready leaves out what is backing off, and destinations of a service that is not there yet and cannot be made now.
func (r *Reconciler) ready(ops []ipvs.Op, now time.Time, fresh bool) []ipvs.Op {
	if len(r.state.failures) == 0 {
		return ops
	}
	waits := func(t ipvs.Target, op ipvs.Op) bool {
		f := r.state.failures[t]
		return f != nil && now.Before(f.Next) && (!fresh || f.Op == op)
	}
	blocked := map[ipvs.Key]bool{}
	var out []ipvs.Op
	for _, op := range ops {
		k := op.Service.Key
		switch {
		case op.OnDestination() && blocked[k]:
		case waits(op.Target(), op):
			blocked[k] = blocked[k] || op.Kind == ipvs.AddService
		default:
			out = append(out, op)
		}
	}
	return out
}

// split keeps back removals from pools that would be left without any usable server although one is wanted.
func (r *Reconciler) split(ops []ipvs.Op) (removals, held []ipvs.Op) {
	starved := map[ipvs.Key]bool{}
	for _, op := range ops {
		k := op.Service.Key
		if op.OnDestination() {
			s, known := starved[k]
			if !known {
				s = starves(r.state.kernel.Table[k], r.state.want[k])
				starved[k] = s
			}
			if s {
				held = append(held, op)
				continue
			}
		}
		removals = append(removals, op)
	}
	return removals, held
}

// starves reports whether want has usable servers but have not one of them.
func starves(have, want ipvs.Pool) bool {
	usable := false
	for a, w := range want.Destinations {
		if w.Usable() {
			usable = true
			if have.Destinations[a].Usable() {
				return false
			}
		}
	}
	return usable
}

// apply lets the kernel make the changes and records what it acknowledged and what it refused.
func (r *Reconciler) apply(ops []ipvs.Op, now time.Time) bool {
	if len(ops) == 0 {
		return true
	}
	errs := r.kernel.Apply(ops)
	failed := map[ipvs.Key]bool{} // services that could not be added
	ok := true
	r.mu.Lock()
	for i, op := range ops {
		var err error
		if i < len(errs) {
			err = errs[i]
		}
		t := op.Target()
		switch {
		case err == nil:
			r.state.kernel.Table.Apply(op)
			delete(r.state.kernel.Connections, t) // the counts are of the time before
			delete(r.state.failures, t)
		case op.OnDestination() && failed[t.Service]: // only follows from the service's own failure
		default:
			failed[t.Service] = failed[t.Service] || op.Kind == ipvs.AddService
			r.fail(op, err, now)
			ok, r.state.stale = false, true
		}
	}
	r.mu.Unlock()
	r.report(ops, errs)
	return ok
}

// fail records a refused change and when to try it again.
func (r *Reconciler) fail(op ipvs.Op, err error, now time.Time) {
	t := op.Target()
	f := r.state.failures[t]
	if f == nil {
		f = &Failure{Target: t, Since: now}
		r.state.failures[t] = f
	}
	f.Op, f.Err = op, err
	f.Attempts++
	f.delay = min(max(2*f.delay, retryMin), retryMax)
	f.Next = now.Add(f.delay)
}

// report logs what was done, and failures at the 1st, 2nd, 4th, … attempt.
func (r *Reconciler) report(ops []ipvs.Op, errs []error) {
	done := 0
	for i, op := range ops {
		if i >= len(errs) || errs[i] == nil {
			if done++; len(ops) <= logEach {
				r.log.Info("IPVS changed", append(fields(op), zap.String("op", op.String()))...)
			}
			continue
		}
		if f := r.state.failures[op.Target()]; f != nil && f.Attempts&(f.Attempts-1) == 0 {
			r.log.Error("IPVS refused a change; it will be tried again", append(fields(op), zap.String("op", op.String()),
				zap.Int("attempt", f.Attempts), zap.Duration("pause", f.delay), zap.NamedError("err", errs[i]))...)
		}
	}
	if len(ops) > logEach && done > 0 && r.log.Core().Enabled(zapcore.InfoLevel) {
		r.log.Info("IPVS changed", zap.Int("changes", done))
	}
}

// finish records what is left to do and lets go of services that are neither wanted nor in the kernel any more.
func (r *Reconciler) finish(held []ipvs.Op, now time.Time) {
	left := ipvs.Diff(r.state.kernel.Table, r.state.want, func(k ipvs.Key) bool { return r.state.owned[k] })
	r.mu.Lock()
	r.state.held, r.state.pending = held, len(left)
	if len(left) == 0 {
		r.state.lastSync = now
	}
	shrunk := false
	for k := range r.state.owned {
		_, wanted := r.state.want[k]
		_, there := r.state.kernel.Table[k]
		if !wanted && !there && !r.state.stale {
			delete(r.state.owned, k)
			shrunk = true
		}
	}
	r.mu.Unlock()
	if shrunk {
		r.saveOwned()
	}
}

// release deletes all our services, in a few attempts; the error is that of the last one.
func (r *Reconciler) release() error {
	r.mu.Lock()
	r.state.want = ipvs.Table{}
	clear(r.state.failures)
	r.mu.Unlock()
	if r.idle() {
		return nil
	}
	l := loop{Reconciler: r}
	r.state.stale = r.state.stale || r.state.kernel.Table == nil || r.claim.Load()
	var err error
	for range passes {
		if r.state.stale {
			if err = l.read(); errors.Is(err, ipvs.ErrAbsent) {
				return nil // with IPVS all services are gone
			}
			if err != nil {
				continue
			}
		}
		if r.sync(true) {
			return nil
		}
		r.state.stale = true
		err = r.forgive()
	}
	return err
}

// forgive has what failed tried again without a pause. It returns the failures as one error.
func (r *Reconciler) forgive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, t := range sortedTargets(r.state.failures) {
		f := r.state.failures[t]
		f.Next = time.Time{}
		errs = append(errs, fmt.Errorf("deleting %s: %w", t, f.Err))
	}
	return errors.Join(errs...)
}
