package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"vipd/conf"
)

// TestConnections: what keeps connections from surviving is told with its remedy.
func TestConnections(t *testing.T) {
	one := func(what string, got []string, want string) {
		t.Helper()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	d := &conf.SyncDaemon{Interface: "eth9", Group: netip.MustParseAddr("224.0.0.81")}
	one("reachable", syncGroup(d, nil), "")
	one("no route", syncGroup(d, fmt.Errorf("x: %w", unix.ENETUNREACH)), "ip route add 224.0.0.0/4 dev eth9")
	six := &conf.SyncDaemon{Interface: "eth9", Group: netip.MustParseAddr("ff02::81")}
	one("no route, IPv6", syncGroup(six, fmt.Errorf("x: %w", unix.ENETUNREACH)), "ip route add ff00::/8 dev eth9")
	one("no interface", syncGroup(d, errors.New("there is no interface eth9")), "there is no interface eth9")

	cfg := &conf.Config{VirtualServers: []conf.VirtualServer{{Protocol: "TCP"}}}
	one("idle", forgotten(cfg, 900*time.Second), "keepalive begins after 7200 s")
	one("long enough", forgotten(cfg, 7200*time.Second), "")
	cfg.VirtualServers[0].Protocol = "UDP"
	one("no TCP", forgotten(cfg, 900*time.Second), "")

	const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A090064:0050 wlc
  -> 0A09000B:0050      Route   1      %d          1000
`
	root := func(active int, bits string) fstest.MapFS {
		return fstest.MapFS{
			"proc/net/ip_vs": {Data: fmt.Appendf(nil, table, active)},
			"sys/module/ip_vs/parameters/conn_tab_bits": {Data: []byte(bits + "\n")},
		}
	}
	one("room", crowd(root(7*4096, "12")), "")
	one("crowded", crowd(root(9*4096, "12")), "conn_tab_bits=12")
	one("larger", crowd(root(9*4096, "16")), "")
	one("unreadable", crowd(root(9*4096, "x")), "")
	one("no kernel with it", crowd(fstest.MapFS{}), "")
}
