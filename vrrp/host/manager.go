package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// releaseTime bounds Release.
const releaseTime = 2 * time.Second

// firstPause is how long after the last first address another one counts as the first of a takeover.
const firstPause = 100 * time.Millisecond

// quiet is the least time between two log lines of one kind about one instance.
const quiet = 10 * time.Second

// Manager owns the wanted addresses: one worker, [Manager.Run], that makes the kernel agree with what was asked for.
// All methods may be called from any goroutine. Configure, Want and State only leave a note for the worker and never
// block.
type Manager struct {
	kernel Kernel
	tables Tables
	file   stateFile
	cb     Callbacks
	log    *zap.Logger
	shield Shield

	wake     chan struct{} // capacity 1: there is something in the inbox
	progress chan struct{} // capacity 1: the worker did something after Release
	running  atomic.Bool

	inboxMu sync.Mutex // guards inbox, held, seen
	inbox   []note
	held    bool   // the inbox waits for the sets that its names are of
	seen    *State // the newest snapshot not taken yet

	turn sync.Mutex // held by whoever works: calls the kernel, the callbacks and the state file
	mu   sync.Mutex // guards book
	book *book

	// Of the worker.
	logged      map[logKey]time.Time
	fileFailed  bool
	stateFailed bool
	queried     bool // snapshots show routes and rules
	fibFailed   bool
	missing     []Missing // as told last
	presentAt   time.Time // when the last first address was told; of Run's goroutine
	unready     []unready // addresses to be told as soon as they take packets
}

type logKey struct {
	kind     eventKind
	instance string
}

// note is one call of Configure, Want or Release.
type note struct {
	sets    []Set
	config  bool
	release bool
	name    string
	wanted  bool
}

// NewManager returns a manager of the kernel's addresses, and of its routes and rules in tables. stateFile is where it remembers what it added, for the next
// start after a crash; empty for nowhere. log may be nil.
func NewManager(kernel Kernel, tables Tables, stateFilePath string, cb Callbacks, log *zap.Logger) *Manager {
	if log == nil {
		log = zap.NewNop()
	}
	return &Manager{
		kernel: kernel, tables: tables, file: stateFile{stateFilePath}, cb: cb, log: log,
		wake: make(chan struct{}, 1), progress: make(chan struct{}, 1),
		book: newBook(), logged: map[logKey]time.Time{},
	}
}

// Configure replaces the sets of all instances. Addresses that are wanted before and after are not touched; those of
// a master instance that came or went are added or removed. Configure does not wait for that. sets must not be
// changed afterwards.
func (m *Manager) Configure(sets []Set) { m.post(note{config: true, sets: sets}) }

// Reconfigure is Configure after f, whose error it returns and which changes nothing then. What is wanted while f runs
// is taken in with the sets, not before: a name may be that of another instance now.
func (m *Manager) Reconfigure(sets []Set, f func() error) error {
	hold := func(on bool) {
		m.inboxMu.Lock()
		m.held = on
		m.inboxMu.Unlock()
	}
	hold(true)
	defer m.poke()
	defer hold(false)
	err := f()
	if err == nil {
		m.Configure(sets)
	}
	return err
}

// Want says whether the instance's addresses shall be in the kernel. It does not wait. A call that changes nothing
// does nothing; wanting anew calls Present again for every address, also for those that are there already. An
// instance that is not configured yet is remembered.
func (m *Manager) Want(instance string, present bool) { m.post(note{name: instance, wanted: present}) }

// State takes in a snapshot, from the Watcher. Wanted addresses that are missing in it are put back.
func (m *Manager) State(s State) {
	m.inboxMu.Lock()
	if m.seen == nil || !s.Start().Before(m.seen.Start()) {
		m.seen = &s
	}
	m.inboxMu.Unlock()
	m.poke()
}

func (m *Manager) post(n note) {
	m.inboxMu.Lock()
	m.inbox = append(m.inbox, n)
	m.inboxMu.Unlock()
	m.poke()
}

func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, then returns nil. It leaves the kernel as it is: see Release.
func (m *Manager) Run(ctx context.Context) error {
	m.running.Store(true)
	defer m.signal()
	defer m.running.Store(false)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		wake := m.turnOnce(ctx)
		m.signal()
		var due <-chan time.Time
		if !wake.IsZero() {
			timer.Reset(time.Until(wake))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-due:
		}
	}
	return nil
}

// turnOnce is one turn of Run. The lock is given back in a panic too: Release can still remove what there is.
func (m *Manager) turnOnce(ctx context.Context) (wake time.Time) {
	m.turn.Lock()
	defer m.turn.Unlock()
	return m.work(ctx)
}

func (m *Manager) signal() {
	select {
	case m.progress <- struct{}{}:
	default:
	}
}

// work does all there is to do now and returns when there may be more (zero: when poked).
func (m *Manager) work(ctx context.Context) (wake time.Time) {
	for ctx.Err() == nil {
		m.take()
		j := m.next()
		m.report()
		look := m.catchUp()
		if j.kind == jobNone {
			m.reportMissing()
			if nap(look) {
				continue
			}
			return earlier(j.wake, look)
		}
		m.do(j)
		m.report()
	}
	return time.Time{}
}

// take brings the inbox into the book.
func (m *Manager) take() {
	m.inboxMu.Lock()
	notes, seen := m.inbox, m.seen
	if m.held {
		notes = nil
	} else {
		m.inbox = nil
	}
	m.seen = nil
	m.inboxMu.Unlock()
	if len(notes) == 0 && seen == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, n := range notes {
		switch {
		case n.config:
			m.book.configure(now, n.sets)
		case n.release:
			m.book.release(now)
		default:
			m.book.want(now, n.name, n.wanted)
		}
	}
	if seen != nil {
		m.fibError(seen.fibErr)
		m.book.state(now, *seen)
	}
	m.query()
}

