package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/settings/ipvssysctl"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/connsync"
	ipvsnl "vipd/ipvs/netlink"
	"vipd/ipvs/reconcile"
	"vipd/ipvs/shield"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

const (
	// survivalPeriod is the time between two looks at what keeps connections.
	survivalPeriod = 2 * time.Second
	// factsPeriod is the time between two looks at the kernel's timeouts and nftables.
	factsPeriod = 10 * time.Second
	// syncLinger is how long a master goes on telling after it gave way: what the kernel keeps back, and a moment.
	syncLinger = 3 * time.Second
)

// survival is what keeps connections when the director changes: the kernel's sync daemons, its settings and timeouts,
// and the shield. Its own goroutine does everything that waits for the kernel.
type survival struct {
	kernel   lvsKernel
	sync     *connsync.Manager
	shield   shielder
	settings *ipvssysctl.Keeper // of net.ipv4.vs, those of [ipvs_sysctl] among them
	states   func() []router.InstanceStatus
	host     func() *host.State
	table    func() reconcile.Status
	log      *zap.Logger
	wake     chan struct{} // capacity 1
	turn     sync.Mutex    // held by whoever calls the kernel

	mu      sync.Mutex // guards what follows
	cfg     *conf.Config
	ended   bool
	looked  time.Time // at facts
	facts   lvsFacts
	wrong   map[string]error // what does not work, by what it is
	told    []string
	pending time.Duration // until the shield changes by itself
	bare    bool          // no rules of the shield are left
}

// shielder holds resets back.
type shielder interface {
	Want(table string, armed []netip.Addr) error
	Look() (gone bool, err error)
	Release() error
}

// lvsKernel is what survival needs of IPVS beside the table.
type lvsKernel interface {
	Facts() (ipvs.Timeouts, int, error)
	SetTimeouts(ipvs.Timeouts) error
	In(func() error) error
}

// lvsFacts are settings of the kernel.
type lvsFacts struct {
	known    bool
	timeouts ipvs.Timeouts
	buckets  int
}

func newSurvival(kernel *ipvsnl.Kernel, stateDir string, log *zap.Logger) *survival {
	return &survival{
		kernel: kernel,
		sync:   connsync.New(kernel, connsync.Group{In: kernel.In}, filepath.Join(stateDir, "syncdaemon"), log),
		shield: shield.New(filepath.Join(stateDir, "shield"), kernel.In), settings: ipvssysctl.New(ipvssysctl.Dir, filepath.Join(stateDir, "ipvs-sysctls.json"), kernel.In),
		log: log, wake: make(chan struct{}, 1), wrong: map[string]error{},
	}
}

// Changed says that an instance changed its state. It does not wait.
func (s *survival) Changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Configure takes a new configuration, and makes the settings. The rest follows in the background.
func (s *survival) Configure(cfg *conf.Config) {
	s.mu.Lock()
	s.cfg, s.looked = cfg, time.Time{}
	s.mu.Unlock()
	s.turn.Lock()
	s.settle(cfg)
	s.turn.Unlock()
	s.roles(cfg, s.states()) // first: a new configuration begins with the right role
	s.sync.Configure(syncConfig(cfg))
	s.Changed()
}

// syncConfig is lvs_sync_daemon as its manager takes it.
func syncConfig(cfg *conf.Config) *connsync.Config {
	d := cfg.Global.SyncDaemon
	if d == nil {
		return nil
	}
	return &connsync.Config{
		Daemon: ipvs.Daemon{Interface: d.Interface, ID: uint8(d.ID), MaxLen: uint16(d.MaxLen), Port: uint16(d.Port), TTL: uint8(d.TTL), Group: d.Group},
		Both:   d.Instance == "", Linger: syncLinger,
	}
}

// Run looks after everything until ctx ends.
func (s *survival) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { _ = guard(func() error { return s.sync.Run(ctx) }) })
	timer := time.NewTimer(survivalPeriod)
	defer timer.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			woken = true
		case <-timer.C:
		}
		s.pass(time.Now(), woken)
		if next := s.next(); next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
	}
}

