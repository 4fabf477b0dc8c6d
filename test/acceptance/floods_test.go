package acceptance

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

const (
	// floodRate is how many packets of each kind each director gets in a second.
	floodRate     = 50_000
	floodInterval = 100 * time.Millisecond
)

// floodSite is a pair, a third host that floods it, and what both send as the switch
// sees it.
type floodSite struct {
	*lab.Lab
	t         *testing.T
	d1, d2, x *lab.Node
	v1, v2    *lab.Daemon
	sent      [2]*lab.Capture // by d1 and by d2
	long      bool
}

// floodRouter is one virtual router of the pair.
type floodRouter struct {
	lab.Instance
	unicast bool
}

func (r floodRouter) v6() bool { return r.VIPs[0].Is6() }

// source is where a node sends adverts of it from.
func (r floodRouter) source(n *lab.Node) netip.Addr {
	switch {
	case r.v6() && r.unicast:
		return n.Addr6()
	case r.v6():
		return n.LinkLocal()
	}
	return n.Addr()
}

// down is how long d2 waits for adverts.
func (r floodRouter) down() time.Duration {
	if r.Version == 2 {
		return 3*r.Interval + (256-100)*time.Second/256
	}
	return 3*r.Interval + (256-100)*r.Interval/256
}

// floodRouters are multicast of both families, version 2 with a password, and unicast
// of both families.
func floodRouters() []floodRouter {
	addrs := func(texts ...string) (list []netip.Addr) {
		for _, t := range texts {
			list = append(list, netip.MustParseAddr(t))
		}
		return list
	}
	return []floodRouter{
		{Instance: lab.Instance{Name: "M4", VRID: 51, Version: 3, Interval: floodInterval, VIPs: addrs("10.9.0.100")}},
		{Instance: lab.Instance{Name: "M6", VRID: 61, Version: 3, Interval: floodInterval, VIPs: addrs("fe80::100", "2001:db8:9::100")}},
		{Instance: lab.Instance{Name: "P4", VRID: 52, Version: 2, Interval: time.Second, VIPs: addrs("10.9.0.102"), AuthPass: "secret"}},
		{Instance: lab.Instance{Name: "U4", VRID: 53, Version: 3, Interval: floodInterval, VIPs: addrs("10.9.0.103")}, unicast: true},
		{Instance: lab.Instance{Name: "U6", VRID: 63, Version: 3, Interval: floodInterval, VIPs: addrs("fe80::103", "2001:db8:9::103")}, unicast: true},
	}
}

func newFloodSite(t *testing.T) *floodSite {
	l := lab.New(t, "d1", "d2")
	s := &floodSite{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), x: l.AddHost("x", 50), long: exact()}
	start := func(n, peer *lab.Node, priority int) *lab.Daemon {
		var list []lab.Instance
		for _, r := range floodRouters() {
			r.Priority = priority
			if r.unicast {
				r.Peers, r.Extra = []string{r.source(peer).String()}, []string{"unicast_src_ip " + r.source(n).String()}
			}
			list = append(list, r.Instance)
		}
		return n.Vipd(lab.VipdConf("", list...))
	}
	// An advert to a dead peer whose MAC the kernel does not know any more is never on
	// the wire: the kernel asks for it in vain. Then nothing would show when d2 took over.
	for _, a := range []netip.Addr{s.d1.Addr(), s.d1.Addr6()} {
		s.d2.IP("neigh replace " + a.String() + " lladdr " + s.d1.MAC() + " dev eth0 nud permanent")
	}
	for i, n := range []*lab.Node{s.d1, s.d2} {
		s.sent[i] = l.Switch().CaptureOn(n.Name, lab.FromNode(n)...)
	}
	s.v1 = start(s.d1, s.d2, 200)
	s.owned("d1")
	s.v2 = start(s.d2, s.d1, 100)
	s.settled()
	return s
}

// owned waits until a node alone has all addresses.
func (s *floodSite) owned(name string) {
	for _, r := range floodRouters() {
		s.WaitOwner(r.VIPs[0], 20*time.Second, name)
	}
}

// settled waits until d1 has everything and d2 has heard it.
func (s *floodSite) settled() {
	s.owned("d1")
	time.Sleep(3 * floodInterval)
}

// good is an advert of a virtual router that a node would accept.
func (r floodRouter) good(src, dst netip.Addr, mac string, priority uint8) lab.Speech {
	return lab.Speech{Src: src, Dst: dst, DstMAC: mac, VRID: r.VRID, Version: uint8(r.Version), Priority: priority,
		Interval: r.Interval, Addrs: r.VIPs, AuthPass: r.AuthPass}
}

