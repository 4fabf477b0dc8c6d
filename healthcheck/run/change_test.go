package run

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"vipd/healthcheck"
)

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
