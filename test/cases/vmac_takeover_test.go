package cases

import (
	"slices"
	"testing"
	"time"

	"vipd/test/lab"
)

// vmacTakeover is what was seen of one takeover of a family.
type vmacTakeover struct {
	first    lab.Advert    // of the new master
	second   lab.Advert    // the one after it
	announce time.Duration // from the first advert to the first announcement
	heard    time.Duration // from the client's first question after the first advert to its first reply from the new master
	outage   time.Duration // of the client
}

// believed follows a takeover by a node while the client pings: the bridge, whose port is not flushed, must look for the
// virtual MAC at the new master from its first frame on. A keepalived needs up to one advert more.
func (s *vmacSite) believed(what string, to *lab.Node, at time.Time, pings map[string]*lab.Pinger, limit time.Duration) map[string]vmacTakeover {
	s.t.Helper()
	out, delayed := map[string]vmacTakeover{}, func() time.Duration { return 0 }
	for _, v := range []*lab.Daemon{s.v1, s.v2} {
		if v != nil && v.Node == to {
			delayed = v.Delayed()
		}
	}
	for _, f := range families() {
		var k vmacTakeover
		k.first = s.seen.WaitAdvert(limit, f.vrid, f.source(to), at)
		k.second = s.seen.WaitAdvert(limit, f.vrid, f.source(to), k.first.At.Add(time.Microsecond))
		ann, ok := lab.FirstAfter(lab.Filter(s.seen.Announcements(f.vip), func(a lab.Announcement) bool { return !a.At.Before(k.first.At) }), at)
		if k.first.SrcMAC != f.virtualMAC() || ok && ann.MAC != f.virtualMAC() {
			s.t.Errorf("%s: %s: the first advert of %s comes from %s, the announcement tells %s; want %s", what, f.name, to.Name, k.first.SrcMAC, ann.MAC, f.virtualMAC())
		}
		if ok { // who was master all the time has nothing to announce
			k.announce = ann.At.Sub(k.first.At)
		}
		s.Eventually(5*time.Second, what+": "+f.name+": "+to.Name+" answers the client", func() bool {
			_, ok := answerOf(pings[f.name].Probes(), to, at)
			return ok
		})
		time.Sleep(200 * time.Millisecond)
		if port := s.FDB(f.virtualMAC()); port != to.Name {
			s.t.Errorf("%s: %s: the bridge looks for the virtual MAC at %q, want %s", what, f.name, port, to.Name)
		}
		probes := pings[f.name].Stop()
		k.outage, _ = lab.Outage(probes)
		reply, _ := answerOf(probes, to, at)
		k.heard = reply.Got.Sub(k.first.At)
		if i := slices.IndexFunc(probes, func(p lab.Probe) bool { return p.Sent.After(k.first.At) }); i >= 0 {
			k.heard = reply.Got.Sub(probes[i].Sent) // a client that stands still asks nothing
		}
		if mine := to == s.d1 && s.v1 != nil || to == s.d2 && s.v2 != nil; mine && max(k.heard, k.announce) > quick/2+delayed() && k.second.At.Sub(k.first.At) < quick/4 { // else it was the machine that stood still
			s.t.Errorf("%s: %s: announced %v after the first advert, and the client hears of %s %v after its question: not at once, the next advert came after %v", what, f.name, k.announce, to.Name, k.heard, k.second.At.Sub(k.first.At))
		}
		s.t.Logf("%s: %s: first advert to announcement %v, to the client's reply %v; outage %v", what, f.name, k.announce, k.heard, k.outage)
		out[f.name] = k
	}
	return out
}

// answerOf is the first reply of a node to the client at or after a time.
func answerOf(probes []lab.Probe, n *lab.Node, at time.Time) (lab.Probe, bool) {
	return lab.FirstAfter(lab.Filter(lab.Answered(probes), func(p lab.Probe) bool { return p.MAC == n.MAC() }), at)
}

// ping pings the VIP of each family every millisecond.
func (s *vmacSite) ping() map[string]*lab.Pinger {
	pings := map[string]*lab.Pinger{}
	for _, f := range families() {
		pings[f.name] = s.cl.Ping(time.Millisecond, f.vip)
	}
	time.Sleep(300 * time.Millisecond)
	return pings
}

