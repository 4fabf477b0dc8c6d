package main

import (
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	// jitterInterval is the shortest there is.
	jitterInterval = 10 * time.Millisecond
	// jitterTime is for how long adverts are watched.
	jitterTime = 9 * time.Second
	busyLoops  = 4
)

// jitter measures how evenly adverts leave, at the shortest interval, of both
// daemons at the same time.
func jitter(st *lab.Stage, r *bench.Report) {
	t := r.Table("Adverts every 10 ms", fmt.Sprintf("One instance, a master alone; for %v each, both daemons at the same time on sites of their own. "+
		"Jitter: by how much the time between two adverts differs from 10 ms, half, 99 of 100 and all of them no more than. "+
		"Load: %d programs that compute without end, of usual priority. Drift: by how much the last adverts are off the schedule that the first ones began; whole intervals that were left out do not count. "+
		"Sent: of those that the time has room for.",
		jitterTime, busyLoops))
	for _, rt := range []bool{false, true} {
		var before []string
		how := ""
		if rt {
			before, how = []string{"vrrp_rt_priority 50"}, ", vrrp_rt_priority"
		}
		captures := map[string]*lab.Capture{}
		sources := map[string]netip.Addr{}
		for _, d := range bench.Daemons {
			l := lab.New(st, "d1", "cl")
			captures[d], sources[d] = l.Node("cl").Capture(), l.Node("d1").Addr()
			start(l.Node("d1"), d, before, lab.Instance{Priority: 200, Interval: jitterInterval, VIPs: []netip.Addr{lab.VIP()},
				Extra: []string{"garp_master_delay 0", "garp_master_refresh 0"}})
			l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
		}
		time.Sleep(2 * time.Second)
		for _, loaded := range []bool{false, true} {
			what := "idle" + how
			var stop func()
			if loaded {
				what, stop = "under load"+how, computeAlways(st)
				time.Sleep(500 * time.Millisecond)
			}
			from := time.Now()
			time.Sleep(jitterTime)
			to := time.Now()
			if stop != nil {
				stop()
			}
			gaps, drift, sent := map[string]bench.Series{}, map[string]time.Duration{}, map[string]string{}
			for _, d := range bench.Daemons {
				adverts := lab.Between(lab.From(captures[d].Adverts(51), sources[d]), from, to)
				gaps[d], drift[d] = evenness(adverts)
				sent[d] = fmt.Sprintf("%d of %d", len(adverts), to.Sub(from)/jitterInterval)
			}
			line := t.Add("jitter, "+what+": 50 %, 99 %, all", percentiles(gaps["vipd"]), percentiles(gaps["keepalived"]))
			if !loaded || rt {
				limit := gaps["keepalived"].At(0.99) + time.Millisecond
				line.Want("99 % ≤ keepalived's + 1 ms", len(gaps["vipd"]) > 0 && gaps["vipd"].At(0.99) <= limit)
			}
			line = t.Add("drift, "+what, bench.MS(drift["vipd"]), bench.MS(drift["keepalived"]))
			if !loaded || rt {
				line.Want("0 (within 1 ms)", len(gaps["vipd"]) > 0 && drift["vipd"].Abs() <= time.Millisecond)
			}
			t.Add("adverts sent, "+what, sent["vipd"], sent["keepalived"])
		}
		st.Close()
	}
}

// evenness returns by how much each gap differs from the interval, and how far the
// last adverts are off the schedule of the first.
func evenness(list []lab.Advert) (gaps bench.Series, drift time.Duration) {
	var off bench.Series // of each advert
	for i := range len(list) - 1 {
		gap := list[i+1].At.Sub(list[i].At)
		gaps = append(gaps, (gap - jitterInterval).Abs())
		last := time.Duration(0)
		if i > 0 {
			last = off[i-1]
		}
		off = append(off, last+gap-gap.Round(jitterInterval))
	}
	const some = 50 // of which the median is looked at: single ones may be late
	if len(off) < 2*some {
		return gaps, 0
	}
	return gaps, off[len(off)-some:].Median() - off[:some].Median()
}

func percentiles(s bench.Series) string {
	return fmt.Sprintf("%s, %s, %s", bench.MS(s.Median()), bench.MS(s.At(0.99)), bench.MS(s.Worst()))
}

// computeAlways starts programs that never wait, and returns what ends them.
func computeAlways(st *lab.Stage) (stop func()) {
	var running []*exec.Cmd
	for range busyLoops {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			st.Fatalf("starting a busy loop: %v", err)
		}
		running = append(running, c)
	}
	stop = func() {
		for _, c := range running {
			_ = c.Process.Kill() // ended already is fine
			_ = c.Wait()
		}
		running = nil
	}
	st.Cleanup(func() { stop() })
	return stop
}
