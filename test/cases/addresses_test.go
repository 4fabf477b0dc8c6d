package cases

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O19: the network manager recycled the interface on the backup, then on the
// master; afterwards nobody has the VIP.
//
// Claim: exactly one owner within 5 s of the last step, for good.
func TestO19BothInterfacesRecycled(t *testing.T) {
	t.Parallel()
	conf := func(prio int) string { return bothFamilies(lab.Instance{Priority: prio}) }
	p := newPair(t, conf(200), conf(100))
	var last time.Time
	for _, n := range []*lab.Node{p.d2, p.d1} {
		n.LinkDown(0)
		n.Flush(0)
		n.IP("link set eth0 up")
		time.Sleep(2 * time.Second)
		last = time.Now()
		n.Readdress(0)
	}
	for _, f := range families() {
		p.Eventually(time.Until(last.Add(5*time.Second)), f.name+": exactly one director has the VIP", func() bool { return len(p.Owners(f.vip)) == 1 })
	}
	// Who it is may still change, to the better one; that is the last change.
	for _, f := range families() {
		p.WaitOwner(f.vip, 6*time.Second, "d1")
	}
	for _, f := range families() {
		owners := p.WatchOwners(f.vip, 10*time.Millisecond)
		time.Sleep(1500 * time.Millisecond)
		onlyOwner(t, owners, "d1")
		p.waitNeigh(f, p.d1, time.Now().Add(time.Second))
	}
}

// O19, a storm: both interfaces are taken down, flushed, set up and addressed
// again and again, at random moments.
//
// Claim: whatever the order, when it is over there is exactly one owner.
func TestO19Storm(t *testing.T) {
	t.Parallel()
	p := quickPair(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	steps := []func(n *lab.Node){
		func(n *lab.Node) { n.LinkDown(0) },
		func(n *lab.Node) { n.IP("link set eth0 up") },
		func(n *lab.Node) { n.Flush(0) },
		func(n *lab.Node) { rebase(n) },
		func(n *lab.Node) { n.PortDown(0) },
		func(n *lab.Node) { n.PortUp(0) },
		func(n *lab.Node) { n.Unplug(0); n.Plug(0) },
	}
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		n := []*lab.Node{p.d1, p.d2}[random.IntN(2)]
		n.Sysctl("net/ipv6/conf/eth0/keep_addr_on_down", []string{"0", "1"}[random.IntN(2)])
		steps[random.IntN(len(steps))](n)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	}
	for _, n := range []*lab.Node{p.d1, p.d2} {
		n.Flush(0)
		n.LinkDown(0)
		n.PortUp(0)
		rebase(n)
	}
	last := time.Now()
	for _, f := range families() {
		p.WaitOwner(f.vip, time.Until(last.Add(5*time.Second)), "d1")
	}
	logs := watchFamilies(p)
	time.Sleep(5 * quick)
	for i, f := range families() {
		onlyOwner(t, logs[i], "d1")
		p.waitNeigh(f, p.d1, time.Now().Add(time.Second))
		p.cl.Exec("ping", "-c", "1", "-W", "3", f.vip.String())
	}
}

// rebase takes a node's own addresses off, where it has them, and sets them anew.
func rebase(n *lab.Node) {
	n.IP("addr flush dev eth0 to 10.9.0.0/28")
	n.IP("-6 addr flush dev eth0 to 2001:db8:9::/124")
	n.RestoreBase(0)
}