// lost checks an outage against what the protocol and the load allow.
func lost(t *testing.T, what string, seen map[string]vmacTakeover, most time.Duration) {
	t.Helper()
	for name, k := range seen {
		if k.outage > most {
			t.Errorf("%s: %s: the client was without answer for %v, want at most %v", what, name, k.outage, most)
		}
	}
}

// The frames of all masters bear the same MAC, so a bridge that was not told of the old one's death has it at the old
// port: the first frame of the new master must change that, and no frame of the old one may change it back.
//
// Claim: a dead master, a planned stop, a return with preemption: the client has an answer at once after the first advert
// of the new master. Whoever has given way sends nothing with the virtual MAC.
func TestO27TakeoverIsBelieved(t *testing.T) {
	t.Parallel()
	s := newVMACSite(t, withVMAC(200), withVMAC(100))
	const slack = 500 * time.Millisecond // of a busy machine

	pings := s.ping()
	at := s.d1.Isolate(0) // the bridge forwards nothing more, and learns nothing; it forgets nothing either
	for _, f := range families() {
		if port := s.FDB(f.virtualMAC()); port != "d1" {
			t.Errorf("%s: after the cut the bridge has the virtual MAC at %q: the test would prove nothing", f.name, port)
		}
	}
	seen := s.believed("master cut off", s.d2, at, pings, 5*time.Second)
	lost(t, "master cut off", seen, downTimer(quick, 100)+slack)

	pings = s.ping()
	at = s.d1.Rejoin(0)
	seen = s.believed("it returns", s.d1, at, pings, 5*time.Second)
	lost(t, "it returns", seen, quick+slack) // until it is heard there are two
	for _, f := range families() {
		s.WaitOwner(f.vip, 5*time.Second, "d1")
	}
	time.Sleep(quick / 2)
	at = time.Now()
	time.Sleep(6 * quick)
	s.silentVMAC(s.d2, at, time.Now(), "d2 has given way")

	pings = s.ping()
	at = s.v1.Signal(15)
	seen = s.believed("planned stop", s.d2, at, pings, 5*time.Second)
	lost(t, "planned stop", seen, quick*(256-100)/256+slack)
	for _, f := range families() {
		s.silentVMAC(s.d1, seen[f.name].first.At, time.Now(), "d1 was stopped")
	}

	pings = s.ping()
	at = time.Now()
	s.v1.Again()
	seen = s.believed("it starts again", s.d1, at, pings, 10*time.Second)
	lost(t, "it starts again", seen, slack)
	earliest := seen["IPv4"].first.At
	if six := seen["IPv6"].first.At; six.Before(earliest) {
		earliest = six
	}
	for _, f := range families() {
		s.WaitOwner(f.vip, 5*time.Second, "d1")
		s.silentVMAC(s.d1, at, earliest.Add(-20*time.Millisecond), "d1 is not master yet")
		s.silentVMAC(s.d2, seen[f.name].first.At.Add(quick), time.Now(), "d2 has given way again")
	}

	// A killed daemon leaves its link and its addresses, which answer for it.
	pings = s.ping()
	at = time.Now()
	s.v1.Kill()
	s.believed("killed", s.d2, at, pings, 5*time.Second)
	for _, f := range families() {
		s.WaitOwner(f.vip, 5*time.Second, "d1", "d2") // the fault
	}
	pings = s.ping()
	at = time.Now()
	s.v1.Again()
	for _, f := range families() {
		s.WaitOwner(f.vip, 5*time.Second, "d2")
	}
	seen = s.believed("started after the kill", s.d1, at, pings, 10*time.Second)
	lost(t, "started after the kill", seen, slack)
}

