package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/track/process"
)

const (
	// FIFOQueue is how many lines wait for a pipe that is full; more push out the
	// oldest.
	FIFOQueue = 10000
	// fifoRetry is how long after a failure a pipe is opened again, and a reader
	// that ended is started again.
	fifoRetry = time.Second
	// fifoMode is the mode of a pipe that is made here.
	fifoMode = 0o600
)

// Class says which events a line is about.
type Class uint8

// The classes. A FIFO may take several: VRRP|LVS.
const (
	VRRP Class = 1 << iota
	LVS
)

// FIFOConfig is one named pipe.
type FIFOConfig struct {
	Path    string
	Classes Class
	Owner   *process.User // whose it is when it is made; nil: of the user of this process
	Script  Command       // reads it; gets the path as its last argument
}

// FIFOStatus tells about one named pipe.
type FIFOStatus struct {
	Path    string
	Written uint64 // lines
	Waiting int    // lines
	Dropped uint64 // lines pushed out of the full queue
	Problem string // why nothing can be written now; "": nothing
}

// FIFOs writes lines to named pipes, each in the order of the calls. All methods
// may be called from any goroutine.
type FIFOs struct {
	log *zap.Logger

	mu    sync.Mutex // guards all following fields
	pipes map[string]*pipe
}

// pipe is one named pipe with its goroutine.
type pipe struct {
	log  *zap.Logger
	cfg  FIFOConfig
	wake chan struct{} // capacity 1: there are lines, or it is to end
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex // guards all following fields
	status FIFOStatus
	lines  []string
	line   string // the one that is being written
	busy   bool   // there is one
	ending bool   // write what waits, then end
	made   bool   // the pipe was made here, and goes with us
}

// NewFIFOs makes a writer without pipes. It must be closed.
func NewFIFOs(log *zap.Logger) *FIFOs { return &FIFOs{log: log, pipes: map[string]*pipe{}} }

// Configure makes the given pipes those that are written to (start and reload).
// One that is as before keeps its lines. Only one call may be at work. It does not wait for anything but those
// that go, at most CloseWait.
func (f *FIFOs) Configure(wanted []FIFOConfig) {
	f.mu.Lock()
	var gone []*pipe
	for path, p := range f.pipes {
		i := slices.IndexFunc(wanted, func(c FIFOConfig) bool { return c.Path == path })
		if i < 0 || !reflect.DeepEqual(wanted[i], p.cfg) {
			gone = append(gone, p)
			delete(f.pipes, path)
		}
	}
	f.mu.Unlock()
	if err := end(gone); err != nil {
		f.log.Warn("events were cut off", zap.NamedError("err", err))
	}
	for _, c := range wanted {
		f.mu.Lock()
		known := f.pipes[c.Path] != nil
		f.mu.Unlock()
		if known {
			continue
		}
		p := f.start(c) // it may wait for a file system, which Write must not
		f.mu.Lock()
		f.pipes[c.Path] = p
		f.mu.Unlock()
	}
}

// Write adds a line, without its end, to every pipe of the class. It never blocks.
func (f *FIFOs) Write(class Class, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pipes {
		if p.cfg.Classes&class != 0 {
			p.add(line)
		}
	}
}

// Status tells about all pipes, sorted by path.
func (f *FIFOs) Status() []FIFOStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]FIFOStatus, 0, len(f.pipes))
	for _, p := range f.pipes {
		p.mu.Lock()
		s := p.status
		s.Waiting = p.waiting()
		p.mu.Unlock()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b FIFOStatus) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Close writes what waits, for at most CloseWait, and ends the readers. The error
// tells what could not be written.
func (f *FIFOs) Close() error {
	f.mu.Lock()
	var all []*pipe
	for path, p := range f.pipes {
		all = append(all, p)
		delete(f.pipes, path)
	}
	f.mu.Unlock()
	return end(all)
}

