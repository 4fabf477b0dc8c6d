package run

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"vipd/healthcheck"
)

// offsets gives the starts relative to the first one.
func offsets(f *fake) (out []time.Duration) {
	starts := f.times()
	for _, s := range starts {
		out = append(out, s.Sub(starts[0]))
	}
	return out
}

// TestNoDrift: whatever a check takes, the next one is due one interval after
// the last was due.
func TestNoDrift(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		quick, long := good(), good()
		long.takes = 400 * time.Millisecond
		configure(t, s, job("quick", quick), job("long", long))
		pass(99500 * time.Millisecond)
		for _, f := range []*fake{quick, long} {
			got := offsets(f)
			if len(got) != 100 {
				t.Fatalf("%d starts in 99.5 s, want 100", len(got))
			}
			for i, at := range got {
				if at != time.Duration(i)*time.Second {
					t.Fatalf("start %d at %v", i, at)
				}
			}
		}
	})
}

// TestSlotsMissed: an attempt longer than the interval leaves slots out and
// does not shift those that follow.
func TestSlotsMissed(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := hangs()
		j := job("x", f)
		j.Interval, j.Timeout = 200*time.Millisecond, 500*time.Millisecond
		configure(t, s, j)
		pass(2500 * time.Millisecond)
		want := []time.Duration{0, 600, 1200, 1800, 2400}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := offsets(f); !slices.Equal(got, want) {
			t.Errorf("starts at %v, want %v", got, want)
		}
	})
}

// TestSpread: the first attempts are spread over the warm-up and stay spread;
// the same seed gives the same schedule, another seed another.
func TestSpread(t *testing.T) {
	first := func(seed uint64) (all []time.Duration) {
		inBubble(t, Options{Seed: seed}, func(t *testing.T, s *Scheduler) {
			begin := time.Now()
			var fakes []*fake
			var jobs []Job
			for i := range 1000 {
				f := good()
				j := job(fmt.Sprint(i), f)
				j.Warmup = time.Second
				fakes, jobs = append(fakes, f), append(jobs, j)
			}
			configure(t, s, jobs...)
			pass(10 * time.Second)
			buckets := make([]int, 100) // of 10 ms, over the second 9..10
			for _, f := range fakes {
				at := f.times()
				all = append(all, at[0].Sub(begin))
				if d := at[0].Sub(begin); d < 0 || d > time.Second {
					t.Errorf("first start at %v", d)
				}
				buckets[at[len(at)-1].Sub(begin)%time.Second/(10*time.Millisecond)]++
			}
			if most := slices.Max(buckets); most > 30 {
				t.Errorf("%d of 1000 starts within 10 ms", most)
			}
		})
		return all
	}
	a, b, c := first(7), first(7), first(8)
	if !slices.Equal(a, b) {
		t.Error("the same seed gave another schedule")
	}
	if slices.Equal(a, c) {
		t.Error("another seed gave the same schedule")
	}
}

// TestSpreadBeginsWithRun: jobs that wait long for Run do not start all at once,
// and the same seed gives the same starts.
func TestSpreadBeginsWithRun(t *testing.T) {
	first := func() (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{Seed: 3})
			var fakes []*fake
			var jobs []Job
			for i := range 20 {
				f := good()
				j := job(fmt.Sprint(i), f)
				j.Warmup = 10 * time.Second
				fakes, jobs = append(fakes, f), append(jobs, j)
			}
			configure(t, s, jobs...)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			begin := time.Now()
			go func() { done <- s.Run(ctx) }()
			pass(10 * time.Second)
			for _, f := range fakes {
				if at := f.times(); len(at) > 0 {
					all = append(all, at[0].Sub(begin))
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := s.Run(t.Context()); err == nil {
				t.Error("Run ran twice")
			}
		})
		return all
	}
	a, b := first(), first()
	if sorted := slices.Compact(slices.Sorted(slices.Values(a))); len(sorted) != 20 {
		t.Errorf("20 jobs started first at %v", sorted)
	}
	if !slices.Equal(a, b) {
		t.Errorf("the same seed gave another schedule:\n%v\n%v", a, b)
	}
}

