package notify

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// reader is the program that reads a pipe, and its goroutine.
type reader struct {
	stop context.CancelFunc // no more starts
	kill context.CancelFunc
	done chan struct{}
}

// startReader starts the program that reads the pipe, if there is one, and again
// whenever it ends.
func (p *pipe) startReader() *reader {
	c := p.cfg.Script
	if len(c.Argv) == 0 {
		return nil
	}
	c.Argv = append(slices.Clone(c.Argv), p.cfg.Path)
	going, stop := context.WithCancel(context.Background())
	alive, kill := context.WithCancel(context.Background())
	r := &reader{stop: stop, kill: kill, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for going.Err() == nil {
			out := c.run(alive, 0)
			if going.Err() != nil {
				return
			}
			p.log.Warn("the reader of a notify FIFO has ended; it is started again", zap.String("fifo", p.cfg.Path),
				zap.String("command", strings.Join(c.Argv, " ")), zap.String("exit", out.String()), zap.String("output", out.Output))
			select {
			case <-going.Done():
			case <-time.After(fifoRetry):
			}
		}
	}()
	return r
}

// readerWait is how long a reader may take to end by itself after the last line.
const readerWait = 500 * time.Millisecond

// end lets the reader come to its end, then kills it.
func (r *reader) end() {
	if r == nil {
		return
	}
	r.stop()
	defer r.kill()
	select {
	case <-r.done:
		return
	case <-time.After(readerWait):
	}
	r.kill()
	<-r.done
}
