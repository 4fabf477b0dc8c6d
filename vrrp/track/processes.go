package track

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// processPoll is how often /proc is read where the kernel does not tell of
	// processes.
	processPoll = 500 * time.Millisecond
	// processAudit is how often it is read where the kernel does.
	processAudit = 30 * time.Second
	// sourceRetry is how long after a refusal the kernel is asked again: that takes
	// up to connectorAnswer, in which nothing is counted.
	sourceRetry = 10 * time.Minute
	// sourceBroken is the same after a connection that worked.
	sourceBroken = 5 * time.Second
)

// Match says which of a process's arguments must be those of ProcessConfig.
type Match uint8

// The ways to match.
const (
	MatchName    Match = iota // the name alone (/proc/PID/comm)
	MatchExact                // the whole command line
	MatchPartial              // the command and its first arguments
	MatchInitial              // the same, and the last one may be longer
)

// ProcessConfig is one kind of process that is counted.
type ProcessConfig struct {
	Name           string
	Argv           []string // the command, then arguments; MatchName: the name of the process
	Match          Match
	Quorum         int // fewer are a failure
	QuorumMax      int // more are a failure; below 0: no bound
	ForkDelay      time.Duration
	TerminateDelay time.Duration
}

func (c ProcessConfig) equal(o ProcessConfig) bool { return reflect.DeepEqual(c, o) }

// good judges a number of processes.
func (c *ProcessConfig) good(n int) bool {
	return n >= c.Quorum && (c.QuorumMax < 0 || n <= c.QuorumMax)
}

// matches tells whether a process is one that is counted.
func (c *ProcessConfig) matches(p *proc) bool {
	if c.Match == MatchName {
		const commMax = 15 // the kernel keeps no more
		want := c.Argv[0]
		if len(want) > commMax {
			want = want[:commMax]
		}
		return p.comm == want
	}
	want, have := c.Argv, p.argv
	if len(have) < len(want) || c.Match == MatchExact && len(have) != len(want) {
		return false
	}
	last := len(want) - 1
	if !slices.Equal(want[:last], have[:last]) {
		return false
	}
	return want[last] == have[last] || c.Match == MatchInitial && strings.HasPrefix(have[last], want[last])
}

// ProcessStatus tells about one kind of process.
type ProcessStatus struct {
	Name    string
	Known   bool
	OK      bool
	Count   int // processes of the moment
	Changed time.Time
	Waiting string // "fork_delay", "terminate_delay": Count says otherwise, but not for long enough yet; "": nothing
	Source  string // where counts come from: "kernel events", or "polling /proc: " and why
}

// Processes counts processes. All methods may be called from any goroutine.
type Processes struct {
	result func(name string, ok bool)
	log    *zap.Logger
	wake   chan struct{} // capacity 1
	table  table
	first  string // path of the first network namespace
	aside  bool   // the kernel is not asked to tell

	mu     sync.Mutex // guards all following fields
	wanted []ProcessConfig
	source string
	states map[string]*counted
}

// counted is the state of one kind of process, guarded by Processes.mu.
type counted struct {
	cfg    ProcessConfig
	status ProcessStatus
	pids   map[int]bool
	due    time.Time // when a verdict that waits counts; zero: none waits
}

// NewProcesses makes a counter of nothing. result is called with the first verdict
// of each kind and when it changes, in order, and again after each Configure. It
// must not block.
func NewProcesses(result func(name string, ok bool), log *zap.Logger) *Processes {
	return &Processes{result: result, log: log, wake: make(chan struct{}, 1), states: map[string]*counted{}, table: procTable{"/proc"}, first: "/proc/1/ns/net"}
}

// First says where the first network namespace is, in which alone the kernel tells of
// processes. It must come before Run; without it that is the one of process 1.
func (p *Processes) First(path string) { p.first = path }

