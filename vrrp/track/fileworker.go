package track

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/vrrp/track/process"
)

// fileWorker is the goroutine of one file: one on a file system that hangs holds
// no other one up.
type fileWorker struct {
	cfg    FileConfig
	cancel context.CancelFunc
	done   chan struct{}
}

// start gives a file its goroutine. One whose place changed keeps its value until
// the new place was looked at.
func (f *Files) start(ctx context.Context, c FileConfig) *fileWorker {
	f.mu.Lock()
	x := f.files[c.Name]
	first := x == nil
	if first {
		x = &file{poke: make(chan struct{}, 1)}
		f.files[c.Name] = x
	}
	moved := !first && x.cfg.Path != c.Path
	x.cfg, x.asked = c, true
	x.status.Name, x.status.Path = c.Name, c.Path
	f.mu.Unlock()
	wctx, cancel := context.WithCancel(ctx)
	w := &fileWorker{cfg: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if c.Init && (first || moved) {
			f.initialise(c)
		}
		f.guarded(wctx, x, c)
	}()
	return w
}

// guarded is loop, and again after a fault.
func (f *Files) guarded(ctx context.Context, x *file, c FileConfig) {
	for {
		err := process.Guard(func() { f.loop(ctx, x, c) })
		if err == nil {
			return
		}
		f.log.Error("a track file met a fault in vipd; it is read again", zap.String("check", c.Name), zap.NamedError("err", err))
		if !pause(ctx, time.Second) {
			return
		}
	}
}

// initialise writes the first value.
func (f *Files) initialise(c FileConfig) {
	if _, err := os.Stat(c.Path); err == nil && !c.Overwrite {
		return
	}
	if err := os.WriteFile(c.Path, []byte(strconv.Itoa(c.InitValue)+"\n"), 0o644); err != nil {
		f.log.Error("writing the first value of a track file failed; write it by hand", zap.String("check", c.Name), zap.NamedError("err", err))
	}
}

// loop looks at a file when it is woken, until ctx ends.
func (f *Files) loop(ctx context.Context, x *file, c FileConfig) {
	var emptySince time.Time
	for {
		value, problem, err := f.ask(ctx, x, c.Path)
		if errors.Is(err, errEmpty) && f.known(x) {
			if emptySince.IsZero() {
				emptySince = time.Now()
			}
			if time.Since(emptySince) < fileEmpty {
				if !pause(ctx, fileSettle) {
					return
				}
				continue
			}
		} else {
			emptySince = time.Time{}
		}
		f.found(ctx, x, value, problem)
		select {
		case <-ctx.Done():
			return
		case <-x.poke:
		}
		if !pause(ctx, fileSettle) {
			return
		}
	}
}

// ask reads a file. Its directory is watched when it has answered.
func (f *Files) ask(ctx context.Context, x *file, path string) (value int, problem string, err error) {
	f.mu.Lock()
	unwatched := !x.status.Watched
	x.asked = x.asked || ctx.Err() == nil
	f.mu.Unlock()
	value, problem, err = f.read(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() == nil {
		x.asked = false
		if unwatched {
			select {
			case f.news <- struct{}{}:
			default:
			}
		}
	}
	return value, problem, err
}

// pause waits; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (f *Files) known(x *file) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return x.status.Known
}

// errEmpty says that a file has no content.
var errEmpty = errors.New("the file is empty")

// readNumber reads the number at the start of a file. Whatever else it holds
// counts as 0, and problem says why.
func readNumber(path string) (value int, problem string, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, "the file does not exist", err
		}
		return 0, err.Error(), err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return 0, "this is no regular file", nil
	}
	b, err := io.ReadAll(io.LimitReader(file, fileMax))
	if err != nil {
		return 0, err.Error(), err
	}
	words := strings.Fields(string(b))
	if len(words) == 0 {
		return 0, "the file is empty", errEmpty
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Sprintf("%q is no whole number", words[0]), nil
	}
	return int(min(max(n, -valueMax), valueMax)), "", nil
}
