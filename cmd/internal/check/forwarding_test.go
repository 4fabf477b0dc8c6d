package check

import (
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"

	"vipd/conf"
)

func TestForwarding(t *testing.T) {
	server := func(method, address string) conf.RealServer {
		return conf.RealServer{Method: method, Address: netip.MustParseAddrPort(address)}
	}
	cfg := &conf.Config{VirtualServers: []conf.VirtualServer{
		{Name: "web", RealServers: []conf.RealServer{server("DR", "10.9.0.21:80"), server("NAT", "10.9.0.22:80")}},
		{Name: "dr", RealServers: []conf.RealServer{server("DR", "10.9.0.21:81"), server("TUN", "[2001:db8::21]:81")}},
		{Name: "here", RealServers: []conf.RealServer{server("NAT", "127.0.0.1:82")}},
		{Name: "web6", RealServers: []conf.RealServer{server("NAT", "[2001:db8::21]:80")}},
	}}
	for name, c := range map[string]struct {
		v4, v6 string
		want   []string
	}{
		"on":        {"1", "1", nil},
		"not known": {"", "", nil},
		"off": {"0", "0", []string{
			"virtual_server web: under NAT the answers of its servers do not reach the clients while net.ipv4.ip_forward is 0; set it to 1",
			"virtual_server web6: under NAT the answers of its servers do not reach the clients while net.ipv6.conf.all.forwarding is 0; set it to 1",
		}},
	} {
		root := fstest.MapFS{
			"proc/sys/net/ipv4/ip_forward":          {Data: []byte(c.v4 + "\n")},
			"proc/sys/net/ipv6/conf/all/forwarding": {Data: []byte(c.v6 + "\n")},
		}
		if got := forwarding(cfg, root); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
