package run

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestLate: checks that wait for a place longer than their interval, again and again,
// are an alarm that the log tells once; it ends when they begin in time.
func TestLate(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	lines := func(text string) int {
		n := 0
		for _, e := range logs.All() {
			if strings.Contains(e.Message, text) {
				n++
			}
		}
		return n
	}
	inBubble(t, Options{Concurrency: 1, Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		long := func(key string) Job {
			f := good()
			f.takes = 2500 * time.Millisecond
			j := job(key, f)
			j.Timeout = 6 * time.Second
			return j
		}
		a, b := long("a"), long("b")
		configure(t, s, a, b)
		pass(11 * time.Second) // begun at 0, 2.5, 5, 7.5, 10 s: the second in time, the others too late
		if st := s.Stats(); st.Alarm != "" || st.Late != 4 || st.MaxLate != 2500*time.Millisecond {
			t.Errorf("after 11 s: %+v", st)
		}
		pass(10 * time.Second)
		want := "health checks begin late, 2 of 2 by more than their delay_loop 3 times in a row (worst 2.5s since the start): " +
			"servers that answer late hold the places there are (1 in all; raise LimitNOFILE of the vipd service)"
		if st := s.Stats(); st.Alarm != want {
			t.Errorf("after 21 s: %+v", st)
		}
		configure(t, s, a)
		pass(15 * time.Second)
		late := s.Stats().Late
		pass(10 * time.Second)
		if st := s.Stats(); st.Alarm != "" || st.Late != late || st.MaxLate != 2500*time.Millisecond {
			t.Errorf("one alone: %+v, before: %d late", st, late)
		}
	})
	if begun, ended := lines("begin late"), lines("in time again"); begun != 1 || ended != 1 {
		t.Errorf("the log told it %d times, and %d times that it ended, want once each:\n%v", begun, ended, logs.All())
	}
}

// TestLateIsCounted: a check that begins later than a tenth of its interval is counted,
// and no alarm as long as it begins within the interval.
func TestLateIsCounted(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		late  uint64
	}{{90 * time.Millisecond, 0}, {400 * time.Millisecond, 10}} {
		inBubble(t, Options{Concurrency: 1}, func(t *testing.T, s *Scheduler) {
			first, second := good(), good()
			first.takes, second.takes = c.takes, c.takes
			configure(t, s, job("first", first), job("second", second))
			pass(9900 * time.Millisecond) // of the two that are due together one waits
			if st := s.Stats(); st.Started != 20 || st.Late != c.late || st.MaxLate != c.takes || st.Alarm != "" {
				t.Errorf("checks that take %v: %+v", c.takes, st)
			}
		})
	}
}

// TestLateOnce: a machine that stood still leaves checks behind that begin much too
// late once; that is no alarm.
func TestLateOnce(t *testing.T) {
	inBubble(t, Options{Concurrency: 1}, func(t *testing.T, s *Scheduler) {
		blocker, f := hangs(), good()
		b := job("blocker", blocker)
		b.Timeout = time.Minute
		configure(t, s, b)
		pass(100 * time.Millisecond)
		configure(t, s, b, job("x", f))
		pass(10 * time.Second)
		configure(t, s, job("x", f))
		pass(10 * time.Second)
		if st := s.Stats(); st.Late != 1 || st.MaxLate < 9*time.Second || st.Alarm != "" {
			t.Errorf("%+v", st)
		}
	})
}
