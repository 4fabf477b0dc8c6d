package cases

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// O08: after a change to unicast both directors are master; a slip in the
// configuration silently falls back to multicast.
//
// Claim: a correct pair elects one, by unicast alone. A peer that cannot be read
// is an error of the configuration, an instance without source address or peer is
// in FAULT, and neither falls back to multicast. When one side speaks unicast and
// the other multicast, both name it.

const unicastInterval = 400 * time.Millisecond

// own is the address that a node is known to its peers by.
func (f family) own(n *lab.Node) netip.Addr {
	if f.vip.Is6() {
		return n.Addr6()
	}
	return n.Addr()
}

// unicastInstance is the instance of a director that speaks to peers.
func unicastInstance(f family, n *lab.Node, priority int, peers ...*lab.Node) lab.Instance {
	i := lab.Instance{Name: f.instance, VRID: f.vrid, Priority: priority, Interval: unicastInterval, VIPs: f.vips}
	i.Extra = []string{"unicast_src_ip " + f.own(n).String()}
	for _, p := range peers {
		i.Peers = append(i.Peers, f.own(p).String())
	}
	return i
}

// unicastPair starts d1 and d2 as peers of each other, and captures on d2.
func unicastPair(t *testing.T, f family, priority1, priority2 int, more ...string) *pair {
	t.Helper()
	l := lab.New(t, append([]string{"d1", "d2", "cl"}, more...)...)
	p := &pair{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	p.seen = p.d2.Capture()
	p.v1 = p.d1.Vipd(lab.VipdConf("", unicastInstance(f, p.d1, priority1, p.d2)))
	p.v2 = p.d2.Vipd(lab.VipdConf("", unicastInstance(f, p.d2, priority2, p.d1)))
	return p
}

// owns checks that the node alone owns the address for d.
func (p *pair) owns(f family, n *lab.Node, d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := p.Owners(f.vip); !slices.Equal(got, []string{n.Name}) {
			p.t.Fatalf("%v is owned by %v, want %s alone", f.vip, got, n.Name)
		}
	}
}

func TestO08UnicastPairElectsOne(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		p := unicastPair(t, f, 200, 100)
		p.WaitOwner(f.vip, 10*time.Second, "d1")
		p.v2.WaitState(f.instance, "BACKUP", 5*time.Second)
		p.owns(f, p.d1, 2*time.Second)

		resigned := p.v1.Signal(syscall.SIGTERM)
		p.WaitOwner(f.vip, 3*time.Second, "d2")
		if took := time.Since(resigned); took > 2*time.Second {
			t.Errorf("the takeover after a clean stop took %v", took)
		}
		p.v1.Wait(5 * time.Second)
		p.v1.Again()
		p.WaitOwner(f.vip, 10*time.Second, "d1")
		p.v1.Kill()
		p.seen.WaitAdvert(5*time.Second, f.vrid, f.own(p.d2), time.Now())

		for _, a := range p.seen.Adverts(f.vrid) {
			if want := map[netip.Addr]netip.Addr{f.own(p.d1): f.own(p.d2), f.own(p.d2): f.own(p.d1)}[a.Src]; a.Dst != want || a.TTL != 255 {
				t.Fatalf("%v went to %v with TTL %d, want to %v alone with 255", a, a.Dst, a.TTL, want)
			}
			if covers(a) != withPseudo {
				t.Fatalf("%v to %v has a wrong checksum: % x", a, a.Dst, a.Payload)
			}
		}
	})
}

// Equal priorities: the higher address wins, and one file lists all directors.
func TestO08EqualPriorities(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2", "d3")
		nodes := l.Nodes("d1", "d2", "d3")
		for _, n := range nodes {
			n.Vipd(lab.VipdConf("", unicastInstance(f, n, 100, nodes...)))
		}
		p := &pair{Lab: l, t: t}
		l.Eventually(10*time.Second, "one owner", func() bool { return len(l.Owners(f.vip)) == 1 })
		p.owns(f, l.Node(l.Owners(f.vip)[0]), 2*time.Second)
		// Nobody preempts an equal: cut off for a while, both are master, and
		// then the higher address stays.
		cut := l.Cut(append(lab.Both(nodes[0], nodes[1]), append(lab.Both(nodes[0], nodes[2]), lab.Both(nodes[1], nodes[2])...)...), lab.VRRP4, lab.VRRP6)
		l.WaitOwner(f.vip, 5*time.Second, "d1", "d2", "d3")
		cut.End()
		l.WaitOwner(f.vip, 5*time.Second, "d3")
		p.owns(f, nodes[2], time.Second)
	})
}

