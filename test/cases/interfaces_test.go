package cases

import (
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
	"vipd/test/recreate"
)

// O20: an interface is deleted and made again, with a new index. Both nodes stay
// BACKUP for ever, or the VIPs never return.
//
// Claim: FAULT while the interface is absent, also when it never was there; back
// to normal in one election after it returns, with sockets and memberships on the
// new one; no restart. (VLAN and bond: test/kernel.)
func TestO20InterfaceDeletedAndRecreated(t *testing.T) {
	t.Parallel()
	// veth: the node's own cable. macvlan: only the upper interface goes.
	for name, k := range map[string]recreate.Kind{
		"veth": {
			Name: "eth0",
			Make: func(n *lab.Node) {
				if !hasLink(n, "eth0") {
					n.Plug(0)
				}
			},
			Del: func(n *lab.Node) { n.Unplug(0) },
		},
		"macvlan": {
			Name: "mv0",
			Make: func(n *lab.Node) { n.IP("link add mv0 link eth0 type macvlan mode bridge") },
			Del:  func(n *lab.Node) { n.IP("link del mv0") },
		},
	} {
		k.Noise = 700 * time.Millisecond
		t.Run(name, func(t *testing.T) { t.Parallel(); recreate.Run(t, k) })
	}
	later := recreate.Kind{
		Name: "mv0", Noise: 700 * time.Millisecond,
		Make: func(n *lab.Node) { n.IP("link add mv0 link eth0 type macvlan mode bridge") },
		Del:  func(n *lab.Node) { n.IP("link del mv0") },
	}
	t.Run("absent at start", func(t *testing.T) { t.Parallel(); recreate.Later(t, later) })
}

// O20, renamed: the interface is there, with the VIPs on it, under a name that is
// none of ours.
//
// Claim: the VIPs do not stay on it; with the name comes the old order.
func TestO20InterfaceRenamed(t *testing.T) {
	t.Parallel()
	p := quickPair(t)
	rename := func(from, to string) {
		p.d1.Sh("ip link set " + from + " down; ip link set " + from + " name " + to + "; ip link set " + to + " up")
	}
	rename("eth0", "away0")
	for _, f := range families() {
		p.WaitOwner(f.vip, 3*time.Second, "d2")
		p.waitNeigh(f, p.d2, time.Now().Add(time.Second))
	}
	logs := watchFamilies(p)
	time.Sleep(5 * quick)
	for i := range families() {
		onlyOwner(t, logs[i], "d2")
	}
	rename("away0", "eth0")
	for _, f := range families() {
		p.WaitOwner(f.vip, 3*time.Second, "d1")
		p.waitNeigh(f, p.d1, time.Now().Add(time.Second))
	}
}

func hasLink(n *lab.Node, dev string) bool {
	_, err := n.Try("ip", "link", "show", "dev", dev)
	return err == nil
}

// O24: the old holder lost its link but kept its carrier, another one took over;
// when the cable is plugged in again both have the VIP.
//
// Claim: within one advert interval the one with the lower priority hears the
// other and yields at once, whichever was there first, and its address is really
// gone from its kernel.
func TestO24DuplicateVIPAfterReplug(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		prio1, prio2 int
		extra2       []string
		winner       string
	}{
		{"d1 wins", 200, 100, nil, "d1"},
		{"d1 yields", 100, 200, []string{"nopreempt"}, "d2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, bothFamilies(lab.Instance{Priority: c.prio1}),
				bothFamilies(lab.Instance{Priority: c.prio2, Extra: c.extra2}))
			// An intermediate switch keeps d1's carrier up when its uplink is cut.
			p.Switch().Sh("ip link add far type bridge stp_state 0 forward_delay 0 mcast_snooping 0; ip link set far up" +
				"; ip link add up0 type veth peer name up1; ip link set up0 master far up; ip link set up1 master br0 up" +
				"; ip link set d1 master far")
			for _, f := range families() {
				p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d1), time.Now()) // through both switches
				p.greet(f)
			}
			p.Switch().IP("link set up1 down")
			cut := time.Now()
			for _, f := range families() {
				p.WaitOwner(f.vip, 6*time.Second, "d1", "d2")
			}
			time.Sleep(time.Until(cut.Add(10 * time.Second)))
			for _, f := range families() {
				p.WaitOwner(f.vip, time.Second, "d1", "d2") // d1 cannot know
			}
			winner, loser := p.d1, p.d2
			if c.winner == "d2" {
				winner, loser = p.d2, p.d1
			}
			heard := loser.Capture()
			logs := watchFamilies(p)
			healed := time.Now()
			p.Switch().IP("link set up1 up")
			for i, f := range families() {
				p.WaitOwner(f.vip, 5*time.Second, c.winner)
				// The bridge may take a second until packets pass, the winner's next advert another.
				contact := heard.WaitAdvert(5*time.Second, f.vrid, f.source(winner), healed)
				periods := logs[i].Stop()
				if took := periods[len(periods)-1].From.Sub(contact.At); took > 400*time.Millisecond {
					t.Errorf("%s: two owners until %v after the loser heard the winner", f.name, took)
				}
				if took := contact.At.Sub(healed); took > 2400*time.Millisecond {
					t.Errorf("%s: the winner was not heard for %v after the cable was back", f.name, took)
				}
				p.waitNeigh(f, winner, time.Now().Add(time.Second))
			}
			owners := watchFamilies(p)
			time.Sleep(3 * time.Second)
			for i, f := range families() {
				onlyOwner(t, owners[i], c.winner)
				for _, a := range loser.Addresses() {
					if a.Prefix.Addr() == f.vip {
						t.Errorf("%s: the loser still has %v on %s", f.name, a.Prefix, a.Dev)
					}
				}
			}
		})
	}
}

