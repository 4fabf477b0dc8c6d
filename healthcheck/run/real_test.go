package run_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/httpcheck"
	"vipd/healthcheck/run"
	"vipd/healthcheck/tcpcheck"
)

// start runs a scheduler until the test ends.
func start(t *testing.T, opts run.Options, jobs []run.Job) *run.Scheduler {
	t.Helper()
	s := run.New(opts)
	if err := s.Configure(jobs, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// noting notes when the checker was called.
type noting struct {
	healthcheck.Checker
	mu     sync.Mutex
	starts []time.Time
}

func (n *noting) Check(ctx context.Context) healthcheck.Result {
	n.mu.Lock()
	n.starts = append(n.starts, time.Now())
	n.mu.Unlock()
	return n.Checker.Check(ctx)
}

// jitter gives how far each start is from the cadence of its check.
func (n *noting) jitter(interval time.Duration) (late []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	least := time.Duration(1<<63 - 1)
	for i, at := range n.starts {
		least = min(least, at.Sub(n.starts[0])-time.Duration(i)*interval)
	}
	for i, at := range n.starts {
		late = append(late, at.Sub(n.starts[0])-time.Duration(i)*interval-least)
	}
	return late
}

func tcp(t *testing.T, addr netip.AddrPort) healthcheck.Checker {
	t.Helper()
	c, err := tcpcheck.New(tcpcheck.Config{Target: addr})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t *testing.T, addr netip.AddrPort) healthcheck.Checker {
	t.Helper()
	c, err := httpcheck.New(httpcheck.Config{Target: addr, URLs: []httpcheck.URL{{}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waited is for how long the threads of this process have been ready to run and kept
// from a processor by others.
func waited(t *testing.T) (sum time.Duration) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var ran, waited int64
		if b, err := os.ReadFile(f); err == nil { // else the thread has ended
			if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
				t.Fatal(err)
			}
		}
		sum += time.Duration(waited)
	}
	return sum
}

// TestO41ChecksOnTime: 400 TCP checks, half of them hanging to their timeout,
// start within 10 % of the interval of when they are due. So few, for other
// packages' tests run at the same time and the race detector makes each slow.
func TestO41ChecksOnTime(t *testing.T) {
	const interval, timeout = 2 * time.Second, 1500 * time.Millisecond
	open := checktest.Serve(t, nil, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	silent := checktest.FullBacklog(t)
	var jobs []run.Job
	var notes []*noting
	for i := range 400 {
		addr := open
		if i%2 == 1 {
			addr = silent
		}
		n := &noting{Checker: tcp(t, addr)}
		notes = append(notes, n)
		jobs = append(jobs, run.Job{Key: fmt.Sprint(i), Checker: n, Interval: interval, Timeout: timeout, Warmup: interval})
	}
	before := waited(t)
	s := start(t, run.Options{Seed: 1}, jobs)
	time.Sleep(10 * time.Second)
	slack := (waited(t) - before) / time.Duration(10*time.Second/interval) // what a busy machine keeps from us of each interval
	if busy := s.Stats().InFlight; busy < 100 || busy > 300 {
		t.Errorf("%d attempts in flight, want about 150", busy)
	}
	var late []time.Duration
	for i, n := range notes {
		mine := n.jitter(interval)
		if len(mine) < 4 {
			t.Errorf("check %d started %d times in 10 s", i, len(mine))
		}
		late = append(late, mine...)
	}
	slices.Sort(late)
	p99 := late[len(late)*99/100]
	t.Logf("%d starts: median %v, p99 %v, worst %v; ready in vain for %v of each interval; stats %+v", len(late), late[len(late)/2], p99, late[len(late)-1], slack, s.Stats())
	if p99 > interval/10+slack {
		t.Errorf("p99 of the start jitter is %v, want less than %v", p99, interval/10+slack)
	}
	for key, st := range s.Snapshot() {
		if up := key[len(key)-1]%2 == 0; st.Healthy != up || !st.Known || st.Alarm != "" {
			t.Fatalf("check %s: %+v", key, st)
		}
	}
}

// moody is a server whose mood can be changed: well, or one of several ways to hang.
type moody struct {
	mood atomic.Int32
	addr netip.AddrPort
}

const (
	well = iota
	mutes
	halves
	resets
)

func newMoody(t *testing.T) *moody {
	m := &moody{}
	m.addr = checktest.Serve(t, nil, func(c net.Conn) {
		switch m.mood.Load() {
		case well:
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
		case halves:
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nX:")
		case resets:
			checktest.Reset(c)
			return
		}
		_, _ = io.Copy(io.Discard, c)
	})
	return m
}

// TestO38CheckerNeverStops: 500 checks against servers that hang in every
// phase go on for ever: no result is older than 3 × (interval + timeout), and
// a server that recovers is back within an interval and a timeout.
func TestO38CheckerNeverStops(t *testing.T) {
	const interval, timeout, slack = 500 * time.Millisecond, 250 * time.Millisecond, 30 * time.Second
	check := checktest.Leaks(t)
	t.Run("checks", func(t *testing.T) {
		silent := checktest.FullBacklog(t)
		servers := make([]*moody, 8)
		for i := range servers {
			servers[i] = newMoody(t)
		}
		var jobs []run.Job
		add := func(key string, c healthcheck.Checker) {
			jobs = append(jobs, run.Job{Key: key, Checker: c, Interval: interval, Timeout: timeout, Warmup: interval})
		}
		for i := range 400 {
			add(fmt.Sprintf("%d/%d", i%len(servers), i), get(t, servers[i%len(servers)].addr))
		}
		for i := range 100 {
			add(fmt.Sprintf("silent/%d", i), tcp(t, silent))
		}
		s := start(t, run.Options{Seed: 1}, jobs)
		for round := range 6 {
			mood := int32(well)
			if round%2 == 1 {
				mood = []int32{mutes, halves, resets}[round/2]
			}
			for _, m := range servers {
				m.mood.Store(mood)
			}
			time.Sleep(interval + timeout)
			right := map[string]bool{} // checks that have seen it
			wrong := func() (w string) {
				for key, st := range s.Snapshot() {
					up := mood == well && key[0] != 's'
					switch {
					case right[key]:
					case st.Healthy == up && st.Known && st.Alarm == "" && st.Age <= 3*(interval+timeout):
						right[key] = true
					default:
						w = fmt.Sprintf("check %s: want healthy %v: %+v", key, up, st)
					}
				}
				return w
			}
			// A busy machine takes its time, and alarms say so meanwhile; of so many checks there is always one that was
			// late a moment ago.
			deadline := time.Now().Add(slack)
			for w := wrong(); w != ""; w = wrong() {
				if time.Now().After(deadline) {
					t.Fatalf("round %d, %d of %d checks have seen it; %s", round, len(right), len(jobs), w)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	check()
}

// nothing is the cheapest check.
type nothing struct{}

func (nothing) Check(context.Context) healthcheck.Result {
	return healthcheck.Result{OK: true, Latency: 1}
}

// BenchmarkScheduler gives the cost of one attempt without the check itself,
// with 10,000 jobs on the heap.
func BenchmarkScheduler(b *testing.B) {
	var jobs []run.Job
	for i := range 10000 {
		jobs = append(jobs, run.Job{Key: fmt.Sprint(i), Checker: nothing{}, Interval: time.Millisecond, Timeout: time.Second, Warmup: time.Millisecond})
	}
	s := run.New(run.Options{Seed: 1})
	if err := s.Configure(jobs, nil); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	b.ReportAllocs()
	b.ResetTimer()
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	for s.Stats().Started < uint64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	cancel()
	running.Wait()
	b.ReportMetric(b.Elapsed().Seconds()/float64(s.Stats().Started)*1e9, "ns/attempt")
}
