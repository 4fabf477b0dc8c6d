package track

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestFileThatHangs: one on a file system that does not answer holds up neither the others, nor a reload that takes it
// out or puts it elsewhere, nor the end; what it says when it answers after all is nobody's any more.
func TestFileThatHangs(t *testing.T) {
	dead, dir := t.TempDir(), t.TempDir()
	answer := make(chan struct{})
	var told values
	f := NewFiles(func(name string, value int) { told.take(name, value) }, zap.NewNop())
	f.read = func(path string) (int, string, error) {
		if strings.HasPrefix(path, dead) {
			<-answer
			return 99, "", nil
		}
		return readNumber(path)
	}
	file := func(name, dir string) FileConfig { return FileConfig{Name: name, Path: filepath.Join(dir, name)} }
	watched := func(name string) func() bool {
		return func() bool {
			for _, st := range f.Status() {
				if st.Name == name {
					return st.Watched
				}
			}
			return false
		}
	}
	put(t, filepath.Join(dir, "good"), "1")
	put(t, filepath.Join(dir, "moved"), "5")
	t.Cleanup(func() { close(answer) }) // after the end of Run
	running(t, f.Run)
	f.Configure([]FileConfig{file("good", dir), file("moved", dead), file("gone", dead), file("last", dead)})
	told.want(t, "good=1")
	until(t, "the good one is watched", watched("good"))
	if watched("last")() {
		t.Error("the directory of a file that hangs is watched: to ask for that might hang, too")
	}
	f.Configure([]FileConfig{file("good", dir), file("moved", dir), file("last", dead)})
	told.want(t, "good=1", "moved=5")
	until(t, "the one that moved is watched", watched("moved"))
	began := time.Now()
	put(t, filepath.Join(dir, "good"), "2")
	told.want(t, "good=1", "moved=5", "good=2")
	if took := time.Since(began); took > 800*time.Millisecond {
		t.Errorf("a change was noticed after %v: not by an event", took)
	}
	answer <- struct{}{}
	answer <- struct{}{}
	answer <- struct{}{}
	until(t, "the one that answers is watched", watched("last"))
	told.want(t, "good=1", "moved=5", "good=2", "last=99")
	time.Sleep(fileLook + fileSettle) // it is asked again, and does not answer
}
