package misccheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vipd/healthcheck"
)

// ends is a program that ends at once.
func ends(out Outcome) Program {
	return func(context.Context, time.Duration) Outcome { return out }
}

// exits is the outcome of a program that ends with a status.
func exits(status int, output string) Outcome {
	out := Outcome{Exit: status, Output: output}
	if status != 0 {
		out.Err = fmt.Errorf("exit status %d", status)
	}
	return out
}

func newChecker(t *testing.T, cfg Config) *Checker {
	t.Helper()
	if cfg.Argv == nil {
		cfg.Argv = []string{"/bin/probe", "x"}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Places == nil {
		cfg.Places = NewPlaces(4)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStatus: what each exit status means, with misc_dynamic and without.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		out     Outcome
		ok      bool
		dynamic bool // ok with misc_dynamic
		weight  healthcheck.Weighting
		detail  string
	}{
		{exits(0, ""), true, true, healthcheck.Weighting{}, "/bin/probe: exit status 0"},
		{exits(1, "no\rreply"), false, false, healthcheck.Weighting{}, "exit status 1: no.reply"},
		{exits(2, ""), false, true, healthcheck.Weighting{Set: true}, "exit status 2"},
		{exits(10, ""), false, true, healthcheck.Weighting{Set: true, N: 8}, "exit status 10"},
		{exits(255, ""), false, true, healthcheck.Weighting{Set: true, N: 253}, "exit status 255"},
		{Outcome{Exit: -1, Err: errors.New("signal: killed")}, false, false, healthcheck.Weighting{}, "signal: killed"},
		{Outcome{Exit: 0, TimedOut: true, Err: errors.New("timeout after 1s")}, false, false, healthcheck.Weighting{}, "timeout after 1s"},
		{Outcome{Exit: 7, TimedOut: true, Err: errors.New("timeout after 1s")}, false, false, healthcheck.Weighting{}, "timeout after 1s"},
	} {
		for _, dynamic := range []bool{false, true} {
			r := newChecker(t, Config{Dynamic: dynamic, Run: ends(tt.out)}).Check(t.Context())
			want, weight := tt.ok, healthcheck.Weighting{}
			if dynamic {
				want, weight = tt.dynamic, tt.weight
			}
			if r.OK != want || r.Weighting != weight || r.LocalFault || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("%+v, dynamic %v: %+v, want OK %v, %+v, %q", tt.out, dynamic, r, want, weight, tt.detail)
			}
		}
	}
}

func TestLocalFault(t *testing.T) {
	r := newChecker(t, Config{Run: ends(Outcome{Exit: -1, Local: true, Err: errors.New("starting: too many processes")})}).Check(t.Context())
	if r.OK || !r.LocalFault || !strings.Contains(r.Detail, "too many processes") {
		t.Errorf("%+v, want a local fault", r)
	}
}

// TestO41HangingPrograms: of 50 programs that hang never more than the places run
// at once; each has its whole time before it is ended and counts as failed, and
// one that has no place at all is this machine's fault.
func TestO41HangingPrograms(t *testing.T) {
	const places, timeout = 5, 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		hangs := func(ctx context.Context, limit time.Duration) Outcome {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			timer := time.NewTimer(limit)
			defer timer.Stop()
			select {
			case <-timer.C:
				return Outcome{Exit: -1, TimedOut: true, Err: fmt.Errorf("timeout after %v", limit)}
			case <-ctx.Done():
				return Outcome{Exit: -1, Err: ctx.Err()}
			}
		}
		shared := NewPlaces(places)
		results := make([]healthcheck.Result, 50)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*timeout+timeout/2)
				defer cancel()
				results[i] = newChecker(t, Config{Timeout: timeout, Places: shared, Run: hangs}).Check(ctx)
			})
		}
		all.Wait()
		failed, local, cut := 0, 0, 0
		for _, r := range results {
			switch {
			case r.OK:
				t.Errorf("passed: %+v", r)
			case r.LocalFault && strings.Contains(r.Detail, "had only 1.5s of its 3s"):
				cut++
			case r.LocalFault && strings.Contains(r.Detail, "5 run already"):
				local++
			case strings.Contains(r.Detail, "timeout after 3s") && r.Latency == timeout:
				failed++
			default:
				t.Errorf("%+v", r)
			}
		}
		if most != places || failed != 5*places || cut != places || local != 50-6*places {
			t.Errorf("%d at once, %d failed, %d cut short, %d without a place", most, failed, cut, local)
		}
	})
}

// TestCancelled: a check that is not wanted any more frees its place and says nothing.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := NewPlaces(1)
	r := newChecker(t, Config{Places: p, Run: ends(exits(0, ""))}).Check(ctx)
	if r.OK || r.LocalFault || p.used != 0 {
		t.Errorf("%+v, %d places taken", r, p.used)
	}
	if r := newChecker(t, Config{Places: p, Run: ends(exits(0, ""))}).Check(t.Context()); !r.OK || p.used != 0 {
		t.Errorf("the twin with time: %+v, %d places taken", r, p.used)
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{Argv: []string{"x"}, Timeout: 1, Run: ends(Outcome{}), Places: NewPlaces(1)}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no program": func(c *Config) { c.Argv = nil }, "no time": func(c *Config) { c.Timeout = 0 },
		"no means": func(c *Config) { c.Run = nil }, "no places": func(c *Config) { c.Places = nil },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []Config{
		{Argv: []string{"a b"}}, {Argv: []string{"a", "b"}}, {Argv: []string{"a"}}, {Argv: []string{"a"}, User: "u"},
		{Argv: []string{"a"}, Dynamic: true}, {Argv: []string{"a"}, Timeout: 1},
	} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
}

// TestPlacesLimit: more places are given at once, fewer as programs end.
func TestPlacesLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(0)
		if p.limit != 1 {
			t.Fatalf("%d places", p.limit)
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if err := p.take(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		count := func(used, waiting int) {
			t.Helper()
			if p.used != used || len(p.waiting) != waiting {
				t.Errorf("%d used, %d waiting; want %d, %d", p.used, len(p.waiting), used, waiting)
			}
		}
		count(1, 5)
		p.Limit(4)
		count(4, 2)
		p.Limit(2)
		p.leave()
		p.leave()
		count(2, 2)
		p.leave()
		count(2, 1)
		p.leave()
		p.leave()
		count(1, 0)
		all.Wait()
	})
}
