package daemon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/settings/ipvssysctl"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/connsync"
	"vipd/ipvs/reconcile"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

// TestArmedAddresses: those with a service that are not here yet, or have not been for long.
func TestArmedAddresses(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := netip.MustParseAddr("10.9.0.100"), netip.MustParseAddr("10.9.0.101")
	vip := func(a netip.Addr) conf.VIP { return conf.VIP{Prefix: netip.PrefixFrom(a, 32)} }
	cfg := &conf.Config{
		Instances:      []conf.Instance{{Name: "A", VIPs: []conf.VIP{vip(a)}, Excluded: []conf.VIP{vip(b)}}},
		VirtualServers: []conf.VirtualServer{{Address: netip.AddrPortFrom(a, 80)}},
	}
	cfg.Global.Shield = 3 * time.Second
	here := &host.State{Links: map[string]*host.Link{"lo": {Addrs: []host.Addr{{Prefix: netip.PrefixFrom(a, 32)}}}}}
	for _, c := range []struct {
		name  string
		state vrrp.State
		ago   time.Duration
		here  *host.State
		mark  uint32
		want  []netip.Addr
		next  time.Duration
	}{
		{"not MASTER", vrrp.Backup, time.Hour, nil, 0, []netip.Addr{a}, 0},
		{"not MASTER, a real server's", vrrp.Backup, time.Hour, here, 0, nil, 0},
		{"just MASTER", vrrp.Master, time.Second, here, 0, []netip.Addr{a}, 2 * time.Second},
		{"MASTER for long", vrrp.Master, 3 * time.Second, nil, 0, nil, 0},
		{"marks may be any address", vrrp.Fault, 0, nil, 7, []netip.Addr{a, b}, 0},
	} {
		cfg.VirtualServers[0].FWMark = c.mark
		states := []router.InstanceStatus{{}, {}}
		states[0].Name, states[0].Status.State, states[0].Status.Since = "A", c.state, now.Add(-c.ago)
		states[1].Name = "gone"
		got, next := armedAddresses(now, cfg, states, c.here)
		if !slices.Equal(got, c.want) || next != c.next {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got, next, c.want, c.next)
		}
	}
}

func TestCrowded(t *testing.T) {
	if got := crowded(8*4096, 4096); got != "" {
		t.Error(got)
	}
	if got := crowded(100_000, 4096); !strings.Contains(got, "conn_tab_bits=17") || !strings.Contains(got, "24 of them") {
		t.Error(got)
	}
	if got := crowded(100_000, 0); got != "" {
		t.Error(got)
	}
	if !alike("100 connections", "200 connections") || alike("a", "b") {
		t.Error("problems that differ in their figures are told of again")
	}
}

// TestSurvivalOfConfiguration: what each key asks of the kernel.
func TestSurvivalOfConfiguration(t *testing.T) {
	cfg := &conf.Config{}
	if len(ipvsSettings(cfg)) != 0 || syncConfig(cfg) != nil {
		t.Error("a configuration without any asks for something")
	}
	cfg.Global.SyncDaemon = &conf.SyncDaemon{Interface: "eth1", Instance: "G", ID: 9, Port: 1, TTL: 2, Group: ipvs.DefaultSyncGroup()}
	want := map[string]string{"sync_threshold": "3 0", "sync_refresh_period": "10"}
	if got := ipvsSettings(cfg); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if c := syncConfig(cfg); c.Both || c.Daemon.ID != 9 || c.Daemon.Interface != "eth1" || c.Linger != syncLinger {
		t.Errorf("%+v", c)
	}
	cfg.Global.SyncDaemon.Instance = ""
	if !syncConfig(cfg).Both {
		t.Error("without an instance not both roles run")
	}
	cfg.VirtualServers = []conf.VirtualServer{{Survive: "mh", Scheduler: "mh", Protocol: "TCP", Address: netip.MustParseAddrPort("10.9.0.100:80")}}
	// What the operator says is what is set.
	cfg.IPVSSettings = []conf.IPVSSetting{{Name: "sync_refresh_period", Value: "30"}, {Name: "conn_reuse_mode", Value: "0"}, {Name: "sloppy_sctp", Value: "0"}}
	want = map[string]string{"sync_threshold": "3 0", "sync_refresh_period": "30", "sloppy_tcp": "1", "sloppy_sctp": "0", "conn_reuse_mode": "0"}
	if got := ipvsSettings(cfg); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := planService(&cfg.VirtualServers[0]); got.Flags != ipvs.FlagSched2 {
		t.Errorf("flags %x", got.Flags)
	}
}

