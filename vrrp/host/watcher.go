package host

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	watchBuffer = 4 << 20               // bytes of events the kernel may hold while a snapshot is read
	watchPause  = 5 * time.Millisecond  // least time from one reading to the next
	watchRetry  = 50 * time.Millisecond // pause after an error
	drainLimit  = 100_000               // events taken at once: a storm must not keep us from reading
	// watchShare bounds the share of time spent reading: the pause is at least this many times the last reading, but
	// no longer than watchLongest. A reading that took long because the machine is busy must not keep the next change
	// from being seen.
	watchShare   = 4
	watchLongest = 50 * time.Millisecond
)

// Watcher publishes the state of interfaces and addresses of its network namespace, whenever it changes.
type Watcher struct {
	kernel  Kernel
	publish func(State)
	log     *zap.Logger
	buffer  int

	last    State
	pause   time.Duration
	readAt  time.Time
	failing bool

	reads, published, resubscribed atomic.Uint64
}

// WatcherCounters count since the start.
type WatcherCounters struct {
	Reads        uint64 // of the whole state
	Published    uint64 // snapshots that differed from the one before, or came after a change of our own
	Resubscribed uint64 // losses of events, each followed by a complete reading
}

// NewWatcher returns a watcher that reads from kernel and calls publish, on its own goroutine, with the first
// snapshot, with each one that differs from the one before, and with the first after a change of vipd's own. publish must not block. log may be nil.
func NewWatcher(kernel Kernel, publish func(State), log *zap.Logger) *Watcher {
	if log == nil {
		log = zap.NewNop()
	}
	return &Watcher{kernel: kernel, publish: publish, log: log, buffer: watchBuffer}
}

// Counters returns the counters; it may be called at any time.
func (w *Watcher) Counters() WatcherCounters {
	return WatcherCounters{w.reads.Load(), w.published.Load(), w.resubscribed.Load()}
}

// Run watches until ctx ends, then returns nil. It must run in the network namespace of kernel. When events are lost
// it subscribes again and reads everything again.
func (w *Watcher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		err := w.session(ctx)
		if ctx.Err() != nil {
			break
		}
		w.resubscribed.Add(1)
		w.log.Warn("events about interfaces and addresses were lost; reading everything again", zap.NamedError("err", err))
		if time.Since(began) < watchRetry {
			sleep(ctx, watchRetry)
		}
	}
	return nil
}

// session watches through one subscription until it fails or ctx ends.
func (w *Watcher) session(ctx context.Context) error {
	sub, err := subscribe(w.buffer)
	if err != nil {
		return err
	}
	defer sub.file.Close()
	own := &nudge{wake: sub.interrupt}
	if k, ok := w.kernel.(writer); ok {
		sub.relevant = k.relevant
		k.onWrite(own.wrote)
		defer own.clear()
		defer k.onWrite(nil)
		if err := sub.ignore(k.sender()); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, sub.interrupt)
	defer stop()
	sub.mark(w.kernel)
	for ctx.Err() == nil {
		own.clear() // what was written is in the reading
		if w.read() {
			if err := sub.wait(); err != nil {
				return err
			}
			if err := w.anticipate(sub); err != nil {
				return err
			}
		}
		// The first event after a quiet time is acted on at once; the rest of a burst shares readings.
		if !sleep(ctx, time.Until(w.readAt.Add(w.pause))) {
			return nil
		}
		sub.mark(w.kernel)
		if err := sub.drain(); err != nil {
			return err
		}
	}
	return nil
}

// read reads the kernel and publishes what is new. It reports whether the reading is complete; if not it must be
// repeated without waiting for an event.
func (w *Watcher) read() bool {
	w.reads.Add(1)
	began := time.Now()
	s, err := w.kernel.State()
	w.readAt = time.Now()
	w.pause = max(watchPause, min(watchShare*w.readAt.Sub(began), watchLongest))
	if err != nil {
		if !w.failing {
			w.log.Warn("cannot read interfaces and addresses; trying again", zap.NamedError("err", err))
		}
		w.failing, w.pause = true, watchRetry
		return false
	}
	w.failing = false
	// After a change of our own the manager knows another state than the last one published: an address that we
	// put back and somebody deleted again must be told although it was missing before.
	if w.last.Links == nil || !s.Equal(w.last) || s.writes != w.last.writes {
		w.published.Add(1)
		w.last = s
		w.publish(s)
	}
	return !s.At.Before(s.Start()) && !errors.Is(s.fibErr, errInterrupted)
}

// sleep waits for d and reports whether ctx is still good.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
