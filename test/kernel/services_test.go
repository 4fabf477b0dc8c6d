package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// Every kind of service with real connections through it, and every rule about
// which servers are in the table. One director has them all at once, each on a
// port of its own.
func TestServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	config := lab.VipdConf("",
		lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{vipA()}},
		lab.Instance{Name: "A6", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{netip.MustParseAddr("fe80::9:100"), lab.VIP6()}})
	tests := slices.Concat(serviceTests(), attributeTests(), tunnelTests(), shareTests())
	for _, r := range s.r {
		s.openTunnels(r)
	}
	s.openNAT()
	for _, c := range tests {
		config += "\n" + c.config
		if c.prepare != nil {
			c.prepare(s)
		}
	}
	s.start(strings.ReplaceAll(config, `delay_loop = "300ms"`, `delay_loop = "3s"`)) // no server fails here
	s.WaitOwner(lab.VIP6(), 10*time.Second, "d1")
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// serviceTest is one service, what it needs at the real servers, and its test.
type serviceTest struct {
	name    string
	config  string
	prepare func(*site)
	test    func(*testing.T, *site)
}

// serve starts servers on a port of r1, r2, …, count of them.
func (s *site) serve(port uint16, count int) []*lab.Server {
	var list []*lab.Server
	for _, r := range s.r[:count] {
		list = append(list, r.Serve(port, r.Name))
	}
	return list
}

// on writes "address = VIP:port", the scheduler and the method.
func on(port uint16, scheduler, method, more string) string {
	return fmt.Sprintf("address = \"%v:%d\"\nlvs_sched = %q\nlvs_method = %q\n%s\n", vipA(), port, scheduler, method, more)
}

// ports is r1, r2, … on a port with weights; a negative one leaves it out.
func ports(port uint16, list ...int) map[string]int {
	m := map[string]int{}
	for i, w := range list {
		if w >= 0 {
			m[fmt.Sprintf("10.9.0.%d:%d", 11+i, port)] = w
		}
	}
	return m
}

func serviceTests() []serviceTest {
	return []serviceTest{
		{"UDP", checked(on(84, "rr", "DR", "protocol = \"UDP\""), "[virtual_server.TCP_CHECK]\nconnect_port = 80\n", "10.9.0.11:84", "10.9.0.12:84"),
			func(s *site) {
				for _, r := range s.r[:2] {
					r.ServeUDP(84, vipA(), r.Name)
				}
			}, testUDP},
		{"firewall mark", checked("fwmark = 7\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", "[virtual_server.TCP_CHECK]\nconnect_port = 85\n", "10.9.0.11", "10.9.0.12"),
			func(s *site) {
				s.serve(85, 2)
				s.d[0].Exec("iptables-legacy", "-t", "mangle", "-A", "PREROUTING", "-d", vipA().String(), "-p", "tcp", "--dport", "85", "-j", "MARK", "--set-mark", "7")
			}, testFirewallMark},
		{"IPv6", service(fmt.Sprintf("address = \"[%v]:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", lab.VIP6()), "[2001:db8:9::11]:80", "[2001:db8:9::12]:80"),
			nil, testIPv6},
		{"NAT with another port", service(on(8080, "rr", "NAT", ""), "10.8.0.12:86", "10.8.0.13:86"),
			func(s *site) {
				for _, r := range s.r[1:] {
					r.Serve(86, r.Name)
				}
			}, testNAT},
		{"persistence", service(on(88, "rr", "DR", "persistence_timeout = 60"), "10.9.0.11:88", "10.9.0.12:88", "10.9.0.13:88"),
			func(s *site) { s.serve(88, 3) }, testPersistence},
		{"every scheduler", everyScheduler(), nil, testSchedulers},
	}
}

// spread makes connections through a service and wants them on these servers
// in equal parts, or the test fails.
func (s *site) spread(t *testing.T, to netip.AddrPort, n int, names ...string) {
	t.Helper()
	got, err := s.cl.Spread(to, n, 2, patience)
	want := map[string]int{}
	for _, name := range names {
		want[name] = n / len(names)
	}
	shares(t, got, err, want)
}

func testUDP(t *testing.T, s *site) {
	s.d[0].WaitWeights(5*time.Second, "UDP 10.9.0.100:84", ports(84, 1, 1))
	got := map[string]int{}
	for range 20 {
		name, err := s.cl.AskUDP(at(vipA(), 84), patience)
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
	}
	shares(t, got, nil, map[string]int{"r1": 10, "r2": 10})
}

func testFirewallMark(t *testing.T, s *site) {
	s.d[0].WaitWeights(5*time.Second, "FWM 7", ports(0, 1, 1))
	s.spread(t, at(vipA(), 85), 40, "r1", "r2")
}

func testIPv6(t *testing.T, s *site) {
	s.d[0].WaitWeights(5*time.Second, fmt.Sprintf("TCP [%v]:80", lab.VIP6()), map[string]int{"[2001:db8:9::11]:80": 1, "[2001:db8:9::12]:80": 1})
	s.spread(t, at(lab.VIP6(), 80), 40, "r1", "r2")
}

func testNAT(t *testing.T, s *site) {
	s.d[0].WaitWeights(5*time.Second, "TCP 10.9.0.100:8080", map[string]int{"10.8.0.12:86": 1, "10.8.0.13:86": 1})
	s.spread(t, at(vipA(), 8080), 40, "r2", "r3")
}

func testPersistence(t *testing.T, s *site) {
	const service = "TCP 10.9.0.100:88"
	s.d[0].WaitWeights(5*time.Second, service, ports(88, 1, 1, 1))
	if p := s.d[0].Table()[service].Scheduler; p != "rr persistent 60" {
		t.Errorf("in the kernel it is %q, want rr persistent 60", p)
	}
	got, err := s.cl.Spread(at(vipA(), 88), 30, 2, patience)
	if err != nil || len(got) != 1 {
		t.Errorf("one client was served by %v (%v), want one server for all connections", got, err)
	}
}

// schedulers are all that the kernel has.
func schedulers() []string {
	return []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "mh", "dh", "sed", "nq", "fo", "ovf"}
}

// everyScheduler is a service for each, on ports from 9000.
func everyScheduler() string {
	var b strings.Builder
	for i, name := range schedulers() {
		b.WriteString(checked(on(uint16(9000+i), name, "DR", ""), "[virtual_server.TCP_CHECK]\nconnect_port = 80\n", fmt.Sprintf("10.9.0.11:%d", 9000+i)) + "\n")
	}
	return b.String()
}

func testSchedulers(t *testing.T, s *site) {
	s.d[0].WaitWeights(5*time.Second, fmt.Sprintf("TCP 10.9.0.100:%d", 9000+len(schedulers())-1), ports(uint16(9000+len(schedulers())-1), 1))
	table := s.d[0].Table()
	for i, name := range schedulers() {
		p := table[fmt.Sprintf("TCP 10.9.0.100:%d", 9000+i)]
		if p.Scheduler != name || p.Weights[fmt.Sprintf("10.9.0.11:%d", 9000+i)] != 1 {
			t.Errorf("%s: in the kernel it is %q with %v", name, p.Scheduler, p.Weights)
		}
	}
}
