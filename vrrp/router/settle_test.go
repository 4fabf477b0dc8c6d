package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
)

// transitions are the changes of state that a node made since the last call.
func (d *node) transitions() []string {
	var out []string
	for _, e := range d.take() {
		if strings.Contains(e.text, " -> ") {
			out = append(out, e.text)
		}
	}
	return out
}

// TestLinkDelays: a link counts as down, and as up again, after its delay; a change
// that is over before that never was.
func TestLinkDelays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		d1.router.Delay(map[string]LinkDelay{"eth0": {Down: time.Second, Up: 6 * time.Second}})
		set := func(l Link) { d1.setLinks(map[string]Link{"eth0": l}) }
		good := link(2, "10.9.0.1")
		n.run(5 * time.Second)
		n.wantOwners("d1") // what is up at the start is not delayed
		d1.take()

		for _, bad := range []Link{noCarrier(good), down(good)} {
			set(bad)
			n.run(900 * time.Millisecond)
			set(good)
			n.run(10 * time.Second)
			if got := d1.transitions(); len(got) > 0 {
				t.Errorf("0.9 s without link: %v", got)
			}
		}
		set(noCarrier(good))
		n.run(990 * time.Millisecond)
		d1.wantState(vrrp.Master, "")
		n.run(20 * time.Millisecond)
		d1.wantState(vrrp.Fault, "eth0 has no carrier")

		set(good)
		n.run(5900 * time.Millisecond)
		d1.wantState(vrrp.Fault, "eth0 is up again, which counts after 6s (interface_up_down_delays)")
		set(noCarrier(good)) // begins anew
		n.run(time.Second)
		set(good)
		n.run(5900 * time.Millisecond)
		d1.wantState(vrrp.Fault, "eth0 is up again")
		n.run(200 * time.Millisecond)
		d1.wantState(vrrp.Backup, "listening")

		d1.setLinks(map[string]Link{}) // an interface that is gone is gone at once
		d1.wantState(vrrp.Fault, "eth0 does not exist")
		set(good)
		n.run(5 * time.Second)
		d1.wantState(vrrp.Fault, "eth0 is up again")
		d1.router.Delay(nil) // a reload takes the delay out
		synctest.Wait()
		d1.wantState(vrrp.Backup, "listening")
	})
}

// TestTrackedLinkDelay: the delays hold for tracked interfaces, too.
func TestTrackedLinkDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth1"}} }))
		d1.router.Delay(map[string]LinkDelay{"eth1": {Down: 2 * time.Second}})
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3)})
		n.run(5 * time.Second)
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": down(link(3))})
		n.run(1900 * time.Millisecond)
		d1.wantState(vrrp.Master, "")
		n.run(200 * time.Millisecond)
		d1.wantState(vrrp.Fault, "eth1 is down")
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3)})
		d1.wantState(vrrp.Backup, "listening")
	})
}

// TestDeafBackupDoesNotTakeOver: the master's interval may be shorter than ours, so
// the listening can end within the delay of a link that is down.
func TestDeafBackupDoesNotTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		quick := func(in *Instance) { in.AdvertInterval = 100 * time.Millisecond }
		n.add("d1", "10.9.0.1", config(200, quick))
		n.run(time.Second)
		d2 := n.add("d2", "10.9.0.2", config(100))
		d2.router.Delay(map[string]LinkDelay{"eth0": {Down: 1500 * time.Millisecond}})
		n.run(2 * time.Second)
		d2.wantState(vrrp.Backup, "10.9.0.1 is master")
		d2.take()
		n.lan.SetLink("d2", false)
		d2.setLinks(map[string]Link{"eth0": noCarrier(link(2, "10.9.0.2"))})
		n.run(time.Second)
		d2.wantState(vrrp.Fault, "eth0 has no carrier")
		if got := d2.transitions(); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

// TestHold: nobody starts before the end of the delay, an owner neither, and nothing
// is sent; then everybody listens for the whole time.
func TestHold(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200), config(255, func(in *Instance) { in.Name, in.VRID = "own", 52 }))
		d1.router.Hold(time.Now().Add(30*time.Second), "the end of vrrp_startup_delay")
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
		n.run(29900 * time.Millisecond)
		d1.wantState(vrrp.Init, "waiting for the end of vrrp_startup_delay, until ")
		if got := d1.take(); len(got) > 0 {
			t.Errorf("not silent:\n%s", text(got))
		}
		n.run(200 * time.Millisecond)
		d1.wantState(vrrp.Backup, "listening")
		if got := d1.status("own").Status.State; got != vrrp.Master {
			t.Errorf("the owner is %v", got)
		}
		n.run(3 * time.Second)
		d1.wantState(vrrp.Backup, "listening")
		n.run(time.Second)
		n.wantOwners("d1")
	})
}

// TestReloadSendsNoTransientPriority (O32): priority and trackers change in one
// reload, and no advert carries the one without the other.
func TestReloadSendsNoTransientPriority(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		before := config(150)
		after := config(100, func(in *Instance) {
			in.TrackInterfaces = []Track{{Name: "eth1", Weight: 50}}
			in.TrackScripts = []Track{{Name: "chk", Weight: -10}}
		})
		d1 := n.boot("d1", before)
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3)})
		n.run(5 * time.Second)
		for range 20 {
			for _, cfg := range []Instance{after, before} {
				d1.take()
				d1.apply(cfg)
				d1.router.TrackResult("chk", true)
				n.run(1100 * time.Millisecond)
				if got := d1.status("VI_1").Status.EffectivePriority; got != 150 {
					t.Fatalf("effective priority %d", got)
				}
				for _, e := range d1.take() {
					if strings.Contains(e.text, "advert") && e.text != "VI_1 advert 150" || strings.Contains(e.text, " -> ") {
						t.Fatalf("%v", e)
					}
				}
			}
		}
		// Twin: a script that failed keeps its result over a reload that keeps it.
		d1.apply(after)
		d1.router.TrackResult("chk", false)
		synctest.Wait()
		for i := range 20 {
			d1.apply(config(100, func(in *Instance) {
				in.TrackInterfaces = []Track{{Name: "eth1", Weight: 50}}
				in.TrackScripts = []Track{{Name: "chk", Weight: -10 - i%2}}
			}))
			if got, want := int(d1.status("VI_1").Status.EffectivePriority), 140-i%2; got != want {
				t.Fatalf("after reload %d: effective priority %d, want %d", i, got, want)
			}
		}
		var sent []string
		for _, e := range d1.take() {
			if strings.HasPrefix(e.text, "VI_1 advert") && !slices.Contains(sent, e.text) {
				sent = append(sent, e.text)
			}
		}
		if want := "[VI_1 advert 140 VI_1 advert 139]"; fmt.Sprint(sent) != want {
			t.Errorf("adverts %v, want %s", sent, want)
		}
	})
}
