package daemon

import (
	"slices"
	"testing"
	"time"

	"vipd/cmd/internal/status"
	"vipd/healthcheck/run"
)

// TestCheckTimes: checks that begin late are counted in status, and an alarm there as
// long as the scheduler says so.
func TestCheckTimes(t *testing.T) {
	for _, alarm := range []string{"", "health checks begin late"} {
		s := status.Status{Counters: map[string]int64{}}
		checkTimes(&s, run.Stats{Started: 100, Late: 7, MaxLate: 2500 * time.Millisecond, Alarm: alarm})
		if c := s.Counters; c["checks_started"] != 100 || c["checks_late"] != 7 || c["checks_worst_late_ms"] != 2500 {
			t.Errorf("counters %v", c)
		}
		if shown := slices.Contains(s.Alarms, alarm); shown != (alarm != "") || len(s.Alarms) > 1 {
			t.Errorf("with the alarm %q: %q", alarm, s.Alarms)
		}
	}
}
