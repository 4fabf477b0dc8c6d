// Package track watches what moves the priority of VRRP instances: it runs their
// check scripts (Scripts), reads files that hold a number (Files), and counts
// processes (Processes), and tells when a result changes.
//
// Each script has one goroutine, so that a script that hangs delays no other
// one. A script never runs twice at once: a run that is due while the last one
// is not over is skipped, and the schedule keeps its phase. A run that takes
// longer than its timeout is a failure at that moment, is ended with its whole
// process group, and the next one runs on schedule.
package track

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/track/process"
)

// Config is one script.
type Config struct {
	Name     string
	Argv     []string
	Interval time.Duration // between the starts of two runs
	Timeout  time.Duration // of one run; 0: Interval
	Rise     int           // successes in a row that make a failed script good, at least 1
	Fall     int           // failures in a row that make a good script failed, at least 1
	InitFail bool          // failed until Rise successes, instead of unknown until the first result
	User     *process.User // who runs it; nil: the user of this process
	UserErr  string        // why User could not be found: every run is a failure; "": it was
	Secure   bool          // do not run what others than root and the user can change
}

func (c Config) equal(o Config) bool {
	return c.Name == o.Name && slices.Equal(c.Argv, o.Argv) && c.Interval == o.Interval &&
		c.Timeout == o.Timeout && c.Rise == o.Rise && c.Fall == o.Fall && c.InitFail == o.InitFail &&
		reflect.DeepEqual(c.User, o.User) && c.UserErr == o.UserErr && c.Secure == o.Secure
}

// Status tells about one script.
type Status struct {
	Name     string
	Known    bool // there is a verdict
	OK       bool // the verdict
	Rise     int  // successes in a row, counted up to Config.Rise
	Fall     int  // failures in a row, counted up to Config.Fall
	Running  bool
	Runs     uint64        // runs that ended
	Failures uint64        // results that were failures
	Timeouts uint64        // of these, timeouts
	Skipped  uint64        // runs left out because the last one was not over
	LastRun  time.Time     // start of the last run that ended; zero: none
	Duration time.Duration // of that run
	LastExit string        // how it ended: "exit status 0", "timeout after 3s", why it could not start
	Output   string        // its last line of output
}

// Scripts runs scripts. All methods may be called from any goroutine.
type Scripts struct {
	result func(name string, ok bool)
	log    *zap.Logger
	wake   chan struct{} // capacity 1

	telling sync.Mutex // held while result is called: the newest verdict must come last

	mu      sync.Mutex // guards all following fields
	wanted  []Config
	scripts map[string]*script
}

// New makes a runner without scripts. result is called when a script has its
// first verdict and when the verdict changes, in order for each script, and again
// after each Configure: who was told may have forgotten. It must not block.
func New(result func(name string, ok bool), log *zap.Logger) *Scripts {
	return &Scripts{result: result, log: log, wake: make(chan struct{}, 1), scripts: map[string]*script{}}
}

