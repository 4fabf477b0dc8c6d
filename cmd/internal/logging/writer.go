package logging

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queueLines = 4096            // lines that may wait for a slow reader
	closeWait  = 2 * time.Second // how long the last lines may take
)

// writer hands lines to a goroutine that writes them. A log that nobody reads
// (a full pipe, a stopped journal) must not make an advert late: lines that find
// the queue full are dropped, and counted in the log as soon as it moves again.
type writer struct {
	out     io.Writer
	lines   chan []byte
	dropped atomic.Uint64
	quit    chan struct{}
	once    sync.Once
	done    chan struct{}
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, lines: make(chan []byte, queueLines), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write implements zapcore.WriteSyncer; it never blocks and never fails.
func (w *writer) Write(p []byte) (int, error) {
	select {
	case w.lines <- bytes.Clone(p):
	default:
		w.dropped.Add(1)
	}
	return len(p), nil
}

// Sync implements zapcore.WriteSyncer; lines are written as soon as may be anyway.
func (w *writer) Sync() error { return nil }

func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case line := <-w.lines:
			w.put(line)
		case <-w.quit:
			for {
				select {
				case line := <-w.lines:
					w.put(line)
				default:
					return
				}
			}
		}
	}
}

// put writes a line. There is nobody to tell of an error: the log is the place.
func (w *writer) put(line []byte) {
	if n := w.dropped.Swap(0); n > 0 {
		_, _ = fmt.Fprintf(w.out, "vipd: %d log lines were dropped: the reader of the log is too slow\n", n)
	}
	_, _ = w.out.Write(line)
}

// close waits until all lines are written, at most closeWait.
func (w *writer) close() {
	w.once.Do(func() { close(w.quit) })
	select {
	case <-w.done:
	case <-time.After(closeWait):
	}
}
