package kernel

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// LVS-DR behind a virtual MAC: clients' packets come in by the link with the virtual MAC and go to the servers by the
// interface, also where the machine filters by the way back (all.rp_filter = 1). The VIP has the virtual MAC for clients
// before and after a takeover.
func TestDRWithVirtualMAC(t *testing.T) {
	s := newSite(t, 2)
	const mac = "00:00:5e:00:01:33"
	for _, d := range s.d {
		d.Sysctl("net/ipv4/conf/all/rp_filter", "1")
	}
	conf := func(prio int) string {
		return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: prio, Interval: calm, VIPs: []netip.Addr{vipA()}, Extra: []string{"use_vmac"}}) +
			"\n" + web(vipA(), "rr", 1, 1, 1)
	}
	s.d[0].Vipd(conf(200))
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	s.d[1].Vipd(conf(100)).WaitState("A", "BACKUP", 15*time.Second)
	for _, d := range s.d {
		d.WaitWeights(10*time.Second, tcp(vipA()), weights(1, 1, 1))
	}
	balanced := func(by *lab.Node) {
		t.Helper()
		got, err := s.cl.Spread(at(vipA(), 80), 150, 4, 5*time.Second)
		shares(t, got, err, map[string]int{"r1": 50, "r2": 50, "r3": 50})
		if now := s.cl.Neigh(vipA()); now != mac {
			t.Errorf("the client has the VIP at %s, want the virtual MAC %s", now, mac)
		}
		if n := by.IP("-s -o link show dev vrrp.51"); !strings.Contains(n, "vrrp.51") {
			t.Errorf("%s has no link with the virtual MAC", by.Name)
		}
	}
	balanced(s.d[0])
	s.d[0].PortDown(0)
	s.WaitOwner(vipA(), 15*time.Second, "d2")
	balanced(s.d[1])
}