func TestO08SlipsOfThePen(t *testing.T) {
	t.Parallel()
	f := families()[0]
	t.Run("a peer that is none", func(t *testing.T) {
		t.Parallel()
		l := lab.New(t, "d1", "d2")
		d1, seen := l.Node("d1"), l.Node("d2").Capture()
		in := unicastInstance(f, d1, 100)
		in.Peers = []string{"10.9.0.2.1"}
		v := d1.Vipd(lab.VipdConf("", in))
		if code := v.Wait(5 * time.Second); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
		v.WaitLog(`"10.9.0.2.1" is no IP address`, time.Second)
		if all := seen.Adverts(f.vrid); len(all) > 0 || d1.Has(f.vip) {
			t.Errorf("it spoke, or took the address, all the same: %v", all)
		}
	})
	t.Run("no peer", func(t *testing.T) {
		t.Parallel()
		l := lab.New(t, "d1", "d2")
		d1, seen := l.Node("d1"), l.Node("d2").Capture()
		in := unicastInstance(f, d1, 100)
		in.Peers = []string{}
		v := d1.Vipd(lab.VipdConf("", in))
		v.WaitState(f.instance, "FAULT", 5*time.Second)
		l.Never(2*time.Second, "an advert or the address", func() bool { return len(seen.Adverts(f.vrid)) > 0 || d1.Has(f.vip) })
		if reason := v.Status().Instance(f.instance).Reason; !strings.Contains(reason, "unicast_peer lists no other director") {
			t.Errorf("the reason is %q", reason)
		}
		in.Peers = []string{"10.9.0.2"}
		v.Reload(lab.VipdConf("", in))
		l.WaitOwner(f.vip, 5*time.Second, "d1") // the twin
	})
	t.Run("another's address for a peer", func(t *testing.T) {
		t.Parallel()
		l := lab.New(t, "d1", "d2")
		d1, d2 := l.Node("d1"), l.Node("d2")
		d1.Vipd(lab.VipdConf("", unicastInstance(f, d1, 200, d2)))
		in := unicastInstance(f, d2, 100)
		in.Peers = []string{"10.9.0.7"}
		v := d2.Vipd(lab.VipdConf("", in))
		v.WaitLog("advert from 10.9.0.1 dropped: it is none of the unicast peers; add it to unicast_peer", 10*time.Second)
		l.WaitOwner(f.vip, 5*time.Second, "d1", "d2") // it cannot be healed from here
		l.Eventually(5*time.Second, "the count of its adverts", func() bool {
			return v.Status().Instance(f.instance).Counters["adverts_dropped_not_peer"] >= 3
		})
		in.Peers = []string{"10.9.0.1"}
		v.Reload(lab.VipdConf("", in))
		(&pair{Lab: l, t: t}).WaitOwner(f.vip, 5*time.Second, "d1")
	})
}

// One side by unicast, the other by multicast: both name it, in the log, in a
// counter and in status; the same side put right, one is master.
func TestO08UnicastAgainstMulticast(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2")
		d1, d2 := l.Node("d1"), l.Node("d2")
		v1 := d1.Vipd(lab.VipdConf("", unicastInstance(f, d1, 200, d2)))
		multicast := checksumInstance(f, 100)
		multicast.Interval = unicastInterval
		v2 := d2.Vipd(lab.VipdConf("", multicast))
		l.WaitOwner(f.vip, 10*time.Second, "d1", "d2")
		for v, want := range map[*lab.Daemon][3]string{
			v1: {"advert from " + f.source(d2).String() + " arrived by multicast, unicast configured", "adverts_dropped_by_multicast", "multicast"},
			v2: {"advert from " + f.own(d1).String() + " arrived by unicast, multicast configured", "adverts_dropped_by_unicast", "unicast"},
		} {
			v.WaitLog(want[0], 5*time.Second)
			i := v.Status().Instance(f.instance)
			if i.Counters[want[1]] < 1 {
				t.Errorf("%s: %s is %v", v.Node.Name, want[1], i.Counters[want[1]])
			}
			if text := strings.Join(i.Notes, "\n"); !strings.Contains(text, want[0]) {
				t.Errorf("%s: status notes %q", v.Node.Name, text)
			}
		}
		v2.Reload(lab.VipdConf("", unicastInstance(f, d2, 100, d1)))
		l.WaitOwner(f.vip, 5*time.Second, "d1")
		(&pair{Lab: l, t: t}).owns(f, d1, time.Second)
	})
}

