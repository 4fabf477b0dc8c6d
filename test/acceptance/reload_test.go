package acceptance

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// Reloads that add or remove an unrelated address and real server, one a
// second: nobody else notices. Judged from a capture, a client's pings and the
// kernel's own report of address changes.
func TestReloads(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	l := lab.New(t, "d1", "d2", "cl", "r1")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	other := netip.MustParseAddr("10.9.0.150")
	vips := []netip.Addr{lab.VIP(), netip.MustParseAddr("10.9.0.101"), netip.MustParseAddr("10.9.0.102")}
	conf := func(prio int, extra bool) string {
		quiet := []string{"garp_master_refresh 0"}
		list := []lab.Instance{
			{Name: "A", VRID: 51, Priority: prio, Interval: interval, VIPs: vips[:2], Extra: quiet},
			{Name: "B", VRID: 52, Priority: prio, Interval: interval, VIPs: vips[2:], Extra: quiet},
			{Name: "C", VRID: 53, Priority: prio, Interval: interval, VIPs: []netip.Addr{netip.MustParseAddr("10.9.0.103")}, Extra: quiet},
		}
		servers := []string{"10.9.0.11"}
		if extra {
			list[2].VIPs = append(list[2].VIPs, other)
			servers = append(servers, "10.9.0.12")
		}
		text := lab.VipdConf("", list...) + "\n[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_method = \"DR\"\ndelay_loop = 1\n"
		for _, s := range servers {
			text += fmt.Sprintf("[[virtual_server.real_server]]\naddress = \"%s:80\"\n[virtual_server.real_server.TCP_CHECK]\n", s)
		}
		return text
	}
	m := d1.Vipd(conf(200, false))
	for _, v := range vips {
		l.WaitOwner(v, 10*time.Second, "d1")
	}
	d2.Vipd(conf(100, false))
	time.Sleep(7 * time.Second) // the second burst of announcements is over

	monitor := d1.Start("monitor", "ip", "-o", "monitor", "address", "route")
	seen, ping := cl.Capture(), cl.Ping(5*time.Millisecond, vips...)
	began := time.Now()
	n := trials(t, 12)
	for i := range n {
		next := began.Add(time.Duration(i+1) * time.Second)
		m.Reload(conf(200, i%2 == 0))
		want := []string{"d1"}
		if i%2 != 0 {
			want = nil
		}
		l.WaitOwner(other, 5*time.Second, want...)
		time.Sleep(time.Until(next))
	}
	probes := ping.Stop()
	end := time.Now()

	if lost := lab.LostProbes(probes); len(lost) > 0 {
		t.Errorf("%d of %d replies lost, the first at %v", len(lost), len(probes), lost[0].Sent.Sub(began))
	}
	for _, v := range vips {
		if got := lab.Between(seen.Announcements(v), began, end); len(got) > 0 {
			t.Errorf("%d announcements for %v, first %v after the start", len(got), v, got[0].At.Sub(began))
		}
	}
	var worstGap time.Duration
	for _, vrid := range []uint8{51, 52} {
		adverts := lab.Between(lab.From(seen.Adverts(vrid), d1.Addr()), began, end)
		gap, at := lab.LongestGap(adverts)
		worstGap = max(worstGap, gap)
		check(t, fmt.Sprintf("longest advert gap of VRID %d (%v after the start)", vrid, at.Sub(began)), gap,
			bound(interval*12/10, 2*interval))
		if got := lab.From(seen.Adverts(vrid), d2.Addr()); len(got) > 0 {
			t.Errorf("d2 sent %d adverts for VRID %d", len(got), vrid)
		}
	}
	for _, v := range vips {
		if s := monitor.Log(); containsAddress(s, v) {
			t.Errorf("the kernel's table of addresses or routes changed for %v:\n%s", v, s)
		}
	}
	if !containsAddress(monitor.Log(), other) {
		t.Error("the monitor saw nothing of the address that came and went: it proves nothing")
	}
	t.Logf("%d reloads, %d pings, longest advert gap %v", n, len(probes), worstGap)
}
