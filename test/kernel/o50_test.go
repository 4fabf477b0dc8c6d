package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// circle is a site in which both directors are real servers of each other: the service's servers are d1, d2 and r1. The
// VIP is also on an interface of theirs that answers no ARP.
func circle(t *testing.T, own string) (*site, func(i int) string) {
	s := newSite(t, 2)
	for _, d := range s.d {
		d.HoldVIP(vipA())
		d.Serve(80, d.Name)
	}
	return s, func(i int) string { return s.inCircle(i, own) }
}

// inCircle is the configuration of director i.
func (s *site) inCircle(i int, own string) string {
	var list []string
	for _, n := range []*lab.Node{s.d[0], s.d[1], s.r[0]} {
		list = append(list, fmt.Sprintf("%v:80", n.Addr()))
	}
	return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: []int{200, 100}[i], Interval: brisk, VIPs: []netip.Addr{vipA()}}) +
		"\n" + service(fmt.Sprintf("address = \"%v:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n%s\n", vipA(), own), list...)
}

// crossed counts the packets of clients to the VIP that reached a node.
func crossed(c *lab.Capture) int {
	return len(lab.Filter(c.Frames(), func(f lab.Frame) bool {
		p, ok := f.Parse()
		return ok && !f.Sent && p.Protocol == 6 && p.Dst == vipA()
	}))
}

// tried makes connections and returns how many were answered and how many packets each other node saw.
func (s *site) tried(n int) (answered map[string]int, packets map[string]int) {
	seen := map[string]*lab.Capture{"d2": s.d[1].Capture(), "r1": s.r[0].Capture()}
	answered, _ = s.cl.Spread(at(vipA(), 80), n, 2, patience)
	packets = map[string]int{}
	for name, c := range seen {
		packets[name] = crossed(c)
		c.Close()
	}
	return answered, packets
}

// O50: directors that are real servers of each other. With the services on both, the other one balances again what it
// is sent as a server, and packets go in circles. With active_on they do not, before and after a takeover.
func TestO50DirectorsThatAreServers(t *testing.T) {
	t.Parallel()
	s, config := circle(t, `active_on = "master"`)
	d := []*lab.Daemon{s.d[0].Vipd(config(0)), s.d[1].Vipd(config(1))}
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	all := map[string]int{fmt.Sprintf("%v:80", s.d[0].Addr()): 1, fmt.Sprintf("%v:80", s.d[1].Addr()): 1, "10.9.0.11:80": 1}
	s.d[0].WaitWeights(5*time.Second, tcp(vipA()), all)
	s.d[1].WaitWeights(5*time.Second, tcp(vipA()), nil)
	if st, err := d[1].Ctl("status"); err != nil || !strings.Contains(st, "STANDBY: A is not MASTER") {
		t.Errorf("status of the standby: %v\n%s", err, st)
	}
	const n = 30
	answered, packets := s.tried(n)
	t.Logf("with active_on: answered %v, packets %v", answered, packets)
	shares(t, answered, nil, map[string]int{"d1": n / 3, "d2": n / 3, "r1": n / 3})
	// The share of d2 is as that of r1: a packet more or less is one of TCP's acknowledgements.
	if diff := packets["d2"] - packets["r1"]; diff < -n/3 || diff > n/3 {
		t.Errorf("d2 got %d packets and r1 %d for as many connections", packets["d2"], packets["r1"])
	}

	d[0].Kill()
	s.d[0].IP("addr del 10.9.0.100/32 dev eth0")
	s.WaitOwner(vipA(), 15*time.Second, "d2")
	s.d[1].WaitWeights(2*time.Second, tcp(vipA()), all)
	d[0].Again() // takes its leftovers away, and preempts
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	s.d[0].WaitWeights(2*time.Second, tcp(vipA()), all)
	s.d[1].WaitWeights(2*time.Second, tcp(vipA()), nil)

	// The twin: the same with the services on both.
	for i := range d {
		d[i].Reload(s.inCircle(i, ""))
		s.d[i].WaitWeights(5*time.Second, tcp(vipA()), all)
	}
	answered, packets = s.tried(n)
	t.Logf("services on both: answered %v, packets %v", answered, packets)
	if answered[""] == 0 || packets["d2"] < packets["r1"]+n {
		t.Error("without active_on nothing went in circles")
	}

	// The kernel's own answer, without a sync daemon and with one.
	s.d[1].Sysctl("net/ipv4/vs/backup_only", "1")
	answered, packets = s.tried(n)
	t.Logf("backup_only without a sync daemon: answered %v, packets %v", answered, packets)
	if answered[""] == 0 || packets["d2"] < packets["r1"]+n {
		t.Error("backup_only alone stops the circles")
	}
	s.d[1].Exec("ipvsadm", "--start-daemon", "backup", "--mcast-interface", "eth0", "--syncid", "7")
	answered, packets = s.tried(n)
	t.Logf("backup_only with a backup sync daemon: answered %v, packets %v", answered, packets)
	shares(t, answered, nil, map[string]int{"d1": n / 3, "d2": n / 3, "r1": n / 3})
}

// Which answer to O50 goes with connection synchronisation: a planned stop of d1 with established connections to r1, the
// sync daemons of the kernel running, once with active_on and once with the services on both and backup_only.
func TestO50WithConnectionSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, own string }{{"active_on", `active_on = "master"`}, {"backup_only", ""}} {
		t.Run(c.name, func(t *testing.T) {
			s, config := circle(t, c.own)
			for i, d := range s.d {
				d.Exec("ip", "route", "add", "224.0.0.0/4", "dev", "eth0")
				d.Sysctl("net/ipv4/vs/sync_threshold", "0 1")
				if c.name == "backup_only" {
					d.Sysctl("net/ipv4/vs/backup_only", "1")
				}
				d.Exec("ipvsadm", "--start-daemon", []string{"master", "backup"}[i], "--mcast-interface", "eth0", "--syncid", "7")
			}
			d := []*lab.Daemon{s.d[0].Vipd(config(0)), s.d[1].Vipd(config(1))}
			s.WaitOwner(vipA(), 15*time.Second, "d1")
			s.Eventually(10*time.Second, "the services of d1", func() bool { return len(s.d[0].Table()[tcp(vipA())].Weights) == 3 })
			var mine []*lab.Conn
			for _, conn := range s.cl.Open(at(vipA(), 80), 30, 2, patience) {
				if conn.Server == "r1" {
					mine = append(mine, conn)
				}
			}
			if len(mine) < 5 {
				t.Fatalf("%d connections at r1", len(mine))
			}
			time.Sleep(4 * time.Second) // the buffer is sent after 2 s at the latest
			t.Logf("entries on d2: %s", s.d[1].Sh("ipvsadm -Lnc | grep -c ESTABLISHED || true"))
			s.d[1].Sh("ipvsadm --stop-daemon backup; ipvsadm --start-daemon master --mcast-interface eth0 --syncid 7")
			d[0].Stop(15 * time.Second)
			s.WaitOwner(vipA(), 15*time.Second, "d2")
			s.d[1].Sh("ipvsadm -Ln")
			lost := 0
			for _, conn := range mine {
				if who, err := conn.Ask(patience); who != "r1" || err != nil {
					lost++
				}
			}
			t.Logf("%d of %d connections lost", lost, len(mine))
			if lost > 0 {
				t.Errorf("%d of %d connections lost at a planned stop", lost, len(mine))
			}
		})
	}
}
