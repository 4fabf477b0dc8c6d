package run

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vipd/healthcheck"
)

// fake is a checker that does what the test says and notes when it was called.
type fake struct {
	mu      sync.Mutex
	takes   time.Duration // 0: decides at once; hangs to the end of ctx when negative
	result  healthcheck.Result
	starts  []time.Time
	now     int // attempts in flight
	overlap bool
	do      func(ctx context.Context) // instead of takes
}

func good() *fake { return &fake{result: healthcheck.Result{OK: true, Detail: "fine"}} }
func bad() *fake  { return &fake{result: healthcheck.Result{Detail: "broken"}} }
func hangs() *fake {
	return &fake{takes: -1, result: healthcheck.Result{Detail: "no answer"}}
}

func (f *fake) set(r healthcheck.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result = r
}

func (f *fake) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.starts...)
}

func (f *fake) overlapped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.overlap
}

// Check implements healthcheck.Checker.
func (f *fake) Check(ctx context.Context) healthcheck.Result {
	f.mu.Lock()
	f.starts = append(f.starts, time.Now())
	f.now++
	f.overlap = f.overlap || f.now > 1
	takes, do := f.takes, f.do
	f.mu.Unlock()
	switch {
	case do != nil:
		do(ctx)
	case takes < 0:
		<-ctx.Done()
	case takes > 0:
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	return f.result
}

// job is a job with an interval of 1 s and a timeout of 500 ms.
func job(key string, c healthcheck.Checker) Job {
	return Job{Key: key, Checker: c, Interval: time.Second, Timeout: 500 * time.Millisecond}
}

// inBubble runs do with a running scheduler in a synctest bubble.
func inBubble(t *testing.T, opts Options, do func(t *testing.T, s *Scheduler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if opts.Seed == 0 {
			opts.Seed = 1
		}
		s := New(opts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		do(t, s)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func configure(t *testing.T, s *Scheduler, jobs ...Job) {
	t.Helper()
	if err := s.Configure(jobs, nil); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass and everything settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
