package run

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// pipe is a Waiter on the end to write to of a pipe: at once ready, or full, or without a
// reader. It panics where it is told to.
type pipe struct {
	full, lost   bool
	panicAt      string
	begun, ended atomic.Int64
	reader       int
	refused      string
}

// Check implements healthcheck.Checker.
func (p *pipe) Check(context.Context) healthcheck.Result { panic("it was not waited for") }

// Begin implements healthcheck.Waiter.
func (p *pipe) Begin() (int, healthcheck.Result) {
	p.begun.Add(1)
	if p.panicAt == "begin" {
		panic("of Begin")
	}
	if p.refused != "" {
		return -1, healthcheck.Result{Detail: p.refused}
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, healthcheck.Result{Detail: err.Error(), LocalFault: true}
	}
	for err := error(nil); p.full && err == nil; {
		_, err = unix.Write(fds[1], make([]byte, 1<<16))
	}
	p.reader = fds[0]
	if p.lost {
		unix.Close(p.reader)
		p.reader = -1
	}
	return fds[1], healthcheck.Result{}
}

// End implements healthcheck.Waiter.
func (p *pipe) End(fd int, why healthcheck.Reason, limit time.Duration) healthcheck.Result {
	p.ended.Add(1)
	unix.Close(fd)
	if p.reader >= 0 {
		unix.Close(p.reader)
	}
	if p.panicAt == "end" {
		panic("of End")
	}
	return healthcheck.Result{OK: why == healthcheck.Ready, Detail: fmt.Sprintf("%d within %v", why, limit)}
}

// running runs a scheduler for some time in a real world.
func running(t *testing.T, opts Options, do func(s *Scheduler)) {
	t.Helper()
	s := New(opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	do(s)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// becomes waits until a check says so.
func becomes(t *testing.T, s *Scheduler, key, detail string) Status {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for {
		st := s.Snapshot()[key]
		if st.Runs > 0 && strings.Contains(st.Detail, detail) {
			return st
		}
		if time.Now().After(limit) {
			t.Fatalf("%s says %+v, want %q", key, st, detail)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func waiterJob(key string, c healthcheck.Checker) Job {
	return Job{Key: key, Checker: c, Interval: 100 * time.Millisecond, Timeout: 50 * time.Millisecond}
}

// TestWaiters: what is ready passes, what is in trouble and what hangs to its end fails, each
// again and again, and nothing is left of them at the end.
func TestWaiters(t *testing.T) {
	before := descriptors(t)
	good, lost, hangs, refused := &pipe{}, &pipe{full: true, lost: true}, &pipe{full: true}, &pipe{refused: "no way"}
	running(t, Options{}, func(s *Scheduler) {
		configure(t, s, waiterJob("good", good), waiterJob("lost", lost), waiterJob("hangs", hangs), waiterJob("refused", refused))
		for key, detail := range map[string]string{"good": "0 within", "lost": "1 within", "hangs": "2 within 50ms", "refused": "no way"} {
			if st := becomes(t, s, key, detail); st.Healthy != (key == "good") || st.Alarm != "" {
				t.Errorf("%s: %+v", key, st)
			}
		}
		time.Sleep(300 * time.Millisecond)
		if st := s.Snapshot()["good"]; st.Runs < 3 || st.Latency > 50*time.Millisecond {
			t.Errorf("%+v after some intervals", st)
		}
	})
	for _, p := range []*pipe{good, lost, hangs} {
		if begun, ended := p.begun.Load(), p.ended.Load(); begun != ended {
			t.Errorf("%d begun, %d ended", begun, ended)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestWaitersGo: a check that is taken away while it is waited for ends at once, and so does one
// at the end; hundreds that hang need no goroutines.
func TestWaitersGo(t *testing.T) {
	hangs := make([]*pipe, 200)
	before := descriptors(t)
	goroutines := runtime.NumGoroutine()
	running(t, Options{}, func(s *Scheduler) {
		var jobs []Job
		for i := range hangs {
			hangs[i] = &pipe{full: true}
			jobs = append(jobs, Job{Key: fmt.Sprint(i), Checker: hangs[i], Interval: time.Hour, Timeout: time.Hour})
		}
		configure(t, s, jobs...)
		limit := time.Now().Add(20 * time.Second)
		for s.Stats().InFlight < len(jobs) && time.Now().Before(limit) {
			time.Sleep(5 * time.Millisecond)
		}
		if n := runtime.NumGoroutine() - goroutines; n > 20 {
			t.Errorf("%d goroutines for %d checks", n, len(jobs))
		}
		configure(t, s, jobs[100:]...)
		if st := s.Stats(); st.InFlight != 100 || hangs[0].ended.Load() != 1 || hangs[150].ended.Load() != 0 {
			t.Errorf("%+v after half of them were taken away", st)
		}
	})
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestWaitersPanic: a fault in one is a failed attempt, told with its stack, and no more.
func TestWaitersPanic(t *testing.T) {
	core, logged := observer.New(zap.ErrorLevel)
	running(t, Options{Log: zap.New(core)}, func(s *Scheduler) {
		configure(t, s, waiterJob("begin", &pipe{panicAt: "begin"}), waiterJob("end", &pipe{panicAt: "end"}), waiterJob("good", &pipe{}))
		becomes(t, s, "begin", "panic in the check: of Begin")
		becomes(t, s, "end", "panic in the check: of End")
		becomes(t, s, "good", "0 within")
	})
	if n := logged.FilterMessageSnippet("a health check panicked").Len(); n < 2 {
		t.Errorf("told %d times", n)
	}
}

// TestRestOfOnChange: one that takes long is called less often, and never too late.
func TestRestOfOnChange(t *testing.T) {
	var calls []time.Time
	opts := Options{OnChange: func() { calls = append(calls, time.Now()); time.Sleep(100 * time.Millisecond) }}
	inBubble(t, opts, func(t *testing.T, s *Scheduler) {
		began := time.Now()
		for range 190 {
			poke(s.changed)
			pass(10 * time.Millisecond)
		}
		if n := len(calls); n != 4 {
			t.Errorf("called %d times in 1.9 s", n)
		}
		if calls[0] != began {
			t.Errorf("first called after %v", calls[0].Sub(began))
		}
	})
}
