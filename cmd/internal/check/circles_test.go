package check

import (
	"net/netip"
	"strings"
	"testing"

	"vipd/conf"
	"vipd/vrrp/host"
)

// Only a service that may send to its own director, by a method that leaves the packet as it is, is warned of.
func TestCircles(t *testing.T) {
	state := host.State{Links: map[string]*host.Link{"eth0": {Addrs: []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.11/24")}}}}}
	for _, c := range []struct {
		name string
		want bool
		edit func(*conf.Config)
	}{
		{"a director as real server", true, func(*conf.Config) {}},
		{"active_on", false, func(c *conf.Config) { c.VirtualServers[0].ActiveOn = "A" }},
		{"NAT", false, func(c *conf.Config) { c.VirtualServers[0].RealServers[1].Method = "NAT" }},
		{"another machine", false, func(c *conf.Config) {
			c.VirtualServers[0].RealServers[1].Address = netip.MustParseAddrPort("10.9.0.13:80")
		}},
		{"no other director", false, func(c *conf.Config) { c.Instances = nil }},
	} {
		cfg := &conf.Config{Instances: []conf.Instance{{Name: "A"}}, VirtualServers: []conf.VirtualServer{{Name: "web", RealServers: []conf.RealServer{
			{Address: netip.MustParseAddrPort("10.9.0.12:80"), Method: "DR"}, {Address: netip.MustParseAddrPort("10.9.0.11:80"), Method: "DR"},
		}}}}
		c.edit(cfg)
		got := circles(cfg, state)
		if (len(got) == 1) != c.want || len(got) > 0 && !strings.Contains(got[0], "web: real_server 10.9.0.11:80 is this machine") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