// Configure sets the wanted scripts (start and reload). Scripts that are as
// before keep state and schedule; one that changed keeps its verdict until
// new results change it, and runs at once; one that is new runs at once.
func (s *Scripts) Configure(scripts []Config) {
	s.mu.Lock()
	s.wanted = slices.Clone(scripts)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status tells about all scripts, sorted by name.
func (s *Scripts) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.scripts))
	for _, sc := range s.scripts {
		st := sc.status
		st.Name, st.Known, st.OK = sc.cfg.Name, sc.verdict.known, sc.verdict.ok
		st.Rise, st.Fall = sc.verdict.rise, sc.verdict.fall
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Run runs the scripts until ctx ends. Then it kills those that run and
// returns nil when they are gone.
func (s *Scripts) Run(ctx context.Context) error {
	workers := map[string]*worker{}
	defer func() {
		for _, w := range workers {
			w.cancel()
		}
		for _, w := range workers {
			<-w.done
		}
	}()
	for {
		s.adopt(ctx, workers)
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// worker is the goroutine of one script.
type worker struct {
	cfg    Config
	cancel context.CancelFunc
	done   chan struct{}
}

// adopt makes the running workers those that are wanted.
func (s *Scripts) adopt(ctx context.Context, workers map[string]*worker) {
	s.mu.Lock()
	wanted := s.wanted
	s.mu.Unlock()
	keep := map[string]bool{}
	for _, c := range wanted {
		keep[c.Name] = true
	}
	var ended []*worker
	for _, c := range wanted {
		if w := workers[c.Name]; w != nil && !w.cfg.equal(c) {
			ended = append(ended, w)
		}
	}
	for name, w := range workers {
		if !keep[name] {
			ended = append(ended, w)
		}
	}
	for _, w := range ended {
		w.cancel()
	}
	for _, w := range ended {
		<-w.done
		delete(workers, w.cfg.Name)
	}
	s.forget(keep)
	for _, c := range wanted {
		if workers[c.Name] == nil {
			workers[c.Name] = s.start(ctx, c)
		}
		s.tell(c.Name)
	}
}

// tell hands over the verdict of a script, if it has one.
func (s *Scripts) tell(name string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	var v verdict
	if sc := s.scripts[name]; sc != nil {
		v = sc.verdict
	}
	s.mu.Unlock()
	if v.known {
		s.result(name, v.ok)
	}
}

// forget drops the state of scripts that are gone.
func (s *Scripts) forget(keep map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.scripts {
		if !keep[name] {
			delete(s.scripts, name)
		}
	}
}

// start gives a script its goroutine.
func (s *Scripts) start(ctx context.Context, c Config) *worker {
	s.mu.Lock()
	sc := s.scripts[c.Name]
	fresh := sc == nil
	if fresh {
		sc = &script{owner: s}
		s.scripts[c.Name] = sc
	}
	sc.cfg = c
	if fresh && c.InitFail {
		sc.verdict = verdict{known: true}
	}
	s.mu.Unlock()
	wctx, cancel := context.WithCancel(ctx)
	w := &worker{cfg: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		sc.loop(wctx, c)
	}()
	return w
}

// script is the state of one script; its fields are guarded by owner.mu.
type script struct {
	owner   *Scripts
	cfg     Config
	verdict verdict
	status  Status // without name and verdict
}

// loop runs the script on its schedule until ctx ends.
func (sc *script) loop(ctx context.Context, c Config) {
	interval := max(c.Interval, time.Millisecond)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := process.Guard(func() { sc.run(ctx, c) }); err != nil {
			sc.owner.log.Error("a vrrp_script met a fault in vipd; it is run again", zap.String("check", c.Name), zap.NamedError("err", err))
		}
		passed := time.Since(due) / interval
		sc.update(func(st *Status) { st.Skipped += uint64(passed) })
		due = due.Add((passed + 1) * interval)
		timer.Reset(time.Until(due))
	}
}

func (sc *script) update(f func(*Status)) {
	sc.owner.mu.Lock()
	defer sc.owner.mu.Unlock()
	f(&sc.status)
}

// run runs the script once.
func (sc *script) run(ctx context.Context, c Config) {
	sc.update(func(st *Status) { st.Running = true })
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = max(c.Interval, time.Millisecond)
	}
	if c.UserErr != "" {
		out := process.Outcome{Started: time.Now(), Exit: -1, Err: errors.New(c.UserErr)}
		sc.update(func(st *Status) {
			st.Running = false
			st.Runs++
			st.LastRun, st.Duration, st.LastExit, st.Output = out.Started, 0, out.String(), ""
		})
		sc.judge(false, out, out.String())
		return
	}
	out := process.Run(ctx, process.Command{
		Argv: c.Argv, Env: process.Environment(), Timeout: timeout, User: c.User, Secure: c.Secure,
		Expired: func() {
			late := process.Outcome{TimedOut: true, Duration: timeout}
			sc.update(func(st *Status) {
				st.Timeouts++
				st.LastExit = "timeout after " + timeout.String()
			})
			sc.judge(false, late, "timeout after "+timeout.String())
		},
	})
	sc.update(func(st *Status) {
		st.Running = false
		if out.Stopped {
			return
		}
		st.Runs++
		st.LastRun, st.Duration, st.LastExit, st.Output = out.Started, out.Duration, out.String(), out.Output
	})
	if !out.Stopped && !out.TimedOut {
		sc.judge(out.OK(), out, out.String())
	}
}

// judge takes one result and tells of a new verdict.
func (sc *script) judge(ok bool, out process.Outcome, why string) {
	s := sc.owner
	s.mu.Lock()
	name := sc.cfg.Name
	if !ok {
		sc.status.Failures++
	}
	changed := sc.verdict.result(ok, sc.cfg.Rise, sc.cfg.Fall)
	s.mu.Unlock()
	if !changed {
		return
	}
	fields := []zap.Field{
		zap.String("check", name), zap.String("exit", why),
		zap.Duration("took", out.Duration), zap.String("output", out.Output),
	}
	if ok {
		s.log.Info("script is good", fields...)
	} else {
		s.log.Warn("script has failed", fields...)
	}
	s.tell(name)
}
