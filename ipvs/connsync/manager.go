package connsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// Period is the time between two looks at the kernel's daemons.
const Period = 2 * time.Second

// Kernel runs the daemons. Errors wrap the kernel's errno.
type Kernel interface {
	Daemons() ([]ipvs.Daemon, error)
	StartDaemon(ipvs.Daemon) error
	StopDaemon(ipvs.Role) error
}

// Network is where the messages go.
type Network interface {
	// Open listens to the daemon's group on its interface. heard may be called from any goroutine until Close returns.
	Open(d ipvs.Daemon, heard func(from netip.Addr, m ipvs.SyncMessage)) (Port, error)
	// Index is the number of an interface, 0 when it is not there.
	Index(name string) int
}

// Port is a group that is listened to.
type Port interface {
	// Hello sends a message without connections, by the route that the kernel takes.
	Hello(id uint8) error
	// Drops is how many messages to the kernel were dropped since the port was opened.
	Drops() uint64
	Close() error
}

// Config is what is wanted.
type Config struct {
	Daemon ipvs.Daemon   // of both roles
	Both   bool          // both roles run; else the role is that which Lead says
	Linger time.Duration // both run for so long after a change of role
}

// Status is what there is.
type Status struct {
	Config   *Config       // nil: none is wanted
	Running  []ipvs.Daemon // as the kernel has them
	Since    time.Time     // the backup runs without a break; zero: it does not
	Peers    []Peer
	Problems []string
}

// Manager owns the daemons. Its methods may be called from any goroutine.
type Manager struct {
	kernel  Kernel
	network Network
	record  string // file that says that the daemons are ours
	log     *zap.Logger
	wake    chan struct{}

	turn  sync.Mutex // held by whoever calls the kernel; guards what follows
	port  Port
	on    ipvs.Daemon // what port listens to
	index int         // of the interface that the daemons stand on
	hello time.Time   // the last one
	drops uint64

	mu       sync.Mutex // guards what follows
	cfg      *Config
	lead     bool
	turned   time.Time // when lead changed
	released bool
	ear      hearing
	status   Status
	told     []string // problems, as last logged
	failed   map[ipvs.Role]error
	readErr  error
}

// New returns a manager that has done nothing yet. record is a file that tells a successor, after a crash, that the
// daemons are vipd's.
func New(kernel Kernel, network Network, record string, log *zap.Logger) *Manager {
	return &Manager{kernel: kernel, network: network, record: record, log: log, wake: make(chan struct{}, 1), failed: map[ipvs.Role]error{}}
}

// Configure takes what is wanted, nil for no daemon. It does not wait.
func (m *Manager) Configure(cfg *Config) {
	m.mu.Lock()
	if cfg != nil {
		c := *cfg
		c.Daemon = c.Daemon.Normal()
		cfg = &c
	}
	m.cfg = cfg
	m.mu.Unlock()
	m.again()
}

// Lead says whether this director is the one that others are to learn from. It does not wait.
func (m *Manager) Lead(yes bool) {
	m.mu.Lock()
	changed := m.lead != yes
	if changed {
		m.turned = time.Now()
	}
	m.lead = yes
	m.mu.Unlock()
	if changed {
		m.again()
	}
}

// Expect says whether another director is MASTER, and should be heard. It does not wait.
func (m *Manager) Expect(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if yes && !m.ear.expected {
		m.ear.since = time.Now()
	}
	m.ear.expected = yes
}

func (m *Manager) again() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Status returns what was seen last.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.status
	s.Config, s.Running, s.Peers = m.cfg, slices.Clone(s.Running), slices.Clone(m.ear.peers)
	s.Problems = m.problems(time.Now())
	return s
}

// problems is everything that is wrong now. Called with mu held.
func (m *Manager) problems(now time.Time) []string {
	if m.cfg == nil {
		return nil
	}
	var out []string
	if m.readErr != nil {
		out = append(out, "sync: "+m.readErr.Error())
	}
	for _, r := range []ipvs.Role{ipvs.SyncMaster, ipvs.SyncBackup} {
		if err := m.failed[r]; err != nil {
			out = append(out, "sync: "+err.Error())
		}
	}
	return append(out, judge(now, m.ear)...)
}