// floodKind is one way for an advert to be bad.
type floodKind struct {
	name  string
	only  func(r floodRouter) bool // nil: of all virtual routers
	spoil func(s *lab.Speech, r floodRouter, victim, x *lab.Node)
}

func floodKinds() []floodKind {
	version2 := func(r floodRouter) bool { return r.Version == 2 }
	multicast := func(r floodRouter) bool { return !r.unicast }
	return []floodKind{
		{"checksum", nil, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.BadSum = true }},
		{"version", nil, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.Version = 7 }},
		{"TTL 254", multicast, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.TTL = 254 }},
		{"wrong password", version2, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.AuthPass = "wrong" }},
		{"no password", version2, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.AuthPass = "" }},
		{"truncated", nil, func(s *lab.Speech, _ floodRouter, _, _ *lab.Node) { s.Cut = 7 }},
		{"count", nil, func(s *lab.Speech, r floodRouter, _, _ *lab.Node) { s.Claim = uint8(len(r.VIPs) + 3) }},
		{"interval", nil, func(s *lab.Speech, r floodRouter, _, _ *lab.Node) {
			s.Interval = time.Millisecond // 0 in a field of hundredths
			if r.Version == 2 {
				s.Interval = 5 * time.Second
			}
		}},
		{"own source", nil, func(s *lab.Speech, r floodRouter, victim, _ *lab.Node) {
			s.Src, s.DstMAC = r.source(victim), victim.MAC()
		}},
		{"not from a peer", func(r floodRouter) bool { return r.unicast }, func(s *lab.Speech, r floodRouter, _, x *lab.Node) {
			s.Src, s.Priority = r.source(x), 255
		}},
		{"another cluster", multicast, func(s *lab.Speech, r floodRouter, _, _ *lab.Node) {
			s.Addrs = []netip.Addr{netip.MustParseAddr("10.9.0.200")}
			if r.v6() {
				s.Addrs = []netip.Addr{netip.MustParseAddr("fe80::200")}
			}
		}},
	}
}

// frames are bad adverts of one kind for both directors, of every virtual router for
// which there are such. But for what is wrong they would be acted on: they say 250,
// and by unicast they come from the peer.
func (s *floodSite) frames(k floodKind) (list [][]byte) {
	for _, r := range floodRouters() {
		if k.only != nil && !k.only(r) {
			continue
		}
		for i, victim := range []*lab.Node{s.d1, s.d2} {
			src, dst, mac := r.source(s.x), netip.Addr{}, ""
			if r.unicast {
				src, dst, mac = r.source([]*lab.Node{s.d2, s.d1}[i]), r.source(victim), victim.MAC()
			}
			speech := r.good(src, dst, mac, 250)
			k.spoil(&speech, r, victim, s.x)
			list = append(list, s.x.Frame(speech))
		}
	}
	return list
}

// Floods of bad packets, 50,000 a second of each kind, by multicast and by unicast, of
// both families: no timer is touched, so the master's adverts keep their interval and
// the backup takes over on time in the middle of it; memory is flat. A twin shows that
// the same packets without their fault are acted on.
//
// In the short form all kinds come at once.
func TestFloods(t *testing.T) {
	t.Parallel()
	s := newFloodSite(t)
	s.head()
	if s.long {
		for _, k := range floodKinds() {
			s.flood(k.name, 3*time.Second, s.frames(k))
		}
	}
	var all [][]byte
	for _, k := range floodKinds() {
		all = append(all, s.frames(k)...)
	}
	s.flood("all at once", 2*time.Second, all)
	s.twin()
}

// head prints what the lines mean.
func (s *floodSite) head() {
	s.t.Logf("%-16s %9s %12s %12s %14s %14s", "kind", "arrived/s", "worst gap", "takeover", "CPU d1 d2 %", "RSS d1 d2 MB")
}

