package acceptance

import (
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// Two directors, the master's link is cut: the backup's first advert comes one
// down-timer after the master's last one (RFC 9568 §6.1, RFC 3768 §6.1), the
// first announcement with it, and a client that pings every millisecond is
// answered at once. Keepalived is measured beside it, by the same instruments.
func TestFailover(t *testing.T) {
	t.Parallel()
	rates := []struct {
		name     string
		version  int
		interval time.Duration
	}{{"v2-1s", 2, time.Second}, {"v3-100ms", 3, 100 * time.Millisecond}, {"v3-10ms", 3, 10 * time.Millisecond}}
	for _, r := range rates {
		for _, daemon := range []string{"vipd", "keepalived"} {
			if daemon == "keepalived" && !exact() {
				continue // measured for comparison only
			}
			t.Run(r.name+"/"+daemon, func(t *testing.T) {
				measureFailover(t, daemon, r.version, r.interval)
			})
		}
	}
}

func measureFailover(t *testing.T, daemon string, version int, interval time.Duration) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	vip := lab.VIP()
	start := func(n *lab.Node, prio int) {
		i := lab.Instance{Version: version, Priority: prio, Interval: interval, VIPs: []netip.Addr{vip}}
		if daemon == "keepalived" {
			n.Keepalived(lab.KeepalivedConf("", i))
		} else {
			n.Vipd(lab.VipdConf("", i))
		}
	}
	start(d1, 200)
	l.WaitOwner(vip, 10*time.Second, "d1")
	start(d2, 100)
	time.Sleep(time.Second + 2*interval)

	down := 3*interval + time.Duration(256-100)*time.Second/256
	if version == 3 {
		down = 3*interval + time.Duration(256-100)*interval/256
	}
	var late, announced, answered []time.Duration
	for range trials(t, 3) {
		seen, ping := cl.Capture(), cl.Ping(time.Millisecond, vip)
		time.Sleep(interval + 200*time.Millisecond)
		cut := d1.Isolate(0)
		l.Eventually(10*time.Second, "d2 owns the VIP", func() bool { return d2.Has(vip) })
		time.Sleep(150 * time.Millisecond)
		probes := ping.Stop()
		last, ok1 := lab.LastBefore(lab.From(seen.Adverts(51), d1.Addr()), cut)
		first, ok2 := lab.FirstAfter(lab.From(seen.Adverts(51), d2.Addr()), cut)
		garp, ok3 := lab.FirstAfter(seen.GARPs(vip), cut)
		if !ok1 || !ok2 || !ok3 {
			t.Fatalf("not seen on the wire: last advert of d1 %v, first of d2 %v, announcement %v", !ok1, !ok2, !ok3)
		}
		reply, ok := firstAnswer(probes, d2.MAC())
		if !ok {
			t.Fatal("the client was never answered by d2")
		}
		seen.Close()
		late = append(late, first.At.Sub(last.At)-down)
		announced = append(announced, garp.At.Sub(first.At))
		answered = append(answered, reply.Sub(first.At))
		d1.Rejoin(0)
		l.WaitOwner(vip, 20*time.Second, "d1")
		time.Sleep(interval + 300*time.Millisecond)
	}
	t.Logf("%s v%d %v, %d trials: advert %v from the down-timer %v, announcement %v after it, client answered %v after it (medians; worst %v, %v, %v)",
		daemon, version, interval, len(late), median(late), down, median(announced), median(answered),
		worst(late), worst(announced), worst(answered))
	if daemon != "vipd" {
		return
	}
	check(t, "first advert after the down-timer", median(late).Abs(), bound(time.Millisecond, 30*time.Millisecond))
	check(t, "first announcement after the advert", median(announced), bound(2*time.Millisecond, 30*time.Millisecond))
	check(t, "client answered after the advert", median(answered), bound(3*time.Millisecond, 50*time.Millisecond))
}

// firstAnswer is when the first reply from mac came.
func firstAnswer(probes []lab.Probe, mac string) (at time.Time, ok bool) {
	for _, p := range probes {
		if !p.Lost() && p.MAC == mac && (!ok || p.Got.Before(at)) {
			at, ok = p.Got, true
		}
	}
	return at, ok
}

func check(t *testing.T, what string, got, limit time.Duration) {
	t.Helper()
	if got > limit {
		t.Errorf("%s: %v, want at most %v", what, got, limit)
	}
}

func worst(d []time.Duration) time.Duration {
	var w time.Duration
	for _, x := range d {
		w = max(w, x.Abs())
	}
	return w
}
