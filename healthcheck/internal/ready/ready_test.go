package ready

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// pipe returns the end to write to of a pipe, and the other.
func pipe(t *testing.T, full bool) (w, r int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); full && err == nil; {
		_, err = unix.Write(p[1], make([]byte, 1<<16))
	}
	return p[1], p[0]
}

// wait waits for at most limit.
func wait(t *testing.T, s *Set, limit time.Duration) []Event {
	t.Helper()
	now := time.Now()
	events, err := s.Wait(now, now.Add(limit))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(events)
}

// TestEvents: what is writable or in trouble is told once, and what is closed never.
func TestEvents(t *testing.T) {
	s := newSet(t)
	ready, r1 := pipe(t, false)
	lost, r2 := pipe(t, true)
	silent, r3 := pipe(t, true)
	closed, r4 := pipe(t, false)
	const large = uint64(1)<<40 + 3
	unix.Close(r2)
	for fd, id := range map[int]uint64{ready: 1, lost: 2, silent: large, closed: 4} {
		if err := s.Add(fd, id); err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(closed)
	events := wait(t, s, time.Second)
	slices.SortFunc(events, func(a, b Event) int { return int(a.ID) - int(b.ID) })
	if want := []Event{{1, healthcheck.Ready}, {2, healthcheck.Trouble}}; !slices.Equal(events, want) {
		t.Errorf("got %v, want %v", events, want)
	}
	if events = wait(t, s, 20*time.Millisecond); len(events) > 0 {
		t.Errorf("told again: %v", events)
	}
	unix.Close(r3)
	if events = wait(t, s, time.Second); !slices.Equal(events, []Event{{large, healthcheck.Trouble}}) {
		t.Errorf("got %v of the one that was silent", events)
	}
	for _, fd := range []int{ready, r1, lost, silent, r4} {
		unix.Close(fd)
	}
}

// TestTime: Wait ends when its time has come, not before, and at once when it has passed.
func TestTime(t *testing.T) {
	s := newSet(t)
	for _, limit := range []time.Duration{30 * time.Millisecond, 0, -time.Second, 20 * time.Millisecond, 20 * time.Millisecond} {
		began := time.Now()
		if events := wait(t, s, limit); len(events) > 0 {
			t.Errorf("got %v", events)
		}
		if took := time.Since(began); took < limit || took > limit+2*time.Second {
			t.Errorf("waited %v, want %v", took, limit)
		}
	}
}

// TestWake: before and during Wait it is heard; Close is, too, and Wake after it does nothing.
func TestWake(t *testing.T) {
	s := newSet(t)
	s.Wake()
	began := time.Now()
	wait(t, s, 20*time.Second)
	for range 3 {
		timer := time.AfterFunc(10*time.Millisecond, s.Wake)
		wait(t, s, 20*time.Second)
		timer.Stop()
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to be woken", took)
	}
	timer := time.AfterFunc(10*time.Millisecond, func() { _ = s.Close(); s.Wake() })
	defer timer.Stop()
	now := time.Now()
	if _, err := s.Wait(now, now.Add(20*time.Second)); err == nil {
		t.Error("Wait goes on after Close")
	}
}
