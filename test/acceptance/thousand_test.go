package acceptance

import (
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// One takeover of 1,000 addresses at an interval of 100 ms, most of them
// excluded from the adverts: the first is announced with the first advert, the
// last soon after, and the adverts keep their cadence meanwhile.
func TestThousandVIPs(t *testing.T) {
	const interval, count = 100 * time.Millisecond, 1000
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	i := lab.Instance{Priority: 200, Interval: interval, VIPs: []netip.Addr{lab.VIP()}}
	for n := range count - 1 {
		i.Excluded = append(i.Excluded, netip.AddrFrom4([4]byte{10, 20, byte(n / 250), byte(1 + n%250)}))
	}
	start := func(n *lab.Node, prio int) {
		i.Priority = prio
		n.Vipd(lab.VipdConf("", i))
	}
	last := i.Excluded[count-2]
	start(d1, 200)
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	l.WaitOwner(last, 10*time.Second, "d1")
	start(d2, 100)
	time.Sleep(time.Second)

	var first, all, gaps []time.Duration
	for range trials(t, 1) {
		seen := cl.Capture()
		time.Sleep(interval)
		cut := d1.Isolate(0)
		// Not watched meanwhile: listing a thousand addresses again and again
		// would be part of what is measured.
		time.Sleep(10 * interval)
		l.Eventually(10*time.Second, "d2 owns the last VIP", func() bool { return d2.Has(last) })
		adverts := lab.Between(lab.From(seen.Adverts(51), d2.Addr()), cut, time.Now())
		if len(adverts) < 3 {
			t.Fatalf("d2 sent %d adverts", len(adverts))
		}
		announced := map[netip.Addr]time.Time{}
		for _, a := range seen.ARPs() {
			if _, ok := announced[a.Sender]; !ok && a.Gratuitous() && a.At.After(cut) && a.SenderMAC == d2.MAC() {
				announced[a.Sender] = a.At
			}
		}
		if len(announced) != count || seen.Lost() > 0 {
			t.Fatalf("%d of %d addresses announced (capture lost %d frames)", len(announced), count, seen.Lost())
		}
		earliest, latest := time.Duration(1<<62), time.Duration(0)
		for _, at := range announced {
			earliest, latest = min(earliest, at.Sub(adverts[0].At)), max(latest, at.Sub(adverts[0].At))
		}
		gap, _ := lab.LongestGap(adverts)
		first, all, gaps = append(first, earliest), append(all, latest), append(gaps, gap)
		seen.Close()
		d1.Rejoin(0)
		l.Eventually(20*time.Second, "d2 gave all up", func() bool { return !d2.Has(last) && !d2.Has(lab.VIP()) })
		l.WaitOwner(last, 20*time.Second, "d1")
		time.Sleep(500 * time.Millisecond)
	}
	t.Logf("%d addresses, %d trials: first announced %v after the advert, last %v, longest advert gap %v (medians; worst %v, %v, %v)",
		count, len(first), median(first), median(all), median(gaps), worst(first), worst(all), worst(gaps))
	check(t, "first address announced", median(first), bound(2*time.Millisecond, 50*time.Millisecond))
	check(t, "last address announced", median(all), bound(60*time.Millisecond, time.Second))
	check(t, "longest gap between adverts", median(gaps), bound(interval*12/10, 2*interval))
}
