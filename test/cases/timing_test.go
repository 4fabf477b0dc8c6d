package cases

import (
	"slices"
	"testing"
	"time"

	"vipd/test/lab"
)

// delayed is an instance whose takeover from a lesser master waits for 6 s.
func delayed(priority int) lab.Instance {
	return lab.Instance{Priority: priority, Interval: 200 * time.Millisecond, Extra: []string{"preempt_delay 6"}}
}

// owned waits until a director alone has the addresses of both families.
func owned(l *lab.Lab, name string, limit time.Duration) {
	for _, f := range families() {
		l.WaitOwner(f.vip, limit, name)
	}
}

// takenAfter checks that d1 takes both families over from d2, but not before a time.
func takenAfter(t *testing.T, l *lab.Lab, seen *lab.Capture, from time.Time, delay time.Duration) {
	t.Helper()
	d1 := l.Node("d1")
	for time.Now().Before(from.Add(delay - 100*time.Millisecond)) {
		for _, f := range families() {
			if got := l.Owners(f.vip); !slices.Equal(got, []string{"d2"}) {
				t.Fatalf("%s: %v after the start of the delay, owned by %v", f.name, time.Since(from), got)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	owned(l, "d1", 5*time.Second)
	for _, f := range families() {
		if early := lab.Between(lab.From(seen.Adverts(f.vrid), f.source(d1)), from, from.Add(delay-200*time.Millisecond)); len(early) > 0 {
			t.Errorf("%s: d1 advertised within the delay: %v", f.name, early)
		}
	}
}

// O13: after a power cut of both nobody becomes master until the preempt delay ends;
// elsewhere the delay is ignored when FAULT is left.
//
// Claim: where there is nobody to preempt the delay costs nothing; a better director
// that starts, or whose link comes back, takes over after the delay.
func TestO13PreemptDelay(t *testing.T) {
	t.Parallel()
	const delay = 6 * time.Second
	l := lab.New(t, "d1", "d2", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()

	both := time.Now()
	v2 := l.Node("d2").Vipd(bothFamilies(delayed(100)))
	v1 := d1.Vipd(bothFamilies(delayed(200)))
	for _, f := range families() {
		l.Eventually(4*time.Second, "an owner of "+f.name, func() bool { return len(l.Owners(f.vip)) > 0 })
	}
	if took := time.Since(both); took > 4*time.Second {
		t.Errorf("after a start of both there is an owner after %v", took)
	}

	v1.Stop(10 * time.Second)
	owned(l, "d2", 5*time.Second)
	began := time.Now()
	v1.Again()
	takenAfter(t, l, seen, began, delay)

	d1.PortDown(0)
	owned(l, "d2", 5*time.Second)
	time.Sleep(2 * time.Second)
	began = d1.PortUp(0)
	takenAfter(t, l, seen, began, delay)
	if !v1.Running() || !v2.Running() {
		t.Error("a daemon has ended")
	}

	// And silence ends no delay: the takeover from a dead master is as quick as ever.
	v1.Stop(10 * time.Second)
	owned(l, "d2", 5*time.Second)
	v1.Again()
	for _, f := range families() {
		seen.WaitAdvert(3*time.Second, f.vrid, f.source(l.Node("d2")), time.Now())
	}
	time.Sleep(2 * time.Second)
	v2.Kill()
	for _, f := range families() {
		seen.WaitAdvert(2*time.Second, f.vrid, f.source(d1), time.Now())
	}
}

// O21: after link-up a bond or a switch swallows packets for seconds; the director
// hears nobody, becomes master, and there are two.
//
// Claim: an up delay of interface_up_down_delays keeps it out of the election until
// it can hear: never two owners. Without the delay there are two, which proves that
// the swallowed packets matter.
func TestO21SilentAfterLinkUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, delays string
		double       bool
	}{
		{"delayed", "interface_up_down_delays = [\"eth0 0 5\"]\n", false},
		{"not delayed", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := func(priority int) string {
				return c.delays + bothFamilies(lab.Instance{Priority: priority, Interval: 200 * time.Millisecond})
			}
			p := newPair(t, conf(200), conf(100))
			p.d1.PortDown(0)
			owned(p.Lab, "d2", 5*time.Second)
			swallowed := p.Cut([]lab.Path{{To: p.d1}, {From: p.d1}}, "")
			up := p.d1.PortUp(0)
			double := 0
			for time.Now().Before(up.Add(4 * time.Second)) {
				for _, f := range families() {
					if len(p.Owners(f.vip)) > 1 {
						double++
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			swallowed.End()
			if (double > 0) != c.double {
				t.Errorf("%d samples with two owners", double)
			}
			owned(p.Lab, "d1", 6*time.Second)
		})
	}
}

// A link that is lost for less than its down delay moves nothing. Without the delay
// it does.
func TestShortLinkLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, delays string
		moves        bool
	}{
		{"delayed", "interface_up_down_delays = [\"eth0 1.5 0\"]\n", false},
		{"not delayed", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, c.delays+bothFamilies(lab.Instance{Priority: 200}), bothFamilies(lab.Instance{Priority: 100}))
			var resigned bool
			for range 3 {
				p.d1.PortDown(0)
				time.Sleep(400 * time.Millisecond)
				if p.v1.Status().Instances[0].State == "FAULT" {
					resigned = true
				}
				p.d1.PortUp(0)
				time.Sleep(time.Second)
			}
			if resigned != c.moves {
				t.Errorf("FAULT: %v", resigned)
			}
			for _, f := range families() {
				if got := p.Owners(f.vip); !c.moves && !slices.Equal(got, []string{"d1"}) {
					t.Errorf("%s: owned by %v", f.name, got)
				}
				theirs := lab.From(p.seen.Adverts(f.vrid), f.source(p.d2))
				if !c.moves && len(theirs) > 0 {
					t.Errorf("%s: d2 took over: %v", f.name, theirs)
				}
			}
		})
	}
}