// serving has instances of services, A and its companion B, and C of no service.
func serving() *conf.Config {
	vip := func(a string) []conf.VIP { return []conf.VIP{{Prefix: netip.PrefixFrom(netip.MustParseAddr(a), 32)}} }
	cfg := &conf.Config{
		Instances: []conf.Instance{
			{Name: "A", SyncGroup: "G", VIPs: vip("10.9.0.100")}, {Name: "B", SyncGroup: "G", VIPs: vip("10.9.1.1")}, {Name: "C", VIPs: vip("10.9.2.1")},
		},
		SyncGroups:     []conf.SyncGroup{{Name: "G", Members: []string{"A", "B"}}, {Name: "C", Members: []string{"A", "B"}}},
		VirtualServers: []conf.VirtualServer{{Address: netip.MustParseAddrPort("10.9.0.100:80")}},
	}
	cfg.Global.SyncDelay = time.Second
	cfg.Global.SyncDaemon = &conf.SyncDaemon{Interface: "eth0", Group: ipvs.DefaultSyncGroup()}
	return cfg
}

// TestWhoseConnections: an instance without services neither waits for connections, nor tells who is to be heard.
func TestWhoseConnections(t *testing.T) {
	cfg := serving()
	var delays []time.Duration
	for _, in := range routerInstances(cfg) {
		delays = append(delays, in.SyncDelay)
	}
	if want := []time.Duration{time.Second, time.Second, 0}; !slices.Equal(delays, want) {
		t.Errorf("sync_delay is %v, want %v", delays, want)
	}
	for name, want := range map[string][]string{"": {"A"}, "A": {"A"}, "C": {"C"}, "G": {"A", "B"}, "gone": nil} {
		if got := followed(cfg, name); !slices.Equal(got, want) {
			t.Errorf("followed by %q: %v, want %v", name, got, want)
		}
	}
	cfg.VirtualServers[0] = conf.VirtualServer{Group: "G", Members: []conf.Service{{Address: netip.MustParseAddrPort("10.9.2.1:80")}}}
	if got := followed(cfg, ""); !slices.Equal(got, []string{"C"}) {
		t.Errorf("with a group of services: %v", got)
	}
	cfg.VirtualServers[0] = conf.VirtualServer{FWMark: 7}
	if got := followed(cfg, ""); len(got) != 3 {
		t.Errorf("with marks: %v", got)
	}
}

// fakeShield records what is asked of it.
type fakeShield struct {
	did  []string
	gone bool
	err  error
}

func (f *fakeShield) Want(table string, armed []netip.Addr) error {
	f.did = append(f.did, fmt.Sprintf("%s %v", table, armed))
	return f.err
}

func (f *fakeShield) Look() (bool, error) {
	f.did = append(f.did, "look")
	return f.gone, f.err
}

func (f *fakeShield) Release() error {
	f.did = append(f.did, "release")
	return f.err
}

// noIPVS is a kernel without IPVS.
type noIPVS struct{}

func (noIPVS) Facts() (ipvs.Timeouts, int, error) { return ipvs.Timeouts{}, 0, ipvs.ErrAbsent }
func (noIPVS) SetTimeouts(ipvs.Timeouts) error    { return ipvs.ErrAbsent }
func (noIPVS) In(f func() error) error            { return f() }
func (noIPVS) Daemons() ([]ipvs.Daemon, error)    { return nil, ipvs.ErrAbsent }
func (noIPVS) StartDaemon(ipvs.Daemon) error      { return ipvs.ErrAbsent }
func (noIPVS) StopDaemon(ipvs.Role) error         { return ipvs.ErrAbsent }

