package kernel

import (
	"fmt"
	"testing"
	"time"

	"vipd/test/lab"
)

// tunnelTest is one way to wrap packets: what the configuration says, to which family of real servers, and the IP
// protocol that r1 must see.
type tunnelTest struct {
	method   string
	service6 bool // the service is IPv6
	server6  bool // the real servers are
	protocol uint8
	lan      int // of the real servers: checksums of GRE are taken on the second, where the tunnel asks for them
}

// tunnelTests is a service for each kind of tunnel, of both families and across them, on ports from 9100.
func tunnelTests() []serviceTest {
	const ipip, ipv6, gre, udp = 4, 41, 47, 17
	var out []serviceTest
	for i, c := range []tunnelTest{
		{"TUN", false, false, ipip, 0},
		{"TUN type gue port 6080", false, false, udp, 0},
		{"TUN type gue port 6080 csum", false, false, udp, 0},
		{"TUN type gue port 6080 remcsum", false, false, udp, 0},
		{"TUN type gre", false, false, gre, 0},
		{"TUN type gre csum", false, false, gre, 1},
		{"TUN", true, true, ipv6, 0},
		{"TUN type gue port 6080 csum", true, true, udp, 0},
		{"TUN type gre", true, true, gre, 0},
		{"TUN", false, true, ipip, 0},
		{"TUN", true, false, ipv6, 0},
	} {
		port := uint16(9100 + i)
		out = append(out, serviceTest{
			fmt.Sprintf("%s, IPv6 %v to %v", c.method, c.service6, c.server6), c.config(port),
			func(s *site) { s.serve(port, 2) }, func(t *testing.T, s *site) { c.test(t, s, port) },
		})
	}
	return out
}

// config is the service on a port of its own.
func (c tunnelTest) config(port uint16) string {
	vip, servers := at(vipA(), port), []string{fmt.Sprintf("10.%d.0.11:%d", 9-c.lan, port), fmt.Sprintf("10.%d.0.12:%d", 9-c.lan, port)}
	if c.service6 {
		vip = at(lab.VIP6(), port)
	}
	if c.server6 {
		servers = []string{fmt.Sprintf("[2001:db8:9::11]:%d", port), fmt.Sprintf("[2001:db8:9::12]:%d", port)}
	}
	return service(fmt.Sprintf("address = %q\nlvs_sched = \"rr\"\nlvs_method = %q\n", vip, c.method), servers...)
}

// openTunnels makes a real server that holds the IPv6 VIP the other end of every kind of tunnel.
func (s *site) openTunnels(r *lab.Node) {
	r.HoldVIP(lab.VIP6())
	r.Sh(`for d in tunl0 gre0 sit0 ip6gre0; do ip link set $d up || exit 1; done
ip link add any6 type ip6tnl mode any local ` + r.Addr6().String() + ` remote :: && ip link set any6 up
ip link add sums type gre local ` + r.AddrOn(1).String() + ` remote 0.0.0.0 icsum && ip link set sums up
ip fou add port 6080 gue && ip -6 fou add port 6080 gue
for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done`)
}

// test: the tunnel carries real connections to both servers.
func (c tunnelTest) test(t *testing.T, s *site, port uint16) {
	to := at(vipA(), port)
	if c.service6 {
		to = at(lab.VIP6(), port)
	}
	s.Eventually(5*time.Second, "the service has both servers", func() bool { return len(s.d[0].Table()["TCP "+to.String()].Weights) == 2 })
	seen := s.r[0].CaptureOn(fmt.Sprintf("eth%d", c.lan))
	s.spread(t, to, 20, "r1", "r2")
	seen.Close() // what the tests after this one send is not kept
	if n := len(lab.Filter(seen.Frames(), func(f lab.Frame) bool {
		p, ok := f.Parse()
		return ok && !f.Sent && p.Protocol == c.protocol && p.Dst.Is6() == c.server6
	})); n < 20 {
		t.Errorf("r1 got %d packets of protocol %d, want those of 10 connections", n, c.protocol)
	}
}
