package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// group is a director with one group of services for the servers r1 and r2, which have one check each.
func group(addresses string) string {
	return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{vipA(), vipB()}}) +
		"\n[virtual_server_group.web]\naddress = [" + addresses + "]\nfwmark = [7]\n" +
		checked("group = \"web\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", "[virtual_server.TCP_CHECK]\nconnect_port = 80\n", "10.9.0.11", "10.9.0.12")
}

// TestServerGroup: the services of a group answer at every address of its ranges and for its firewall mark, a server that
// dies leaves all of them after one check, and a reload adds and removes services while the connections of the others go on.
func TestServerGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	const first, added, marked = 9400, 9401, 9402
	for _, p := range []uint16{first, added, marked} {
		s.serve(p, 2)
	}
	s.d[0].Exec("iptables-legacy", "-t", "mangle", "-A", "PREROUTING", "-d", vipA().String(), "-p", "tcp", "--dport", fmt.Sprint(marked), "-j", "MARK", "--set-mark", "7")
	d := s.start(group(fmt.Sprintf("\"10.9.0.100-101 %d\"", first)))[0]
	has := func(limit time.Duration, servers []int, services ...string) {
		t.Helper()
		s.Eventually(limit, fmt.Sprintf("%q have the servers %v, and nothing else is there", services, servers), func() bool {
			table := s.d[0].Table()
			for _, name := range services {
				port := uint16(0)
				if _, p, ok := strings.Cut(name, ":"); ok {
					_, _ = fmt.Sscan(p, &port)
				}
				if !maps.Equal(table[name].Weights, ports(port, servers...)) {
					return false
				}
			}
			return len(table) == len(services)
		})
	}
	a, b, mark := "TCP 10.9.0.100:9400", "TCP 10.9.0.101:9400", "FWM 7"
	has(5*time.Second, []int{1, 1}, a, b, mark)
	for _, to := range []netip.AddrPort{at(vipA(), first), at(vipB(), first), at(vipA(), marked)} {
		s.spread(t, to, 10, "r1", "r2")
	}

	began := s.servers[0].AcceptedFrom(s.d[0].Addr())
	time.Sleep(10 * delayLoop)
	if n := s.servers[0].AcceptedFrom(s.d[0].Addr()) - began; n < 5 || n > 13 {
		t.Errorf("r1 was checked %d times in 10 intervals", n)
	}
	s.servers[1].SetMode(lab.Refuse)
	has(outWithin, []int{1}, a, b, mark)
	if st := d.Status(); len(st.VirtualServers) != 1 || st.VirtualServers[0].State != "UP" {
		t.Errorf("status has %+v", st.VirtualServers)
	}

	conn := s.cl.Open(at(vipB(), first), 1, 1, patience)[0]
	before := scheduled(s.d[0], b)
	d.Reload(group(fmt.Sprintf("\"10.9.0.101 %d\", \"10.9.0.100 %d\"", first, added)))
	has(5*time.Second, []int{1}, b, "TCP 10.9.0.100:9401", mark) // r2 is still down
	if who, err := conn.Ask(patience); err != nil || who != "r1" {
		t.Errorf("the connection through a service that stayed: %q, %v", who, err)
	}
	if now := scheduled(s.d[0], b); now < before {
		t.Errorf("the service that stayed has had %d connections, and %d before: it was made anew", now, before)
	}
	s.spread(t, at(vipA(), added), 6, "r1")
	s.servers[1].SetMode(lab.Answer)
	has(backWithin, []int{1, 1}, b, "TCP 10.9.0.100:9401", mark)

	// Drained, r1 keeps its connection and gets no other of any service.
	s.told(t, d, "in group web tcp: takes no new connections", "drain", "10.9.0.11", "--service", "web")
	s.Eventually(2*time.Second, "r1 takes no new connections", func() bool { return s.d[0].Table()[b].Weights["10.9.0.11:9400"] == 0 })
	for _, to := range []netip.AddrPort{at(vipB(), first), at(vipA(), added), at(vipA(), marked)} {
		s.spread(t, to, 6, "r2")
	}
	if who, err := conn.Ask(patience); err != nil || who != "r1" {
		t.Errorf("the connection to the drained server: %q, %v", who, err)
	}
	s.told(t, d, "takes connections again", "undrain", "10.9.0.11", "--service", "group web tcp")
	has(2*time.Second, []int{1, 1}, b, "TCP 10.9.0.100:9401", mark)

	d.Kill()
	d.Again()
	d.WaitState("A", "MASTER", 10*time.Second)
	// What the dead daemon left is taken over: nothing of it is missing or twice.
	d.Reload(group(fmt.Sprintf("\"10.9.0.101 %d\"", first)))
	has(10*time.Second, []int{1, 1}, b, mark)
	d.Stop(10 * time.Second)
	has(time.Second, nil)
}
