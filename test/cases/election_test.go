package cases

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O07: of three directors the best one is rebooted, and two stay MASTER until
// somebody restarts them.
//
// Claim: through 20 restarts of the best, orderly and by power cut, some with the
// link still down for 2 s after the start, there are never two owners for longer
// than one advert interval plus skew, and the log names the peer that won.
func TestO07BestNodeReboots(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "d3", "cl")
	d1 := l.Node("d1")
	const interval = 200 * time.Millisecond
	vip := lab.VIP()
	priorities := []int{250, 150, 100}
	seen := l.Node("cl").Capture()
	var daemons []*lab.Daemon
	for i, n := range l.Nodes("d1", "d2", "d3") {
		daemons = append(daemons, n.Vipd(lab.VipdConf("", lab.Instance{Priority: priorities[i], Interval: interval, VIPs: []netip.Addr{vip}})))
	}
	l.WaitOwner(vip, 10*time.Second, "d1")
	owners := l.WatchOwners(vip, 50*time.Millisecond)
	for round := range 20 {
		reboot(l, daemons[0], round)
		l.WaitOwner(vip, 10*time.Second, "d1")
		won := seen.WaitAdvert(3*time.Second, 51, d1.Addr(), time.Now())
		time.Sleep(2 * interval)
		others := lab.Filter(lab.Between(seen.Adverts(51), won.At.Add(interval), time.Now()), func(a lab.Advert) bool { return a.Src != d1.Addr() })
		if len(others) > 0 {
			t.Errorf("round %d: d1 is back, and there is another master: %v", round, others)
		}
	}
	owners.Stop()
	if err := owners.Err(); err != nil {
		t.Error(err)
	}
	// Of the best director that can have lost: d2. The wire was judged in every round;
	// here the kernel's lock, which all namespaces share, may hold the removal and the
	// sampling up for as long again.
	limit := interval + interval*(256-150)/256 + 500*time.Millisecond
	for _, n := range []int{2, 3} {
		if got := owners.Longest(n); got > limit {
			t.Errorf("%d owners for %v, want at most %v: %v", n, got, limit, owners.Periods())
		}
	}
	if n := strings.Count(daemons[1].Log(), d1.Addr().String()+" has the higher priority 250"); n != 20 {
		t.Errorf("the log of d2 names d1 as the winner %d times, want 20", n)
	}
}

// reboot stops the daemon, as an orderly restart in even rounds and by a power cut
// (which also takes the address away) in odd ones, waits for a successor, and
// starts it again; in every third round its link comes up only 2 s later.
func reboot(l *lab.Lab, d *lab.Daemon, round int) {
	vip := lab.VIP()
	if round%2 == 0 {
		d.Stop(10 * time.Second)
	} else {
		d.Kill()
		d.Node.IP("addr del " + vip.String() + "/32 dev eth0")
	}
	l.WaitOwner(vip, 5*time.Second, "d2")
	if round%3 != 0 {
		d.Again()
		return
	}
	d.Node.LinkDown(0)
	d.Again()
	time.Sleep(2 * time.Second)
	d.Node.LinkUp(0)
}

// O12: a better director with nopreempt comes back and takes over all the same,
// mostly after a reboot of its host: its link comes up late, and the time to listen
// has run out by then.
//
// Claim: the time to listen begins when the interface can receive. A director with
// nopreempt, or of equal priority, stays BACKUP however late its link comes up.
// The same without nopreempt takes over, which proves that it could have.
func TestO12LateLinkDoesNotPreempt(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}
	for _, c := range []struct {
		name      string
		instance  lab.Instance // of d1
		rounds    int
		takesOver bool
		detection bool // of duplicate addresses: IPv6 is usable only a while after the link
	}{
		{name: "nopreempt, part 1", instance: lab.Instance{Priority: 200, NoPreempt: true}, rounds: 7},
		{name: "nopreempt, part 2", instance: lab.Instance{Priority: 200, NoPreempt: true}, rounds: 7},
		{name: "nopreempt, part 3", instance: lab.Instance{Priority: 200, NoPreempt: true}, rounds: 6, detection: true},
		{name: "equal priorities", instance: lab.Instance{Priority: 100}, rounds: 6},
		{name: "preempting", instance: lab.Instance{Priority: 200}, rounds: 1, takesOver: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.instance.Interval = 500 * time.Millisecond
			other := c.instance
			other.Priority, other.NoPreempt = 100, false
			p := newPair(t, bothFamilies(c.instance), bothFamilies(other))
			// The crash of a host: its daemon and its addresses are gone at once.
			p.v1.Kill()
			for _, f := range families() {
				for _, vip := range f.vips {
					p.d1.IP(fmt.Sprintf("addr del %v/%d dev eth0", vip, vip.BitLen()))
				}
				p.WaitOwner(f.vip, 8*time.Second, "d2")
			}
			listen := 2500 * time.Millisecond // a Master_Down_Interval is 1.6 s
			if c.detection {
				p.d1.Sysctl("net/ipv6/conf/eth0/accept_dad", "1")
				p.d1.Sysctl("net/ipv6/conf/eth0/dad_transmits", "1")
				listen += 2 * time.Second // 1 s, after a random delay of up to 1 s
			}
			for round := range c.rounds {
				lateLink(t, p, delays[round%len(delays)], listen, c.takesOver)
			}
		})
	}
}

// lateLink starts d1 with its link down, raises it after a while, and checks who
// is master a good while later.
func lateLink(t *testing.T, p *pair, delay, listen time.Duration, takesOver bool) {
	t.Helper()
	p.d1.LinkDown(0)
	began := time.Now()
	if p.v1.Running() {
		p.v1.Kill()
	}
	p.v1.Again()
	time.Sleep(time.Until(began.Add(delay)))
	p.d1.LinkUp(0)
	time.Sleep(listen)
	for _, f := range families() {
		want := []string{"d2"}
		if takesOver {
			want = []string{"d1"}
		}
		if got := p.Owners(f.vip); !slices.Equal(got, want) {
			t.Fatalf("%s, link up after %v: owned by %v, want %v", f.name, delay, got, want)
		}
		mine := lab.Between(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), began, time.Now())
		if (len(mine) > 0) != takesOver {
			t.Fatalf("%s, link up after %v: adverts of d1: %v", f.name, delay, mine)
		}
		if !takesOver && len(lab.Between(lab.From(p.seen.Adverts(f.vrid), f.source(p.d2)), began, time.Now())) == 0 {
			t.Fatalf("%s: no advert of d2 either", f.name)
		}
	}
}