func (m *Manager) next() job {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.next(time.Now())
}

func (m *Manager) do(j job) {
	if j.listing != nil {
		m.list(j.listing, j.objects)
	}
	switch j.kind {
	case jobRemove:
		m.remove(j)
	case jobRestore:
		m.restore(j.debts)
	case jobAdd:
		m.add(j)
	case jobRead:
		m.read()
	case jobRefuse:
		m.protect(j)
	case jobPaths:
		m.paths(j)
	}
}

// list writes the state file. A failure must not stop the addresses: it is logged once until it works again.
func (m *Manager) list(items []item, objects []byte) {
	err := m.file.write(items, objects)
	if err != nil && !m.fileFailed {
		m.log.Error("cannot remember which addresses were added: after a crash, addresses that are not configured any more would stay; check space and rights of "+m.file.dir(), zap.NamedError("err", err))
	}
	if err == nil && m.fileFailed {
		m.log.Info("remembering added addresses works again")
	}
	m.fileFailed = err != nil
}

// read looks the kernel's state up after a write that no snapshot confirmed.
func (m *Manager) read() {
	s, err := m.kernel.State()
	if err != nil {
		if !m.stateFailed {
			m.log.Warn("cannot read interfaces and addresses; trying again", zap.NamedError("err", err))
		}
		m.stateFailed = true
		return
	}
	m.stateFailed = false
	m.mu.Lock()
	defer m.mu.Unlock()
	m.book.state(time.Now(), s)
}

// add makes additions.
func (m *Manager) add(j job) {
	changes := make([]Change, len(j.entries))
	for i := range j.entries {
		changes[i] = Change{Index: j.links[i], Addr: j.recs[i]}
	}
	errs := m.kernel.Change(changes)
	exists := m.existing(j, errs)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, e := range j.entries {
		m.book.added(now, e, j.links[i], exists[i], errs[i])
	}
}

// existing finds the addresses that are in the way of additions. When it is the very one, that is no error.
func (m *Manager) existing(j job, errs []error) []*Addr {
	exists := make([]*Addr, len(errs))
	read := sync.OnceValues(m.kernel.State)
	for i, e := range j.entries {
		if !errors.Is(errs[i], unix.EEXIST) {
			continue
		}
		s, err := read()
		switch a := s.find(e.dev, e.prefix); {
		case err != nil:
			errs[i] = fmt.Errorf("looking for %s that exists already: %w", e.prefix, err)
		case a == nil:
			errs[i] = fmt.Errorf("adding %s to %s: the address exists there with another prefix length, remove that one: %w", e.prefix, e.dev, unix.EEXIST)
		default:
			exists[i], errs[i] = a, nil
		}
	}
	return exists
}

// report calls the callbacks for what happened.
func (m *Manager) report() {
	m.mu.Lock()
	events, paths := m.book.events, m.book.fib.Events()
	m.book.events = nil
	m.mu.Unlock()
	m.reportPaths(paths)
	for _, ev := range events {
		m.logEvent(ev)
		switch {
		case ev.kind == eventPresent && !m.answered(ev):
			m.unready = append(m.unready, unready{ev, time.Now()})
		case ev.kind == eventPresent:
			m.present(ev)
		case ev.kind == eventLost && m.cb.Lost != nil:
			m.cb.Lost(ev.instance, ev.address)
		case ev.kind == eventFought && m.cb.Fought != nil:
			m.cb.Fought(ev.instance, ev.address)
		case ev.kind == eventError && m.cb.Error != nil:
			m.cb.Error(ev.instance, ev.address, ev.err)
		}
	}
}

// present tells that an address is there.
func (m *Manager) present(ev event) {
	if m.cb.Present == nil {
		return
	}
	m.cb.Present(ev.instance, ev.address, ev.link)
	// Whoever announces the first one goes first: with all processors
	// busy (the watcher reads what is added here) it would have to wait.
	if now := time.Now(); now.Sub(m.presentAt) > firstPause {
		m.presentAt = now
		runtime.Gosched()
	}
}

// logEvent logs what an operator must know, at most one line of a kind per instance in quiet.
func (m *Manager) logEvent(ev event) {
	if ev.kind == eventPresent {
		return
	}
	k, now := logKey{ev.kind, ev.instance}, time.Now()
	if at, ok := m.logged[k]; ok && now.Sub(at) < quiet {
		return
	}
	m.logged[k] = now
	f := []zap.Field{zap.String("instance", ev.instance), zap.Stringer("address", ev.address.Prefix)}
	if ev.link != nil {
		f = append(f, zap.String("iface", ev.link.Name))
	}
	switch ev.kind {
	case eventLost:
		m.log.Warn("a virtual address is gone though it is wanted; it is put back unless it is not tracked, as soon as its interface can hold it", f...)
	case eventFought:
		m.log.Error("a virtual address is removed again and again; not putting it back any more: find out who removes it (network manager, script)", f...)
	case eventError:
		m.log.Error("the kernel refused a virtual address; trying again", append(f, zap.NamedError("err", ev.err))...)
	case eventWaits:
		m.log.Warn("a virtual address is not added: its interface does not exist; it is added when there is one of that name", append(f, zap.String("iface", ev.dev))...)
	}
}