// next is how long until the next look; 0: there is nothing to look after.
func (s *survival) next() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended || s.cfg == nil:
		return 0
	case s.pending > 0:
		return min(s.pending, survivalPeriod)
	case s.cfg.Global.SyncDaemon != nil || s.cfg.Global.Shield > 0:
		return survivalPeriod
	case len(s.cfg.VirtualServers) > 0 || s.wrong["settings"] != nil || s.wrong["shield"] != nil || s.cfg.Global.LVSTimeouts != (conf.Timeouts{}):
		return factsPeriod
	}
	return 0
}

// pass does what is to be done now; woken says that something has changed.
func (s *survival) pass(now time.Time, woken bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	cfg, ended := s.cfg, s.ended
	look := now.Sub(s.looked) >= factsPeriod
	if look {
		s.looked = now
	}
	s.mu.Unlock()
	if cfg == nil || ended {
		return
	}
	// The addresses first: one that comes meanwhile is not taken for one of an instance that is not MASTER.
	here := s.host()
	states := s.states()
	s.roles(cfg, states)
	s.guardAddresses(now, cfg, states, here, look || woken)
	if look {
		s.arrange(cfg)
	}
	s.tell()
}

// roles tells the sync daemons what this director is.
func (s *survival) roles(cfg *conf.Config, states []router.InstanceStatus) {
	d := cfg.Global.SyncDaemon
	if d == nil {
		return
	}
	members := followed(cfg, d.Instance)
	lead, expect := false, false
	for _, i := range states {
		if !slices.Contains(members, i.Name) {
			continue
		}
		lead = lead || i.Status.State == vrrp.Master
		expect = expect || i.Status.State == vrrp.Backup && i.Status.MasterAddress.IsValid()
	}
	s.sync.Lead(lead)
	s.sync.Expect(expect)
}

// followed are the instances behind the name in lvs_sync_daemon; without one, those that have addresses of services: the
// others may have another MASTER that is no director.
func followed(cfg *conf.Config, name string) []string {
	if name == "" {
		return slices.Sorted(maps.Keys(cfg.Serving()))
	}
	if slices.ContainsFunc(cfg.Instances, func(in conf.Instance) bool { return in.Name == name }) {
		return []string{name}
	}
	for _, g := range cfg.SyncGroups {
		if g.Name == name {
			return g.Members
		}
	}
	return nil
}

// arrange makes the kernel's timeouts right, and the settings if they were not.
func (s *survival) arrange(cfg *conf.Config) {
	timeouts := ipvs.Timeouts(cfg.Global.LVSTimeouts)
	var facts lvsFacts
	var err error
	if len(cfg.VirtualServers) > 0 || timeouts != (ipvs.Timeouts{}) {
		facts, err = s.setTimeouts(timeouts)
	}
	if errors.Is(err, ipvs.ErrAbsent) {
		err = nil // the reconciler says so
	}
	s.note("timeouts", err)
	if s.failed("settings") != nil {
		s.settle(cfg)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = facts
}

// setTimeouts changes those that are not as they are wanted, and returns the facts that are in force then.
func (s *survival) setTimeouts(want ipvs.Timeouts) (lvsFacts, error) {
	now, buckets, err := s.kernel.Facts()
	if err != nil || !now.Differs(want) {
		return lvsFacts{err == nil, now, buckets}, err
	}
	if err := s.kernel.SetTimeouts(want); err != nil {
		return lvsFacts{true, now, buckets}, err
	}
	before := now
	now, buckets, err = s.kernel.Facts()
	if err == nil {
		s.log.Info("IPVS timeouts changed", zap.Stringer("before", before), zap.Stringer("now", now))
	}
	return lvsFacts{err == nil, now, buckets}, err
}

// note remembers what does not work.
func (s *survival) note(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong[what] = err; err == nil {
		delete(s.wrong, what)
	}
}

// failed is what is noted.
func (s *survival) failed(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong[what]
}

// Release gives everything back, the sync daemons last: see connsync.
func (s *survival) Release(ctx context.Context, hurry <-chan struct{}) error {
	errs := []error{s.sync.Release(ctx, hurry)}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	if err := s.shield.Release(); err != nil && !errors.Is(err, shield.ErrUnsupported) {
		errs = append(errs, err)
	}
	if err := s.settings.Release(); err != nil {
		errs = append(errs, fmt.Errorf("giving settings of IPVS back: %w", err))
	}
	return errors.Join(errs...)
}
