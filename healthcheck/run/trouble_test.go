package run

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"vipd/healthcheck"
)

// TestLocalFault: no verdict changes in either direction, and there is an
// alarm for as long as it lasts; the twin with a plain failure changes it.
func TestLocalFault(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		up, down, failing := good(), bad(), good()
		configure(t, s, job("up", up), job("down", down), job("failing", failing))
		pass(500 * time.Millisecond)
		fault := healthcheck.Result{Detail: "too many open files", LocalFault: true}
		up.set(fault)
		down.set(fault)
		failing.set(healthcheck.Result{Detail: "broken"})
		pass(10 * time.Second)
		all := s.Snapshot()
		if !all["up"].Healthy || all["down"].Healthy || !all["down"].Known || all["failing"].Healthy {
			t.Errorf("verdicts: %+v", all)
		}
		if all["up"].Failures != 0 || all["failing"].Failures != 10 {
			t.Errorf("failures counted: %d and %d, want 0 and 10", all["up"].Failures, all["failing"].Failures)
		}
		for _, key := range []string{"up", "down"} {
			if want := "no verdict, this machine is at fault: too many open files"; all[key].Alarm != want {
				t.Errorf("%s: alarm %q, want %q", key, all[key].Alarm, want)
			}
		}
		if all["failing"].Alarm != "" {
			t.Errorf("a plain failure raised the alarm %q", all["failing"].Alarm)
		}
		down.set(healthcheck.Result{OK: true})
		pass(time.Second)
		if st := s.Snapshot()["down"]; !st.Healthy || st.Alarm != "" {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

// TestStandstill: a machine that stood still, as in a snapshot, finds the
// deadlines of its attempts passed: no server goes down for that. The twin that
// fails in time goes down.
func TestStandstill(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		paused, dead := good(), good()
		configure(t, s, job("paused", paused), job("dead", dead))
		pass(500 * time.Millisecond)
		paused.mu.Lock()
		paused.do = func(context.Context) { time.Sleep(5 * time.Second) } // beyond the deadline, as frozen
		paused.mu.Unlock()
		paused.set(healthcheck.Result{Detail: "no answer within 500ms"})
		dead.set(healthcheck.Result{Detail: "no answer within 500ms"})
		pass(6 * time.Second)
		st := s.Snapshot()["paused"]
		if !st.Healthy || st.Failures != 0 || st.Alarm != "the check returned 4.5s after its deadline" {
			t.Errorf("got %+v", st)
		}
		if s.Snapshot()["dead"].Healthy {
			t.Error("a failure in time changed nothing")
		}
	})
}

// TestNeverAsked: an attempt whose goroutine gets a processor only after the
// deadline asks nothing and decides nothing.
func TestNeverAsked(t *testing.T) {
	s := New(Options{})
	f := bad()
	j := job("x", f)
	e := newEntry(&j)
	s.ctx = t.Context()
	ctx, cancel := context.WithCancel(t.Context())
	e.running, e.cancel, e.startedAt, e.deadline = true, cancel, time.Now(), time.Now()
	s.attempt(ctx, e, e.job, time.Now().Add(-time.Millisecond))
	if st := e.status(time.Now()); st.Known || st.Failures != 0 || len(f.times()) != 0 || !strings.Contains(st.Alarm, "began after its deadline") {
		t.Errorf("got %+v, %d calls", st, len(f.times()))
	}
}

// TestLateProcessor: an attempt whose goroutine gets a processor late, but in
// time, still gives the server its whole time.
func TestLateProcessor(t *testing.T) {
	s := New(Options{})
	f := good()
	var left time.Duration
	f.do = func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
	}
	j := job("x", f)
	e := newEntry(&j)
	s.ctx = t.Context()
	ctx, cancel := context.WithCancel(t.Context())
	soon := time.Now().Add(e.job.Timeout / 10) // most of the time is gone
	e.running, e.cancel, e.startedAt, e.deadline = true, cancel, time.Now(), soon
	s.attempt(ctx, e, e.job, soon)
	if left < e.job.Timeout*8/10 {
		t.Errorf("%v left of %v", left, e.job.Timeout)
	}
	if st := e.status(time.Now()); !st.Healthy || st.Alarm != "" {
		t.Errorf("got %+v", st)
	}
}

