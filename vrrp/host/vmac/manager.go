package vmac

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
)

const (
	retryAfter  = time.Second      // after the kernel refused something
	fightWindow = 10 * time.Second // within which a link that was made fightLimit times is fought over
	fightLimit  = 5
	fightPause  = 30 * time.Second // until it is made again then
)

// Silence keeps IGMP and MLD reports and router solicitations of links off the network. It is given all links, by name,
// with the index of their parent (0: not known), before they are made and whenever that changes. When it fails it tries
// again by itself.
type Silence func(parents map[string]int) error

// Manager owns the links with a virtual MAC. Its methods may be called from any goroutine; State alone never waits.
type Manager struct {
	kernel   Kernel
	settings Settings
	silence  Silence
	changed  func()
	alias    string
	log      *zap.Logger

	wake chan struct{}

	inbox struct {
		sync.Mutex
		seen *host.State
	}
	reported struct { // what readers must not wait for
		sync.Mutex
		problems map[string]string
	}

	mu      sync.Mutex // guards all following fields, and the kernel
	wanted  []Link
	quiet   bool // no IGMP reports for local groups
	closed  bool
	doc     document
	lastOp  time.Time      // of ours: what was read before says nothing
	settled map[string]int // links whose settings were made, and their parents, by index
	silent  map[string]int // what silence was told last
	logged  map[string]string
	made    map[string][]time.Time // when links were made, of late
	retry   bool
}

// NewManager returns a manager. stateDir tells its links from those of others and holds its state file. changed is
// called when Problems has something new to say; it must not block. silence and changed may be nil.
func NewManager(kernel Kernel, settings Settings, stateDir string, silence Silence, changed func(), log *zap.Logger) *Manager {
	if log == nil {
		log = zap.NewNop()
	}
	m := &Manager{
		kernel: kernel, settings: settings, silence: silence, changed: changed, alias: markBegin + stateDir, log: log,
		wake: make(chan struct{}, 1), settled: map[string]int{}, logged: map[string]string{}, made: map[string][]time.Time{},
	}
	m.doc.path = filepath.Join(stateDir, "vmacs.json")
	return m
}

// State takes in a snapshot; Run acts on it.
func (m *Manager) State(s host.State) {
	m.inbox.Lock()
	m.inbox.seen = &s
	m.inbox.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run keeps the links right until ctx ends; it returns nil then, and leaves them as they are.
func (m *Manager) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var again <-chan time.Time
		if m.retrying() {
			timer.Reset(retryAfter)
			again = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			m.again()
		case <-m.wake:
			m.inbox.Lock()
			s := m.inbox.seen
			m.inbox.seen = nil
			m.inbox.Unlock()
			if s != nil {
				m.look(*s)
			}
		}
	}
}

func (m *Manager) retrying() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retry
}

// again reads the state anew.
func (m *Manager) again() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readAndAgree()
}

// look acts on a snapshot, unless it is older than the last change of ours.
func (m *Manager) look(s host.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.wanted) == 0 && !m.quiet {
		return
	}
	if s.Start().Before(m.lastOp) {
		m.readAndAgree()
		return
	}
	m.agree(s)
}

// Configure replaces the wanted links and makes those that can be made now; the others follow when their parent is
// there. Links that are the same before and after are not touched. Those that are no longer wanted stay until Prune,
// unless they are in the way of a wanted one. quiet stops IGMP reports for local groups on all links.
func (m *Manager) Configure(links []Link, quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.wanted, m.quiet = slices.Clone(links), quiet
	clear(m.settled)
	clear(m.made) // who reloads wants it tried
	m.readAndAgree()
}

// Replaces reports whether Configure would remove links of ours that are in the way of these.
func (m *Manager) Replaces(links []Link) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.doc.Links) == 0 {
		return false
	}
	s, err := m.kernel.State()
	return err == nil && slices.ContainsFunc(links, func(l Link) bool {
		v := judge(l, s, m.mine)
		return v.remove != nil && m.mine(v.remove)
	})
}

// Problems says why wanted links are not there, by name. It never waits.
func (m *Manager) Problems() map[string]string {
	m.reported.Lock()
	defer m.reported.Unlock()
	return maps.Clone(m.reported.problems)
}

func (m *Manager) readAndAgree() {
	s, err := m.kernel.State()
	if err != nil {
		m.retry = true
		m.complain("state", "cannot read the links of this machine; trying again: "+err.Error())
		return
	}
	m.complain("state", "")
	m.agree(s)
}

