package run

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
)

// The lanes: jobs that took long last time wait apart from the others.
const (
	fast = iota
	slow
)

// entry is a job with its state. The scheduler's mutex guards it.
type entry struct {
	job     Job
	fields  []zap.Field // full slice: append copies
	tracker healthcheck.Tracker
	since   time.Time // configured, or Run began

	slot  time.Time // the regular due time from which the cadence counts
	due   time.Time // of the next attempt: slot, or a retry
	index int       // in the queue; -1: in a lane, in flight or removed
	lane  int

	running             bool
	removed             bool
	again               bool // what the attempt in flight looks at may be old
	startedAt, deadline time.Time
	cancel              context.CancelFunc // nil: the attempt has no goroutine
	waiting             waiting
	gone                chan struct{} // closed when the attempt in flight has ended; made by who waits

	lastRun        time.Time
	result         healthcheck.Result
	weighting      healthcheck.Weighting // of the last attempt that passed
	runs, failures uint64
	trouble        string // of the last attempt: local fault, overrun, panic
	pending        string // trouble not yet logged
	alarm          string // what the log was told last
	late           int    // attempts on end that began later than an interval
}

func newEntry(job *Job) *entry {
	e := &entry{index: -1, tracker: healthcheck.NewTracker(job.Limits, job.Inherit)}
	e.set(job)
	return e
}

// set takes over the job's definition; the state stays.
func (e *entry) set(job *Job) {
	old := e.job.Checker
	e.job = *job
	if k, ok := old.(healthcheck.Keeper); ok && k.Same(job.Checker) {
		e.job.Checker = k
	}
	e.tracker.SetLimits(job.Limits)
	e.fields = job.Fields
	if len(e.fields) == 0 {
		e.fields = []zap.Field{zap.String("check", job.Key)}
	}
	e.fields = e.fields[:len(e.fields):len(e.fields)]
}

// record takes the result of an attempt and says whether the verdict changed.
func (e *entry) record(r healthcheck.Result, panicked bool, now time.Time) bool {
	took := now.Sub(e.startedAt)
	if r.Latency == 0 {
		r.Latency = took
	}
	late := now.Sub(e.deadline)
	if !r.OK && !panicked && late > grace {
		// A machine that stood still or had too much to do saw its own
		// deadlines pass: that says nothing about the server.
		r.LocalFault = true
	}
	e.result, e.lastRun = r, now
	e.runs++
	if !r.OK && !r.LocalFault {
		e.failures++
	}
	e.lane = fast
	if took >= e.job.Timeout/2 {
		e.lane = slow
	}
	switch {
	case panicked:
		e.trouble = r.Detail
	case late > grace:
		e.trouble = fmt.Sprintf("the check returned %v after its deadline", late.Round(time.Millisecond))
	case r.LocalFault:
		e.trouble = "no verdict, this machine is at fault: " + r.Detail
	default:
		e.trouble = ""
	}
	if e.trouble != "" {
		e.pending = e.trouble
	}
	return e.tracker.Record(r)
}

// reweigh takes over what the last attempt says about the weight, if it passed,
// and says whether that is something else than before.
func (e *entry) reweigh() bool {
	if !e.result.OK || e.result.LocalFault || e.result.Weighting == e.weighting {
		return false
	}
	e.weighting = e.result.Weighting
	return true
}

// reschedule sets the due time of the next attempt after one that ended now.
func (e *entry) reschedule(now time.Time) {
	if !e.slot.After(now) {
		missed := now.Sub(e.slot) / e.job.Interval
		e.slot = e.slot.Add((missed + 1) * e.job.Interval)
	}
	e.due = e.slot
	if e.tracker.Retrying() {
		e.due = now.Add(e.pause())
	}
	if e.again {
		e.due, e.again = now, false
	}
}

// pause is the time until a retry.
func (e *entry) pause() time.Duration {
	if e.result.Refused {
		return e.job.DelayIfRefused
	}
	return e.job.DelayBeforeRetry
}

// alarmAt is the alarm that holds at the given time; "" is none.
func (e *entry) alarmAt(now time.Time) string {
	if e.running && now.Sub(e.deadline) > grace {
		return fmt.Sprintf("the check has not returned %v after its deadline; the verdict is the last one known", now.Sub(e.deadline).Truncate(time.Second))
	}
	if limit := e.staleAfter(); e.age(now) > limit {
		return fmt.Sprintf("no result for more than %v", limit)
	}
	return e.trouble
}

// staleAfter is the age of the last result that means that something is wrong.
func (e *entry) staleAfter() time.Duration {
	every := e.job.Interval
	if e.tracker.Retrying() {
		every = max(every, e.pause())
	}
	limit := 3 * (every + e.job.Timeout)
	if e.runs == 0 {
		limit += e.job.Warmup
	}
	return limit
}

func (e *entry) age(now time.Time) time.Duration {
	if e.runs == 0 {
		return now.Sub(e.since)
	}
	return now.Sub(e.lastRun)
}

func (e *entry) status(now time.Time) Status {
	return Status{
		Healthy: e.tracker.Verdict() == healthcheck.Up, Known: e.tracker.Verdict() != healthcheck.Unknown, Inherited: e.tracker.Inherited(),
		LastRun: e.lastRun, Latency: e.result.Latency, Detail: e.result.Detail, Age: e.age(now), Weighting: e.weighting,
		Runs: e.runs, Failures: e.failures, Progress: e.progress(), Alarm: e.alarmAt(now),
	}
}

// progress tells in words how far the results are on the way to another verdict.
func (e *entry) progress() string {
	n, limit := e.tracker.Changing()
	what := "failed"
	if e.tracker.Verdict() == healthcheck.Down {
		what = "passed"
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d of %d times in a row", what, n, limit)
}

// queue is a heap by due time.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = -1
	return e
}

// lane is a queue, first in first out, of jobs that are due; removed ones are skipped.
type lane struct {
	waiting []*entry
	head    int
}

func (l *lane) push(e *entry) {
	// Where servers hang for good a lane may never be empty: the places of those that left are used again.
	if len(l.waiting) == cap(l.waiting) && l.head > len(l.waiting)/2 {
		n := copy(l.waiting, l.waiting[l.head:])
		clear(l.waiting[n:])
		l.waiting, l.head = l.waiting[:n], 0
	}
	l.waiting = append(l.waiting, e)
}

// front is the next job, nil when there is none.
func (l *lane) front() *entry {
	for l.head < len(l.waiting) {
		if e := l.waiting[l.head]; !e.removed {
			return e
		}
		l.waiting[l.head] = nil
		l.head++
	}
	l.waiting, l.head = l.waiting[:0], 0
	return nil
}

// pop takes the next job off.
func (l *lane) pop() *entry {
	e := l.front()
	if e != nil {
		l.waiting[l.head] = nil
		l.head++
	}
	return e
}
