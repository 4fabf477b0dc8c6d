package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// lastVIP is behind all others in the table of services.
func lastVIP() netip.Addr { return netip.MustParseAddr("10.9.0.200") }

const (
	activePort, activeMarked = 9430, 9431

	activeServices = 1 + 16 + 16 + 1 + 1 // as activeGroup has them
)

// activeGroup is director i of two with the services of a group where its instance is MASTER.
func activeGroup(i int) string {
	return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: []int{200, 100}[i], Interval: brisk, VIPs: []netip.Addr{vipA(), lastVIP()}}) + fmt.Sprintf(`
[virtual_server_group.web]
address = ["10.9.0.100 %[1]d", "10.9.0.128-143 %[1]d", "10.9.0.160/28 %[1]d", "10.9.0.200 %[1]d"]
fwmark = [7]
`, activePort) + checked("group = \"web\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\nactive_on = \"master\"\nactive_instance = \"A\"\n",
		fmt.Sprintf("[virtual_server.TCP_CHECK]\nconnect_port = %d\n", activePort), "10.9.0.11", "10.9.0.12")
}

// TestActiveOnMasterGroup: the services of a group, of addresses, a range, a network and a mark, are where the instance is
// MASTER: all of them before a client can come to the address, and until none comes any more. A client that comes while
// the service is not there is refused by the director.
func TestActiveOnMasterGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	for _, r := range s.r[:2] {
		r.HoldVIP(lastVIP())
	}
	s.serve(activePort, 2)
	s.serve(activeMarked, 2)
	var vipd []*lab.Daemon
	for i, d := range s.d {
		d.Exec("iptables-legacy", "-t", "mangle", "-A", "PREROUTING", "-d", vipA().String(), "-p", "tcp", "--dport", fmt.Sprint(activeMarked), "-j", "MARK", "--set-mark", "7")
		// A director that is cut off is to find no server dead by that.
		vipd = append(vipd, d.Vipd(strings.Replace(activeGroup(i), `delay_loop = "300ms"`, `delay_loop = "60s"`, 1)))
	}
	at1 := func(owner int) {
		t.Helper()
		s.WaitOwner(lastVIP(), 15*time.Second, s.d[owner].Name)
		s.Eventually(5*time.Second, "the services are where the address is", func() bool {
			mine, theirs := s.d[owner].Table(), s.d[1-owner].Table()
			return len(mine) == activeServices && len(theirs) == 0 && len(mine["FWM 7"].Weights) == 2
		})
		for _, to := range []netip.AddrPort{at(vipA(), activePort), at(lastVIP(), activePort), at(vipA(), activeMarked)} {
			s.spread(t, to, 10, "r1", "r2")
		}
	}
	at1(0)
	for _, step := range []struct {
		name  string
		do    func()
		owner int
	}{
		{"d1 is cut off", func() { s.d[0].PortDown(0) }, 1},
		{"d1 is back", func() { s.d[0].PortUp(0) }, 0},
		{"d1 is stopped", func() { vipd[0].Stop(15 * time.Second) }, 1},
		{"d1 is started", func() { vipd[0].Again() }, 0},
	} {
		clients := s.hammer(at(lastVIP(), activePort))
		seen := s.cl.Capture()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		step.do()
		s.WaitOwner(lastVIP(), 15*time.Second, s.d[step.owner].Name)
		time.Sleep(300 * time.Millisecond)
		all, answered, refused := clients()
		first := lab.Filter(seen.GARPs(lastVIP()), func(g lab.ARP) bool { return g.At.After(began) })
		seen.Close()
		when := "nobody announced the address"
		if len(first) > 0 {
			when = fmt.Sprintf("announced after %v", first[0].At.Sub(began))
		}
		t.Logf("%s: %d connections, %d answered, %d refused; %s", step.name, all, answered, refused, when)
		late := strings.Contains(vipd[0].Log()+vipd[1].Log(), "come before the services") // said where the machine has too much to do
		if refused > 0 && !late || answered == 0 {
			t.Errorf("%s: %d of %d connections were refused, %d answered", step.name, refused, all, answered)
		}
		at1(step.owner)
	}
}

// hammer has four clients try to connect every few milliseconds. The result ends them, and tells how often they tried, were
// answered and were refused.
func (s *site) hammer(to netip.AddrPort) func() (all, answered, refused int) {
	var clients []*lab.Steady
	for range 4 {
		clients = append(clients, s.cl.Steady(to, time.Millisecond, 40*time.Millisecond))
	}
	return func() (all, answered, refused int) {
		for _, c := range clients {
			for _, a := range c.Stop() {
				all++
				if a.Err == nil {
					answered++
				}
				if errors.Is(a.Err, syscall.ECONNREFUSED) {
					refused++
				}
			}
		}
		return all, answered, refused
	}
}
