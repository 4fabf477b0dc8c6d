package router

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
)

func TestTrackWeights(t *testing.T) {
	tests := []struct {
		track        Track
		good, bad    int
		faultWhenBad bool
		faultOnGood  bool
	}{
		{Track{Weight: 0}, 0, 0, true, false},
		{Track{Weight: 0, Reverse: true}, 0, 0, false, true},
		{Track{Weight: 20}, 20, 0, false, false},
		{Track{Weight: 20, Reverse: true}, -20, 0, false, false},
		{Track{Weight: -20}, 0, -20, false, false},
		{Track{Weight: -20, Reverse: true}, 0, 20, false, false},
	}
	for _, tt := range tests {
		var good, bad vrrp.Env
		tt.track.apply(&good, true, "reason")
		tt.track.apply(&bad, false, "reason")
		if good.Weight != tt.good || bad.Weight != tt.bad || (len(bad.Faults) > 0) != tt.faultWhenBad || (len(good.Faults) > 0) != tt.faultOnGood {
			t.Errorf("%+v: good %+v, bad %+v", tt.track, good, bad)
		}
	}
}

func TestTrackScript(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackScripts = []Track{{Name: "chk"}, {Name: "load", Weight: -50}} }
		d1 := n.add("d1", "10.9.0.1", config(200, track))
		n.run(time.Minute)
		d1.wantState(vrrp.Init, "waiting for the first result of script chk")
		if got := d1.take(); len(got) != 0 {
			t.Errorf("not silent before the first result:\n%s", text(got))
		}
		d1.router.TrackResult("chk", true)
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d1.take()
		d1.router.TrackResult("load", false)
		if got := text(d1.take()); !strings.HasSuffix(got, "VI_1 advert 150\n") {
			t.Errorf("the lower priority was not told at once:\n%s", got)
		}
		d1.router.TrackResult("chk", false)
		synctest.Wait()
		d1.wantState(vrrp.Fault, "script chk failed")
		d1.router.TrackResult("chk", true)
		synctest.Wait()
		d1.wantState(vrrp.Backup, "listening")
	})
}

// TestPriorityDropFailsOver: d1 falls below d2, which preempts within its own
// down timer counted from the last advert it accepted.
func TestPriorityDropFailsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth1", Weight: -150}} }
		d1, d2 := n.boot("d1", config(200, track)), n.add("d2", "10.9.0.2", config(100))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3)})
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d2.take()
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": noCarrier(link(3))})
		n.run(4 * time.Second)
		n.wantOwners("d2")
		d1.wantState(vrrp.Backup, "10.9.0.2 has the higher priority 100 (ours 50)")
		d2.wantState(vrrp.Master, "preempting 10.9.0.1: our priority 100 is higher than its 50")
	})
}

func TestTrackInterfaceFault(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth1"}} }))
		for reason, l := range map[string]Link{"eth1 is down": down(link(3)), "eth1 has no carrier": noCarrier(link(3))} {
			d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": l})
			d1.wantState(vrrp.Fault, reason)
		}
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
		d1.wantState(vrrp.Fault, "eth1 does not exist")
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3)})
		d1.wantState(vrrp.Backup, "listening")
		d1.apply(config(200, func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth1", Reverse: true}} }))
		d1.wantState(vrrp.Fault, "eth1 is up")
	})
}

// TestResultOfUntrackedScriptIsNotKept: a late result of a script that a reload took
// out says nothing about a later script of that name.
func TestResultOfUntrackedScriptIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackScripts = []Track{{Name: "chk"}} }
		d1 := n.add("d1", "10.9.0.1", config(200))
		d1.router.TrackResult("chk", false)
		d1.apply(config(200, track))
		d1.wantState(vrrp.Backup, "listening")
		d1.router.TrackResult("chk", false)
		synctest.Wait()
		d1.wantState(vrrp.Fault, "script chk failed")
	})
}

// TestPriorityIsReported: a tracker that changes the priority is told with all that
// count now; the first environment, a reload and what changes nothing are not.
func TestPriorityIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) {
			in.TrackScripts = []Track{{Name: "chk", Weight: -50}}
			in.TrackInterfaces = []Track{{Name: "eth1", Weight: 20}}
		}
		d1 := n.add("d1", "10.9.0.1", config(200, track))
		both := map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.8.0.1")}
		d1.setLinks(both)
		d1.router.TrackResult("chk", true)
		d1.router.TrackResult("chk", false)
		d1.apply(config(199, track))
		if got := d1.router.Status()[0].Weights; got != "eth1 is up (+20); script chk failed (-50)" {
			t.Errorf("status has %q", got)
		}
		delete(both, "eth1")
		d1.setLinks(both)
		d1.router.TrackResult("chk", true)
		d1.take()
		want := []PriorityEvent{
			{"VI_1", vrrp.Backup, 200, 220, false, "eth1 is up (+20)"},
			{"VI_1", vrrp.Backup, 220, 170, false, "eth1 is up (+20); script chk failed (-50)"},
			{"VI_1", vrrp.Backup, 169, 149, false, "script chk failed (-50)"},
			{"VI_1", vrrp.Backup, 149, 199, false, ""},
		}
		if !slices.Equal(d1.priorities, want) {
			t.Errorf("reported %v, want %v", d1.priorities, want)
		}
	})
}
