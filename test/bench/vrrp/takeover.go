package main

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	// takeoverTrials is how often each kind of take-over is made with each daemon.
	takeoverTrials = 7
	// interval of the adverts of the pair.
	pairInterval = 100 * time.Millisecond
)

// site is a pair of one kind with a client.
type site struct {
	*lab.Lab
	daemon     string
	d1, d2, cl *lab.Node
	s1, s2     *subject
	conf       func(priority int) lab.Instance
}

// newSite starts a pair; d1 is the better one, and has the address.
func newSite(st *lab.Stage, daemon string, conf func(priority int) lab.Instance) *site {
	l := lab.New(st, "d1", "d2", "cl")
	s := &site{Lab: l, daemon: daemon, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl"), conf: conf}
	s.s1 = start(s.d1, daemon, nil, conf(200))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	s.s2 = start(s.d2, daemon, nil, conf(100))
	return s
}

// settled waits until d1 alone has the address and both have said all they had to, and
// has the client learn where it is: after the link was cut and back it was seen to ask d2
// still, where keepalived is, so that it had no answer before anything was measured.
func (s *site) settled() {
	s.WaitOwner(lab.VIP(), 20*time.Second, "d1")
	time.Sleep(4 * pairInterval)
	s.cl.Exec("ip", "neigh", "flush", "to", lab.VIP().String())
	s.cl.Exec("ping", "-c", "1", "-W", "3", lab.VIP().String())
}

// outage runs what interrupts the service while a client pings, and returns for how
// long the client had no answer, from its first question on.
func (s *site) outage(interrupt func()) time.Duration {
	ping := s.cl.Ping(time.Millisecond, lab.VIP())
	time.Sleep(2 * pairInterval)
	interrupt()
	probes := ping.Stop()
	gap, _ := lab.Outage(probes)
	if answered := lab.Answered(probes); len(answered) > 0 {
		return max(gap, answered[0].Got.Sub(probes[0].Sent))
	}
	return probes[len(probes)-1].Sent.Sub(probes[0].Sent)
}

// takeovers measures what a client sees of each kind of change.
func takeovers(st *lab.Stage, r *bench.Report) {
	t := r.Table("Take-overs", fmt.Sprintf("A pair at version 3, %v, priorities 200 and 100; a client pings the address every millisecond. "+
		"%d trials of each kind, the two daemons in turn: median and worst. Without an answer: the longest time between two replies; of a deletion, from just before it until the address was seen again.", pairInterval, takeoverTrials))
	sites := map[string]*site{}
	for _, d := range bench.Daemons {
		sites[d] = newSite(st, d, func(priority int) lab.Instance {
			return lab.Instance{Priority: priority, Interval: pairInterval, VIPs: []netip.Addr{lab.VIP()}}
		})
	}
	down := 3*pairInterval + (256-100)*pairInterval/256
	late, cut, stop, back, removed := map[string]bench.Series{}, map[string]bench.Series{}, map[string]bench.Series{}, map[string]bench.Series{}, map[string]bench.Series{}
	for range takeoverTrials {
		for _, d := range bench.Daemons {
			s := sites[d]
			s.settled()
			l, c := s.cutLink(down)
			late[d], cut[d] = append(late[d], l), append(cut[d], c)
			s.settled()
			stop[d] = append(stop[d], s.outage(func() {
				s.s1.p.Stop(10 * time.Second)
				s.WaitOwner(lab.VIP(), 10*time.Second, "d2")
				time.Sleep(2 * pairInterval)
			}))
			back[d] = append(back[d], s.outage(func() {
				s.s1 = start(s.d1, d, nil, s.conf(200))
				s.WaitOwner(lab.VIP(), 20*time.Second, "d1")
				time.Sleep(2 * pairInterval)
			}))
			s.settled()
			removed[d] = append(removed[d], s.deletion())
			time.Sleep(time.Second) // far enough apart to be no fight for the address
		}
	}
	t.Both(fmt.Sprintf("link cut: first advert of the new master after the RFC's down timer (%v)", down), late).
		Want("median within 1 ms", late["vipd"].Median().Abs() <= time.Millisecond)
	t.Both("link cut: without an answer", cut)
	t.Both("daemon stopped: without an answer", stop).
		Want("median ≤ keepalived's + 5 ms", stop["vipd"].Median() <= stop["keepalived"].Median()+5*time.Millisecond)
	t.Both("daemon started again: without an answer", back)
	t.Both("address deleted by hand: without an answer", removed).
		Want("median ≤ 5 ms", removed["vipd"].Median() <= 5*time.Millisecond)
}

// deletion deletes the address by hand and returns for how long the client had no
// answer around that: it is short enough for what else the machine does to be longer.
func (s *site) deletion() time.Duration {
	ping := s.cl.Ping(time.Millisecond, lab.VIP())
	time.Sleep(2 * pairInterval)
	from := s.d1.RemoveAddress(lab.VIP())
	s.Eventually(10*time.Second, "the address is back on d1", func() bool { return s.d1.Has(lab.VIP()) })
	back := time.Now()
	time.Sleep(2 * pairInterval)
	var longest time.Duration
	answered := lab.Answered(ping.Stop())
	for i := 1; i < len(answered); i++ {
		if before, after := answered[i-1].Got, answered[i].Got; after.After(from) && before.Before(back) {
			longest = max(longest, after.Sub(before))
		}
	}
	return longest
}

// cutLink cuts the link of d1 and returns how late d2 advertised itself and how long
// the client had no answer.
func (s *site) cutLink(down time.Duration) (late, gap time.Duration) {
	seen := s.cl.Capture()
	var cut time.Time
	gap = s.outage(func() {
		cut = s.d1.Isolate(0)
		s.Eventually(10*time.Second, "d2 has the address", func() bool { return s.d2.Has(lab.VIP()) })
		time.Sleep(2 * pairInterval)
	})
	last, ok1 := lab.LastBefore(lab.From(seen.Adverts(51), s.d1.Addr()), cut)
	first, ok2 := lab.FirstAfter(lab.From(seen.Adverts(51), s.d2.Addr()), cut)
	seen.Close()
	s.d1.Rejoin(0)
	if !ok1 || !ok2 {
		s.d1.Exec("sh", "-c", "echo no adverts were seen on the wire; exit 1")
	}
	return first.At.Sub(last.At) - down, gap
}
