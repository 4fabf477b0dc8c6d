package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/garp"
)

const (
	// chunk is after how many frames in a row other goroutines get a turn.
	chunk = 32
	// logEvery is the least time between two log lines about one instance.
	logEvery = 30 * time.Second
)

// run is the loop of Run.
func (e *Engine) run(ctx context.Context) error {
	s := sender{engine: e, builder: garp.NewBuilder(), logged: map[string]logged{}}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for row := 1; ctx.Err() == nil; row++ {
		now := time.Now()
		e.apply(now)
		if s.sendOne(now) {
			if row%chunk == 0 {
				runtime.Gosched()
			}
			continue
		}
		wait := time.Hour
		if at, ok := e.deadline(); ok {
			wait = at.Sub(now)
		}
		timer.Reset(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// apply does what the mailbox says, in order.
func (e *Engine) apply(now time.Time) {
	e.inbox.Lock()
	commands := e.inbox.commands
	e.inbox.commands = nil
	e.inbox.Unlock()
	if len(commands) == 0 {
		return
	}
	e.state.Lock()
	defer e.state.Unlock()
	for _, c := range commands {
		c(e.state.planner, now)
	}
}

func (e *Engine) deadline() (time.Time, bool) {
	e.state.Lock()
	defer e.state.Unlock()
	return e.state.planner.Deadline()
}

// sender belongs to the goroutine of Run.
type sender struct {
	engine  *Engine
	builder *garp.Builder
	logged  map[string]logged
}

// logged remembers the last line about an instance.
type logged struct {
	at     time.Time
	reason string
	frames int // dropped since
}

// sendOne sends the next frame and reports whether there was one. The lock is
// held across the send, which does not block.
func (s *sender) sendOne(now time.Time) bool {
	s.engine.state.Lock()
	p := s.engine.state.planner
	f, ok := p.Next(now)
	if ok {
		s.send(now, p, f)
	}
	drops := p.Drops()
	s.engine.state.Unlock()
	for _, d := range drops {
		s.report(now, d)
	}
	return ok
}

func (s *sender) send(now time.Time, p *garp.Planner, f garp.Frame) {
	frame, err := s.builder.Frame(f)
	if err == nil {
		err = s.engine.port.Send(f.Index, frame)
	}
	switch {
	case err == nil:
		p.Sent(now, f)
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN):
		p.Retry(now, f, fmt.Sprintf("send queue of interface %q stays full; set garp_interval", f.Outbound))
	default:
		p.Drop(f, fmt.Sprintf("interface %q: %v", f.Outbound, err))
	}
}

// report logs frames that were given up: at once for a new reason, then at
// most every logEvery, with the number of frames since.
func (s *sender) report(now time.Time, d garp.Drop) {
	last := s.logged[d.Instance]
	last.frames += d.Frames
	if last.reason == d.Reason && now.Sub(last.at) < logEvery {
		s.logged[d.Instance] = last
		return
	}
	s.engine.log.Warn("virtual address not announced; it is tried again when the link changes and at each refresh",
		zap.String("instance", d.Instance), zap.Stringer("address", d.Address),
		zap.String("reason", d.Reason), zap.Int("frames", last.frames))
	s.logged[d.Instance] = logged{at: now, reason: d.Reason}
}
