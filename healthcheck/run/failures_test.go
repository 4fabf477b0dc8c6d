package run

import (
	"maps"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestLogFailures: with LogFailures every attempt that fails is logged, without it
// only the one that decides; what this machine is at fault for is no failure.
func TestLogFailures(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	inBubble(t, Options{Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		quiet, told, local := bad(), bad(), bad()
		local.result.LocalFault = true
		a, b, c := job("quiet", quiet), job("told", told), job("local", local)
		for _, j := range []*Job{&a, &b, &c} {
			j.Retry, j.DelayBeforeRetry, j.LogFailures = 2, 100*time.Millisecond, j.Key != "quiet"
		}
		configure(t, s, a, b, c)
		pass(2500 * time.Millisecond) // two retries, then two more checks of a server that is down
		count := map[string]int{}
		for _, line := range logged.All() {
			if strings.HasPrefix(line.Message, "check failed") {
				count[line.ContextMap()["check"].(string)+" "+line.Message]++
			}
		}
		want := map[string]int{"quiet check failed: down": 1, "told check failed: down": 1, "told check failed": 4}
		if !maps.Equal(count, want) {
			t.Errorf("logged %v, want %v", count, want)
		}
	})
}