// A keepalived with use_vmac is the peer, in both roles, over both families.
//
// Claim: each hears the other's adverts, whose source is its own virtual MAC, too; the better one is master whenever it
// can be, and only the master answers for the VIP.
func TestO27WithKeepalived(t *testing.T) {
	t.Parallel()
	for name, vipdFirst := range map[string]bool{"vipd is better": true, "keepalived is better": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A keepalived that is master asks for the client on behalf of the VIP with the MAC of its card, and gives way
			// without a word when it hears the better one first: only a refresh draws the client back to one that was
			// master all the time.
			confs := map[bool][2]string{true: {withVMAC(200, "garp_master_refresh 1"), ""}, false: {"", withVMAC(100)}}[vipdFirst]
			s := newVMACSite(t, confs[0], confs[1])
			const slack = 500 * time.Millisecond
			alone := func(when string, n *lab.Node) {
				t.Helper()
				time.Sleep(3 * quick)
				for _, f := range families() {
					s.WaitOwner(f.vip, 5*time.Second, n.Name)
					// On a machine of keepalived the link of IPv6 answers for IPv4, too.
					if got := s.ask(f.vip); !slices.Contains(got, f.virtualMAC()) || len(got) > 1 && vipdFirst || slices.Contains(got, s.d1.MAC()) || slices.Contains(got, s.d2.MAC()) {
						t.Errorf("%s: %s: the VIP is answered for by %q", when, f.name, got)
					}
				}
			}
			alone("at first", s.d1)
			pings := s.ping()
			at := s.d1.Isolate(0)
			seen := s.believed("master cut off", s.d2, at, pings, 5*time.Second)
			lost(t, "master cut off", seen, downTimer(quick, 100)+slack)
			pings = s.ping()
			at = s.d1.Rejoin(0)
			seen = s.believed("it returns", s.d1, at, pings, 5*time.Second)
			most := 2*quick + slack
			if vipdFirst {
				most += time.Second
			}
			lost(t, "it returns", seen, most)
			alone("after its return", s.d1)
		})
	}
}

// With vmac_xmit_base, and by unicast, adverts have the MAC of the card; the addresses have the virtual MAC all the same, and
// the announcements draw the bridge to the new master.
func TestO27AdvertsByTheInterface(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	conf := func(prio int, peer *lab.Node) string {
		multicast, unicast := families()[0], families()[1]
		return lab.VipdConf("",
			lab.Instance{Name: multicast.instance, VRID: multicast.vrid, VIPs: multicast.vips, Priority: prio, Interval: quick, Extra: []string{"use_vmac", "vmac_xmit_base"}},
			lab.Instance{Name: unicast.instance, VRID: unicast.vrid, VIPs: unicast.vips, Priority: prio, Interval: quick, Extra: []string{"use_vmac"}, Peers: []string{peer.LinkLocal().String()}})
	}
	seen := cl.Capture()
	wire := map[string]*lab.Capture{"d1": l.Switch().CaptureOn("d1"), "d2": l.Switch().CaptureOn("d2")}
	d1.Vipd(conf(200, d2))
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1")
	}
	v2 := d2.Vipd(conf(100, d1))
	for _, f := range families() {
		v2.WaitState(f.instance, "BACKUP", 10*time.Second)
		cl.Exec("ping", "-c", "1", "-W", "3", f.vip.String())
		if got := cl.Neigh(f.vip); got != f.virtualMAC() {
			t.Errorf("%s: the client has the VIP at %q", f.name, got)
		}
	}
	at := d1.Isolate(0)
	for _, f := range families() {
		l.Eventually(5*time.Second, f.name+": the bridge looks for the virtual MAC at d2", func() bool { return l.FDB(f.virtualMAC()) == "d2" })
		waitAnnouncedBy(seen, f.vip, f.virtualMAC(), at, 5*time.Second) // it may not be there before that
		cl.Exec("ping", "-c", "1", "-W", "2", f.vip.String())
		for _, n := range []*lab.Node{d1, d2} {
			adverts := lab.From(wire[n.Name].Adverts(f.vrid), f.source(n))
			other := lab.Filter(adverts, func(a lab.Advert) bool { return a.SrcMAC != n.MAC() })
			if len(adverts) == 0 || len(other) > 0 {
				t.Errorf("%s: %s sends %d adverts, of which these not with its own MAC: %v", f.name, n.Name, len(adverts), other)
			}
		}
		if told, ok := lab.FirstAfter(seen.Announcements(f.vip), at); !ok || told.MAC != f.virtualMAC() {
			t.Errorf("%s: announced with %q (%v)", f.name, told.MAC, ok)
		}
	}
}
