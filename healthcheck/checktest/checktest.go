// Package checktest holds what every kind of check must pass, and what the
// tests of checks need: servers that misbehave, network namespaces, leak
// checks.
package checktest

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vipd/healthcheck"
)

const (
	deadline = 60 * time.Millisecond // of the attempts
	slack    = time.Second           // what a check may take beyond the end of its context on a busy machine
)

// Conformance proves that a kind of check keeps the contract of
// healthcheck.Checker against servers that hang or break off in every phase:
// it returns when its context ends (by deadline, by cancel, before the start),
// says why in one line, blames the server and not this machine, and leaves no
// goroutine and no descriptor. Newchecker gives a checker for the server at
// addr. It must not run in parallel with other tests: descriptors are counted
// for the whole process.
func Conformance(t *testing.T, newChecker func(addr netip.AddrPort) healthcheck.Checker) {
	t.Helper()
	run(t, nil, "", newChecker)
}

// ConformanceAfter is Conformance with servers that say something good first.
func ConformanceAfter(t *testing.T, greeting string, newChecker func(addr netip.AddrPort) healthcheck.Checker) {
	t.Helper()
	run(t, nil, greeting, newChecker)
}

// ConformanceTLS is Conformance for a check that speaks TLS: the servers
// misbehave after a good handshake.
func ConformanceTLS(t *testing.T, newChecker func(addr netip.AddrPort) healthcheck.Checker) {
	t.Helper()
	run(t, TLSConfig(t, "localhost"), "", newChecker)
}

func run(t *testing.T, secure *tls.Config, greeting string, newChecker func(addr netip.AddrPort) healthcheck.Checker) {
	endpoints := map[string]func(t *testing.T) netip.AddrPort{"SYN ignored": FullBacklog, "refused": Refused}
	for name, behave := range misbehaviours {
		endpoints[name] = func(t *testing.T) netip.AddrPort { return Serve(t, secure, say(greeting, behave)) }
	}
	for _, name := range slices.Sorted(maps.Keys(endpoints)) {
		t.Run(name, func(t *testing.T) {
			checker := newChecker(endpoints[name](t))
			for _, end := range []string{"deadline", "cancel", "over"} {
				t.Run(end, func(t *testing.T) { conform(t, end, checker) })
			}
		})
	}
}

// contextThat gives a context that ends in the named way.
func contextThat(t *testing.T, end string) (context.Context, context.CancelFunc) {
	if end == "deadline" {
		return context.WithTimeout(t.Context(), deadline)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if end == "over" {
		cancel()
		return ctx, cancel
	}
	timer := time.AfterFunc(deadline/2, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

func conform(t *testing.T, end string, checker healthcheck.Checker) {
	check := Leaks(t)
	for range 2 {
		ctx, cancel := contextThat(t, end)
		start := time.Now()
		r := checker.Check(ctx)
		took := time.Since(start)
		cancel()
		switch {
		case took > deadline+slack:
			t.Errorf("returned after %v", took)
		case r.Detail == "" || strings.ContainsAny(r.Detail, "\r\n"):
			t.Errorf("the detail must be one line: %q", r.Detail)
		case r.LocalFault:
			t.Errorf("blames this machine: %+v", r)
		case end == "over" && r.OK:
			t.Errorf("passed although its context had ended: %+v", r)
		case r.Latency < 0 || r.Latency > took:
			t.Errorf("latency %v of an attempt that took %v", r.Latency, took)
		}
	}
	check()
}

// Attempt makes one attempt, which may take as long as limit.
func Attempt(t testing.TB, c healthcheck.Checker, limit time.Duration) healthcheck.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return c.Check(ctx)
}

// CleanAttempt is Attempt, which must leave nothing and say why in one line.
func CleanAttempt(t *testing.T, c healthcheck.Checker, limit time.Duration) healthcheck.Result {
	t.Helper()
	leaks := Leaks(t)
	r := Attempt(t, c, limit)
	leaks()
	if r.Detail == "" || strings.ContainsAny(r.Detail, "\r\n") {
		t.Errorf("the detail must be one line: %q", r.Detail)
	}
	return r
}

// Leaks notes the goroutines and sockets of the process and gives the function
// that fails the test when there are more of them. It waits up to 2 s for the
// test's own servers to notice that their clients have gone.
func Leaks(t *testing.T) (check func()) {
	t.Helper()
	goroutines := goleak.IgnoreCurrent()
	before := Sockets(t)
	return func() {
		t.Helper()
		if err := goleak.Find(goroutines); err != nil {
			t.Error(err)
		}
		limit := time.Now().Add(2 * time.Second)
		for Sockets(t) > before {
			if time.Now().After(limit) {
				t.Errorf("sockets: %d before, %d after", before, Sockets(t))
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// Sockets counts the open sockets of this process.
func Sockets(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", fd.Name()))
		if err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}