// O22: the kernel drops the secondary addresses of a subnet with its primary one.
// When a group's VIP is primary and goes, the other group's goes with it, but its
// adverts go on.
//
// Claim: with promote_secondaries=0 and VIPs written as /24, whatever takes the
// primary address away, group B's VIP stays or is back at once, and B does not
// change state.
func TestO22RemovingOneVIPKeepsOthers(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("10.9.7.100"), netip.MustParseAddr("10.9.7.101")
	const groupA, groupB = `virtual_ipaddress = ["10.9.7.100/24"]`, `virtual_ipaddress = ["10.9.7.101/24"]`
	for _, c := range []struct {
		name  string
		base  string // a second base address on d1, before vipd starts
		fault func(s *secondaries)
	}{
		{"A removed by reload", "", func(s *secondaries) { s.v1.Reload(s.conf(200, "", groupB)) }},
		{"A taken over by a better peer", "", func(s *secondaries) { s.d2.Vipd(s.conf(250, groupA, "")) }},
		{"A's address deleted by hand", "", func(s *secondaries) { s.d1.IP("addr del " + a.String() + "/24 dev eth0") }},
		{"base address of the subnet deleted by hand", "10.9.7.1/24", func(s *secondaries) { s.d1.IP("addr del 10.9.7.1/24 dev eth0") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSecondaries(t, c.base)
			s.v1 = s.d1.Vipd(s.conf(200, groupA, ""))
			s.WaitOwner(a, 5*time.Second, "d1")
			s.v1.Reload(s.conf(200, groupA, groupB)) // B is added later: it is the secondary one
			s.WaitOwner(b, 5*time.Second, "d1")
			s.mustBeSecondary(t, b)
			time.Sleep(2 * quick)
			owners := s.WatchOwners(b, time.Millisecond)
			from := time.Now()
			c.fault(s)
			time.Sleep(time.Second + 4*quick)
			owners.Stop()
			if away := owners.Longest(0); away > backLimit {
				t.Errorf("B's address was away for %v", away)
			} else {
				t.Logf("B's address was away for %v", away)
			}
			if !s.d1.Has(b) {
				t.Error("B's address is gone for good")
			}
			steady(t, s.seen, 62, s.d1.Addr(), 200, quick, from)
			s.cl.Exec("ping", "-c", "1", "-W", "3", b.String())
		})
	}
}

// secondaries is the site of O22: the VIPs are in a subnet of their own, where
// the first one is primary.
type secondaries struct {
	*lab.Lab
	d1, d2, cl *lab.Node
	v1         *lab.Daemon
	seen       *lab.Capture
}

func newSecondaries(t *testing.T, base string) *secondaries {
	l := lab.New(t, "d1", "d2", "cl")
	s := &secondaries{Lab: l, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	s.seen = s.cl.Capture()
	for _, scope := range []string{"all", "default", "eth0"} {
		s.d1.Sysctl("net/ipv4/conf/"+scope+"/promote_secondaries", "0")
	}
	if base != "" {
		s.d1.IP("addr add " + base + " dev eth0")
	}
	s.cl.IP("addr add 10.9.7.9/24 dev eth0")
	return s
}

// conf is a configuration with the group A, B, or both; priority is A's.
func (s *secondaries) conf(priority int, groupA, groupB string) string {
	var list []lab.Instance
	for i, addresses := range []string{groupA, groupB} {
		if addresses != "" {
			key, value, _ := strings.Cut(addresses, " = ")
			list = append(list, lab.Instance{Name: string(rune('A' + i)), VRID: uint8(61 + i), Priority: priority,
				Interval: quick, Extra: append(plain(), key+" "+value)})
		}
	}
	return lab.VipdConf("", list...)
}

// mustBeSecondary checks that the kernel would drop the address with another one.
func (s *secondaries) mustBeSecondary(t *testing.T, addr netip.Addr) {
	t.Helper()
	for _, a := range s.d1.Addresses() {
		if a.Prefix.Addr() == addr && slices.Contains(a.Flags, "secondary") && a.Prefix.Bits() == 24 {
			return
		}
	}
	t.Fatalf("%v is no secondary /24 address of d1: the case would prove nothing\n%v", addr, s.d1.Addresses())
}

// O22, the base address: with it gone there is no source for adverts, and the
// node must give up (O26); the VIPs live on at the peer.
func TestO22PrimaryBaseAddressDeleted(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	d1.Sysctl("net/ipv4/conf/all/promote_secondaries", "0")
	d1.Sysctl("net/ipv4/conf/eth0/promote_secondaries", "0")
	vips := []netip.Addr{netip.MustParseAddr("10.9.0.100"), netip.MustParseAddr("10.9.0.101")}
	conf := func(prio int) string {
		var list []lab.Instance
		for i, v := range vips {
			list = append(list, lab.Instance{Name: string(rune('A' + i)), VRID: uint8(61 + i), Priority: prio, Interval: quick,
				Extra: append(plain(), `virtual_ipaddress ["`+v.String()+`/24"]`)})
		}
		return lab.VipdConf("", list...)
	}
	d1.Vipd(conf(200))
	l.WaitOwner(vips[1], 5*time.Second, "d1")
	d2.Vipd(conf(100)).WaitState("B", "BACKUP", 5*time.Second)
	time.Sleep(2 * quick)
	d1.RemoveAddress(d1.Addr())
	for _, v := range vips {
		l.WaitOwner(v, 2*time.Second, "d2")
		cl.Exec("ping", "-c", "1", "-W", "3", v.String())
	}
	d1.IP("addr add " + d1.Addr().String() + "/24 broadcast + dev eth0")
	for _, v := range vips {
		l.WaitOwner(v, 3*time.Second, "d1")
		cl.Exec("ping", "-c", "1", "-W", "3", v.String())
	}
	if first := firstOf(d1, "eth0", false); first.Addr() != d1.Addr() {
		t.Errorf("the first address of eth0 is %v, want the base address", first)
	}
}

// O26: after a loss of carrier the VIP is set before the host's own address and
// becomes the first one; other programs take it for the node's address.
//
// Claim: no VIP is added to an interface whose base address is missing: FAULT
// instead, and the peer has it. Afterwards the base address is the first one,
// and VIPs are no source of the node's own connections.
func TestO26VIPNeverFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		begin func(p *pair)
	}{
		{"flushed", func(p *pair) { p.d1.Flush(0) }},
		{"carrier lost and flushed", func(p *pair) {
			p.d1.PortDown(0)
			p.d1.Flush(0)
			time.Sleep(time.Second)
			p.d1.PortUp(0)
		}},
		{"restarted without addresses", func(p *pair) {
			p.v1.Stop(5 * time.Second)
			p.d1.Flush(0)
			p.v1.Again()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := quickPair(t)
			for _, f := range families() {
				looksLikeVIP(t, p.d1, f)
			}
			c.begin(p)
			for _, f := range families() {
				p.WaitOwner(f.vip, 3*time.Second, "d2")
			}
			logs := watchFamilies(p)
			time.Sleep(3 * time.Second)
			for i := range families() {
				onlyOwner(t, logs[i], "d2")
			}
			for _, f := range families() {
				if i := p.v1.Status().Instance(f.instance); i.State != "FAULT" || i.Reason == "" {
					t.Errorf("%s: without a base address d1 is %s (%s), want FAULT and why", f.name, i.State, i.Reason)
				}
			}
			p.d1.RestoreBase(0)
			for _, f := range families() {
				p.WaitOwner(f.vip, 4*time.Second, "d1")
				looksLikeVIP(t, p.d1, f)
			}
		})
	}
}