func TestPanic(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	inBubble(t, Options{Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		f, exits, other := good(), good(), good()
		configure(t, s, job("panics", f), job("exits", exits), job("other", other))
		pass(500 * time.Millisecond)
		f.mu.Lock()
		f.do = func(context.Context) { f.mu.Lock(); f.now--; f.mu.Unlock(); panic("index out of range") }
		f.mu.Unlock()
		exits.mu.Lock()
		exits.do = func(context.Context) { exits.mu.Lock(); exits.now--; exits.mu.Unlock(); runtime.Goexit() }
		exits.mu.Unlock()
		pass(3 * time.Second)
		st := s.Snapshot()["panics"]
		if st.Healthy || st.Detail != "panic in the check: index out of range" || st.Alarm == "" || st.Runs != 4 {
			t.Errorf("got %+v", st)
		}
		if st := s.Snapshot()["exits"]; st.Healthy || st.Detail != "the check ended without a result" || st.Runs != 4 {
			t.Errorf("got %+v", st)
		}
		if st := s.Snapshot()["other"]; !st.Healthy || st.Runs != 4 {
			t.Errorf("the other check: %+v", st)
		}
	})
	if n := logs.FilterMessageSnippet("panicked").Len(); n != 3 {
		t.Errorf("%d log lines about the panic, want 3", n)
	}
}

// TestOutlivesContext: a check that ignores its context is an alarm, does not
// pile up, and holds up neither others, Configure nor Run for long.
func TestOutlivesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s := New(Options{Seed: 1, Log: zap.New(core)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		release := make(chan struct{})
		stuck, other := good(), good()
		stuck.do = func(context.Context) { <-release }
		configure(t, s, job("stuck", stuck), job("removed", stuck), job("other", other))
		pass(10 * time.Second)
		st := s.Snapshot()["stuck"]
		if want := "the check has not returned 9s after its deadline; the verdict is the last one known"; st.Alarm != want || st.Runs != 0 {
			t.Errorf("got %+v, want the alarm %q", st, want)
		}
		if n := len(stuck.times()); n != 2 {
			t.Errorf("%d attempts of two stuck checks", n)
		}
		if n := len(other.times()); n != 11 {
			t.Errorf("the other check ran %d times in 10 s", n)
		}
		if n := logs.FilterMessage("health check in trouble").Len(); n != 2 {
			t.Errorf("%d log lines for two stuck checks in 10 s, want 2", n)
		}
		begin := time.Now()
		err := s.Configure([]Job{job("stuck", stuck), job("other", other)}, nil)
		if err == nil || !strings.Contains(err.Error(), `["removed"] did not return within 2s`) || time.Since(begin) != 2*time.Second {
			t.Errorf("removing a stuck check: %v after %v", err, time.Since(begin))
		}
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "[stuck] did not return within 2s") {
			t.Errorf("stopping with a stuck check: %v", err)
		}
		close(release)
	})
}

// TestLateReturn: a check that returns long after its deadline is an alarm
// until it returns in time again.
func TestLateReturn(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		f.do = func(context.Context) { time.Sleep(2 * time.Second) }
		configure(t, s, job("x", f))
		pass(2100 * time.Millisecond)
		if st := s.Snapshot()["x"]; st.Alarm != "the check returned 1.5s after its deadline" || !st.Healthy {
			t.Errorf("got %+v", st)
		}
		f.mu.Lock()
		f.do = nil
		f.mu.Unlock()
		pass(3 * time.Second)
		if st := s.Snapshot()["x"]; st.Alarm != "" {
			t.Errorf("got %+v", st)
		}
	})
}

// TestO38Age: the age of the last result is shown, and too old a one is an alarm.
func TestO38Age(t *testing.T) {
	inBubble(t, Options{Concurrency: 1}, func(t *testing.T, s *Scheduler) {
		blocker := hangs()
		b := job("blocker", blocker)
		b.Timeout = time.Hour
		waits := good()
		configure(t, s, job("waits", waits))
		pass(100 * time.Millisecond)
		configure(t, s, job("waits", waits), b)
		pass(4300 * time.Millisecond)
		if st := s.Snapshot()["waits"]; st.Alarm != "" || st.Age != 4400*time.Millisecond {
			t.Errorf("after 4.4 s: %+v", st)
		}
		pass(time.Second)
		if st := s.Snapshot()["waits"]; st.Alarm != "no result for more than 4.5s" || !st.Healthy {
			t.Errorf("after 5.4 s: %+v", st)
		}
		if n := s.Stats().Waiting; n != 1 {
			t.Errorf("%d wait for a place, want 1", n)
		}
		configure(t, s, job("waits", waits))
		pass(100 * time.Millisecond)
		if st := s.Snapshot()["waits"]; st.Alarm != "" {
			t.Errorf("with a free place again: %+v", st)
		}
	})
}

// TestO38LongPause: a retry that is due later than the next check would be is no
// alarm.
func TestO38LongPause(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := bad()
		j := job("x", f)
		j.Retry, j.DelayBeforeRetry = 1, 10*time.Second
		configure(t, s, j)
		pass(9 * time.Second)
		if st := s.Snapshot()["x"]; st.Alarm != "" || st.Runs != 1 {
			t.Errorf("while its retry is awaited: %+v", st)
		}
		pass(1500 * time.Millisecond)
		if st := s.Snapshot()["x"]; st.Alarm != "" || st.Runs != 2 || !st.Known || st.Healthy {
			t.Errorf("afterwards: %+v", st)
		}
	})
}
