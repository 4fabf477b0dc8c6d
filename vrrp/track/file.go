package track

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// fileLook is how often files are read without an event: for those that
	// inotify cannot see (network file systems, targets of symbolic links, a
	// directory that comes later).
	fileLook = time.Second
	// fileSettle is how long after an event a file is read: writers truncate first.
	fileSettle = 5 * time.Millisecond
	// fileEmpty is how long an empty file keeps its last value: between the
	// truncation and the writing of "echo 5 > file" it says nothing.
	fileEmpty = 200 * time.Millisecond
	// fileLeave is how long a reader that is not wanted any more is waited for, all of them at the end.
	fileLeave = 200 * time.Millisecond
	// fileMax is how much of a file is read.
	fileMax = 64
	// valueMax bounds what a file says, as in keepalived.
	valueMax = 1<<31 - 1
)

// FileConfig is one file that holds a number.
type FileConfig struct {
	Name string
	Path string
	// Init writes InitValue to the file when it is first watched and does not exist
	// yet; with Overwrite even when it does.
	Init, Overwrite bool
	InitValue       int
}

// FileStatus tells about one file.
type FileStatus struct {
	Name, Path string
	Value      int
	Known      bool      // it was looked at
	Problem    string    // why Value is 0 although the file does not say so; "": nothing
	Changed    time.Time // when Value last changed; zero: never
	Watched    bool      // the kernel tells of changes; else it is read once a second
}

// Files reads files. All methods may be called from any goroutine.
type Files struct {
	result func(name string, value int)
	read   func(path string) (value int, problem string, err error)
	log    *zap.Logger
	wake   chan struct{} // capacity 1
	news   chan struct{} // capacity 1: a file that is not watched was read

	telling sync.Mutex // held while result is called: the newest value must come last

	mu     sync.Mutex // guards all following fields
	wanted []FileConfig
	files  map[string]*file
}

// file is the state of one file; its fields are guarded by Files.mu.
type file struct {
	cfg    FileConfig
	status FileStatus
	asked  bool          // it is being read, and its file system may hang
	poke   chan struct{} // capacity 1: look at it
}

// NewFiles makes a reader without files. result is called with the first value of
// a file and whenever the value changes, in order for each file, and again after
// each Configure: who was told may have forgotten. It must not block.
func NewFiles(result func(name string, value int), log *zap.Logger) *Files {
	return &Files{result: result, read: readNumber, log: log, wake: make(chan struct{}, 1), news: make(chan struct{}, 1), files: map[string]*file{}}
}

// Configure sets the wanted files (start and reload). Files that are as before
// keep their value until they change.
func (f *Files) Configure(files []FileConfig) {
	f.mu.Lock()
	f.wanted = slices.Clone(files)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Status tells about all files, sorted by name.
func (f *Files) Status() []FileStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]FileStatus, 0, len(f.files))
	for _, x := range f.files {
		out = append(out, x.status)
	}
	slices.SortFunc(out, func(a, b FileStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Run reads the files until ctx ends. Where the kernel has no inotify left to
// give, files are read once a second, and status says so.
func (f *Files) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		f.log.Warn("changes of track files are noticed once a second only; raise fs.inotify.max_user_instances", zap.NamedError("err", err))
		watcher = nil
	} else {
		defer watcher.Close()
	}
	workers := map[string]*fileWorker{}
	defer func() { leave(slices.Collect(maps.Values(workers))...) }()
	look := time.NewTicker(fileLook)
	defer look.Stop()
	for {
		f.adopt(ctx, watcher, workers)
		if len(workers) > 0 {
			look.Reset(fileLook)
		} else {
			look.Stop()
		}
		again, configured := f.events(ctx, watcher, look.C)
		if !again {
			return nil
		}
		if configured {
			f.mu.Lock()
			files := slices.Collect(maps.Values(f.files))
			f.mu.Unlock()
			for _, x := range files {
				f.tell(x)
			}
		}
	}
}

// events wakes the files that the kernel tells of until the configuration changes
// or it is time to see to the watches; again is false when ctx has ended.
func (f *Files) events(ctx context.Context, watcher *fsnotify.Watcher, look <-chan time.Time) (again, configured bool) {
	var events chan fsnotify.Event
	var failures chan error
	if watcher != nil {
		events, failures = watcher.Events, watcher.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-f.wake:
			return true, true
		case <-f.news:
			return true, false
		case <-look:
			f.poke("")
			return true, false
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			f.poke(e.Name)
		case err, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			f.log.Debug("watching track files failed; all are read again", zap.NamedError("err", err))
			f.poke("")
		}
	}
}

