package cases

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// One VRID several times on one interface, as keepalived allows it: told apart by the
// multicast group, by the way adverts are sent, and by the peers. Every virtual router
// has an owner of its own, and each moves alone.

// sharing are the virtual routers of VRID 51: in the usual group, in another one, by
// unicast between d1 and d2, and by unicast between d1 and d3 from the same address.
type sharing struct {
	f     family
	group string // the other one
	l     *lab.Lab
}

// vips are the addresses of one of the virtual routers.
func (s *sharing) vips(name string) []netip.Addr {
	n := strings.Index("ABCD", name)
	if s.f.vip.Is6() {
		return []netip.Addr{netip.MustParseAddr(fmt.Sprintf("fe80::5%d", n)), netip.MustParseAddr(fmt.Sprintf("2001:db8:9::10%d", n))}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + n)})}
}

// instance is one of the virtual routers, on a node.
func (s *sharing) instance(node, name string, priority int) lab.Instance {
	in := lab.Instance{Name: name, VRID: 51, Priority: priority, Interval: unicastInterval, VIPs: s.vips(name)}
	d1, other := s.l.Node("d1"), map[string]*lab.Node{"C": s.l.Node("d2"), "D": s.l.Node("d3")}[name]
	switch {
	case name == "B":
		in.Extra = []string{"mcast_dst_ip " + s.group}
	case other != nil:
		in.Extra, in.Peers = []string{"unicast_src_ip " + s.f.own(s.l.Node(node)).String()}, []string{s.f.own(d1).String()}
		if node == "d1" {
			in.Peers = []string{s.f.own(other).String()}
		}
	}
	return in
}

// first are the instances of d1.
func (s *sharing) first() []lab.Instance {
	return []lab.Instance{s.instance("d1", "A", 200), s.instance("d1", "B", 100), s.instance("d1", "C", 200), s.instance("d1", "D", 100)}
}

func (s *sharing) second() []lab.Instance {
	return []lab.Instance{s.instance("d2", "A", 150), s.instance("d2", "B", 150), s.instance("d2", "C", 150)}
}

func (s *sharing) third() []lab.Instance { return []lab.Instance{s.instance("d3", "D", 150)} }

// owned waits until each virtual router has its owner, and checks that it stays so.
func (s *sharing) owned(t *testing.T, owners string, d time.Duration) {
	t.Helper()
	all := strings.Fields(owners)
	for i, name := range strings.Split("ABCD", "") {
		for _, a := range s.vips(name) {
			s.l.WaitOwner(a, 10*time.Second, all[i])
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i, name := range strings.Split("ABCD", "") {
			for _, a := range s.vips(name) {
				if got := s.l.Owners(a); !slices.Equal(got, all[i:i+1]) {
					t.Fatalf("%v of %s is owned by %v, want %s alone", a, name, got, all[i])
				}
			}
		}
	}
}

func newSharing(t *testing.T, f family) *sharing {
	s := &sharing{f: f, group: "224.0.0.77", l: lab.New(t, "d1", "d2", "d3")}
	if f.vip.Is6() {
		s.group = "ff02::77"
	}
	return s
}

// untroubled checks that a vipd has refused no advert and has nothing to complain of.
func untroubled(t *testing.T, v *lab.Daemon) {
	t.Helper()
	calm(t, v)
	for _, line := range strings.Split(v.Log(), "\n") {
		if strings.Contains(line, "WARN") && !strings.Contains(line, "-> FAULT") {
			t.Errorf("%s: %s", v.Name, line)
		}
	}
	for name, n := range v.Status().Counters {
		if strings.HasPrefix(name, "adverts_dropped") && fmt.Sprint(n) != "0" {
			t.Errorf("%s: %s is %v", v.Name, name, n)
		}
	}
}

func TestOneVRIDSharedByVipds(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		s := newSharing(t, f)
		seen := s.l.Node("d3").Capture()
		v1 := s.l.Node("d1").Vipd(lab.VipdConf("", s.first()...))
		v2 := s.l.Node("d2").Vipd(lab.VipdConf("", s.second()...))
		v3 := s.l.Node("d3").Vipd(lab.VipdConf("", s.third()...))
		s.owned(t, "d1 d2 d1 d3", 3*time.Second)
		for _, v := range []*lab.Daemon{v1, v2, v3} {
			untroubled(t, v)
		}

		// The second group goes to another one on both, then names are swapped: nobody moves.
		before := v1.Status().Instances
		s.group = map[bool]string{false: "224.0.0.78", true: "ff02::78"}[f.vip.Is6()]
		v2.Reload(lab.VipdConf("", s.second()...))
		v1.Reload(lab.VipdConf("", s.first()...))
		renamed := s.first()
		renamed[0].Name, renamed[1].Name = "B", "A"
		v1.Reload(lab.VipdConf("", renamed...))
		s.owned(t, "d1 d2 d1 d3", 3*time.Second)
		after := v1.Status().Instances
		for i := range before {
			j := []int{1, 0, 2, 3}[i]
			if before[i].State != after[j].State || !before[i].Since.Equal(after[j].Since) {
				t.Errorf("%s has moved: %+v, now %+v", before[i].Name, before[i], after[j])
			}
		}

		// One is taken out: the others stay.
		v1.Reload(lab.VipdConf("", slices.Concat(s.first()[:2], s.first()[3:])...))
		s.owned(t, "d1 d2 d2 d3", 2*time.Second)
		v1.Kill()
		for _, name := range strings.Split("AB", "") {
			seen.WaitAdvert(5*time.Second, 51, f.source(s.l.Node("d2")), time.Now())
			for _, a := range seen.Adverts(51) {
				if a.Src == f.source(s.l.Node("d2")) && a.Dst == netip.MustParseAddr(s.group) && !slices.Equal(a.Addrs, s.vips("B")) {
					t.Fatalf("%v is in the group of B (looking at %s)", a, name)
				}
			}
		}
	})
}

