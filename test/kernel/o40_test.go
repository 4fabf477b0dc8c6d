package kernel

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// O40: whatever makes connect fail at once on the way to a server counts as a
// failure of that server, and of no other. What this machine lacks itself, free
// ports or descriptors, raises an alarm and takes nobody out.
func TestO40UnreachableServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	// Two servers on the second LAN, one on the first.
	list := []string{"10.8.0.11:80", "10.8.0.12:80", "10.9.0.13:80"}
	all := map[string]int{list[0]: 1, list[1]: 1, list[2]: 1}
	const service = "TCP 10.9.0.100:80"
	vipd := s.start(alone(o40Service(list...)))[0]
	d.WaitWeights(5*time.Second, service, all)

	for _, c := range []struct{ name, do, undo string }{
		{"unreachable route", "ip route add unreachable 10.8.0.11/32", "ip route del unreachable 10.8.0.11/32"},
		{"prohibit route", "ip route add prohibit 10.8.0.11/32", "ip route del prohibit 10.8.0.11/32"},
		{"blackhole route", "ip route add blackhole 10.8.0.11/32", "ip route del blackhole 10.8.0.11/32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := time.Now()
			d.Sh(c.do)
			seen := d.WaitWeights(outWithin, service, map[string]int{list[1]: 1, list[2]: 1})
			t.Logf("out after %v", seen.Sub(at))
			d.Sh(c.undo)
			d.WaitWeights(backWithin, service, all)
		})
	}
	t.Run("address removed", func(t *testing.T) {
		d.Sh("ip addr del 10.8.0.1/24 dev eth1")
		d.WaitWeights(outWithin, service, map[string]int{list[2]: 1})
		d.Sh("ip addr add 10.8.0.1/24 broadcast + dev eth1")
		d.WaitWeights(backWithin, service, all)
	})
	t.Run("no local port free", func(t *testing.T) { testNoPorts(t, s, vipd, service, list, all) })
	t.Run("no descriptor free", func(t *testing.T) { testNoDescriptors(t, s, vipd, service, all) })
	t.Run("afterwards a death is seen", func(t *testing.T) {
		s.servers[0].Kill()
		d.WaitWeights(outWithin, service, map[string]int{list[1]: 1, list[2]: 1})
	})
}

// o40Service is the service over servers of both LANs.
func o40Service(list ...string) string {
	return service("address = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"NAT\"\n", list...)
}

// stays fails the test unless the service has all its servers in every sample
// of a time in which a failed check would have taken them out.
func stays(t *testing.T, d *lab.Node, service string, all map[string]int) {
	t.Helper()
	for end := time.Now().Add(outWithin - slack); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		table, err := d.ProcTable()
		if err != nil {
			t.Fatal(err)
		}
		if len(table[service].Weights) != len(all) {
			t.Fatalf("the table is %v, want all of %v", table, all)
		}
	}
}

// alarm waits for an alarm with the words in vipd status.
func alarm(t *testing.T, s *site, vipd *lab.Daemon, words string, want bool) {
	t.Helper()
	text := ""
	s.Eventually(5*time.Second, fmt.Sprintf("an alarm with %q in the status: %v", words, want), func() bool {
		var err error
		text, err = vipd.Ctl("status", "--json")
		_, list, _ := strings.Cut(text, `"alarms"`)
		list, _, _ = strings.Cut(list, "]")
		return err == nil && strings.Contains(list, words) == want
	})
}

func testNoPorts(t *testing.T, s *site, vipd *lab.Daemon, service string, list []string, all map[string]int) {
	d := s.d[0]
	before := d.ReadSysctl("net/ipv4/ip_local_port_range")
	d.Sysctl("net/ipv4/ip_local_port_range", "40000 40001")
	// Somebody else on the director holds both ports towards each server.
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for _, to := range list {
		for taken := 0; taken < 2; {
			err := d.Go(func() error {
				c, err := net.DialTimeout("tcp", to, time.Second)
				if err == nil {
					held = append(held, c)
					taken++
				}
				return err
			})
			if err != nil { // a check has the port at this moment
				time.Sleep(20 * time.Millisecond)
			}
			if len(held) == 0 && err != nil && !strings.Contains(err.Error(), "assign") {
				t.Fatal(err)
			}
		}
	}
	stays(t, d, service, all)
	alarm(t, s, vipd, "ip_local_port_range", true)
	if !d.Has(vipA()) {
		t.Error("the VIP is gone")
	}
	d.Sysctl("net/ipv4/ip_local_port_range", strings.Join(strings.Fields(before), " "))
	alarm(t, s, vipd, "ip_local_port_range", false)
	stays(t, d, service, all)
}

func testNoDescriptors(t *testing.T, s *site, vipd *lab.Daemon, service string, all map[string]int) {
	d := s.d[0]
	var before unix.Rlimit
	limit := func(n uint64) {
		lim := before
		if n > 0 {
			lim.Cur = n
		}
		if err := unix.Prlimit(vipd.Pid(), unix.RLIMIT_NOFILE, &lim, nil); err != nil {
			t.Fatalf("setting the limit of vipd's open files: %v", err)
		}
	}
	if err := unix.Prlimit(vipd.Pid(), unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit(3) // below what it has open: nothing more can be opened
	adverts := s.cl.Capture()
	at := time.Now()
	stays(t, d, service, all)
	vipd.WaitLog("too many open files", 5*time.Second)
	if !d.Has(vipA()) {
		t.Error("the VIP is gone")
	}
	if n := len(lab.Between(adverts.Adverts(51), at, time.Now())); n < 3 {
		t.Errorf("%d adverts while there were no descriptors", n)
	}
	limit(0)
	alarm(t, s, vipd, "too many open files", false)
	stays(t, d, service, all)
}
