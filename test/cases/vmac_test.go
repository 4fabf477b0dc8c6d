package cases

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"vipd/test/lab"
)

// virtualMAC is the MAC of the virtual router of a family.
func (f family) virtualMAC() string {
	if f.vip.Is6() {
		return fmt.Sprintf("00:00:5e:00:02:%02x", f.vrid)
	}
	return fmt.Sprintf("00:00:5e:00:01:%02x", f.vrid)
}

// withVMAC writes a configuration of both families with virtual MACs.
func withVMAC(priority int, extra ...string) string {
	return bothFamilies(lab.Instance{Priority: priority, Interval: quick, Extra: append([]string{"use_vmac"}, extra...)})
}

// vmacSite is a pair with virtual MACs: d1 is MASTER of both families.
type vmacSite struct {
	*pair
	ports map[string]*lab.Capture // what each director sends and gets, seen at the switch
}

// newVMACSite starts the directors, each with its own words ("keepalived" or "vipd").
func newVMACSite(t *testing.T, first, second string) *vmacSite {
	t.Helper()
	l := lab.New(t, "d1", "d2", "cl")
	p := &pair{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	s := &vmacSite{p, map[string]*lab.Capture{"d1": l.Switch().CaptureOn("d1"), "d2": l.Switch().CaptureOn("d2")}}
	p.seen = p.cl.Capture()
	if first != "" {
		p.v1 = p.d1.Vipd(first)
	} else {
		p.d1.Keepalived(keepalivedVMAC(200))
	}
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	if second != "" {
		p.v2 = p.d2.Vipd(second)
		for _, f := range families() {
			p.v2.WaitState(f.instance, "BACKUP", 10*time.Second)
		}
	} else {
		p.d2.Keepalived(keepalivedVMAC(100)).WaitLog("VI_6. Entering BACKUP STATE", 10*time.Second)
	}
	for _, f := range families() {
		p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d1), time.Now())
		p.cl.Exec("ping", "-c", "1", "-W", "3", f.vip.String())
		// keepalived's machine asks for the client on behalf of the VIP, with the MAC of its card.
		if got := p.cl.Neigh(f.vip); got != f.virtualMAC() && first != "" {
			t.Fatalf("%s: the client has the VIP at %q, want the virtual MAC %s", f.name, got, f.virtualMAC())
		}
	}
	return s
}

// keepalivedVMAC is the configuration of withVMAC for keepalived.
func keepalivedVMAC(priority int) string {
	var list []lab.Instance
	for _, f := range families() {
		list = append(list, lab.Instance{Name: f.instance, VRID: f.vrid, VIPs: f.vips, Priority: priority, Interval: quick, Extra: []string{"use_vmac"}})
	}
	return lab.KeepalivedConf("", list...)
}

// ask has the client ask everybody for an address and returns the MACs of those who answer, each as often as it does.
// The MAC that a frame comes from and the one that it tells must be the same.
func (s *vmacSite) ask(a netip.Addr) []string {
	s.t.Helper()
	at := time.Now()
	s.cl.Inject(question(s.cl, a))
	time.Sleep(150 * time.Millisecond)
	var macs []string
	for _, fr := range s.seen.Frames() {
		p, ok := fr.Parse()
		if !ok || fr.At.Before(at) {
			continue
		}
		told := ""
		if r, ok := p.ARP(); ok && r.Op == 2 && r.Sender == a {
			told = r.SenderMAC
		} else if n, ok := p.NA(); ok && n.Solicited && n.Target == a {
			told = n.MAC
		}
		if told == "" {
			continue
		}
		if told != p.SrcMAC {
			s.t.Errorf("%v is told to be at %s by a frame from %s", a, told, p.SrcMAC)
		}
		macs = append(macs, told)
	}
	return macs
}

// question is an ARP request or a neighbour solicitation of a node for an address.
func question(n *lab.Node, a netip.Addr) []byte {
	mac, _ := net.ParseMAC(n.MAC())
	if a.Is4() {
		me, it := n.Addr().As4(), a.As4()
		b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
		b = append(b, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
		b = append(append(b, mac...), me[:]...)
		return append(append(b, 0, 0, 0, 0, 0, 0), it[:]...)
	}
	me, it := n.Addr6().As16(), a.As16()
	group := [16]byte{0xff, 2, 11: 1, 12: 0xff, 13: it[13], 14: it[14], 15: it[15]}
	icmp := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, it[:]...)
	icmp = append(append(icmp, 1, 1), mac...)
	sum := uint32(len(icmp)) + 58
	for _, part := range [][]byte{me[:], group[:], icmp} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	icmp[2], icmp[3] = byte(^sum>>8), byte(^sum)
	b := append([]byte{0x33, 0x33, 0xff, it[13], it[14], it[15]}, mac...)
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 255)
	return append(append(append(b, me[:]...), group[:]...), icmp...)
}