// poke has the files with a path looked at; "" is all.
func (f *Files) poke(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.files {
		if path != "" && filepath.Clean(x.cfg.Path) != filepath.Clean(path) {
			continue
		}
		select {
		case x.poke <- struct{}{}:
		default:
		}
	}
}

// adopt makes the running workers those that are wanted, and watches their
// directories: a file that is replaced or comes later is seen there only.
func (f *Files) adopt(ctx context.Context, watcher *fsnotify.Watcher, workers map[string]*fileWorker) {
	f.mu.Lock()
	wanted := slices.Clone(f.wanted)
	f.mu.Unlock()
	keep := map[string]bool{}
	for _, c := range wanted {
		keep[c.Name] = true
	}
	for name, w := range workers {
		i := slices.IndexFunc(wanted, func(c FileConfig) bool { return c.Name == name })
		if i < 0 || wanted[i] != w.cfg {
			leave(w)
			delete(workers, name)
		}
	}
	f.mu.Lock()
	for name := range f.files {
		if !keep[name] {
			delete(f.files, name)
		}
	}
	f.mu.Unlock()
	for _, c := range wanted {
		if workers[c.Name] == nil {
			workers[c.Name] = f.start(ctx, c)
		}
	}
	f.watch(watcher, wanted)
}

// leave ends workers. One whose file system hangs is left to end when that answers, or with the process.
func leave(workers ...*fileWorker) {
	for _, w := range workers {
		w.cancel()
	}
	timer := time.NewTimer(fileLeave)
	defer timer.Stop()
	for _, w := range workers {
		select {
		case <-w.done:
		case <-timer.C:
			return
		}
	}
}

// hangs reports in which directories a file is being read: to ask for their watch might wait as long.
func (f *Files) hangs() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirs := map[string]bool{}
	for _, x := range f.files {
		if x.asked {
			dirs[filepath.Dir(x.cfg.Path)] = true
		}
	}
	return dirs
}

// watch has the kernel tell of the directories of the files, as far as they exist and answer.
func (f *Files) watch(watcher *fsnotify.Watcher, wanted []FileConfig) {
	watched := map[string]bool{}
	if watcher != nil {
		for _, dir := range watcher.WatchList() {
			watched[dir] = true
		}
		dirs, hangs := map[string]bool{}, f.hangs()
		for _, c := range wanted {
			dir := filepath.Dir(c.Path)
			dirs[dir] = true
			if !watched[dir] && !hangs[dir] && watcher.Add(dir) == nil {
				watched[dir] = true
				f.poke("") // it may have changed between the last look and now
			}
		}
		for dir := range watched {
			if !dirs[dir] {
				_ = watcher.Remove(dir) // gone with its directory
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.files {
		x.status.Watched = watched[filepath.Dir(x.cfg.Path)]
	}
}

// found takes what a file says; once ctx has ended somebody else reads it.
func (f *Files) found(ctx context.Context, x *file, value int, problem string) {
	f.mu.Lock()
	if ctx.Err() != nil {
		f.mu.Unlock()
		return
	}
	st := &x.status
	changed := !st.Known || st.Value != value
	problems := problem != st.Problem
	before := st.Value
	first := !st.Known
	if changed && !first {
		st.Changed = time.Now()
	}
	st.Known, st.Value, st.Problem = true, value, problem
	name, path := x.cfg.Name, x.cfg.Path
	f.mu.Unlock()
	switch {
	case problem != "" && problems:
		f.log.Warn("track file counts as 0: "+problem, zap.String("check", name), zap.String("file", path))
	case changed && !first:
		f.log.Info(fmt.Sprintf("track file %d -> %d", before, value), zap.String("check", name), zap.String("file", path))
	}
	if changed {
		f.tell(x)
	}
}

// tell hands over the value of a file, if it is known.
func (f *Files) tell(x *file) {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.mu.Lock()
	known, name, value := x.status.Known && f.files[x.cfg.Name] == x, x.cfg.Name, x.status.Value
	f.mu.Unlock()
	if known {
		f.result(name, value)
	}
}