// flood floods the pair, cuts the master off in the middle of it, and prints a line.
func (s *floodSite) flood(name string, length time.Duration, frames [][]byte) {
	s.t.Helper()
	flood := s.x.Flood(sendRate(frames), frames...)
	time.Sleep(300 * time.Millisecond) // what is used first costs memory once
	rss1, rss2, u1, u2 := s.v1.Memory(), s.v2.Memory(), s.v1.Usage(), s.v2.Usage()
	from, received := time.Now(), s.d2.Received()
	time.Sleep(length)
	rate := float64(s.d2.Received()-received) / time.Since(from).Seconds()
	u1end, u2end := s.v1.Usage(), s.v2.Usage()
	gap := s.steady(name, from)
	late := s.takeover(name)
	flood.Stop()
	end1, end2 := s.v1.Memory(), s.v2.Memory()
	cpu1, _ := u1end.Since(u1)
	cpu2, _ := u2end.Since(u2)
	s.t.Logf("%-16s %9.0f %9.1f ms %9.1f ms %6.1f %6.1f   %.1f→%.1f %.1f→%.1f", name, rate, msec(gap), msec(late), cpu1, cpu2,
		mb(rss1), mb(end1), mb(rss2), mb(end2))
	for i, grown := range []int64{end1 - rss1, end2 - rss2} {
		if grown > 5<<20 { // the heap is in pages of 2 MiB
			s.t.Errorf("%s: the memory of d%d grew by %d KiB", name, i+1, grown>>10)
		}
	}
	if s.long && rate < floodRate {
		s.t.Errorf("%s: only %.0f packets a second arrived", name, rate)
	}
	if worst := max(cpu1, cpu2); s.long && worst > 50 {
		s.t.Errorf("%s: %.0f %% of a processor used", name, worst)
	}
}

// sendRate is how many of the frames to send in a second, so that each director gets
// floodRate: of those for one MAC address alone only half. Some more are sent, as a
// busy machine loses some.
func sendRate(frames [][]byte) int {
	reach := 0.0 // those that reach one director
	for _, f := range frames {
		if f[0]&1 == 1 {
			reach++
		} else {
			reach += 0.5
		}
	}
	return int(floodRate * 1.04 * float64(len(frames)) / reach)
}

func msec(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func mb(n int64) float64           { return float64(n) / 1e6 }

// steady checks the adverts of d1 since from, and that d2 sent none. It returns the
// longest gap of those that are due every 100 ms.
func (s *floodSite) steady(name string, from time.Time) (worst time.Duration) {
	s.t.Helper()
	to := time.Now()
	for _, r := range floodRouters() {
		list := lab.Between(lab.From(s.sent[0].Adverts(r.VRID), r.source(s.d1)), from, to)
		gap, at := lab.LongestGap(list)
		if r.Version == 3 {
			worst = max(worst, gap)
		}
		limit := bound(r.Interval*11/10, r.Interval+500*time.Millisecond+s.sent[0].Stalled(at, at.Add(gap)))
		if len(list) == 0 && to.Sub(from) > limit || gap > limit {
			s.t.Errorf("%s: %s: %d adverts, the longest gap %v, want at most %v", name, r.Name, len(list), gap, limit)
		}
		for _, a := range list {
			if a.Priority != 200 {
				s.t.Errorf("%s: %v", name, a)
			}
		}
		if mine := lab.Between(lab.From(s.sent[1].Adverts(r.VRID), r.source(s.d2)), from, to); len(mine) > 0 {
			s.t.Errorf("%s: %s: the backup sent %v", name, r.Name, mine[0])
		}
	}
	return worst
}

// takeover cuts d1 off and returns by how much d2 missed the end of its down timers.
func (s *floodSite) takeover(name string) (worst time.Duration) {
	s.t.Helper()
	cut := s.d1.Isolate(0)
	for _, r := range floodRouters() {
		if r.Version == 2 && !s.long && !strings.HasPrefix(name, "all") {
			continue
		}
		first := s.sent[1].WaitAdvert(r.down()+5*time.Second, r.VRID, r.source(s.d2), cut)
		last, ok := lab.LastBefore(lab.From(s.sent[0].Adverts(r.VRID), r.source(s.d1)), cut)
		if !ok {
			s.t.Errorf("%s: %s: d1 sent no adverts", name, r.Name)
			continue
		}
		late := (first.At.Sub(last.At) - r.down()).Abs()
		worst = max(worst, late)
		// A busy machine loses some of the packets: when the last advert is among them, d2 is an interval early.
		if limit := bound(floodInterval/10, r.Interval+500*time.Millisecond); late > limit {
			s.t.Errorf("%s: %s: d2 took over %v from the end of its down timer, want within %v", name, r.Name, late, limit)
		}
	}
	s.d1.Rejoin(0)
	s.settled()
	return worst
}

// twin shows that each virtual router acts on a good advert: d1 gives way.
func (s *floodSite) twin() {
	s.t.Helper()
	for _, r := range floodRouters() {
		src, dst, mac := r.source(s.x), netip.Addr{}, ""
		if r.unicast {
			src, dst, mac = r.source(s.d2), r.source(s.d1), s.d1.MAC()
		}
		s.x.Inject(s.x.Frame(r.good(src, dst, mac, 250)))
		s.Eventually(3*time.Second, r.Name+": d1 gives way to a good advert", func() bool {
			return !slices.Contains(s.Owners(r.VIPs[0]), "d1")
		})
	}
}
