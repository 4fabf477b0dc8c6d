// Package mail sends mail of changes of state to operators, over a relay that
// speaks SMTP (RFC 5321).
//
// Nobody waits for it: a mail goes into a bounded queue, and one worker hands
// them over one after the other, over one connection at a time. What the relay
// does not take for now is tried again, less and less often, until it is too old;
// what it never will take is dropped. Either way it is counted and logged.
package mail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// QueueMax is how many mails wait; more push out the oldest.
	QueueMax = 1000
	// KeepFor is how long after the event a mail is still tried.
	KeepFor = time.Hour
	// CloseWait is how long Close lets the last mails be sent.
	CloseWait = time.Second

	firstWait = time.Second // after the first failure
	lastWait  = time.Minute // at most

	noConfig = "it is no longer configured"
)

// Config says to whom and how mail is sent; without To or Server none is.
type Config struct {
	To      []string
	From    string
	Server  string // address or name
	Port    int
	Helo    string
	Timeout time.Duration // of connecting, and of each answer; > 0
}

func (c *Config) on() bool { return len(c.To) > 0 && c.Server != "" }

// Status tells about the queue.
type Status struct {
	Waiting  int
	Sent     uint64 // mails that the relay took for somebody
	Failed   uint64 // attempts that have to be made again
	Rejected uint64 // refusals for good: of a mail, or of one who should get it
	Dropped  uint64 // mails pushed out, too old, or cut off by the stop
	Problem  string // why mail waits; "": it does not
}

// Queue is the mails that wait and their worker. All methods may be called from
// any goroutine.
type Queue struct {
	dial dialer
	log  *zap.Logger
	ctx  context.Context // ends when sending must end
	kill context.CancelFunc
	wake chan struct{} // capacity 1: look again at once
	work sync.WaitGroup

	mu      sync.Mutex // guards all following fields
	cfg     Config
	letters []*letter // the oldest first
	current *letter   // being sent; not in letters
	busy    bool      // the worker runs
	closed  bool
	status  Status
	down    time.Duration // how long to wait after the next failure to connect
	retry   time.Time     // no connection before; so the order stays over an outage
}

// New makes an empty queue. It must be closed.
func New(log *zap.Logger) *Queue {
	ctx, kill := context.WithCancel(context.Background())
	return &Queue{dial: &net.Dialer{}, log: log, ctx: ctx, kill: kill, wake: make(chan struct{}, 1), down: firstWait}
}

// Configure sets to whom and how mail is sent (start and reload). Mails that wait
// go the new way to whom they were written; without any way they are dropped.
func (q *Queue) Configure(c Config) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.To = slices.Clone(c.To)
	q.cfg, q.down, q.retry = c, firstWait, time.Time{}
	if !c.on() {
		q.drop(len(q.letters), noConfig)
		q.status.Problem = ""
	}
	for _, l := range q.letters {
		l.next, l.wait = time.Time{}, 0
	}
	poke(q.wake)
}

// Send queues a mail. It never blocks; without a configuration and after Close it
// does nothing.
func (q *Queue) Send(m Message) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || !q.cfg.on() {
		return
	}
	if len(q.letters) >= QueueMax {
		q.drop(1, "too many wait")
	}
	_, domain, _ := strings.Cut(q.cfg.From, "@")
	q.letters = append(q.letters, &letter{Message: m, at: now, id: rand.Text() + "@" + domain, all: q.cfg.To, to: slices.Clone(q.cfg.To)})
	if !q.busy {
		q.busy = true
		q.work.Go(q.run)
	}
	poke(q.wake)
}

// drop takes the n oldest out. Called with mu held.
func (q *Queue) drop(n int, why string) {
	if n == 0 {
		return
	}
	last := q.letters[n-1].Subject
	q.letters = slices.Delete(q.letters, 0, n)
	before := q.status.Dropped
	q.status.Dropped += uint64(n)
	if before == 0 || before/100 != q.status.Dropped/100 || n > 1 { // the first, then one line for a hundred
		q.log.Error("mail dropped: "+why, zap.String("subject", last), zap.Uint64("dropped", q.status.Dropped))
	}
}

// run sends until nothing waits.
func (q *Queue) run() {
	for {
		cfg, at, ok := q.due()
		if !ok {
			return
		}
		if wait := time.Until(at); wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-q.ctx.Done():
			case <-q.wake:
			case <-t.C:
			}
			t.Stop()
			continue
		}
		q.session(cfg)
	}
}

