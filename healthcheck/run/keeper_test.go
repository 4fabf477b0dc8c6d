package run

import (
	"testing"
	"time"

	"vipd/healthcheck"
)

// counting is a checker that is the same as others of its name.
type counting struct {
	*fake
	name string
}

// Same implements healthcheck.Keeper.
func (c counting) Same(other healthcheck.Checker) bool {
	o, ok := other.(counting)
	return ok && o.name == c.name
}

// A reload leaves a checker that is the same in its place, also in the middle of an attempt, and puts any other there.
func TestReloadKeepsTheChecker(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		slow := good()
		slow.takes = 400 * time.Millisecond
		first, second, other := counting{slow, "a"}, counting{good(), "a"}, counting{good(), "b"}
		configure(t, s, job("x", first))
		pass(200 * time.Millisecond)
		configure(t, s, job("x", second))
		pass(2 * time.Second)
		if len(first.times()) != 3 || len(second.times()) != 0 {
			t.Errorf("the first ran %d times, the one that is the same %d; want 3 and 0", len(first.times()), len(second.times()))
		}
		plain := good()
		configure(t, s, job("x", other))
		pass(time.Second)
		configure(t, s, job("x", plain))
		pass(time.Second)
		if len(first.times()) != 3 || len(other.times()) != 1 || len(plain.times()) != 1 {
			t.Errorf("after others took its place: %d, %d and %d attempts, want 3, 1 and 1", len(first.times()), len(other.times()), len(plain.times()))
		}
	})
}
