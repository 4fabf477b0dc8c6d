package daemon

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/conf"
	"vipd/ipvs"
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
	cfg.SyncGroups = []conf.SyncGroup{{Name: "G", Members: []string{"A", "B"}}}
	want := map[string]string{"sync_threshold": "3 0", "sync_refresh_period": "10"}
	if got := ipvsSettings(cfg); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if c := syncConfig(cfg); c.Both || c.Daemon.ID != 9 || c.Daemon.Interface != "eth1" || c.Linger != syncLinger {
		t.Errorf("%+v", c)
	}
	if got := followed(cfg, "G"); !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("%v", got)
	}
	if got := followed(cfg, "A"); !slices.Equal(got, []string{"A"}) {
		t.Errorf("%v", got)
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
	if cfg.Global.SyncDelay = time.Second; true {
		cfg.Instances = []conf.Instance{{Name: "A"}}
		if got := routerInstances(cfg); got[0].SyncDelay != time.Second {
			t.Errorf("sync_delay is %v", got[0].SyncDelay)
		}
	}
}
