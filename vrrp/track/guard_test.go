package track

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestFaultInOneTracker: a panic on the way of a result ends neither the process nor
// the tracker, and is logged.
func TestFaultInOneTracker(t *testing.T) {
	dir := t.TempDir()
	var scripts, files atomic.Int32
	faulty := func(n *atomic.Int32) {
		if n.Add(1) == 1 {
			panic("a fault")
		}
	}
	s := New(func(string, bool) { faulty(&scripts) }, zap.NewNop())
	running(t, s.Run)
	put(t, filepath.Join(dir, "state"), "0\n")
	s.Configure([]Config{{Name: "chk", Argv: []string{"/bin/sh", "-c", "exit $(cat " + filepath.Join(dir, "state") + ")"}, Interval: 20 * time.Millisecond, Rise: 1, Fall: 1}})
	f := NewFiles(func(string, int) { faulty(&files) }, zap.NewNop())
	running(t, f.Run)
	put(t, filepath.Join(dir, "number"), "1\n")
	f.Configure([]FileConfig{{Name: "num", Path: filepath.Join(dir, "number")}})
	until(t, "both met their fault", func() bool { return scripts.Load() == 1 && files.Load() == 1 })
	time.Sleep(50 * time.Millisecond)
	put(t, filepath.Join(dir, "state"), "1\n")
	put(t, filepath.Join(dir, "number"), "2\n")
	until(t, "both go on", func() bool { return scripts.Load() >= 2 && files.Load() >= 2 })
}