func TestOneVRIDSharedWithKeepalived(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		s := newSharing(t, f)
		k2 := s.l.Node("d2").Keepalived(lab.KeepalivedConf("", s.second()...))
		k3 := s.l.Node("d3").Keepalived(lab.KeepalivedConf("", s.third()...))
		v1 := s.l.Node("d1").Vipd(lab.VipdConf("", s.first()...))
		s.owned(t, "d1 d2 d1 d3", 3*time.Second)
		untroubled(t, v1)
		v1.Signal(syscall.SIGTERM)
		s.owned(t, "d2 d2 d2 d3", time.Second)
		v1.Wait(5 * time.Second)
		v1.Again()
		s.owned(t, "d1 d2 d1 d3", time.Second)
		k2.Stop(5 * time.Second)
		k3.Stop(5 * time.Second)
		s.owned(t, "d1 d1 d1 d1", time.Second)
		untroubled(t, v1)
		for _, k := range []*lab.Process{k2, k3} {
			for line := range strings.Lines(k.Log()) {
				lower := strings.Contains(line, "received lower priority") // as it takes over
				if strings.Contains(line, "nvalid") || strings.Contains(line, "mismatch") || strings.Contains(line, "discard") && !lower {
					t.Errorf("%s complains: %s", k.Name, line)
				}
			}
		}
	})
}

// An observer beside keepalived knows which of the virtual routers an advert is of.
func TestOneVRIDSharedObserved(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		s := newSharing(t, f)
		for node, list := range map[string][]lab.Instance{"d1": s.first(), "d2": s.second(), "d3": s.third()} {
			s.l.Node(node).Keepalived(lab.KeepalivedConf("", list...))
		}
		s.owned(t, "d1 d2 d1 d3", time.Second)
		v1 := s.l.Node("d1").Vipd(lab.VipdConf("", s.first()...), "--observe")
		v2 := s.l.Node("d2").Vipd(lab.VipdConf("", s.second()...), "--observe")
		for v, masters := range map[*lab.Daemon]string{v1: "AC", v2: "B"} {
			v.WaitLog("would become|listening for a master", 10*time.Second)
			list := v.Status().Instances
			if want := map[*lab.Daemon]int{v1: 4, v2: 3}[v]; len(list) != want {
				t.Fatalf("%s has %d instances, want %d", v.Name, len(list), want)
			}
			for _, in := range list {
				want := `agrees: keepalived is not MASTER here, vipd would be BACKUP`
				if strings.Contains(masters, in.Name) {
					want = `agrees: keepalived is MASTER here, vipd would be MASTER`
				}
				v.WaitLog(want+`.*"`+in.Name+`"`, 10*time.Second)
			}
		}
		s.owned(t, "d1 d2 d1 d3", 3*time.Second)
		for _, v := range []*lab.Daemon{v1, v2} {
			for line := range strings.Lines(v.Log()) {
				if strings.Contains(line, " WARN ") {
					t.Errorf("%s: %s", v.Name, line)
				}
			}
		}
	})
}
