package connsync

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

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
	// Ports is how many ports in a row the kernel's daemons use from the daemon's on (net.ipv4.vs.sync_ports); at least 1.
	Ports() int
}

// Port is a group that is listened to.
type Port interface {
	// Hello sends a message without connections, by the route that the kernel takes.
	Hello(id uint8) error
	// Drops is how many messages to the kernel were dropped since the port was opened. One at a time may call it.
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
	Dropped  uint64 // messages of others that the kernel had no room for, since they are listened to
	Problems []string
}

// Manager owns the daemons. Its methods may be called from any goroutine.
type Manager struct {
	kernel  Kernel
	network Network
	record  string // file that says that the daemons are ours
	log     *zap.Logger
	wake    chan struct{}

	turn  sync.Mutex  // held by whoever calls the kernel; guards what follows
	ports []Port      // all that the kernel uses
	on    ipvs.Daemon // what they listen to
	hello time.Time   // the last one
	drops uint64      // of the ports, at the last hello
	base  owned       // the interface that the daemons stand on
	began bool        // the kernel was looked at, and left is what was left in it
	left  []ipvs.Daemon

	mu       sync.Mutex // guards what follows
	told     bool       // Configure was called: until then what a crash left stays
	cfg      *Config
	lead     bool
	spare    map[ipvs.Role]time.Time // since when a daemon runs for the last words alone
	released bool
	ear      hearing
	status   Status
	said     []string // problems, as last logged
	failed   map[ipvs.Role]error
	readErr  error
	stuck    error // why daemons that are not wanted stay
}

// New returns a manager that has done nothing yet. file is one that tells a successor, after a crash, that the
// daemons are vipd's.
func New(kernel Kernel, network Network, file string, log *zap.Logger) *Manager {
	return &Manager{kernel: kernel, network: network, record: file, log: log, wake: make(chan struct{}, 1), spare: map[ipvs.Role]time.Time{}, failed: map[ipvs.Role]error{}}
}

// Configure takes what is wanted, nil for no daemon. It does not wait.
func (m *Manager) Configure(cfg *Config) {
	m.mu.Lock()
	if cfg != nil {
		c := *cfg
		c.Daemon = c.Daemon.Normal()
		cfg = &c
	}
	m.cfg, m.told = cfg, true
	m.mu.Unlock()
	m.again()
}

// Lead says whether this director is the one that others are to learn from. It does not wait.
func (m *Manager) Lead(yes bool) {
	m.mu.Lock()
	changed := m.lead != yes
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
	s.Config, s.Running, s.Peers, s.Dropped = m.cfg, slices.Clone(s.Running), slices.Clone(m.ear.peers), m.ear.drops
	s.Problems = m.problems(time.Now())
	return s
}

// problems is everything that is wrong now. Called with mu held.
func (m *Manager) problems(now time.Time) []string {
	if m.cfg == nil {
		if m.stuck != nil {
			return []string{"sync: " + m.stuck.Error()}
		}
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
			m.closePorts()
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
	return m.released || !m.told || m.cfg == nil && m.stuck == nil
}

// Release stops the daemons that are vipd's. A master that has news to tell, and somebody who hears it, is given the
// time of Config.Linger first, until hurry is closed or ctx ends.
func (m *Manager) Release(ctx context.Context, hurry <-chan struct{}) error {
	m.mu.Lock()
	cfg, wait := m.cfg, time.Duration(0)
	if now := time.Now(); cfg != nil && m.tells() && m.company(now) {
		wait = cfg.Linger
		if since := m.spare[ipvs.SyncMaster]; !since.IsZero() {
			wait = since.Add(cfg.Linger).Sub(now)
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

// tells reports whether a master runs. Called with mu held.
func (m *Manager) tells() bool {
	return slices.ContainsFunc(m.status.Running, func(d ipvs.Daemon) bool { return d.Role == ipvs.SyncMaster })
}

// company reports whether another director was heard lately. Called with mu held.
func (m *Manager) company(now time.Time) bool {
	return slices.ContainsFunc(m.ear.peers, func(p Peer) bool {
		return (p.ID == m.ear.want.ID || p.ID == 0) && now.Sub(p.Last) < rememberFor
	})
}
