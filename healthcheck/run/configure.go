package run

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// ErrLingering says that the new jobs run, but attempts of removed ones still do, too.
var ErrLingering = errors.New("removing health checks")

// Configure sets the jobs to exactly these, and those with other keys that stay: new
// keys begin, known keys keep verdict, counters and schedule, and what neither is here
// nor stays is cancelled. A stays of nil keeps nothing. It returns when the attempts of
// removed jobs have ended, at the latest after 2 s, and then with an ErrLingering that
// names those still there (which can change nothing any more). Any other error about a
// job itself means that nothing was changed.
func (s *Scheduler) Configure(jobs []Job, stays func(key string) bool) error {
	var errs []error
	for i := range jobs {
		if err := jobs[i].validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	now := time.Now()
	wanted := make(map[string]bool, len(jobs))
	for i := range jobs {
		if key := jobs[i].Key; !wanted[key] {
			wanted[key] = true
			s.set(&jobs[i], now)
		}
	}
	leaving := s.removeAllBut(func(key string) bool { return wanted[key] || stays != nil && stays(key) })
	s.gather = s.gathering()
	s.mu.Unlock()
	s.wakeUp()
	return waitFor(leaving)
}

func (j *Job) validate() error {
	switch {
	case j.Checker == nil:
		return fmt.Errorf("configuring check %q: it has no checker", j.Key)
	case j.Interval <= 0 || j.Timeout <= 0:
		return fmt.Errorf("configuring check %q: interval %v and timeout %v must be more than 0", j.Key, j.Interval, j.Timeout)
	}
	return nil
}

// set adds a job or changes the one with its key. Called with mu held.
func (s *Scheduler) set(job *Job, now time.Time) {
	e := s.jobs[job.Key]
	if e == nil {
		e = newEntry(job)
		s.jobs[job.Key] = e
		s.first(e, now)
		heap.Push(&s.queue, e)
		return
	}
	interval, pause := e.job.Interval, e.pause()
	e.set(job)
	// Shorter times must not wait for the old, longer ones to pass.
	due := e.due
	if job.Interval != interval {
		if slot := now.Add(s.random(job.Interval)); slot.Before(e.slot) {
			e.slot, due = slot, slot
		}
	}
	if e.tracker.Retrying() {
		if due = e.due; e.pause() < pause {
			due = now.Add(e.pause())
		}
	}
	if e.index >= 0 && due.Before(e.due) {
		e.due = due
		heap.Fix(&s.queue, e.index)
	}
}

// removeAllBut takes the other jobs off and gives those with an attempt in
// flight, cancelled. Called with mu held.
func (s *Scheduler) removeAllBut(wanted func(key string) bool) map[string]chan struct{} {
	leaving := make(map[string]chan struct{})
	for key, e := range s.jobs {
		if wanted(key) {
			continue
		}
		delete(s.jobs, key)
		s.late.forget(e)
		e.removed = true
		if e.index >= 0 {
			heap.Remove(&s.queue, e.index)
		}
		switch {
		case !e.running:
		case e.cancel == nil:
			s.drop(e)
		default:
			e.gone = make(chan struct{})
			leaving[key] = e.gone
			e.cancel()
		}
	}
	return leaving
}

func waitFor(leaving map[string]chan struct{}) error {
	if len(leaving) == 0 {
		return nil
	}
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	expired := false
	var left []string
	for key, gone := range leaving {
		if !expired {
			select {
			case <-gone:
				continue
			case <-timer.C:
				expired = true
			}
		}
		select {
		case <-gone:
		default:
			left = append(left, key)
		}
	}
	if left == nil {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("%w: %q did not return within %v of being cancelled", ErrLingering, left, drainWait)
}

// Now makes the jobs with these keys due at once, for who knows that what they
// look at has changed. A job with an attempt in flight gets another one after it.
func (s *Scheduler) Now(keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		e := s.jobs[key]
		switch {
		case e == nil:
		case e.running:
			e.again = true
		case e.index >= 0:
			e.due = now
			heap.Fix(&s.queue, e.index)
		}
	}
	s.wakeUp()
}

// Snapshot gives the status of every job by key.
func (s *Scheduler) Snapshot() map[string]Status { return s.Look(nil) }

// Look is Snapshot into a map that the caller has, in place of what is in it: of
// thousands of jobs it is large. It may be nil, and is replaced by one that is large
// enough.
func (s *Scheduler) Look(all map[string]Status) map[string]Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) < len(s.jobs)/2 {
		all = nil // to grow step by step would take twice as much
	}
	if clear(all); all == nil {
		all = make(map[string]Status, len(s.jobs))
	}
	now := time.Now()
	for key, e := range s.jobs {
		all[key] = e.status(now)
	}
	return all
}

// Stats are figures about the scheduler itself.
type Stats struct {
	Jobs        int
	InFlight    int           // attempts at this moment
	Slow        int           // of these, attempts of jobs that took long last time
	Waiting     int           // due, but without a free place
	Concurrency int           // places
	Started     uint64        // attempts ever
	Late        uint64        // of these, later than due by more than a tenth of their interval
	MaxLate     time.Duration // longest time from due to started, ever
	// Alarm is not empty while checks begin later than a whole interval, again and again.
	Alarm string
}

// Stats gives the scheduler's own figures.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Jobs: len(s.jobs), InFlight: s.inFlight[fast] + s.inFlight[slow], Slow: s.inFlight[slow],
		Concurrency: s.opts.Concurrency, Started: s.started, Late: s.late.delayed, MaxLate: s.late.worst, Alarm: s.lateAlarm()}
	for i := range s.lanes {
		st.Waiting += len(s.lanes[i].waiting) - s.lanes[i].head
	}
	return st
}

const alarmLines = 5 // a sweep, at most

// sweep looks for alarms that began or ended, logs them and reports the change.
func (s *Scheduler) sweep(now time.Time) {
	type line struct {
		text   string
		fields []zap.Field
	}
	var lines []line
	raised, cleared := 0, 0
	s.mu.Lock()
	for _, e := range s.jobs {
		alarm := e.alarmAt(now)
		text := alarm
		if text == "" {
			text = e.pending
		}
		if text != "" && (e.alarm == "" || e.pending != "" && e.pending != e.alarm) {
			raised++
			if len(lines) < alarmLines {
				lines = append(lines, line{text, e.fields})
			}
		}
		if alarm == "" && e.alarm != "" {
			cleared++
		}
		e.alarm, e.pending = alarm, ""
	}
	s.mu.Unlock()
	for _, l := range lines {
		s.log.Error("health check in trouble", append(l.fields, zap.String("detail", l.text))...)
	}
	if raised > len(lines) {
		s.log.Error("more health checks in trouble; see vipd status", zap.Int("checks", raised-len(lines)))
	}
	if cleared > 0 {
		s.log.Info("health checks out of trouble", zap.Int("checks", cleared))
	}
	if s.tellLate() || raised+cleared > 0 {
		poke(s.changed)
	}
}

// defaultConcurrency is what the limit of open files allows.
func defaultConcurrency() int {
	const reserve, least, most = 256, 64, 16384
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return least
	}
	return max(least, min(most, int(min(lim.Cur, 1<<20))-reserve))
}
