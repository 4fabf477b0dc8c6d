package check

import (
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"vipd/conf"
	"vipd/vrrp/host"
)

// machineWith is a machine with eth0, 10.9.0.11/24.
func machineWith() host.State {
	return host.State{Links: map[string]*host.Link{"eth0": {Name: "eth0", Index: 2, Addrs: []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.11/24")}}}}}
}

func TestPaths(t *testing.T) {
	text := `static_ipaddress = ["10.70.0.1/24 dev eth0", "10.71.0.1/24 dev eth7"]
static_routes = ["10.80.0.0/16 via 10.70.0.9", "10.81.0.0/16 via 192.0.2.1", "10.82.0.0/16 dev eth0 src 10.70.0.1"]
[vrrp_instance.A]
interface = "eth0"
virtual_router_id = 51
virtual_ipaddress = ["10.9.0.100"]
use_vmac = true
virtual_routes = [
  "10.83.0.0/16 via 10.9.0.254 src 10.9.0.100", "10.84.0.0/16 via 192.0.2.2 dev eth0", "10.85.0.0/16 via 192.0.2.2 dev eth0 onlink",
  "10.86.0.0/16 dev eth8", "10.87.0.0/16 dev eth0 src 10.9.0.177", "10.88.0.0/16 via 203.0.113.9", "10.89.0.0/16 dev eth0", "10.90.0.0/16 via 10.89.0.1",
  "10.91.0.0/16 dev eth0 vrf blue", "10.92.0.0/16 dev vrrp.51", "2001:db8::/32 via fe80::1 dev eth0",
]
`
	cfg, diags := conf.Load(fstest.MapFS{"c.toml": {Data: []byte(text)}}, "c.toml", conf.Env{})
	if cfg == nil {
		t.Fatal(diags.Text())
	}
	cfg.Instances[0].Excluded = []conf.VIP{{Prefix: netip.MustParsePrefix("10.9.0.101/32"), Dev: "vrrp.51"}}
	if got := interfaces(cfg, machineWith()); len(got) > 0 {
		t.Errorf("an address on a link that vipd makes: %q", got)
	}
	got := paths(cfg, machineWith(), func(a netip.Addr) bool { return a == netip.MustParseAddr("203.0.113.9") })
	want := []string{
		"static_ipaddress: 10.71.0.1: interface eth7 does not exist",
		"static_routes: 10.81.0.0/16: no network of this machine leads to the gateway 192.0.2.1",
		"vrrp_instance.A.virtual_routes: 10.84.0.0/16: no network of this machine leads to the gateway 192.0.2.2",
		"vrrp_instance.A.virtual_routes: 10.86.0.0/16: interface eth8 does not exist",
		"vrrp_instance.A.virtual_routes: 10.87.0.0/16: no interface has the source address 10.9.0.177",
		"vrrp_instance.A.virtual_routes: 10.91.0.0/16: interface blue does not exist",
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) {
			t.Errorf("got %q, want it to begin with %q", got[i], w)
		}
	}
}
