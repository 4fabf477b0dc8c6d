package daemon

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/conf"
	"vipd/ipvs"
	"vipd/vrrp"
	"vipd/vrrp/router"
)

// TestObserveSurvival: what would be done for connections is told, compared with what the kernel has.
func TestObserveSurvival(t *testing.T) {
	cfg := serving()
	cfg.Global.SyncDelay = 30 * time.Second
	cfg.Global.SyncDaemon.ID = 5
	cfg.Global.Shield, cfg.Global.Firewall.Table = 3*time.Second, "vipd"
	cfg.Global.LVSTimeouts = conf.Timeouts{TCP: 7200 * time.Second}
	cfg.IPVSSettings = []conf.IPVSSetting{{Name: "conn_reuse_mode", Value: "1"}, {Name: "new_one", Value: "1"}}
	kernel := map[string]string{"sync_threshold": "3 50", "sync_refresh_period": "10", "conn_reuse_mode": "1"}
	f := &found{setting: func(name string) string { return kernel[name] }, loaded: true, timeouts: ipvs.Timeouts{TCP: 900 * time.Second, TCPFin: 120 * time.Second, UDP: 300 * time.Second}}
	d := ipvs.Daemon{Role: ipvs.SyncMaster, Interface: "eth0", ID: 5, MaxLen: 1472}
	other := d
	other.Role, other.ID = ipvs.SyncBackup, 6
	f.daemons = []ipvs.Daemon{d, other}
	const daemon = " --mcast-interface eth0 --syncid 5 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1"
	const rest = "would leave a MASTER of lower priority alone for 30s, until its connections are known (sync_delay): A, B"
	const shield = "would for 3s after a takeover send no TCP resets from 10.9.0.100 (nftables tables ip and ip6 vipd_shield)"
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, s := range survivalSteps(cfg, f) {
			if s.Warn {
				s.Text = "W " + s.Text
			}
			got = append(got, s.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:", what)
			for i := range max(len(got), len(want)) {
				g, w := append(got, make([]string, len(want))...)[i], append(want, make([]string, len(got))...)[i]
				if g != w {
					t.Errorf("  got  %s\n  want %s", g, w)
				}
			}
		}
	}
	expect("both roles",
		"would leave net.ipv4.vs.conn_reuse_mode = 1 as it is", "W could not set net.ipv4.vs.new_one to 1: this kernel does not have it",
		"would leave net.ipv4.vs.sync_refresh_period = 10 as it is", "would set net.ipv4.vs.sync_threshold from 3 50 to 3 0",
		"would change the timeouts of IPVS from tcp 900s, tcpfin 120s, udp 300s to tcp 7200s, tcpfin 120s, udp 300s",
		"would run: ipvsadm --start-daemon master"+daemon+" (there already)",
		"W would run: ipvsadm --start-daemon backup"+daemon+" (DIFFERS from the one there: ipvsadm --start-daemon backup --mcast-interface eth0 --syncid 6 --sync-maxlen 1472 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1)",
		rest, shield)

	cfg.IPVSSettings, f.timeouts.TCP, cfg.Global.SyncDaemon.Instance, cfg.Global.Shield = nil, 7200*time.Second, "A", 0
	kernel["sync_threshold"], f.daemons, f.reachable = "3 0", nil, unix.ENETUNREACH
	expect("of an instance",
		"would leave net.ipv4.vs.sync_refresh_period = 10 as it is", "would leave net.ipv4.vs.sync_threshold = 3 0 as it is",
		"would leave the timeouts of IPVS as they are: tcp 7200s, tcpfin 120s, udp 300s",
		"W global_defs.lvs_sync_daemon: the group 224.0.0.81 cannot be reached by eth0: the interface is down, or no route covers the group; nothing is synchronised until ip route add 224.0.0.0/4 dev eth0",
		"would run while A is MASTER: ipvsadm --start-daemon master"+daemon,
		"would run while A is not MASTER: ipvsadm --start-daemon backup"+daemon, rest)

	clear(kernel)
	cfg.Global.SyncDaemon, f.loaded = nil, false
	cfg.IPVSSettings = []conf.IPVSSetting{{Name: "conn_reuse_mode", Value: "1"}}
	expect("without IPVS", "would set net.ipv4.vs.conn_reuse_mode to 1", "would set the timeouts of IPVS: tcp 7200s, tcpfin 0s, udp 0s (0 keeps what there is)")
	cfg.IPVSSettings, f.loaded, f.err = nil, true, errors.New("no")
	cfg.Global.LVSTimeouts = conf.Timeouts{}
	expect("unreadable", "W the timeouts and sync daemons of IPVS cannot be compared: no")
	f.err = nil
	expect("nothing asked for")
}

// TestObserveRoles: a change of state tells which sync daemons would run.
func TestObserveRoles(t *testing.T) {
	cfg := &conf.Config{}
	master := router.TransitionEvent{Instance: "A", From: vrrp.Backup, To: vrrp.Master}
	if got := syncRoles(cfg, master); got != nil {
		t.Errorf("without a daemon: %q", got)
	}
	cfg.Global.SyncDaemon = &conf.SyncDaemon{Interface: "eth0", Group: netip.MustParseAddr("224.0.0.81")}
	if got := syncRoles(cfg, master); got != nil {
		t.Errorf("both roles: %q", got)
	}
	cfg.Global.SyncDaemon.Instance = "A"
	if got := syncRoles(cfg, master); len(got) != 1 || got[0] != "start the master sync daemon and stop the backup 3s later" {
		t.Errorf("MASTER: %q", got)
	}
	if got := syncRoles(cfg, router.TransitionEvent{Instance: "A", From: vrrp.Master, To: vrrp.Fault}); len(got) != 1 || got[0] != "start the backup sync daemon and stop the master 3s later" {
		t.Errorf("FAULT: %q", got)
	}
	for _, e := range []router.TransitionEvent{{Instance: "A", From: vrrp.Fault, To: vrrp.Backup}, {Instance: "B", From: vrrp.Backup, To: vrrp.Master}} {
		if got := syncRoles(cfg, e); got != nil {
			t.Errorf("%+v: %q", e, got)
		}
	}
	cfg.Global.SyncDaemon.Instance = "G"
	if got := syncRoles(cfg, router.TransitionEvent{Group: "G", From: vrrp.Backup, To: vrrp.Master}); len(got) != 1 {
		t.Errorf("of a group: %q", got)
	}
}