// Configure sets what is counted (start and reload). What is as before keeps its
// verdict.
func (p *Processes) Configure(wanted []ProcessConfig) {
	p.mu.Lock()
	p.wanted = slices.Clone(wanted)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Status tells about all kinds, sorted by name.
func (p *Processes) Status() []ProcessStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]ProcessStatus, 0, len(p.states))
	for _, s := range p.states {
		st := s.status
		st.Source, st.Count = p.source, len(s.pids)
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b ProcessStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Run counts until ctx ends. While something is to be counted it has the kernel
// tell of processes; where the kernel refuses it reads /proc twice a second.
func (p *Processes) Run(ctx context.Context) error {
	var events *connector
	defer func() {
		if events != nil {
			events.close()
		}
	}()
	scan := time.NewTimer(0)
	defer scan.Stop()
	wait := time.NewTimer(time.Hour)
	defer wait.Stop()
	var tried time.Time
	for {
		wanted := p.adopt()
		switch {
		case !wanted && events != nil:
			events.close()
			events = nil
		case wanted && events == nil && (tried.IsZero() || time.Since(tried) > sourceRetry):
			tried = time.Now()
			p.scan() // the answer may take its time
			events = p.connect()
		}
		if at, ok := p.nextDue(); ok {
			wait.Reset(max(time.Until(at), 0))
		}
		var changes <-chan change
		if events != nil {
			changes = events.changes
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
			wanted = p.adopt()
			p.scan()
			p.tellAll()
			scan.Reset(p.period(wanted, events))
		case <-scan.C:
			if wanted {
				p.scan()
			}
			scan.Reset(p.period(wanted, events))
		case <-wait.C:
			p.judge()
		case c, ok := <-changes:
			switch {
			case !ok: // the socket failed
				events.close()
				events, tried = nil, time.Now().Add(sourceBroken-sourceRetry)
				p.from(fmt.Errorf("the connection to the kernel broke"))
				scan.Reset(0)
			case c.lost:
				p.scan()
			default:
				p.apply(c)
			}
		}
	}
}

// period is how long after a look at all processes the next one is due.
func (p *Processes) period(wanted bool, events *connector) time.Duration {
	switch {
	case !wanted:
		return time.Hour
	case events != nil:
		return processAudit
	}
	return processPoll
}

// from notes where counts come from; err is why the kernel does not tell.
func (p *Processes) from(err error) {
	source := "kernel events"
	if err != nil {
		source = "polling /proc: " + err.Error()
	}
	p.mu.Lock()
	before := p.source
	p.source = source
	p.mu.Unlock()
	if source == before {
		return
	}
	if err != nil {
		p.log.Info("the kernel does not tell of processes here; /proc is read twice a second for track_process", zap.NamedError("err", err))
	} else if before != "" {
		p.log.Info("the kernel tells of processes again")
	}
}

// adopt makes the states those that are wanted, and tells whether there are any.
func (p *Processes) adopt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := map[string]bool{}
	for _, c := range p.wanted {
		keep[c.Name] = true
		s := p.states[c.Name]
		switch {
		case s == nil:
			p.states[c.Name] = &counted{cfg: c, status: ProcessStatus{Name: c.Name}, pids: map[int]bool{}}
		case !s.cfg.equal(c):
			s.cfg, s.pids, s.due = c, map[int]bool{}, time.Time{}
		}
	}
	for name := range p.states {
		if !keep[name] {
			delete(p.states, name)
		}
	}
	return len(p.wanted) > 0
}

// needArgv tells whether command lines have to be read.
func (p *Processes) needArgv() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if s.cfg.Match != MatchName {
			return true
		}
	}
	return false
}

// scan looks at all processes.
func (p *Processes) scan() {
	list, err := p.table.all(p.needArgv())
	if err != nil {
		p.log.Error("reading the list of processes failed; track_process keeps its last results", zap.NamedError("err", err))
		return
	}
	p.mu.Lock()
	for _, s := range p.states {
		clear(s.pids)
		for i := range list {
			if s.cfg.matches(&list[i]) {
				s.pids[list[i].pid] = true
			}
		}
	}
	p.mu.Unlock()
	p.judge()
}

// apply takes one change that the kernel told.
func (p *Processes) apply(c change) {
	var x proc
	alive := false
	if !c.gone {
		x, alive = p.table.one(c.pid, p.needArgv())
	}
	p.mu.Lock()
	changed := false
	for _, s := range p.states {
		is := alive && s.cfg.matches(&x)
		if is == s.pids[c.pid] {
			continue
		}
		changed = true
		if is {
			s.pids[c.pid] = true
		} else {
			delete(s.pids, c.pid)
		}
	}
	p.mu.Unlock()
	if changed {
		p.judge()
	}
}

// nextDue is when the next verdict that waits counts.
func (p *Processes) nextDue() (at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if !s.due.IsZero() && (!ok || s.due.Before(at)) {
			at, ok = s.due, true
		}
	}
	return at, ok
}

// judge works out the verdicts and tells those that are new.
func (p *Processes) judge() {
	now := time.Now()
	p.mu.Lock()
	var tell []ProcessStatus
	for _, s := range p.states {
		if s.judge(now) {
			st := s.status
			st.Count = len(s.pids)
			tell = append(tell, st)
		}
	}
	p.mu.Unlock()
	for _, st := range tell {
		text, say := "enough processes run", p.log.Info
		if !st.OK {
			text, say = "the number of processes is wrong", p.log.Warn
		}
		say(text, zap.String("check", st.Name), zap.Int("processes", st.Count))
		p.result(st.Name, st.OK)
	}
}

// judge takes the count of the moment; true: there is a new verdict. The first
// verdict counts at once, a later one when its delay is over.
func (s *counted) judge(now time.Time) bool {
	ok := s.cfg.good(len(s.pids))
	st := &s.status
	if st.Known && ok == st.OK {
		s.due, st.Waiting = time.Time{}, ""
		return false
	}
	delay, why := s.cfg.ForkDelay, "fork_delay"
	if !ok {
		delay, why = s.cfg.TerminateDelay, "terminate_delay"
	}
	if st.Known && delay > 0 {
		if s.due.IsZero() || st.Waiting != why {
			s.due, st.Waiting = now.Add(delay), why
		}
		if now.Before(s.due) {
			return false
		}
	}
	s.due, st.Waiting = time.Time{}, ""
	st.Known, st.OK, st.Changed = true, ok, now
	return true
}

// tellAll tells every verdict again.
func (p *Processes) tellAll() {
	for _, st := range p.Status() {
		if st.Known {
			p.result(st.Name, st.OK)
		}
	}
}