// Run keeps the daemons as they are wanted until ctx ends; it then returns nil. What runs stays: see Release.
func (m *Manager) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			m.turn.Lock()
			defer m.turn.Unlock()
			m.closePort()
			return nil
		case <-m.wake:
		case <-timer.C:
		}
		m.pass()
		if timer.Reset(Period); m.idle() {
			timer.Stop()
		}
	}
}

// idle reports whether there is nothing to look after.
func (m *Manager) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg == nil || m.released
}

// Release stops the daemons that are vipd's. A master that has news to tell, and somebody who hears it, is given the
// time of Config.Linger first, until hurry is closed or ctx ends.
func (m *Manager) Release(ctx context.Context, hurry <-chan struct{}) error {
	m.mu.Lock()
	cfg, wait := m.cfg, time.Duration(0)
	if cfg != nil && cfg.Linger > 0 && m.company(time.Now()) {
		switch {
		case m.lead || cfg.Both:
			wait = cfg.Linger
		default:
			wait = time.Until(m.turned.Add(cfg.Linger))
		}
	}
	m.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-hurry:
		case <-ctx.Done():
		}
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mu.Lock()
	m.released, m.cfg = true, nil
	m.mu.Unlock()
	return m.withdraw()
}

// company reports whether another director was heard lately. Called with mu held.
func (m *Manager) company(now time.Time) bool {
	return slices.ContainsFunc(m.ear.peers, func(p Peer) bool { return now.Sub(p.Last) < rememberFor })
}

// wanted returns the daemons of a configuration. Called with mu held.
func (m *Manager) wanted(now time.Time) (out []ipvs.Daemon) {
	for _, r := range []ipvs.Role{ipvs.SyncMaster, ipvs.SyncBackup} {
		lingers := !m.turned.IsZero() && now.Before(m.turned.Add(m.cfg.Linger))
		if m.cfg.Both || (r == ipvs.SyncMaster) == m.lead || lingers {
			d := m.cfg.Daemon
			d.Role = r
			out = append(out, d)
		}
	}
	return out
}

// pass makes the kernel agree with what is wanted, and listens.
func (m *Manager) pass() {
	m.turn.Lock()
	defer m.turn.Unlock()
	now := time.Now()
	m.mu.Lock()
	cfg := m.cfg
	var want []ipvs.Daemon
	if cfg != nil {
		want = m.wanted(now)
	}
	released := m.released
	m.mu.Unlock()
	switch {
	case released:
	case cfg == nil:
		if err := m.withdraw(); err != nil {
			m.log.Error("sync daemons that are not wanted any more stay", zap.NamedError("err", err))
		}
	default:
		m.agree(now, want)
		m.listen(now, cfg.Daemon)
		m.tell(now)
	}
}

