package cases

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

const (
	leavePace = 500 * time.Millisecond // interval of the adverts of directors that leave
	leaveSkew = leavePace * (256 - 100) / 256
)

// leavers are instances of both families.
func leavers(priority int, vmac bool) []lab.Instance {
	var list []lab.Instance
	for _, f := range families() {
		i := lab.Instance{Name: f.instance, VRID: f.vrid, VIPs: f.vips, Priority: priority, Interval: leavePace}
		if vmac {
			i.Extra = []string{"use_vmac"}
		}
		list = append(list, i)
	}
	return list
}

// leavingPair starts vipd on d1 as MASTER and a successor on d2; the client knows both addresses.
func leavingPair(t *testing.T, keepalived, vmac bool) (*vmacSite, *lab.Process) {
	t.Helper()
	l := lab.New(t, "d1", "d2", "cl")
	p := &pair{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	s := &vmacSite{p, map[string]*lab.Capture{"d1": l.Switch().CaptureOn("d1")}}
	p.seen = p.cl.Capture()
	p.v1 = p.d1.Vipd(lab.VipdConf("", leavers(200, vmac)...))
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	var next *lab.Process
	if keepalived {
		next = p.d2.Keepalived(lab.KeepalivedConf("", leavers(100, vmac)...))
		next.WaitLog("VI_6. Entering BACKUP STATE", 10*time.Second)
	} else {
		p.v2 = p.d2.Vipd(lab.VipdConf("", leavers(100, vmac)...))
		next = p.v2.Process
		for _, f := range families() {
			p.v2.WaitState(f.instance, "BACKUP", 10*time.Second)
		}
	}
	for _, f := range families() {
		p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d1), time.Now())
		p.cl.Exec("ping", "-c", "1", "-W", "3", f.vip.String())
	}
	return s, next
}

// A planned stop: between priority 0 and the first advert of the successor lies its skew time.
//
// Claim: the client has an answer all the time. The old director says nothing after priority 0, and has given the
// addresses up when the new one has announced them: the client ends at that one.
func TestPlannedStopIsNotFelt(t *testing.T) {
	t.Parallel()
	for _, keepalived := range []bool{false, true} {
		for _, vmac := range []bool{false, true} {
			t.Run(fmt.Sprintf("keepalived=%v,vmac=%v", keepalived, vmac), func(t *testing.T) {
				s, next := leavingPair(t, keepalived, vmac)
				owners := map[string]*lab.OwnerLog{}
				for _, f := range families() {
					owners[f.name] = s.WatchOwners(f.vip, 5*time.Millisecond)
				}
				pings, delayed := s.ping(), next.Delayed()
				at := s.v1.Signal(syscall.SIGTERM)
				if code := s.v1.Wait(3 * time.Second); code != 0 {
					t.Errorf("exit status %d", code)
				}
				if took := time.Since(at); took > 1500*time.Millisecond+s.seen.Stalled(at, time.Now())+delayed() {
					t.Errorf("the stop took %v", took)
				}
				for _, f := range families() {
					s.left(f, vmac, at, pings[f.name], owners[f.name], delayed)
				}
				calm(t, s.v1)
			})
		}
	}
}

// left checks how a family was handed over after the signal at a time, to a successor that was delayed since.
func (s *vmacSite) left(f family, vmac bool, at time.Time, ping *lab.Pinger, owners *lab.OwnerLog, delayed func() time.Duration) {
	t := s.t
	t.Helper()
	first := s.seen.WaitAdvert(3*time.Second, f.vrid, f.source(s.d2), at)
	s.WaitOwner(f.vip, time.Second, "d2")
	time.Sleep(300 * time.Millisecond)
	probes := ping.Stop()
	outage, from := lab.Unanswered(probes)
	owners.Stop()
	t.Logf("%s: the successor's advert came %v after the signal, the client was without answer for %v; nobody for %v, both for %v",
		f.name, first.At.Sub(at), outage, owners.Longest(0), owners.Longest(2))
	t.Logf("%s: that began %v after the signal; %d pings were lost", f.name, from.Sub(at), len(lab.LostProbes(probes)))
	slack := s.seen.Stalled(from, from.Add(outage)) + 2*delayed() // of its kernel's workers, too
	if most := leaveSkew/2 + slack; outage > most || owners.Longest(2) > most {
		t.Errorf("%s: the client was without answer for %v, both had the address for %v; want at most %v", f.name, outage, owners.Longest(2), most)
	}
	for i, a := range lab.Between(lab.From(s.seen.Adverts(f.vrid), f.source(s.d1)), at, time.Now()) {
		if i > 0 || a.Priority != 0 {
			t.Errorf("%s: d1 has advertised itself after the signal: %v", f.name, a)
		}
	}
	for _, a := range s.seen.Announcements(f.vip) {
		if a.MAC == s.d1.MAC() && !a.At.Before(at) {
			t.Errorf("%s: d1 has announced the address %v after the signal", f.name, a.At.Sub(at))
		}
	}
	if vmac {
		s.silentVMAC(s.d1, first.At.Add(5*time.Millisecond), time.Now(), f.name+": d1 was stopped")
		if port := s.FDB(f.virtualMAC()); port != "d2" {
			t.Errorf("%s: the bridge looks for the virtual MAC at %q", f.name, port)
		}
		return
	}
	s.keepsNeigh(f, s.d2, 200*time.Millisecond)
}

