package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"vipd/test/lab"
)

// shareTest: what each server gets of many connections is what the weights say, within 2 % under rr and wrr. Under wlc
// and sed, which look at the connections that are open, it is within 10 %, of connections of which some hundred are open
// at once.
type shareTest struct {
	way
	scheduler string
	weights   []int
	open      bool // some connections are open at once; else each is closed at once
	percent   int
}

// way is how packets come to servers of a family.
type way struct {
	method string
	ipv6   bool
}

// shareTests are services on ports from 9600: 240 connections each under DR and IPv4. VIPD_CONNECTIONS=10000 has so many
// made in every way, and some of one client with persistence.
func shareTests() []serviceTest {
	ways, n := []way{{"DR", false}}, 240
	all, err := strconv.Atoi(os.Getenv("VIPD_CONNECTIONS"))
	if err == nil {
		ways, n = nil, all
		for _, method := range []string{"DR", "NAT", "TUN", "TUN type gue port 6080", "TUN type gre"} {
			ways = append(ways, way{method, false}, way{method, true})
		}
	}
	var out []serviceTest
	port := uint16(9600)
	add := func(what string, w way, config string, test func(t *testing.T, s *site, port uint16)) {
		p := port
		port++
		out = append(out, serviceTest{fmt.Sprintf("%s by %s, IPv6 %v", what, w.method, w.ipv6), config,
			func(s *site) { s.serve(p, 3) }, func(t *testing.T, s *site) { test(t, s, p) }})
	}
	for _, w := range ways {
		for _, c := range []shareTest{
			{w, "rr", []int{1, 1, 1}, false, 2}, {w, "wrr", []int{3, 2, 1}, false, 2}, {w, "wlc", []int{3, 2, 1}, true, 10}, {w, "sed", []int{3, 2, 1}, true, 10},
		} {
			add("shares under "+c.scheduler, w, w.config(port, c.scheduler, "", c.weights...),
				func(t *testing.T, s *site, port uint16) { c.test(t, s, port, n) })
		}
		if err == nil {
			add("persistence", w, w.config(port, "rr", "persistence_timeout = 60\n", 1, 1, 1), w.testPersistence)
		}
	}
	return out
}

// to is the service on a port.
func (w way) to(port uint16) netip.AddrPort {
	if w.ipv6 {
		return at(lab.VIP6(), port)
	}
	return at(vipA(), port)
}

func (w way) config(port uint16, scheduler, more string, weights ...int) string {
	network := map[bool]string{false: "10.9.0.%d:%d %d", true: "[2001:db8:9::%d]:%d %d"}[w.ipv6]
	if w.method == "NAT" { // answers come back through the director from the second LAN
		network = map[bool]string{false: "10.8.0.%d:%d %d", true: "[2001:db8:8::%d]:%d %d"}[w.ipv6]
	}
	var servers []string
	for j, weight := range weights {
		servers = append(servers, fmt.Sprintf(network, 11+j, port, weight))
	}
	return service(fmt.Sprintf("address = %q\nlvs_sched = %q\nlvs_method = %q\n%s", w.to(port), scheduler, w.method, more), servers...)
}

// has waits until the service has so many servers.
func (w way) has(s *site, port uint16, servers int) {
	s.Eventually(5*time.Second, "the service has its servers", func() bool { return len(s.d[0].Table()["TCP "+w.to(port).String()].Weights) == servers })
}

func (c shareTest) test(t *testing.T, s *site, port uint16, n int) {
	c.has(s, port, len(c.weights))
	// A port that the client uses again while IPVS has its connection is not scheduled: it must remember them all.
	s.cl.Sysctl("net/ipv4/tcp_max_tw_buckets", "100000")
	s.cl.Sysctl("net/ipv4/ip_local_port_range", "1024 65000")
	began, got := time.Now(), map[string]int{}
	if !c.open {
		var err error
		if got, err = s.cl.Spread(c.to(port), n, 8, 5*time.Second); err != nil {
			t.Errorf("%d connections failed, the first: %v", got[""], err)
		}
	} else {
		most := min(n/4, 500)
		for range n / most {
			conns := s.cl.Open(c.to(port), most, 8, 5*time.Second)
			for _, k := range conns {
				got[k.Server]++
			}
			hangUp(conns)
		}
	}
	t.Logf("%s by %s, IPv6 %v: %v of %d connections in %v", c.scheduler, c.method, c.ipv6, got, n, time.Since(began).Round(time.Millisecond))
	sum := 0
	for _, w := range c.weights {
		sum += w
	}
	for j, w := range c.weights {
		want := n * w / sum
		if diff := got[s.r[j].Name] - want; diff*100 > want*c.percent+100 || -diff*100 > want*c.percent+100 {
			t.Errorf("%s answered %d connections, want %d within %d %%", s.r[j].Name, got[s.r[j].Name], want, c.percent)
		}
	}
}

func (w way) testPersistence(t *testing.T, s *site, port uint16) {
	w.has(s, port, 3)
	got, err := s.cl.Spread(w.to(port), 40, 2, patience)
	if err != nil || len(got) != 1 {
		t.Errorf("one client was served by %v (%v), want one server for all connections", got, err)
	}
}

// openNAT has what comes from real servers' addresses in the second LAN go back through the director.
func (s *site) openNAT() {
	s.d[0].Sysctl("net/ipv4/ip_forward", "1")
	s.d[0].Sysctl("net/ipv6/conf/all/forwarding", "1")
	for _, r := range s.r {
		r.Sh(fmt.Sprintf(`ip rule add from %v lookup 100 && ip route add default via %v table 100 &&
ip -6 rule add from %v lookup 100 && ip -6 route add default via %v dev eth1 table 100`, r.AddrOn(1), s.d[0].AddrOn(1), r.Addr6On(1), s.d[0].Addr6On(1)))
	}
}