// agree starts and stops what differs. Called with turn held.
func (m *Manager) agree(now time.Time, want []ipvs.Daemon) {
	have, err := m.kernel.Daemons()
	failed := map[ipvs.Role]error{}
	if err == nil {
		index := m.network.Index(want[0].Interface)
		known := have
		if m.index != 0 && index != m.index {
			known = nil // the threads' sockets are bound to an interface that is no more
		}
		m.index = index
		if err = m.own(); err == nil {
			have = m.change(have, known, want, failed)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readErr, m.failed, m.status.Running = err, failed, have
	backup := slices.ContainsFunc(have, func(d ipvs.Daemon) bool { return d.Role == ipvs.SyncBackup })
	if !backup {
		m.status.Since = time.Time{}
	} else if m.status.Since.IsZero() {
		m.status.Since = now
	}
}

// change returns what runs when have has been made into want; known is what of have may stay.
func (m *Manager) change(have, known, want []ipvs.Daemon, failed map[ipvs.Role]error) []ipvs.Daemon {
	stop, start := ipvs.DaemonChanges(known, want)
	for _, h := range have {
		if len(known) == 0 && !slices.Contains(stop, h.Role) {
			stop = append(stop, h.Role)
		}
	}
	// The other role first: for a moment both run, which loses nothing.
	busy := func(d ipvs.Daemon) bool { return slices.Contains(stop, d.Role) }
	for _, d := range start {
		if !busy(d) {
			have = m.start(d, have, failed)
		}
	}
	for _, r := range stop {
		if err := m.kernel.StopDaemon(r); err != nil && !errors.Is(err, unix.ESRCH) {
			failed[r] = err
			continue
		}
		have = slices.DeleteFunc(have, func(d ipvs.Daemon) bool { return d.Role == r })
		m.log.Info("sync daemon stopped", zap.Stringer("role", r))
	}
	for _, d := range start {
		if busy(d) && failed[d.Role] == nil {
			have = m.start(d, have, failed)
		}
	}
	return have
}

func (m *Manager) start(d ipvs.Daemon, have []ipvs.Daemon, failed map[ipvs.Role]error) []ipvs.Daemon {
	if err := m.kernel.StartDaemon(d); err != nil {
		failed[d.Role] = err
		return have
	}
	m.log.Info("sync daemon started", zap.Stringer("role", d.Role), zap.String("iface", d.Interface), zap.Uint8("id", d.ID))
	return append(have, d)
}

// listen keeps an ear on the group and says hello. Called with turn held.
func (m *Manager) listen(now time.Time, d ipvs.Daemon) {
	index := m.network.Index(d.Interface)
	d.Role = ipvs.Role(index) // a port is made anew with its interface
	if m.port != nil && m.on != d {
		m.closePort()
	}
	var err error
	if m.port == nil {
		if m.port, err = m.network.Open(d, m.heard); err == nil {
			m.on, m.hello, m.drops = d, time.Time{}, 0
		}
		m.mu.Lock()
		d.Role = 0
		m.ear.want, m.ear.since, m.ear.openErr, m.ear.sendErr, m.ear.peers = d, now, err, nil, nil
		m.mu.Unlock()
	}
	if err != nil {
		m.port = nil
		return
	}
	if now.Sub(m.hello) < HelloPeriod-Period/2 {
		return
	}
	m.hello = now
	err = m.port.Hello(d.ID)
	drops := m.port.Drops()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.sendErr, m.ear.drops = err, drops-min(m.drops, drops)
	m.drops = drops
}

// heard takes a message from the port.
func (m *Manager) heard(from netip.Addr, message ipvs.SyncMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.peers = note(m.ear.peers, time.Now(), from, message)
}

// tell logs what has become wrong, and what is right again.
func (m *Manager) tell(now time.Time) {
	m.mu.Lock()
	before, problems := m.told, m.problems(now)
	m.told = problems
	m.mu.Unlock()
	for _, p := range problems {
		if !slices.Contains(before, p) {
			m.log.Warn(p)
		}
	}
	if len(before) > 0 && len(problems) == 0 {
		m.log.Info("sync: all is well again")
	}
}

// own records that the daemons are vipd's. Called with turn held.
func (m *Manager) own() error {
	if _, err := os.Lstat(m.record); err == nil {
		return nil
	}
	if err := os.WriteFile(m.record, []byte("vipd runs the sync daemons of this kernel\n"), 0o600); err != nil {
		return fmt.Errorf("remembering that the sync daemons are vipd's: %w", err)
	}
	return nil
}

// withdraw stops the daemons if they are vipd's. Called with turn held.
func (m *Manager) withdraw() error {
	m.closePort()
	if _, err := os.Lstat(m.record); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("looking whether the sync daemons are vipd's: %w", err)
	}
	have, err := m.kernel.Daemons()
	if errors.Is(err, ipvs.ErrAbsent) {
		have, err = nil, nil
	}
	errs := []error{err}
	var stopped []string
	for _, d := range have {
		if err := m.kernel.StopDaemon(d.Role); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
			continue
		}
		stopped = append(stopped, d.Role.String())
	}
	if len(stopped) > 0 {
		m.log.Info("sync daemons stopped: " + strings.Join(stopped, ", "))
	}
	m.index = 0
	m.mu.Lock()
	m.status.Running, m.status.Since, m.told = nil, time.Time{}, nil
	m.mu.Unlock()
	if err = errors.Join(errs...); err == nil {
		err = os.Remove(m.record)
	}
	if err != nil {
		return fmt.Errorf("stopping the sync daemons: %w", err)
	}
	return nil
}

// closePort ends the listening. Called with turn held.
func (m *Manager) closePort() {
	if m.port != nil {
		_ = m.port.Close() // nothing is lost with it
		m.port = nil
	}
}