// survivalRig is a survival with a shield that records, on a machine whose only instance is A.
func survivalRig(t *testing.T) (*survival, *fakeShield, func(vrrp.State)) {
	f := &fakeShield{}
	state := vrrp.Backup
	s := &survival{
		kernel: noIPVS{}, shield: f, settings: ipvssysctl.New(t.TempDir(), filepath.Join(t.TempDir(), "settings"), nil), log: zap.NewNop(), wake: make(chan struct{}, 1), wrong: map[string]error{},
		sync:  connsync.New(noIPVS{}, connsync.Group{}, filepath.Join(t.TempDir(), "syncdaemon"), zap.NewNop()),
		host:  func() *host.State { return &host.State{} },
		table: func() reconcile.Status { return reconcile.Status{} },
	}
	s.states = func() []router.InstanceStatus {
		out := make([]router.InstanceStatus, 1)
		out[0].Name, out[0].Status.State, out[0].Status.Since = "A", state, time.Now()
		return out
	}
	return s, f, func(to vrrp.State) { state = to }
}

// TestStatusWhileReloading: status may be asked for when a reload has reached some parts and not yet others.
func TestStatusWhileReloading(t *testing.T) {
	s, _, _ := survivalRig(t)
	cfg := serving()
	s.Configure(cfg)
	before := *cfg
	before.Global.SyncDaemon = nil
	var out status.Status
	s.Status(&out, &before, &reconcile.Status{})
	if out.Sync == nil || out.Sync.Interface != "eth0" || out.Sync.Follows != "" {
		t.Errorf("%+v", out.Sync)
	}
}

// TestShieldFollows: through a takeover, off and on again by reloads, and an address that comes between two looks.
func TestShieldFollows(t *testing.T) {
	s, f, to := survivalRig(t)
	cfg := serving()
	cfg.Global.Firewall.Table, cfg.Global.Shield = "vipd", 3*time.Second
	now := time.Now()
	expect := func(what string, woken bool, want ...string) {
		t.Helper()
		f.did = nil
		s.pass(now, woken)
		if !slices.Equal(f.did, want) {
			t.Errorf("%s: %q, want %q", what, f.did, want)
		}
		now = now.Add(100 * time.Millisecond)
	}
	s.Configure(cfg)
	expect("start", true, "vipd_shield [10.9.0.100]", "look")
	expect("later", false, "vipd_shield [10.9.0.100]")
	to(vrrp.Master)
	expect("a takeover looks whether the rules are there", true, "vipd_shield [10.9.0.100]", "look")
	now = now.Add(4 * time.Second)
	expect("MASTER for long", false, "vipd_shield []")
	off := *cfg
	off.Global.Shield = 0
	s.Configure(&off)
	expect("off", true, "release")
	expect("off still", false)
	s.Configure(cfg)
	expect("on again", true, "vipd_shield []", "look")
	f.err = errors.New("busy")
	s.Configure(&off)
	expect("off, refused", true, "release")
	if s.failed("shield") == nil {
		t.Error("rules that stay are not told of")
	}
	f.err = nil
	expect("off, tried again", false, "release")
	if err := s.failed("shield"); err != nil {
		t.Error(err)
	}

	// The takeover happens between the two looks.
	s, f, to = survivalRig(t)
	here := &host.State{}
	states := s.states
	s.host = func() *host.State { return here }
	s.states = func() []router.InstanceStatus {
		out := states()
		to(vrrp.Master)
		here = &host.State{Links: map[string]*host.Link{"eth0": {Addrs: []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.100/32")}}}}}
		return out
	}
	s.cfg = cfg
	expect("a takeover meanwhile", false, "vipd_shield [10.9.0.100]", "look")
}