// O25: the interface is down, the log repeats that sending failed, and the node
// goes on as the leader.
//
// Claim: FAULT at once, when the interface is set down and when it loses its
// carrier: the VIP leaves the kernel, the peer takes over by the normal timeout,
// and status says why. When the link is back, so is the old order.
func TestO25InterfaceDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		down, up     func(n *lab.Node) time.Time
	}{
		{"set down", "eth0 is down", func(n *lab.Node) time.Time { return n.LinkDown(0) }, func(n *lab.Node) time.Time { return n.LinkUp(0) }},
		{"carrier lost", "eth0 has no carrier", func(n *lab.Node) time.Time { return n.PortDown(0) }, func(n *lab.Node) time.Time { return n.PortUp(0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := quickPair(t)
			at := c.down(p.d1)
			for _, f := range families() {
				p.Eventually(time.Until(at.Add(300*time.Millisecond)), f.name+": the VIP leaves d1's kernel at once", func() bool { return !p.d1.Has(f.vip) })
			}
			for _, f := range families() {
				first := p.seen.WaitAdvert(3*time.Second, f.vrid, f.source(p.d2), at)
				last, _ := lab.LastBefore(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), first.At)
				if took, want := first.At.Sub(last.At), downTimer(quick, 100); took < want-5*time.Millisecond || took > want+300*time.Millisecond {
					t.Errorf("%s: d2 took over %v after the last advert, want %v", f.name, took, want)
				}
				p.waitNeigh(f, p.d2, first.At.Add(time.Second))
				if i := p.v1.Status().Instance(f.instance); i.State != "FAULT" || !strings.Contains(i.Reason, c.reason) {
					t.Errorf("%s: status says %s (%s), want FAULT and %q", f.name, i.State, i.Reason, c.reason)
				}
			}
			if n := strings.Count(p.v1.Log(), "\n"); n > 40 {
				t.Errorf("%d log lines for one lost link:\n%s", n, p.v1.Log())
			}
			logs := watchFamilies(p)
			time.Sleep(time.Second)
			for i := range families() {
				onlyOwner(t, logs[i], "d2")
			}
			c.up(p.d1)
			for _, f := range families() {
				p.WaitOwner(f.vip, 4*time.Second, "d1")
				p.waitNeigh(f, p.d1, time.Now().Add(time.Second))
			}
		})
	}
}

// A BACKUP is frozen (a paused machine), and its interface is taken away and made
// anew meanwhile: nothing waits in its socket when it goes on.
//
// Claim: it does not take over for a moment, and listens anew, however short the
// freeze was; when the master is gone it takes over after a full down timer.
func TestFrozenBackupOnNewInterface(t *testing.T) {
	t.Parallel()
	p := quickPair(t)
	logs := watchFamilies(p)
	for range 2 {
		p.v2.Freeze()
		p.d2.Unplug(0)
		p.d2.Plug(0)
		time.Sleep(downTimer(quick, 100) + quick)
		p.v2.Thaw()
		time.Sleep(5 * quick)
	}
	for i, f := range families() {
		onlyOwner(t, logs[i], "d1")
		p.v2.WaitState(f.instance, "BACKUP", 5*time.Second)
	}
	if log := p.v2.Log(); strings.Contains(log, "BACKUP -> MASTER") {
		t.Error("d2 took over from a master that it could not hear")
	}
	at := p.v1.Kill()
	for _, f := range families() {
		p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d2), at)
	}
}