// end ends pipes together.
func end(pipes []*pipe) error {
	var errs []error
	for _, p := range pipes {
		p.mu.Lock()
		p.ending = true
		p.mu.Unlock()
		p.poke()
	}
	timer := time.NewTimer(CloseWait)
	defer timer.Stop()
	for _, p := range pipes {
		select {
		case <-p.done:
		case <-timer.C:
			timer.Reset(0)
			p.stop()
			<-p.done
		}
		if n := p.left(); n > 0 {
			errs = append(errs, fmt.Errorf("%s: %d lines were not written, nobody reads it", p.cfg.Path, n))
		}
	}
	return errors.Join(errs...)
}

// start gives a pipe its goroutine. The pipe itself is made here already: whoever
// waits for it finds it from now on.
func (f *FIFOs) start(c FIFOConfig) *pipe {
	ctx, stop := context.WithCancel(context.Background())
	p := &pipe{log: f.log, cfg: c, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), status: FIFOStatus{Path: c.Path}}
	file, err := p.open()
	p.problem(err)
	go func() {
		defer close(p.done)
		p.guarded(ctx, file)
	}()
	return p
}

// guarded is run, and again after a fault: what waits in the queue is still written.
func (p *pipe) guarded(ctx context.Context, file *os.File) {
	for {
		err := process.Guard(func() { p.run(ctx, file) })
		if err == nil {
			return
		}
		p.log.Error("writing a notify FIFO met a fault in vipd; it goes on", zap.String("fifo", p.cfg.Path), zap.NamedError("err", err))
		file = nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(fifoRetry):
		}
	}
}

func (p *pipe) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// add queues a line.
func (p *pipe) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) >= FIFOQueue {
		p.lines = slices.Delete(p.lines, 0, 1)
		p.status.Dropped++
		if n := p.status.Dropped; n&(n-1) == 0 { // 1, 2, 4, 8 …
			p.log.Error("the oldest line for a notify FIFO was dropped: nobody reads it, or not fast enough; look at its reader",
				zap.String("fifo", p.cfg.Path), zap.Uint64("dropped", n))
		}
	}
	p.lines = append(p.lines, line)
	p.poke()
}

// run writes lines until ctx ends, or the pipe is to end and nothing waits.
func (p *pipe) run(ctx context.Context, file *os.File) {
	reader := p.startReader()
	defer func() {
		if file != nil {
			file.Close() // the reader sees the end
		}
		p.remove()
		reader.end()
	}()
	for {
		line, ok, ending := p.first()
		if !ok {
			if ending {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			}
			continue
		}
		if file != nil && !p.same(file) {
			file.Close()
			file = nil
		}
		var err error
		if file == nil {
			if file, err = p.open(); err != nil {
				file = nil
			}
		}
		if file != nil {
			err = write(ctx, file, line)
		}
		if ctx.Err() != nil {
			return
		}
		p.problem(err)
		if err == nil {
			p.written()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(fifoRetry):
		}
	}
}

// first is the line that is next. It leaves the queue, whose oldest line may be
// dropped while this one is being written.
func (p *pipe) first() (line string, ok, ending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.busy && len(p.lines) > 0 {
		p.line, p.busy = p.lines[0], true
		p.lines = slices.Delete(p.lines, 0, 1)
	}
	return p.line, p.busy, p.ending
}

// written makes place for the next line.
func (p *pipe) written() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line, p.busy = "", false
	p.status.Written++
}

// waiting is how many lines are not written yet. Called with mu held.
func (p *pipe) waiting() int {
	n := len(p.lines)
	if p.busy {
		n++
	}
	return n
}

func (p *pipe) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting()
}

// problem notes why nothing can be written, and logs what is new.
func (p *pipe) problem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	before := p.status.Problem
	p.status.Problem = text
	p.mu.Unlock()
	switch {
	case text == before:
	case text != "":
		p.log.Error("events for a notify FIFO wait", zap.String("fifo", p.cfg.Path), zap.NamedError("err", err))
	default:
		p.log.Info("the notify FIFO is written to again", zap.String("fifo", p.cfg.Path))
	}
}
