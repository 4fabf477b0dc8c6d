package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
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
	e := newEntry(job("x", f))
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
	e := newEntry(job("x", f))
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
		err := s.Configure([]Job{job("stuck", stuck), job("other", other)})
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

// TestFaultInOnChange: a panic of the callback ends neither the process nor the checks;
// the next change calls it again.
func TestFaultInOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		s := New(Options{OnChange: func() {
			if calls.Add(1) == 1 {
				panic("a fault")
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		f := good()
		configure(t, s, job("a", f))
		pass(1500 * time.Millisecond)
		f.set(healthcheck.Result{Detail: "bad"})
		pass(3 * time.Second)
		if calls.Load() < 2 {
			t.Errorf("%d calls, want one for each change", calls.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOnChange: many changes are few calls, never two at once, and a callback
// that blocks does not hold up the checks.
func TestOnChange(t *testing.T) {
	var calls, inside atomic.Int32
	release := make(chan struct{})
	var s *Scheduler
	opts := Options{OnChange: func() {
		if inside.Add(1) != 1 {
			t.Error("two callbacks at once")
		}
		s.Snapshot()
		if calls.Add(1) == 1 {
			<-release
		}
		inside.Add(-1)
	}}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		s = New(opts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		var fakes []*fake
		var jobs []Job
		for i := range 100 {
			fakes = append(fakes, good())
			jobs = append(jobs, job(fmt.Sprint(i), fakes[i]))
		}
		configure(t, s, jobs...)
		pass(4500 * time.Millisecond)
		if n := len(fakes[0].times()); n != 5 {
			t.Errorf("while the callback blocked there were %d checks in 4.5 s, want 5", n)
		}
		close(release)
		pass(restMost)
		before := calls.Load()
		if before > 2 {
			t.Errorf("%d calls for changes at one instant", before)
		}
		pass(10 * time.Second)
		if calls.Load() != before {
			t.Errorf("%d calls without a change", calls.Load()-before)
		}
		fakes[7].set(healthcheck.Result{})
		pass(time.Second)
		if calls.Load() != before+1 {
			t.Errorf("%d calls for one change", calls.Load()-before)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTransitionsAreLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	inBubble(t, Options{Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Fields = []zap.Field{zap.String("dest", "10.0.0.21:80")}
		configure(t, s, j)
		pass(3500 * time.Millisecond)
		f.set(healthcheck.Result{Detail: "connection refused"})
		pass(3 * time.Second)
	})
	all := logs.All()
	if len(all) != 2 || all[0].Message != "check passed: up" || all[1].Message != "check failed: down" {
		t.Fatalf("got %v", all)
	}
	if c := all[1].ContextMap(); c["dest"] != "10.0.0.21:80" || c["detail"] != "connection refused" {
		t.Errorf("fields: %v", c)
	}
}

func TestConfigureRefuses(t *testing.T) {
	s := New(Options{})
	configure(t, s, job("kept", good()))
	err := s.Configure([]Job{{Key: "a", Interval: 1, Timeout: 1}, {Key: "b", Checker: good(), Timeout: 1}, {Key: "c", Checker: good(), Interval: 1}})
	if err == nil || strings.Count(err.Error(), "configuring check") != 3 {
		t.Errorf("got %v, want all three errors", err)
	}
	if all := s.Snapshot(); len(all) != 1 {
		t.Errorf("a refused Configure changed the jobs: %v", all)
	}
}

// TestRemovalCancels: a removed check is cancelled, not waited for to its deadline.
func TestRemovalCancels(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	inBubble(t, Options{Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		f := hangs()
		j := job("x", f)
		j.Timeout = time.Hour
		configure(t, s, j)
		pass(time.Minute)
		begin := time.Now()
		configure(t, s)
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
		if st := s.Stats(); st.InFlight != 0 || st.Jobs != 0 {
			t.Errorf("left behind: %+v", st)
		}
		if logs.Len() != 0 {
			t.Errorf("the cancelled attempt was taken for a failure: %v", logs.All())
		}
	})
}

// TestO41SharedCheck: jobs with one key are one check.
func TestO41SharedCheck(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		var jobs []Job
		for range 100 {
			jobs = append(jobs, job("shared", f))
		}
		configure(t, s, jobs...)
		pass(9500 * time.Millisecond)
		if n := len(f.times()); n != 10 {
			t.Errorf("%d attempts in 9.5 s, want 10", n)
		}
	})
}

// TestIntervalShortened: a shorter interval does not wait for the longer one.
func TestIntervalShortened(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Interval = time.Hour
		configure(t, s, j)
		pass(time.Minute)
		j.Interval = time.Second
		configure(t, s, j)
		pass(10 * time.Second)
		if n := len(f.times()); n < 10 || n > 12 {
			t.Errorf("%d attempts, want about 11", n)
		}
		if st := s.Snapshot()["x"]; !st.Healthy || st.Runs != uint64(len(f.times())) {
			t.Errorf("the state was lost: %+v", st)
		}
	})
}

// TestRandomWalk: random reloads while checks run, hang and fail. A check
// never overlaps itself, runs after its removal, or is forgotten.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{Seed: seed + 1, Concurrency: 8}, func(t *testing.T, s *Scheduler) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fakes := map[string]*fake{}
			removed := map[*fake]int{} // with its number of attempts
			for step := range 40 {
				var jobs []Job
				wanted := map[string]bool{}
				for i := range 20 {
					key := fmt.Sprint(i)
					if rng.IntN(3) == 0 {
						if f := fakes[key]; f != nil {
							removed[f] = 0
						}
						delete(fakes, key)
						continue
					}
					if fakes[key] == nil {
						fakes[key] = []*fake{good(), bad(), hangs()}[rng.IntN(3)]
					}
					wanted[key] = true
					j := job(key, fakes[key])
					j.Retry, j.DelayBeforeRetry = rng.IntN(3), time.Duration(rng.IntN(500))*time.Millisecond
					j.Warmup = time.Duration(rng.IntN(1000)) * time.Millisecond
					j.Interval = time.Duration(1+rng.IntN(2)) * time.Second
					jobs = append(jobs, j)
				}
				configure(t, s, jobs...)
				for f, n := range removed {
					if n == 0 {
						removed[f] = len(f.times())
					}
				}
				pass(time.Duration(rng.IntN(3000)) * time.Millisecond)
				for f, n := range removed {
					if len(f.times()) != n {
						t.Fatalf("seed %d step %d: a check ran after its removal", seed, step)
					}
				}
				all := s.Snapshot()
				if len(all) != len(wanted) {
					t.Fatalf("seed %d step %d: %d jobs, want %d", seed, step, len(all), len(wanted))
				}
				for key, f := range fakes {
					if f.overlapped() {
						t.Fatalf("seed %d step %d: check %s overlapped itself", seed, step, key)
					}
				}
			}
			pass(20 * time.Second)
			for key, st := range s.Snapshot() {
				if !st.Known || st.Healthy != fakes[key].result.OK || st.Age > 6*time.Second {
					t.Errorf("seed %d: check %s: %+v", seed, key, st)
				}
			}
			counts := map[string]int{}
			for key, f := range fakes {
				counts[key] = len(f.times())
			}
			configure(t, s)
			pass(10 * time.Second)
			for key, f := range fakes {
				if len(f.times()) != counts[key] {
					t.Errorf("seed %d: check %s ran after its removal", seed, key)
				}
			}
		})
	}
}