// TestRetries: a failure while up is repeated after DelayBeforeRetry, a
// failure while down is not, and retries do not move the cadence.
func TestRetries(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Retry, j.DelayBeforeRetry = 2, 300*time.Millisecond
		configure(t, s, j)
		pass(500 * time.Millisecond)
		f.set(healthcheck.Result{Detail: "broken"})
		pass(1200 * time.Millisecond) // at 1.7 s: failed at 1.0, 1.3, 1.6
		if st := s.Snapshot()["x"]; st.Healthy || !st.Known || st.Runs != 4 || st.Failures != 3 || st.Detail != "broken" {
			t.Errorf("after 1 + 2 failures: %+v", st)
		}
		pass(2 * time.Second)
		want := []time.Duration{0, 1000, 1300, 1600, 2000, 3000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := offsets(f); !slices.Equal(got, want) {
			t.Errorf("starts at %v, want %v", got, want)
		}
		f.set(healthcheck.Result{OK: true})
		pass(time.Second)
		if st := s.Snapshot()["x"]; !st.Healthy {
			t.Errorf("after one success: %+v", st)
		}
	})
}

// TestRetryOfRefused: after an attempt that was refused the retry comes after
// DelayIfRefused, after any other one after DelayBeforeRetry, and the cadence stays.
func TestRetryOfRefused(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Retry, j.DelayBeforeRetry, j.DelayIfRefused = 2, 300*time.Millisecond, 50*time.Millisecond
		configure(t, s, j)
		pass(500 * time.Millisecond)
		f.set(healthcheck.Result{Detail: "refused", Refused: true})
		pass(520 * time.Millisecond) // at 1.02 s: refused at 1.0
		f.set(healthcheck.Result{Detail: "broken"})
		pass(230 * time.Millisecond) // at 1.25 s: failed at 1.05
		if st := s.Snapshot()["x"]; !st.Healthy || st.Failures != 2 {
			t.Errorf("after 1 + 1 failures: %+v", st)
		}
		pass(200 * time.Millisecond) // failed at 1.35 s
		if st := s.Snapshot()["x"]; st.Healthy || st.Failures != 3 {
			t.Errorf("after 1 + 2 failures: %+v", st)
		}
		pass(1000 * time.Millisecond)
		want := []time.Duration{0, 1000, 1050, 1350, 2000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := offsets(f); !slices.Equal(got, want) {
			t.Errorf("starts at %v, want %v", got, want)
		}
	})
}

// TestBoundAndLanes: with few places, servers that hang wait for each other
// and not the servers that answer for them.
func TestBoundAndLanes(t *testing.T) {
	inBubble(t, Options{Concurrency: 20}, func(t *testing.T, s *Scheduler) {
		var jobs []Job
		var healthy, hanging []*fake
		for i := range 200 {
			h, w := good(), hangs()
			healthy, hanging = append(healthy, h), append(hanging, w)
			for key, f := range map[string]*fake{"good": h, "hangs": w} {
				j := job(fmt.Sprint(key, i), f)
				j.Warmup = j.Interval
				jobs = append(jobs, j)
			}
		}
		configure(t, s, jobs...)
		most := 0
		for range 3000 {
			pass(10 * time.Millisecond)
			most = max(most, s.Stats().InFlight)
		}
		if most != 20 {
			t.Errorf("%d attempts in flight, want 20", most)
		}
		settled := time.Now().Add(-15 * time.Second)
		for i, f := range healthy {
			at := f.times()
			for k := 1; k < len(at); k++ {
				if gap := at[k].Sub(at[k-1]); at[k].After(settled) && gap > 1050*time.Millisecond {
					t.Fatalf("good%d waited %v for its next attempt", i, gap)
				}
			}
		}
		for i, f := range hanging {
			if n := len(f.times()); n < 2 {
				t.Errorf("hangs%d was checked %d times in 30 s", i, n)
			}
		}
	})
}

// TestO39ChangedCheck: a server is up and its check is changed to a dead port:
// it goes down within fall × interval; down and changed to a good port: it
// comes back. Until its own first result the new check shows the old verdict.
func TestO39ChangedCheck(t *testing.T) {
	tests := []struct {
		name     string
		old, new *fake
		want     bool
	}{
		{"up, to a dead port", good(), bad(), false},
		{"down, to a good port", bad(), good(), true},
		{"up, to another good port", good(), good(), true},
		{"down, to another dead port", bad(), bad(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
				old, other := job("port 80", tt.old), good()
				old.Retry, old.DelayBeforeRetry, old.Warmup = 1, time.Second, time.Minute
				configure(t, s, old, job("other", other))
				pass(2 * time.Minute)
				before := s.Snapshot()["port 80"]
				runs := s.Snapshot()["other"].Runs

				changed := old
				changed.Key, changed.Checker = "port 81", tt.new
				changed.Inherit = healthcheck.Down
				if before.Healthy {
					changed.Inherit = healthcheck.Up
				}
				configure(t, s, job("other", other), changed)
				if st := s.Snapshot()["port 81"]; !st.Known || st.Healthy != before.Healthy || !st.Inherited || st.Runs != 0 {
					t.Errorf("before its first result: %+v", st)
				}
				if st := s.Snapshot()["other"]; st.Runs != runs || !st.Healthy {
					t.Errorf("the unchanged check lost its state: %+v", st)
				}
				if _, still := s.Snapshot()["port 80"]; still {
					t.Error("the old check is still there")
				}
				n := len(tt.old.times())
				pass(2 * time.Second) // fall (1 + 1 retry) × interval
				if st := s.Snapshot()["port 81"]; st.Healthy != tt.want || st.Inherited {
					t.Errorf("after fall × interval: %+v, want healthy %v", st, tt.want)
				}
				if len(tt.old.times()) != n {
					t.Error("the old check still runs")
				}
				if st := s.Snapshot()["other"]; st.Runs != runs+2 {
					t.Errorf("the unchanged check ran %d times in 2 s", st.Runs-runs)
				}
			})
		})
	}
}

