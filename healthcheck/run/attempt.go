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

// start begins an attempt: one of a Waiter is only begun here, for any other there is a
// goroutine. Called with mu held.
func (s *Scheduler) start(e *entry, now time.Time) {
	s.late.begun(e, now.Sub(e.due))
	s.started++
	s.inFlight[e.lane]++
	e.running, e.startedAt, e.deadline = true, now, now.Add(e.job.Timeout)
	if w, ok := e.job.Checker.(healthcheck.Waiter); ok && s.openSet() {
		s.begin(e, w)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	e.cancel = cancel
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

// finish records the result of an attempt that had a goroutine and puts the job back on the
// queue.
func (s *Scheduler) finish(e *entry, deadline time.Time, r healthcheck.Result, panicked bool, stack []byte) {
	now := time.Now()
	s.mu.Lock()
	e.cancel()
	e.cancel, e.deadline = nil, deadline
	s.settle(e, r, panicked, stack, now)
	told := s.takeOutcomes()
	wake := s.hurries()
	s.mu.Unlock()
	if wake {
		s.wakeUp()
	}
	s.tellOutcomes(told)
}

// outcome is what there is to tell of an attempt that has ended.
type outcome struct {
	result                     healthcheck.Result
	verdict                    healthcheck.Verdict
	fields                     []zap.Field
	stack                      []byte // of a panic
	failed, changed, reweighed bool
}

// settle records the result of an attempt, puts the job back on the queue and notes what
// is to be told. Called with mu held.
func (s *Scheduler) settle(e *entry, r healthcheck.Result, panicked bool, stack []byte, now time.Time) {
	stopped := s.ctx.Err() != nil || e.removed
	e.running = false
	s.inFlight[e.lane]--
	if e.gone != nil {
		close(e.gone)
	}
	o := outcome{result: r, fields: e.fields, stack: stack}
	if !stopped {
		o.changed = e.record(r, panicked, now)
		o.reweighed = e.reweigh()
		e.reschedule(now)
		heap.Push(&s.queue, e)
		o.failed = e.job.LogFailures && !o.changed && !e.result.OK && !e.result.LocalFault
	}
	if o.verdict = e.tracker.Verdict(); o.stack != nil || o.failed || o.changed || o.reweighed {
		s.outcomes = append(s.outcomes, o)
	}
}

// takeOutcomes returns what is to be told, once. Called with mu held.
func (s *Scheduler) takeOutcomes() []outcome {
	told := s.outcomes
	s.outcomes = nil
	return told
}

// hurries reports that the loop has to look earlier than it is going to. Called with mu held.
func (s *Scheduler) hurries() bool {
	return len(s.queue) > 0 && s.queue[0].due.Before(s.nextLook) || s.lanes[fast].front() != nil || s.lanes[slow].front() != nil
}

// tellOutcomes logs what happened and has OnChange called if it is to be. Called without mu.
func (s *Scheduler) tellOutcomes(list []outcome) {
	changed := false
	for _, o := range list {
		detail := zap.String("detail", o.result.Detail)
		if o.stack != nil {
			s.log.Error("a health check panicked: this is a bug in vipd, please report it; the attempt counts as failed",
				append(slices.Clone(o.fields), detail, zap.ByteString("stack", o.stack))...)
		}
		if o.failed {
			s.log.Warn("check failed", append(slices.Clone(o.fields), detail)...)
		}
		if o.changed {
			s.logTransition(o.verdict, o.result, o.fields)
		}
		if o.reweighed {
			s.log.Info("check changes the weight", append(slices.Clone(o.fields), detail)...)
		}
		changed = changed || o.changed || o.reweighed
	}
	if changed {
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