// vrrp_startup_delay: nothing is sent and nothing owned before its end, then the
// usual election. The owner of the addresses waits, too.
func TestStartupDelay(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()
	began := time.Now()
	v := d1.Vipd("[global_defs]\nvrrp_startup_delay = 4\nvrrp_delay_after_boot = 1\n" + bothFamilies(lab.Instance{Priority: 200, Interval: 200 * time.Millisecond}))
	v.WaitState("VI_4", "INIT", 3*time.Second)
	for _, f := range families() {
		first := seen.WaitAdvert(10*time.Second, f.vrid, f.source(d1), began)
		if at := first.At.Sub(began); at < 4500*time.Millisecond || at > 7*time.Second {
			t.Errorf("%s: the first advert came after %v", f.name, at)
		}
	}
	owned(l, "d1", 2*time.Second)
	// A reload begins no delay.
	v.Reload("[global_defs]\nvrrp_startup_delay = 100\n" + bothFamilies(lab.Instance{Priority: 201, Interval: 200 * time.Millisecond}))
	time.Sleep(time.Second)
	for _, f := range families() {
		if a := seen.WaitAdvert(2*time.Second, f.vrid, f.source(d1), time.Now()); a.Priority != 201 {
			t.Errorf("%s: after the reload: %v", f.name, a)
		}
	}
}

// timer_expired_backup: a MASTER with nopreempt that was frozen until the other one
// took over leaves it the addresses. It is silent when it goes on.
func TestFrozenMasterListens(t *testing.T) {
	t.Parallel()
	like := lab.Instance{Interval: 200 * time.Millisecond, NoPreempt: true, Extra: []string{"timer_expired_backup true"}}
	first, second := like, like
	first.Priority, second.Priority = 200, 100
	p := newPair(t, bothFamilies(first), bothFamilies(second))
	p.v1.Freeze()
	time.Sleep(2 * time.Second)
	p.v1.Thaw()
	thawed := time.Now()
	owned(p.Lab, "d2", 3*time.Second)
	time.Sleep(2 * time.Second)
	for _, f := range families() {
		if mine := lab.Between(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), thawed, time.Now()); len(mine) > 0 {
			t.Errorf("%s: d1 advertised after it was thawed: %v", f.name, mine)
		}
		p.WaitOwner(f.vip, time.Second, "d2")
	}
}