// agree makes the kernel agree with what is wanted.
func (m *Manager) agree(s host.State) {
	m.retry = false
	problems := map[string]string{}
	m.hush(s)
	m.adopt(onOthers(m.wanted, s, m.quiet))
	for _, l := range m.wanted {
		if why := m.ensure(l, s); why != "" {
			problems[l.Name] = why
		}
	}
	m.reported.Lock()
	news := !maps.Equal(m.reported.problems, problems)
	m.reported.problems = problems
	m.reported.Unlock()
	if news && m.changed != nil {
		m.changed()
	}
	for _, l := range m.wanted {
		m.complain(l.Name, problems[l.Name])
	}
}

// complain logs a text about something once, and its end.
func (m *Manager) complain(about, text string) {
	if m.logged[about] == text {
		return
	}
	switch {
	case text != "" && about == "state":
		m.log.Warn(text)
	case text != "":
		m.log.Error("the virtual-MAC link "+about+" is not there: "+text, zap.String("iface", about))
	case about != "state":
		m.log.Info("the virtual-MAC link is there now", zap.String("iface", about))
	}
	m.logged[about] = text
	if text == "" {
		delete(m.logged, about)
	}
}

// hush silences the links, before they exist and until they are gone.
func (m *Manager) hush(s host.State) {
	if m.silence == nil {
		return
	}
	parents := make(map[string]int, len(m.wanted))
	for _, l := range m.ours(s) {
		parents[l.Name] = l.Parent
	}
	for _, l := range m.wanted {
		parents[l.Name] = 0
		if p := s.Link(l.Parent); p != nil {
			parents[l.Name] = p.Index
		}
	}
	if maps.Equal(parents, m.silent) {
		return
	}
	// The links are of use without it, too. Whoever silences keeps the wish, and says that it failed.
	_ = m.silence(parents)
	m.silent = parents
}

// ensure sees to one link and says why it is not there, "" when it is.
func (m *Manager) ensure(l Link, s host.State) string {
	v := judge(l, s, m.mine)
	if until := m.fought(l.Name); v.make && !until.IsZero() {
		m.retry = true
		return fmt.Sprintf("others remove or change it again and again; next try at %s: find out who does (network manager, script; ip monitor link)", until.Format(time.TimeOnly))
	}
	if v.remove != nil {
		if err := m.delete(v.remove.Name, v.remove.Index); err != nil {
			return m.failed(fmt.Errorf("%s is in the way: %w", v.remove.Name, err))
		}
	}
	parent, have := s.Link(l.Parent), s.Link(l.Name)
	switch {
	case v.problem != "":
		return v.problem
	case v.make:
		m.record(l.Name, 0)
		m.lastOp = time.Now()
		m.made[l.Name] = append(m.made[l.Name], m.lastOp)
		index, err := m.kernel.Add(l, parent.Index, m.alias)
		m.lastOp = time.Now()
		if err != nil {
			return m.failed(err)
		}
		m.record(l.Name, index)
		m.log.Info("made the virtual-MAC link", zap.String("iface", l.Name), zap.String("parent", l.Parent), zap.String("mac", macText(l.MAC)))
		have = &host.Link{Index: index}
		v.adjust = true
	}
	if err := m.settle(l, have.Index); err != nil {
		return m.failed(err)
	}
	if !v.adjust {
		return ""
	}
	err := m.kernel.Adjust(have.Index, parent.MTU, l.group(parent))
	m.lastOp = time.Now()
	if err != nil {
		return m.failed(err)
	}
	return ""
}

// fought returns until when a link is left alone because others keep removing it; zero: it is not.
func (m *Manager) fought(name string) time.Time {
	list := m.made[name]
	if n := len(list) - fightLimit; n >= 0 && list[len(list)-1].Sub(list[n]) < fightWindow {
		if until := list[len(list)-1].Add(fightPause); time.Now().Before(until) {
			return until
		}
		list = nil
	}
	m.made[name] = slices.DeleteFunc(list, func(t time.Time) bool { return time.Since(t) > fightWindow })
	return time.Time{}
}

// failed words an error of the kernel and has it tried again.
func (m *Manager) failed(err error) string {
	m.retry = true
	text := err.Error()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		text += " (this kernel has no macvlan: install the kernel package with that module, or take use_vmac out)"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS):
		text += " (vipd needs CAP_NET_ADMIN and a writable /proc/sys/net)"
	case errors.Is(err, unix.EADDRINUSE), errors.Is(err, unix.EBUSY):
		text += " (another link on that interface has this MAC, or the interface cannot have macvlans, as one in a bridge cannot)"
	}
	return text
}

// mine reports whether a link is of this vipd: made by it, or by an earlier one with the same state directory.
func (m *Manager) mine(l *host.Link) bool {
	return l.Alias == m.alias || slices.ContainsFunc(m.doc.Links, func(k madeLink) bool {
		return k.Name == l.Name && k.Index == l.Index && !strings.HasPrefix(l.Alias, markBegin)
	})
}