// TestRetryComesSooner: a reload that shortens delay_before_retry does not wait for the old one
// to pass; one that makes it longer changes nothing about a retry that waits.
func TestRetryComesSooner(t *testing.T) {
	for _, tt := range []struct{ pause, want time.Duration }{{time.Second, 11 * time.Second}, {time.Hour, 60 * time.Second}} {
		inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
			f := bad()
			j := job("x", f)
			j.Interval, j.Retry, j.DelayBeforeRetry = time.Hour, 1, time.Minute
			configure(t, s, j)
			pass(10 * time.Second)
			j.DelayBeforeRetry = tt.pause
			configure(t, s, j)
			pass(2 * time.Minute)
			if at := offsets(f); len(at) != 2 || at[1] != tt.want {
				t.Errorf("with %v: attempts at %v, want the second at %v", tt.pause, at, tt.want)
			}
		})
	}
}

// TestRiseAndFall: so many checks in a row, one each interval, decide; with
// retries each of the failures has them. Status tells how far it is.
func TestRiseAndFall(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Rise, j.Fall, j.Retry, j.DelayBeforeRetry = 3, 2, 1, 200*time.Millisecond
		configure(t, s, j)
		pass(500 * time.Millisecond)
		f.set(healthcheck.Result{Detail: "broken"})
		pass(time.Second) // at 1.5 s: failed at 1.0 and 1.2
		if st := s.Snapshot()["x"]; !st.Healthy || st.Progress != "failed 1 of 2 times in a row" {
			t.Errorf("after one failure with its retry: %+v", st)
		}
		pass(time.Second) // failed at 2.0 and 2.2
		if st := s.Snapshot()["x"]; st.Healthy || st.Progress != "" {
			t.Errorf("after two of them: %+v", st)
		}
		f.set(healthcheck.Result{OK: true})
		pass(2 * time.Second) // passed at 3.0 and 4.0
		if st := s.Snapshot()["x"]; st.Healthy || st.Progress != "passed 2 of 3 times in a row" {
			t.Errorf("after two successes: %+v", st)
		}
		pass(time.Second)
		if st := s.Snapshot()["x"]; !st.Healthy || st.Progress != "" {
			t.Errorf("after three: %+v", st)
		}
		want := []time.Duration{0, 1000, 1200, 2000, 2200, 3000, 4000, 5000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := offsets(f); !slices.Equal(got, want) {
			t.Errorf("starts at %v, want %v", got, want)
		}
	})
}

// TestConfigureKeepsWhatStays: jobs that are not given and stay go on with their state, and those that do not are gone.
func TestConfigureKeepsWhatStays(t *testing.T) {
	inBubble(t, Options{Seed: 1}, func(t *testing.T, s *Scheduler) {
		stays, goes, changes := good(), good(), good()
		configure(t, s, job("stays", stays), job("goes", goes), job("changes", changes))
		pass(10 * time.Second)
		slower := job("changes", changes)
		slower.Interval = 10 * time.Second
		if err := s.Configure([]Job{slower, job("new", good())}, func(key string) bool { return key != "goes" }); err != nil {
			t.Fatal(err)
		}
		before, gone := len(stays.times()), len(goes.times())
		pass(10 * time.Second)
		all := s.Snapshot()
		if len(all) != 3 || all["stays"].Runs < 19 || all["changes"].Runs < 11 || !all["new"].Healthy {
			t.Errorf("%+v", all)
		}
		if n := len(stays.times()) - before; n != 10 || len(goes.times()) != gone {
			t.Errorf("%d attempts of what stays, %d of what is gone", n, len(goes.times())-gone)
		}
	})
}