// watchFamilies samples the owners of both families' VIPs.
func watchFamilies(p *pair) []*lab.OwnerLog {
	var list []*lab.OwnerLog
	for _, f := range families() {
		list = append(list, p.WatchOwners(f.vip, 5*time.Millisecond))
	}
	return list
}

// looksLikeVIP checks how the kernel has the VIP: a host address after the
// interface's own one, and never the source of the node's own packets.
func looksLikeVIP(t *testing.T, n *lab.Node, f family) {
	t.Helper()
	for _, a := range n.Addresses() {
		if a.Prefix.Addr() == f.vip && a.Prefix.Bits() != f.vip.BitLen() {
			t.Errorf("the VIP is %v, want a host address", a.Prefix)
		}
		if a.Prefix.Addr() == f.vip && f.vip.Is6() && !a.Deprecated {
			t.Errorf("%v is not deprecated: it may become the source of connections", f.vip)
		}
	}
	if !f.vip.Is6() { // the kernel lists IPv6 addresses last one first
		if first := firstOf(n, "eth0", false); first.Addr() != n.Addr() {
			t.Errorf("the first IPv4 address of eth0 is %v, want the base address", first)
		}
	}
	cl, base := "10.9.0.9", n.Addr()
	if f.vip.Is6() {
		cl, base = "2001:db8:9::9", n.Addr6()
	}
	var routes []struct {
		Source string `json:"prefsrc"`
	}
	if err := json.Unmarshal([]byte(n.IP("-j route get "+cl)), &routes); err != nil || len(routes) != 1 {
		t.Fatalf("%s: route to %s: %v %v", n.Name, cl, routes, err)
	}
	if routes[0].Source != base.String() {
		t.Errorf("%s: packets of the node to %s have source %s, want %v", n.Name, cl, routes[0].Source, base)
	}
}

// firstOf is the first address of a family that the kernel lists on an interface.
func firstOf(n *lab.Node, dev string, ipv6 bool) netip.Prefix {
	for _, a := range n.Addresses() {
		if a.Dev == dev && a.Prefix.Addr().Is6() == ipv6 {
			return a.Prefix
		}
	}
	return netip.Prefix{}
}
