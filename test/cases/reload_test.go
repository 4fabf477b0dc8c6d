package cases

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"vipd/test/lab"
)

// O34: removing one of five groups by a reload, and then a reload every second
// that adds an unrelated address, costs the other groups nothing: no reply, no
// announcement, no late advert, no change of state. (60 reloads with VIPD_LONG=1,
// 15 without.)
func TestO34ReloadLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	const interval = 300 * time.Millisecond
	reloads := 15
	if os.Getenv("VIPD_LONG") == "1" {
		reloads = 60
	}
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	var vips []netip.Addr
	for i := range 5 {
		vips = append(vips, netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)}))
	}
	extra := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(150 + i)}) }
	// groups on both, and a further one with unrelated addresses on d1 alone.
	conf := func(priority, groups, unrelated int) string {
		quiet := []string{"garp_master_refresh 0", "garp_master_delay 1"}
		var list []lab.Instance
		for i := range groups {
			list = append(list, lab.Instance{Name: fmt.Sprintf("G%d", i), VRID: uint8(51 + i), Priority: priority,
				Interval: interval, VIPs: vips[i : i+1], Extra: quiet})
		}
		if unrelated > 0 {
			other := lab.Instance{Name: "OTHER", VRID: 90, Priority: priority, Interval: interval, Extra: quiet}
			for i := range unrelated {
				other.VIPs = append(other.VIPs, extra(i))
			}
			list = append(list, other)
		}
		return lab.VipdConf("", list...)
	}
	master := d1.Vipd(conf(200, 5, 1))
	for _, v := range vips {
		l.WaitOwner(v, 15*time.Second, "d1")
	}
	d2.Vipd(conf(100, 5, 0))
	l.WaitOwner(extra(0), 15*time.Second, "d1")
	time.Sleep(4 * time.Second) // d2 has settled, the second burst of announcements is over

	rest := vips[:4]
	seen, ping := cl.Capture(), cl.Ping(50*time.Millisecond, rest...)
	began := time.Now()
	master.Reload(conf(200, 4, 1))
	l.WaitOwner(vips[4], 5*time.Second, "d2") // the reload acted: its peer has the group
	for i := range reloads {
		next := time.Now().Add(time.Second)
		master.Reload(conf(200, 4, 2+i))
		l.WaitOwner(extra(1+i), 5*time.Second, "d1")
		time.Sleep(time.Until(next))
	}
	probes, end := ping.Stop(), time.Now()

	if lost := lab.LostProbes(probes); len(lost) > 0 {
		t.Errorf("%d of %d replies lost, the first for %v, %v after the start", len(lost), len(probes), lost[0].Target, lost[0].Sent.Sub(began))
	}
	if seen.Lost() > 0 {
		t.Error("the capture is incomplete")
	}
	for i, v := range rest {
		if got := lab.Between(seen.Announcements(v), began, end); len(got) > 0 {
			t.Errorf("%d announcements for %v, the first %v after the start", len(got), v, got[0].At.Sub(began))
		}
		adverts := lab.Between(seen.Adverts(uint8(51+i)), began, end)
		if got := lab.From(adverts, d2.Addr()); len(got) > 0 {
			t.Errorf("d2 sent %d adverts for group %d", len(got), i)
		}
		judgeUntouched(t, i, lab.From(adverts, d1.Addr()), interval, began, end)
	}
	if got := lab.Between(seen.Announcements(extra(reloads)), began, end); len(got) == 0 {
		t.Error("the last unrelated address was never announced: the reloads did nothing")
	}
	t.Logf("%d reloads, %d pings", reloads, len(probes))
}

// judgeUntouched looks at the adverts of a group that no reload concerned.
func judgeUntouched(t *testing.T, group int, adverts []lab.Advert, interval time.Duration, began, end time.Time) {
	t.Helper()
	if want := int(end.Sub(began)/interval) - 3; len(adverts) < want {
		t.Errorf("group %d: %d adverts, want at least %d", group, len(adverts), want)
	}
	gap, from := lab.LongestGap(adverts)
	if gap > 2*interval {
		t.Errorf("group %d: no advert for %v, %v after the start", group, gap, from.Sub(began))
	}
	for _, a := range adverts {
		if a.Priority != 200 || len(a.Addrs) != 1 {
			t.Errorf("group %d: an advert with priority %d and %d addresses", group, a.Priority, len(a.Addrs))
			return
		}
	}
}
