package run

import (
	"context"
	"slices"
	"testing"
	"time"

	"vipd/healthcheck"
)

// TestNow: a check that is asked for runs at once, in whatever state it is, and
// its cadence stays; others are left alone.
func TestNow(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		asked, other := good(), good()
		configure(t, s, job("asked", asked), job("other", other))
		pass(300 * time.Millisecond)
		s.Now([]string{"asked", "unknown"})
		pass(900 * time.Millisecond)
		want := []time.Duration{0, 300 * time.Millisecond, time.Second}
		if got := offsets(asked); !slices.Equal(got, want) {
			t.Errorf("starts at %v, want %v", got, want)
		}
		if got := len(other.times()); got != 2 {
			t.Errorf("the other one was started %d times, want 2", got)
		}
	})
}

// TestNowWhileRunning: one in flight may have looked already; it is made again.
func TestNowWhileRunning(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		f.takes = 200 * time.Millisecond
		configure(t, s, job("x", f))
		pass(100 * time.Millisecond)
		s.Now([]string{"x"})
		s.Now([]string{"x"})
		pass(1200 * time.Millisecond)
		want := []time.Duration{0, 200 * time.Millisecond, time.Second}
		if got := offsets(f); !slices.Equal(got, want) || f.overlapped() {
			t.Errorf("starts at %v, want %v; overlapping: %v", got, want, f.overlapped())
		}
	})
}

// TestWeighting: what a check says of the weight is kept while it fails, is not
// taken from this machine's faults, and is told when it changes.
func TestWeighting(t *testing.T) {
	told := 0
	inBubble(t, Options{OnChange: func() { told++ }}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Retry, j.DelayBeforeRetry = 100, time.Minute
		configure(t, s, j)
		step := func(r healthcheck.Result, want healthcheck.Weighting, wantTold int) {
			t.Helper()
			f.set(r)
			s.Now([]string{"x"})
			pass(10 * time.Millisecond)
			if got := s.Snapshot()["x"].Weighting; got != want || told != wantTold {
				t.Errorf("%+v after %+v, told %d times; want %+v, %d times", got, r, told, want, wantTold)
			}
		}
		ten, two := healthcheck.Weighting{Set: true, N: 10}, healthcheck.Weighting{N: 2}
		pass(10 * time.Millisecond)
		step(healthcheck.Result{OK: true}, healthcheck.Weighting{}, 1) // the first verdict
		step(healthcheck.Result{OK: true, Weighting: ten}, ten, 2)
		step(healthcheck.Result{OK: true, Weighting: ten}, ten, 2)
		step(healthcheck.Result{Weighting: two}, ten, 2)
		step(healthcheck.Result{OK: true, LocalFault: true, Weighting: two}, ten, 2)
		step(healthcheck.Result{OK: true, Weighting: two}, two, 3)
		step(healthcheck.Result{OK: true}, healthcheck.Weighting{}, 4)
	})
}

// TestNowBeforeRun does nothing but what Run will do anyway.
func TestNowBeforeRun(t *testing.T) {
	s := New(Options{Seed: 1})
	f := good()
	configure(t, s, job("x", f))
	s.Now([]string{"x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil || len(f.times()) > 1 {
		t.Errorf("%v, %d starts", err, len(f.times()))
	}
}