// Without its source address an instance is in FAULT and mute, by unicast and by
// multicast; with it, it works; when it goes, priority 0 is still sent.
func TestO08SourceMissing(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2")
		d1, d2 := l.Node("d1"), l.Node("d2")
		seen := d2.Capture()
		src, bits := netip.MustParseAddr("10.9.0.201"), "/24"
		if f.vip.Is6() {
			src, bits = netip.MustParseAddr("2001:db8:9::201"), "/64 nodad"
		}
		in := unicastInstance(f, d1, 200, d2)
		in.Extra = []string{"unicast_src_ip " + src.String()}
		v := d1.Vipd(lab.VipdConf("", in))
		v.WaitState(f.instance, "FAULT", 5*time.Second)
		l.Never(2*time.Second, "an advert or the address", func() bool { return len(seen.Adverts(f.vrid)) > 0 || d1.Has(f.vip) })
		d1.IP("addr add " + strings.Replace(src.String()+bits, " ", " dev eth0 ", 1) + map[bool]string{true: "", false: " dev eth0"}[f.vip.Is6()])
		l.WaitOwner(f.vip, 10*time.Second, "d1")
		seen.WaitAdvert(5*time.Second, f.vrid, src, time.Now())
		gone := d1.RemoveAddress(src)
		v.WaitState(f.instance, "FAULT", 5*time.Second)
		l.WaitOwner(f.vip, 5*time.Second)
		last := lab.Between(seen.Adverts(f.vrid), gone, time.Now())
		if len(last) == 0 || last[len(last)-1].Priority != 0 {
			t.Errorf("after the loss of its source d1 sent %v, want priority 0 last", last)
		}
	})
}

// A forged advert of priority 255 from none of the peers moves nobody and touches no
// timer; its twin from the peer's address does.
func TestO08SpoofedPriority(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		p := unicastPair(t, f, 200, 100, "r1")
		p.WaitOwner(f.vip, 10*time.Second, "d1")
		p.v2.WaitState(f.instance, "BACKUP", 5*time.Second)
		r1 := p.Node("r1")
		forged := func(src netip.Addr, to *lab.Node) []byte {
			return r1.Frame(lab.Speech{Src: src, Dst: f.own(to), DstMAC: to.MAC(), VRID: f.vrid, Priority: 255, Addrs: f.vips})
		}
		from := time.Now()
		flood := r1.Flood(500, forged(f.own(r1), p.d1), forged(f.own(r1), p.d2), forged(f.source(p.cl), p.d1))
		p.owns(f, p.d1, 3*time.Second)
		until := time.Now()
		flood.Stop()
		adverts := lab.Between(lab.From(p.seen.Adverts(f.vrid), f.own(p.d1)), from, until)
		if n, want := len(adverts), int(until.Sub(from)/unicastInterval); n < want*2/3 || n > want*4/3 {
			t.Errorf("%d adverts of d1 within %v, want about %d", n, until.Sub(from), want)
		}
		if n := p.v1.Status().Instance(f.instance).Counters["adverts_dropped_not_peer"]; n < 50 {
			t.Errorf("adverts_dropped_not_peer is %v", n)
		}
		// While the forger spoke d2's timer ran on: with d1 gone, it takes over in time.
		flood = r1.Flood(500, forged(f.own(r1), p.d2))
		killed := time.Now()
		p.v1.Kill()
		p.seen.WaitAdvert(3*time.Second, f.vrid, f.own(p.d2), killed)
		flood.Stop()
		p.v1.Again()
		p.WaitOwner(f.vip, 10*time.Second, "d1")
		r1.Inject(forged(f.own(p.d2), p.d1)) // indistinguishable from the peer
		p.v1.WaitLog("MASTER -> BACKUP", 3*time.Second)
	})
}