// due tells when the next mail may be tried; false: the worker must end.
func (q *Queue) due() (cfg Config, at time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := 0
	for old < len(q.letters) && time.Since(q.letters[old].at) > KeepFor {
		old++
	}
	q.drop(old, fmt.Sprintf("the relay has not taken it for %v", KeepFor))
	switch {
	case q.ctx.Err() != nil:
		q.drop(len(q.letters), "vipd stops")
	case !q.cfg.on():
		q.drop(len(q.letters), noConfig)
	}
	if len(q.letters) == 0 {
		q.busy, q.status.Problem = false, ""
		return cfg, at, false
	}
	at = q.letters[0].next
	for _, l := range q.letters {
		if l.next.Before(at) {
			at = l.next
		}
	}
	if q.retry.After(at) {
		at = q.retry
	}
	return q.cfg, at, true
}

// session sends what is due over one connection.
func (q *Queue) session(cfg Config) {
	s, err := open(q.ctx, q.dial, cfg)
	if err != nil {
		q.unreachable(err)
		return
	}
	for range sessionMax {
		l := q.take()
		if l == nil {
			break
		}
		sent := l.sent
		bad, err := q.attempt(s, l)
		for _, b := range bad {
			q.rejected(l, b)
		}
		if q.put(l, l.sent && !sent, err); err != nil && !errors.As(err, new(*refusal)) {
			s.drop()
			q.unreachable(err)
			return
		}
	}
	s.close()
}

// attempt is one delivery, of which a fault in vipd ends only this connection.
func (q *Queue) attempt(s *session, l *letter) (bad []error, err error) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("sending mail panicked: this is a bug in vipd, please report it", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.deliver(l)
}

// take returns the oldest mail that is due, nil when none is.
func (q *Queue) take() *letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	i := slices.IndexFunc(q.letters, func(l *letter) bool { return !l.next.After(now) })
	if i < 0 || q.ctx.Err() != nil {
		return nil
	}
	q.current = q.letters[i]
	q.letters = slices.Delete(q.letters, i, i+1)
	return q.current
}

// put takes a mail back after an attempt that left somebody without it, in its old place.
// first says that it was the first to reach anybody.
func (q *Queue) put(l *letter, first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.current = nil
	if first {
		q.status.Sent++
	}
	if first && q.status.Problem != "" {
		q.status.Problem = ""
		q.log.Info("mail is sent again", zap.Int("waiting", len(q.letters)))
	}
	q.down = firstWait // it speaks to us
	var r *refusal
	if len(l.to) == 0 {
		return
	}
	if errors.As(err, &r) {
		l.wait = min(max(2*l.wait, firstWait), lastWait)
		l.next = time.Now().Add(l.wait)
		q.trouble(err)
	}
	i, _ := slices.BinarySearchFunc(q.letters, l.at, func(x *letter, at time.Time) int { return x.at.Compare(at) })
	q.letters = slices.Insert(q.letters, i, l)
}

// unreachable makes all mails wait after a connection that could not be made, or broke.
func (q *Queue) unreachable(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil || !q.cfg.on() {
		return
	}
	q.retry = time.Now().Add(q.down)
	q.down = min(2*q.down, lastWait)
	q.trouble(err)
	if q.closed {
		q.kill() // that was the last time
	}
}

// trouble notes why mail waits. Called with mu held.
func (q *Queue) trouble(err error) {
	q.status.Failed++
	if q.status.Problem == "" {
		q.log.Warn("mail waits, it is tried again", zap.Int("waiting", len(q.letters)), zap.NamedError("err", err))
	}
	q.status.Problem = err.Error()
}

// rejected notes that somebody will never get a mail.
func (q *Queue) rejected(l *letter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status.Rejected++
	if n := q.status.Rejected; n&(n-1) == 0 { // 1, 2, 4, 8 …
		q.log.Error("mail refused by the relay: look at notification_email and notification_email_from, and at what the relay allows",
			zap.String("subject", l.Subject), zap.Uint64("refused", n), zap.NamedError("err", err))
	}
}

// Close takes no more mail, lets what waits be sent for at most CloseWait, then
// drops it. It returns when all is over, with an error when mail was cut off.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	before := q.status.Dropped
	q.retry = time.Time{} // a last time
	for _, l := range q.letters {
		l.next = time.Time{}
	}
	poke(q.wake)
	q.mu.Unlock()
	t := time.AfterFunc(CloseWait, q.kill)
	q.work.Wait()
	if t.Stop() {
		q.kill()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.status.Dropped - before; n > 0 {
		return fmt.Errorf("stopping: %d mails were not sent", n)
	}
	return nil
}

// Status tells about the queue.
func (q *Queue) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.status
	s.Waiting = len(q.letters)
	if q.current != nil {
		s.Waiting++
	}
	return s
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
