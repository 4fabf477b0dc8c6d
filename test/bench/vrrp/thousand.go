package main

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	thousandTrials = 3
	thousandVIPs   = 1000
)

// thousand measures the take-over of very many addresses.
func thousand(st *lab.Stage, r *bench.Report) {
	t := r.Table("A thousand addresses in one take-over", fmt.Sprintf("One instance at 0.1 s with %d addresses, all but one of them excluded from the adverts "+
		"(they would not fit); the master's link is cut, %d times with each daemon in turn. Median and worst.", thousandVIPs, thousandTrials))
	conf := func(priority int) lab.Instance {
		i := lab.Instance{Priority: priority, Interval: pairInterval, VIPs: []netip.Addr{lab.VIP()}}
		for n := range thousandVIPs - 1 {
			i.Excluded = append(i.Excluded, netip.AddrFrom4([4]byte{10, 20, byte(n / 250), byte(1 + n%250)}))
		}
		return i
	}
	last := conf(0).Excluded[thousandVIPs-2]
	first, all, gaps := map[string]bench.Series{}, map[string]bench.Series{}, map[string]bench.Series{}
	sites := map[string]*site{}
	for _, d := range bench.Daemons {
		sites[d] = newSite(st, d, conf)
	}
	for range thousandTrials {
		for _, d := range bench.Daemons {
			s := sites[d]
			s.WaitOwner(last, 30*time.Second, "d1")
			s.settled()
			f, a, g := s.thousand(last)
			first[d], all[d], gaps[d] = append(first[d], f), append(all[d], a), append(gaps[d], g)
		}
	}
	t.Both("first address announced after the first advert", first)
	t.Both("last address announced after the first advert", all)
	t.Both("longest time between two adverts in the first second", gaps)
}

// thousand is one take-over.
func (s *site) thousand(last netip.Addr) (first, all, gap time.Duration) {
	seen := s.cl.Capture()
	time.Sleep(2 * pairInterval)
	cut := s.d1.Isolate(0)
	// Not watched meanwhile: listing a thousand addresses again and again would be part
	// of what is measured.
	time.Sleep(2 * time.Second)
	s.Eventually(20*time.Second, "d2 has the last address", func() bool { return s.d2.Has(last) })
	adverts := lab.Between(lab.From(seen.Adverts(51), s.d2.Addr()), cut, cut.Add(1500*time.Millisecond))
	announced := map[netip.Addr]time.Time{}
	s.Eventually(20*time.Second, "every address is announced", func() bool {
		for _, a := range seen.ARPs() {
			if _, ok := announced[a.Sender]; !ok && a.Gratuitous() && a.At.After(cut) && a.SenderMAC == s.d2.MAC() {
				announced[a.Sender] = a.At
			}
		}
		return len(announced) >= thousandVIPs && len(adverts) > 0
	})
	seen.Close()
	for _, at := range announced {
		took := at.Sub(adverts[0].At)
		if first == 0 || took < first {
			first = took
		}
		all = max(all, took)
	}
	gap, _ = lab.LongestGap(adverts)
	s.d1.Rejoin(0)
	s.Eventually(30*time.Second, "d2 gave all up", func() bool { return !s.d2.Has(last) && !s.d2.Has(lab.VIP()) })
	return first, all, gap
}
