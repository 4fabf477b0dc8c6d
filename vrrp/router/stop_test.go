package router

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
)

// stop begins to stop a node and returns a channel that is closed when it has.
func (d *node) stop(wait time.Duration) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.router.Stop(wait)
	}()
	synctest.Wait()
	return done
}

func ended(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// The addresses stay where they are until the successor speaks: at no time nobody has them.
func TestStopWaitsForTheSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		d2 := n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d1.take()
		d2.take()
		done, at := d1.stop(5*time.Second), n.now()
		n.wantOwners("d1")
		d1.wantState(vrrp.Master, "shutting down: the addresses stay until another router has taken over, at most 850ms")
		skew := vrrp.SkewTime(3, 100, time.Second)
		n.run(skew - 1)
		n.wantOwners("d1")
		if ended(done) {
			t.Error("the stop does not wait for the successor")
		}
		n.run(1)
		n.wantOwners("d2")
		if !ended(done) {
			t.Error("the stop goes on although the successor has spoken")
		}
		got := text(d1.take())
		want := text([]entry{{at, "VI_1 advert 0"}, {at, "VI_1 quiet"}, {at + skew, "VI_1 want false"}, {at + skew, "VI_1 MASTER -> INIT: shut down: 10.9.0.2 has taken over"}})
		if got != want {
			t.Errorf("stopping:\n%swant:\n%s", got, want)
		}
	})
}

// Nobody comes, and the stop ends by itself; a hurry, a lost link and the end of Run end it at once.
func TestStopWithoutSuccessor(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(d *node)
		reason string
		after  time.Duration
	}{
		"nobody comes": {func(*node) {}, "shut down: no other router has taken over", 850 * time.Millisecond},
		"hurry":        {func(d *node) { d.router.Hurry() }, "shut down at once", 0},
		"no carrier":   {func(d *node) { d.setLink("eth0", false) }, "shut down: eth0 has no carrier", 0},
		"Run ends":     {func(d *node) { d.cancel() }, "shut down at once", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", config(200))
				n.run(5 * time.Second)
				d1.router.Hurry() // of nothing
				d1.take()
				done, at := d1.stop(5*time.Second), n.now()
				tt.end(d1)
				n.run(tt.after)
				if !ended(done) {
					t.Error("the stop has not ended")
				}
				log := d1.take()
				if got := times(log, "VI_1 MASTER -> INIT: "+tt.reason); !slices.Equal(got, []time.Duration{at + tt.after}) {
					t.Errorf("stopped at %v:\n%swant %q after %v", at, text(log), tt.reason, tt.after)
				}
				if d1.notes != nil {
					t.Errorf("noted: %v", d1.notes)
				}
			})
		})
	}
}

// An advert that fails a check ends nothing, and is counted; its twin does.
func TestStopIsNotEndedByStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(5 * time.Second)
		done := d1.stop(5 * time.Second)
		advert := packet.Advert{Version: 3, VRID: 51, Priority: 100, Interval: time.Second, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.200")}}
		deliver := func() {
			d1.router.post(func() {
				in := d1.router.list[0]
				if reason := d1.router.admit(in, &advert, netip.MustParseAddr("10.9.0.3"), 255, time.Now()); reason == packet.DropNone {
					d1.router.feed(in, vrrp.Event{Kind: vrrp.EventAdvert, Advert: &advert, From: netip.MustParseAddr("10.9.0.3")})
				}
			})
		}
		deliver()
		if ended(done) {
			t.Error("a stranger's advert has ended the stop")
		}
		advert.Addrs = []netip.Addr{vip}
		deliver()
		if !ended(done) {
			t.Error("the successor's advert has not ended the stop")
		}
	})
}

// Each instance leaves with its own successor; a sync group has left with its last member, and says so once.
func TestStopOfGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", member("A", 200, "G"), member("B", 200, "G"), member("C", 200, ""))
		d1.setLinks(groupLinks(1))
		d2 := n.boot("d2", member("A", 100, ""), member("B", 50, ""))
		d2.setLinks(groupLinks(2))
		n.run(5 * time.Second)
		d1.take()
		done, at := d1.stop(5*time.Second), n.now()
		n.run(2 * time.Second)
		if !ended(done) {
			t.Error("the stop has not ended")
		}
		log := d1.take()
		for what, after := range map[string]time.Duration{
			"A want false": vrrp.SkewTime(3, 100, time.Second), "B want false": vrrp.SkewTime(3, 50, time.Second),
			"C want false": 850 * time.Millisecond, "group G MASTER -> INIT": vrrp.SkewTime(3, 50, time.Second),
		} {
			if got := times(log, what); !slices.Equal(got, []time.Duration{at + after}) {
				t.Errorf("%s at %v, want after %v of %v:\n%s", what, got, after, at, text(log))
			}
		}
		if n := strings.Count(text(log), "group G"); n != 1 {
			t.Errorf("the group is told of %d times", n)
		}
	})
}
