package socket

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func newAlarm(t testing.TB) *Alarm {
	t.Helper()
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func set(t testing.TB, a *Alarm, at time.Time) {
	t.Helper()
	if err := a.Set(at); err != nil {
		t.Fatal(err)
	}
}

// tick waits for one tick, and says so if none comes.
func tick(t testing.TB, a *Alarm, within time.Duration) bool {
	t.Helper()
	select {
	case <-a.C():
		return true
	case <-time.After(within):
		return false
	}
}

func TestAlarmFires(t *testing.T) {
	a := newAlarm(t)
	for _, d := range []time.Duration{-time.Hour, 0, time.Nanosecond, 3 * time.Millisecond, 20 * time.Millisecond} {
		deadline := time.Now().Add(d)
		set(t, a, deadline)
		if !tick(t, a, 5*time.Second) {
			t.Fatalf("set %v ahead: no tick", d)
		}
		if early := time.Until(deadline); early > 0 {
			t.Errorf("set %v ahead: tick %v early", d, early)
		}
	}
	if tick(t, a, 30*time.Millisecond) {
		t.Error("a second tick of one deadline")
	}
}

func TestAlarmSetAgain(t *testing.T) {
	a := newAlarm(t)
	set(t, a, time.Now().Add(20*time.Millisecond))
	set(t, a, time.Now().Add(time.Hour))
	if tick(t, a, 60*time.Millisecond) {
		t.Error("the replaced deadline fired")
	}
	set(t, a, time.Now())
	time.Sleep(20 * time.Millisecond)
	set(t, a, time.Time{})
	if tick(t, a, 30*time.Millisecond) {
		t.Error("an untaken tick outlived Set")
	}
	set(t, a, time.Now())
	if !tick(t, a, 5*time.Second) {
		t.Error("no tick after the alarm was off")
	}
}

func TestAlarmClose(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	set(t, a, time.Now())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if tick(t, a, 10*time.Millisecond) {
		t.Error("a tick after Close")
	}
	if err := a.Set(time.Now()); err == nil {
		t.Error("Set after Close succeeds")
	}
}

func TestAlarmSetDoesNotAllocate(t *testing.T) {
	a := newAlarm(t)
	at := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(100, func() { set(t, a, at) }); n != 0 {
		t.Errorf("%v allocations a call of Set", n)
	}
}

// BenchmarkLateness compares the alarm with the standard library's timer: how
// long after a deadline, some milliseconds ahead, the waiting goroutine runs.
func BenchmarkLateness(b *testing.B) {
	measure := func(b *testing.B, wait func(deadline time.Time)) {
		rng := rand.New(rand.NewPCG(1, 2))
		var late []time.Duration
		for b.Loop() {
			deadline := time.Now().Add(2*time.Millisecond + time.Duration(rng.IntN(3_000_000)))
			wait(deadline)
			late = append(late, time.Since(deadline))
		}
		slices.Sort(late)
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		b.ReportMetric(us(late[len(late)/2]), "p50-us")
		b.ReportMetric(us(late[len(late)*99/100]), "p99-us")
		b.ReportMetric(us(late[len(late)-1]), "max-us")
	}
	b.Run("alarm", func(b *testing.B) {
		a := newAlarm(b)
		measure(b, func(deadline time.Time) {
			set(b, a, deadline)
			<-a.C()
		})
	})
	b.Run("timer", func(b *testing.B) {
		timer := time.NewTimer(time.Hour)
		measure(b, func(deadline time.Time) {
			timer.Reset(time.Until(deadline))
			<-timer.C
		})
	})
}