// alone starts a director that has nobody to leave its addresses to.
func alone(t *testing.T, global string, interval time.Duration) (*lab.Lab, *lab.Daemon) {
	t.Helper()
	l := lab.New(t, "d1", "cl")
	i := one("A", 51, `["10.9.0.100"]`)
	i.Interval = interval
	v := l.Node("d1").Vipd(lab.VipdConf(global, i))
	v.WaitState("A", "MASTER", 15*time.Second)
	l.WaitOwner(lab.VIP(), 2*time.Second, "d1")
	return l, v
}

// Nobody comes: the address answers to the end, status tells why it is still there, and all is gone within a second.
// With stop_wait = 0 it goes at once.
func TestStopWithNobodyThere(t *testing.T) {
	t.Parallel()
	for global, most := range map[string]time.Duration{"": time.Second, "[global_defs]\nstop_wait = 0\n": 150 * time.Millisecond} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			l, v := alone(t, global, time.Second)
			seen := l.Node("cl").Capture()
			at := v.Signal(syscall.SIGTERM)
			if global == "" {
				time.Sleep(200 * time.Millisecond)
				i := v.Status().Instance("A")
				if i.State != "MASTER" || !strings.Contains(i.Reason, "shutting down: the addresses stay until another router has taken over") {
					t.Errorf("while it waits it is %s: %s", i.State, i.Reason)
				}
				l.Never(300*time.Millisecond, "the address is gone before its time", func() bool { return kernelHas(v.Node, lab.VIP()) == "" })
			}
			l.WaitOwner(lab.VIP(), 3*time.Second)
			if took := time.Since(at) - seen.Stalled(at, time.Now()); took > most {
				t.Errorf("the address stayed for %v, want at most %v", took, most)
			}
			ended(t, v, 0, time.Second, lab.VIP())
			calm(t, v)
		})
	}
}

// A second signal ends the waiting: the address goes at once.
func TestSecondSignalEndsTheWaiting(t *testing.T) {
	t.Parallel()
	l, v := alone(t, "", time.Second)
	v.Signal(syscall.SIGTERM)
	l.Never(200*time.Millisecond, "the address is gone before its time", func() bool { return kernelHas(v.Node, lab.VIP()) == "" })
	at := v.Signal(syscall.SIGTERM)
	ended(t, v, 0, time.Second, lab.VIP())
	if took := time.Since(at); took > 400*time.Millisecond {
		t.Errorf("the end came %v after the second signal", took)
	}
	if !strings.Contains(v.Log(), "stopping at once: everything was given up") {
		t.Error("the log does not tell how the stop was cut short")
	}
	calm(t, v)
}

// A director that is killed while it waits leaves its address; the next start removes it before anything else.
func TestKilledWhileItWaits(t *testing.T) {
	t.Parallel()
	l, v := alone(t, "", time.Second)
	v.Signal(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	v.Kill()
	if kernelHas(v.Node, lab.VIP()) == "" {
		t.Fatal("the address is gone: the test would prove nothing")
	}
	v.Again()
	l.WaitOwner(lab.VIP(), 2*time.Second) // it listens for 3 s
	v.WaitLog("an address was here before", time.Second)
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
}
