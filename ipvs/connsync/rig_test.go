package connsync

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// machine is a kernel and a network in memory.
type machine struct {
	mu      sync.Mutex
	daemons []ipvs.Daemon
	log     []string // what was started and stopped
	link    int      // number of eth0; 0: it is not there
	refuse  error    // of StartDaemon
	stay    error    // of StopDaemon
	drops   uint64
	sending error // of a hello
	ear     func(netip.Addr, ipvs.SyncMessage)
	hellos  int
	open    int
	ports   int // sync_ports
	full    int // so many can be open; 0: all
}

func (m *machine) Daemons() ([]ipvs.Daemon, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.daemons), nil
}

func (m *machine) StartDaemon(d ipvs.Daemon) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.refuse != nil:
		return m.refuse
	case m.link == 0:
		return unix.ENODEV
	case slices.ContainsFunc(m.daemons, func(h ipvs.Daemon) bool { return h.Role == d.Role }):
		return unix.EEXIST
	}
	d = d.Normal()
	d.MaxLen = max(d.MaxLen, 1472)
	m.daemons = append(m.daemons, d)
	m.log = append(m.log, "+"+d.Role.String())
	return nil
}

func (m *machine) StopDaemon(r ipvs.Role) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stay != nil {
		return m.stay
	}
	before := len(m.daemons)
	m.daemons = slices.DeleteFunc(m.daemons, func(d ipvs.Daemon) bool { return d.Role == r })
	if len(m.daemons) == before {
		return unix.ESRCH
	}
	m.log = append(m.log, "-"+r.String())
	return nil
}

func (m *machine) Index(string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.link
}

func (m *machine) Ports() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ports
}

func (m *machine) Open(_ ipvs.Daemon, heard func(netip.Addr, ipvs.SyncMessage)) (Port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link == 0 {
		return nil, errors.New("there is no interface eth0")
	}
	if m.full > 0 && m.open == m.full {
		return nil, unix.EMFILE
	}
	m.ear = heard
	m.open++
	return m, nil
}

func (m *machine) Hello(uint8) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hellos++
	return m.sending
}

func (m *machine) Drops() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drops
}

func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	return nil
}

func (m *machine) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// did returns what was started and stopped since the last call.
func (m *machine) did() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := strings.Join(m.log, " ")
	m.log = nil
	return s
}

// rig is a manager that runs.
type rig struct {
	*Manager
	*machine
	record string
	logged *observer.ObservedLogs
}

// run runs test with a manager of a machine, in a bubble of time.
func run(t *testing.T, left []ipvs.Daemon, recorded bool, test func(t *testing.T, r *rig)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{link: 3, daemons: left}
		core, logged := observer.New(zap.WarnLevel)
		r := &rig{machine: m, record: filepath.Join(dir, "syncdaemon"), logged: logged}
		if recorded {
			if err := os.WriteFile(r.record, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.Manager = New(m, m, r.record, zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait() // it runs before it is told what is wanted
		r.expect(t, "nothing wanted yet", "")
		test(t, r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if m.open != 0 {
			t.Errorf("%d ports are left open", m.open)
		}
	})
}

func (r *rig) expect(t *testing.T, what, want string) {
	t.Helper()
	synctest.Wait()
	if got := r.did(); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func config() *Config {
	return &Config{Daemon: ipvs.Daemon{Interface: "eth0", ID: 5}, Linger: 3 * time.Second}
}
