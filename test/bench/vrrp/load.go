package main

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	// many instances run at once, each with one address.
	many = 200
	// loadTime is for how long costs are counted at short intervals.
	loadTime = 12 * time.Second
	// longLoadTime is the same at those of a second: who does little is to be
	// watched for long, or what else the machine does decides.
	longLoadTime = time.Minute
)

// loads are the intervals, and for how long the costs of each are counted.
var loads = []struct{ interval, counted time.Duration }{{time.Second, longLoadTime}, {100 * time.Millisecond, loadTime}}

// cost is what one daemon used up in one role.
type cost struct{ cpu, wakeups, memory float64 }

// load measures what many instances cost. Two sites run side by side: in each a
// master of one kind is heard by a backup of either kind. Costs are counted at
// the same time for all.
func load(st *lab.Stage, r *bench.Report) {
	t := r.Table(fmt.Sprintf("%d instances", many), fmt.Sprintf("One address each; announcements off but for one at the take-over. Two masters, one of each kind, each heard by a backup "+
		"of either kind, all at the same time; counted for %v at 1s, for %v at 100ms. CPU: of one processor, user and kernel, by the scheduler's accounts in "+
		"nanoseconds. Wake-ups: how often a thread had waited.", longLoadTime, loadTime))
	for _, l := range loads {
		interval := l.interval
		costs := loadAt(st, interval, l.counted)
		st.Close()
		for _, role := range []string{"MASTER", "BACKUP of a vipd", "BACKUP of a keepalived"} {
			v, k := costs[[2]string{"vipd", role}], costs[[2]string{"keepalived", role}]
			what := fmt.Sprintf("%v, %s: ", interval, role)
			t.Add(what+"CPU", fmt.Sprintf("%.2f %%", v.cpu), fmt.Sprintf("%.2f %%", k.cpu)).
				Want("≤ 1.5 × keepalived's", v.cpu <= 1.5*k.cpu)
			t.Add(what+"wake-ups a second", fmt.Sprintf("%.0f", v.wakeups), fmt.Sprintf("%.0f", k.wakeups))
			t.Add(what+"resident memory", fmt.Sprintf("%.1f MB", v.memory/1e6), fmt.Sprintf("%.1f MB", k.memory/1e6)).
				Want("≤ 40 MB", v.memory <= 40e6)
		}
	}
}

func manyInstances(priority int, interval time.Duration, extra ...string) []lab.Instance {
	var list []lab.Instance
	for i := range many {
		list = append(list, lab.Instance{
			Name: fmt.Sprintf("VI_%d", i+1), VRID: uint8(i + 1), Priority: priority, Interval: interval,
			VIPs:  []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 1, byte(i + 1)})},
			Extra: append([]string{"garp_master_delay 0", "garp_master_refresh 0", "garp_master_repeat 1"}, extra...),
		})
	}
	return list
}

// loadAt returns the costs by daemon and role, counted for some time.
func loadAt(st *lab.Stage, interval, counted time.Duration) map[[2]string]cost {
	var subjects []*subject
	var labs []*lab.Lab
	last := netip.AddrFrom4([4]byte{10, 9, 1, many})
	for _, master := range bench.Daemons {
		l := lab.New(st, "d1", "d2", "d3")
		labs = append(labs, l)
		m := start(l.Node("d1"), master, nil, manyInstances(200, interval)...)
		m.role = "MASTER"
		l.WaitOwner(last, 30*time.Second, "d1")
		for i, backup := range bench.Daemons {
			b := start(l.Nodes("d2", "d3")[i], backup, nil, manyInstances(100-10*i, interval, "down_timer_adverts 50")...) // a busy machine is no reason to take over
			b.role = "BACKUP of a " + master
			subjects = append(subjects, b)
		}
		subjects = append(subjects, m)
	}
	time.Sleep(2*interval + 3*time.Second)
	before := make([]lab.Usage, len(subjects))
	for i, s := range subjects {
		before[i] = s.p.Usage()
	}
	time.Sleep(counted)
	costs := map[[2]string]cost{}
	for i, s := range subjects {
		cpu, wakeups := s.p.Usage().Since(before[i])
		costs[[2]string{s.daemon, s.role}] = cost{cpu, wakeups, float64(s.p.AllMemory())}
	}
	for _, l := range labs {
		l.WaitOwner(last, 0, "d1") // else a backup was none
	}
	return costs
}
