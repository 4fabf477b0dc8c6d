package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestGarbage: a small daemon collects garbage as any program does, but for the time of reading
// its configuration; one with much in use stays thrifty.
func TestGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	thrifty()
	if got := percent(); got != thriftily {
		t.Errorf("%d %% while reading", got)
	}
	much := make([]byte, 2*little)
	runtime.GC()
	settled()
	if got := percent(); got != thriftily {
		t.Errorf("%d %% with much in use", got)
	}
	runtime.KeepAlive(much)
	much = nil
	runtime.GC()
	settled()
	if got := percent(); got != 100 {
		t.Errorf("%d %% with little in use", got)
	}
}
