package track

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

// values remembers what was told, without repetitions.
type values struct {
	mu    sync.Mutex
	list  []string
	last  map[string]string
	again int
}

func (v *values) take(name string, value any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := fmt.Sprint(name, "=", value)
	if v.last[name] == text {
		v.again++
		return
	}
	if v.last == nil {
		v.last = map[string]string{}
	}
	v.last[name] = text
	v.list = append(v.list, text)
}

func (v *values) got() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

func (v *values) repeats() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.again
}

func (v *values) want(t *testing.T, list ...string) {
	t.Helper()
	until(t, fmt.Sprint("told ", list, ", not ", v.got()), func() bool { return len(v.got()) >= len(list) })
	if got := v.got(); !slices.Equal(got, list) {
		t.Fatalf("told %v, want %v", got, list)
	}
}

// running runs f until the test ends.
func running(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("Run does not end")
		}
	})
}

func newFiles(t *testing.T) (*Files, *values) {
	t.Helper()
	v := &values{}
	f := NewFiles(func(name string, value int) { v.take(name, value) }, zap.NewNop())
	running(t, f.Run)
	return f, v
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// One file through all that happens to it: missing, written, written in place,
// replaced by a rename, emptied, nonsense, removed; and values out of range.
func TestFileFollowsEveryWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weight")
	f, v := newFiles(t)
	f.Configure([]FileConfig{{Name: "w", Path: path}})
	v.want(t, "w=0")
	until(t, "the directory is watched", func() bool { return f.Status()[0].Watched })
	if st := f.Status()[0]; st.Problem != "the file does not exist" || !st.Known {
		t.Errorf("status %+v", st)
	}
	put(t, path, "5\n")
	v.want(t, "w=0", "w=5")
	put(t, path, " -12 # by hand\n")
	v.want(t, "w=0", "w=5", "w=-12")
	began := time.Now()
	put(t, path+".new", "7")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	v.want(t, "w=0", "w=5", "w=-12", "w=7")
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("a rename was noticed after %v: not by an event", took)
	}
	put(t, path, "nonsense")
	v.want(t, "w=0", "w=5", "w=-12", "w=7", "w=0")
	if st := f.Status()[0]; st.Problem != `"nonsense" is no whole number` {
		t.Errorf("status %+v", st)
	}
	put(t, path, "99999999999999999999")
	v.want(t, "w=0", "w=5", "w=-12", "w=7", "w=0", "w=2147483647")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	v.want(t, "w=0", "w=5", "w=-12", "w=7", "w=0", "w=2147483647", "w=0")
}

// A shell truncates before it writes: that moment is no value. A file that stays
// empty is 0.
func TestEmptyMomentIsNoValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weight")
	put(t, path, "-30")
	f, v := newFiles(t)
	f.Configure([]FileConfig{{Name: "w", Path: path}})
	v.want(t, "w=-30")
	long := false // on a busy machine a moment may be as long as fileEmpty
	for range 5 {
		began := time.Now()
		put(t, path, "")
		time.Sleep(30 * time.Millisecond)
		put(t, path, "-30")
		long = long || time.Since(began) > fileEmpty/2
		time.Sleep(4 * fileSettle) // so that it is seen, and the next moment is one of its own
	}
	time.Sleep(50 * time.Millisecond)
	if !long {
		v.want(t, "w=-30")
	}
	told := v.got()
	put(t, path, "")
	v.want(t, append(told, "w=0")...)
}

// A directory that comes later, and a link whose target changes elsewhere, are
// seen without an event.
func TestFileThatInotifyCannotSee(t *testing.T) {
	dir := t.TempDir()
	f, v := newFiles(t)
	target := filepath.Join(dir, "target")
	if err := os.Mkdir(filepath.Join(dir, "links"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, target, "1")
	if err := os.Symlink(target, filepath.Join(dir, "links", "l")); err != nil {
		t.Fatal(err)
	}
	f.Configure([]FileConfig{{Name: "l", Path: filepath.Join(dir, "links", "l")}})
	v.want(t, "l=1")
	put(t, target, "2")
	v.want(t, "l=1", "l=2")
	late := filepath.Join(dir, "late", "w")
	f.Configure([]FileConfig{{Name: "late", Path: late}})
	v.want(t, "l=1", "l=2", "late=0")
	if f.Status()[0].Watched {
		t.Error("a directory that does not exist is watched")
	}
	if err := os.Mkdir(filepath.Dir(late), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, late, "4")
	v.want(t, "l=1", "l=2", "late=0", "late=4")
	until(t, "the new directory is watched", func() bool { return f.Status()[0].Watched })
}

func TestInitFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("kept"), "3")
	put(t, at("over"), "3")
	f, v := newFiles(t)
	list := []FileConfig{
		{Name: "kept", Path: at("kept"), Init: true, InitValue: 8},
		{Name: "over", Path: at("over"), Init: true, InitValue: 8, Overwrite: true},
		{Name: "made", Path: at("made"), Init: true, InitValue: 9},
	}
	f.Configure(list)
	until(t, "three values", func() bool { return len(v.got()) == 3 })
	got := v.got()
	slices.Sort(got)
	if want := []string{"kept=3", "made=9", "over=8"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	if b, err := os.ReadFile(at("made")); err != nil || string(b) != "9\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	// A reload is no start: what the operator wrote meanwhile stays.
	put(t, at("over"), "1")
	until(t, "the new value", func() bool { return slices.Contains(v.got(), "over=1") })
	before := v.repeats()
	f.Configure(list)
	until(t, "all are told again", func() bool { return v.repeats() >= before+3 })
	if b, _ := os.ReadFile(at("over")); string(b) != "1" {
		t.Errorf("a reload wrote %q", b)
	}
}

func TestOddFiles(t *testing.T) {
	dir := t.TempDir()
	f, v := newFiles(t)
	f.Configure([]FileConfig{{Name: "dir", Path: dir}})
	v.want(t, "dir=0")
	if st := f.Status()[0]; st.Problem != "this is no regular file" {
		t.Errorf("status %+v", st)
	}
}