// answers checks who answers for the VIPs, with which MAC, and that both base addresses are where they belong.
func (s *vmacSite) answers(when string) {
	s.t.Helper()
	for _, f := range families() {
		if got := s.ask(f.vip); !slices.Equal(got, []string{f.virtualMAC()}) {
			s.t.Errorf("%s: %s: the VIP is answered for by %q, want the master alone with %s", when, f.name, got, f.virtualMAC())
		}
	}
	for _, n := range []*lab.Node{s.d1, s.d2} {
		for _, a := range []netip.Addr{n.Addr(), n.Addr6(), n.LinkLocal()} {
			if got := s.ask(a); !slices.Equal(got, []string{n.MAC()}) {
				s.t.Errorf("%s: the base address %v of %s is answered for by %q, want its own MAC %s alone", when, a, n.Name, got, n.MAC())
			}
		}
	}
}

// strangers lists what a director sends with a virtual MAC in a time, at the switch.
func (s *vmacSite) strangers(n *lab.Node, from, to time.Time) []string {
	var out []string
	for _, fr := range lab.Between(s.ports[n.Name].Frames(), from, to) {
		p, ok := fr.Parse()
		if fr.Sent || !ok {
			continue
		}
		for _, f := range families() {
			if p.SrcMAC == f.virtualMAC() {
				out = append(out, fmt.Sprintf("%s type %04x protocol %d from %v to %v", fr.At.Format("05.000000"), p.EtherType, p.Protocol, p.Src, p.Dst))
			}
		}
	}
	return out
}

// silentVMAC fails when a director has sent anything with a virtual MAC in a time.
func (s *vmacSite) silentVMAC(n *lab.Node, from, to time.Time, when string) {
	s.t.Helper()
	if list := s.strangers(n, from, to); len(list) > 0 {
		s.t.Errorf("%s: %s sends with the virtual MAC, so that switches look for it there: %q", when, n.Name, list)
	}
}

// O27: after the parent flaps the backup's macvlan is up again and answers ARP;
// the virtual-MAC link loses its link-local address so that adverts stop; with it
// the host's own address stops answering.
//
// Claim: only the master answers for the VIP, always with the virtual MAC; base
// addresses answer with the MAC of the card; adverts go on over both families.
func TestO27ParentFlaps(t *testing.T) {
	t.Parallel()
	s := newVMACSite(t, withVMAC(200), withVMAC(100))
	s.answers("at first")
	for _, c := range []struct {
		name     string
		node     *lab.Node
		down, up func(int) time.Time
	}{
		{"the backup's interface is set down", s.d2, s.d2.LinkDown, s.d2.LinkUp},
		{"the backup loses its carrier", s.d2, s.d2.PortDown, s.d2.PortUp},
		{"the master's interface is set down", s.d1, s.d1.LinkDown, s.d1.LinkUp},
		{"the master loses its carrier", s.d1, s.d1.PortDown, s.d1.PortUp},
	} {
		c.down(0)
		other := map[*lab.Node]*lab.Node{s.d1: s.d2, s.d2: s.d1}[c.node]
		for _, f := range families() {
			s.WaitOwner(f.vip, 10*time.Second, other.Name)
			if got := s.ask(f.vip); !slices.Equal(got, []string{f.virtualMAC()}) {
				t.Errorf("%s: %s: meanwhile the VIP is answered for by %q", c.name, f.name, got)
			}
		}
		at := c.up(0)
		for _, f := range families() {
			s.WaitOwner(f.vip, 15*time.Second, "d1")
			a := s.seen.WaitAdvert(10*time.Second, f.vrid, f.source(s.d1), at)
			if a.SrcMAC != f.virtualMAC() {
				t.Errorf("%s: %s: adverts of the master come from %s, want %s", c.name, f.name, a.SrcMAC, f.virtualMAC())
			}
		}
		time.Sleep(downTimer(quick, 100)) // whatever would come too late
		s.answers(c.name)
		now := time.Now()
		time.Sleep(3 * quick)
		s.silentVMAC(s.d2, now, time.Now(), c.name)
	}
}
