package run

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
)

// start begins an attempt. Called with mu held.
func (s *Scheduler) start(e *entry, now time.Time) {
	s.late = max(s.late, now.Sub(e.due))
	s.started++
	s.inFlight[e.lane]++
	ctx, cancel := context.WithCancel(s.ctx)
	e.running, e.startedAt, e.cancel, e.deadline = true, now, cancel, now.Add(e.job.Timeout)
	job, begin := e.job, e.deadline
	s.attempts.Go(func() { s.attempt(ctx, e, job, begin) })
}

// attempt makes one attempt, unless it gets a processor only after begin, and
// records it, whatever the checker does. The server has the job's whole time
// from the moment in which it is asked: what this machine lost before counts
// for no failure.
func (s *Scheduler) attempt(ctx context.Context, e *entry, job Job, begin time.Time) {
	r := healthcheck.Result{Detail: "the check ended without a result"}
	var stack []byte
	panicked := true
	deadline := begin
	defer func() {
		if panicked {
			if p := recover(); p != nil {
				r = healthcheck.Result{Detail: fmt.Sprintf("panic in the check: %v", p)}
				stack = debug.Stack()
			}
		}
		s.finish(e, deadline, r, panicked, stack)
	}()
	if now := time.Now(); now.After(begin) {
		// The server was never asked.
		r = healthcheck.Result{Detail: "the attempt began after its deadline, this machine has too much to do", LocalFault: true}
	} else {
		deadline = now.Add(job.Timeout)
		timed, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		r = job.Checker.Check(timed)
	}
	panicked = false
}

// finish records the result of an attempt and puts the job back on the queue.
func (s *Scheduler) finish(e *entry, deadline time.Time, r healthcheck.Result, panicked bool, stack []byte) {
	now := time.Now()
	s.mu.Lock()
	stopped := s.ctx.Err() != nil || e.removed
	e.cancel()
	e.running, e.cancel, e.deadline = false, nil, deadline
	s.inFlight[e.lane]--
	if e.gone != nil {
		close(e.gone)
	}
	var changed, reweighed bool
	if !stopped {
		changed = e.record(r, panicked, now)
		reweighed = e.reweigh()
		e.reschedule(now)
		heap.Push(&s.queue, e)
	}
	waiting := s.lanes[fast].front() != nil || s.lanes[slow].front() != nil
	first := e.index == 0
	verdict, fields := e.tracker.Verdict(), e.fields
	failed := e.job.LogFailures && !stopped && !changed && !e.result.OK && !e.result.LocalFault
	s.mu.Unlock()

	if first || waiting {
		poke(s.wake)
	}
	if stack != nil {
		s.log.Error("a health check panicked: this is a bug in vipd, please report it; the attempt counts as failed",
			append(fields, zap.String("detail", r.Detail), zap.ByteString("stack", stack))...)
	}
	if failed {
		s.log.Warn("check failed", append(slices.Clone(fields), zap.String("detail", r.Detail))...)
	}
	if changed {
		s.logTransition(verdict, r, fields)
	}
	if reweighed {
		s.log.Info("check changes the weight", append(slices.Clone(fields), zap.String("detail", r.Detail))...)
	}
	if changed || reweighed {
		poke(s.changed)
	}
}

func (s *Scheduler) logTransition(v healthcheck.Verdict, r healthcheck.Result, fields []zap.Field) {
	fields = append(fields, zap.String("detail", r.Detail))
	if v == healthcheck.Up {
		s.log.Info("check passed: up", fields...)
		return
	}
	s.log.Warn("check failed: down", fields...)
}
