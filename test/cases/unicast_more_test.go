package cases

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O08, the default source of IPv6: peers that list each other's link-local addresses
// need no unicast_src_ip; the socket is one of the interface then.
func TestO08LinkLocalPeers(t *testing.T) {
	t.Parallel()
	f := families()[1]
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	seen := d2.Capture()
	start := func(n, peer *lab.Node, priority int) *lab.Daemon {
		in := unicastInstance(f, n, priority)
		in.Extra, in.Peers = nil, []string{peer.LinkLocal().String()}
		return n.Vipd(lab.VipdConf("", in))
	}
	v1 := start(d1, d2, 200)
	l.WaitOwner(f.vip, 10*time.Second, "d1")
	start(d2, d1, 100).WaitState(f.instance, "BACKUP", 5*time.Second)
	(&pair{Lab: l, t: t}).owns(f, d1, 2*time.Second)
	a := seen.WaitAdvert(5*time.Second, f.vrid, d1.LinkLocal(), time.Now())
	if a.Dst != d2.LinkLocal() || covers(a) != withPseudo {
		t.Errorf("%v went to %v", a, a.Dst)
	}
	v1.Kill()
	seen.WaitAdvert(3*time.Second, f.vrid, d2.LinkLocal(), time.Now())
}

// A group and a source of one's own, by multicast: what does not come to that group is
// not heard.
func TestMulticastGroupAndSource(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2", "d3")
		group := netip.MustParseAddr("224.0.0.77")
		source := func(n *lab.Node) netip.Addr { return netip.MustParseAddr("10.9.0.20" + n.Name[1:]) }
		if f.vip.Is6() {
			group = netip.MustParseAddr("ff02::77")
			source = func(n *lab.Node) netip.Addr { return netip.MustParseAddr("fe80::20" + n.Name[1:]) }
		}
		seen := l.Node("d3").Capture()
		start := func(n *lab.Node, priority int) *lab.Daemon {
			bits := map[bool]string{false: "/24", true: "/64"}[f.vip.Is6()]
			nodad := map[bool]string{false: "", true: " nodad"}[f.vip.Is6()]
			n.IP("addr add " + source(n).String() + bits + " dev eth0" + nodad)
			in := checksumInstance(f, priority)
			in.Extra = []string{"mcast_dst_ip " + group.String(), "mcast_src_ip " + source(n).String()}
			return n.Vipd(lab.VipdConf("", in))
		}
		d1, d2, d3 := l.Node("d1"), l.Node("d2"), l.Node("d3")
		start(d1, 200)
		l.WaitOwner(f.vip, 10*time.Second, "d1")
		start(d2, 100).WaitState(f.instance, "BACKUP", 5*time.Second)
		a := seen.WaitAdvert(5*time.Second, f.vrid, source(d1), time.Now())
		if a.Dst != group || a.TTL != 255 {
			t.Errorf("%v went to %v with TTL %d", a, a.Dst, a.TTL)
		}
		d3.Vipd(lab.VipdConf("", checksumInstance(f, 50))) // in the usual group, so alone
		l.WaitOwner(f.vip, 10*time.Second, "d1", "d3")
	})
}

// A spread by unicast: one file lists all directors as peers, and each leaves itself
// out.
func TestO08SpreadByUnicast(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "d3")
	nodes := l.Nodes("d1", "d2", "d3")
	var vips []netip.Addr
	var daemons []*lab.Daemon
	for _, n := range nodes {
		daemons = append(daemons, n.Vipd(fmt.Sprintf(`
[global_defs]
router_id = %q
vrrp_version = 3
[vip_spread.WEB]
directors = ["d1", "d2", "d3"]
interface = "eth0"
virtual_router_id = "11-16"
advert_int = 0.2
virtual_ipaddress = ["10.9.0.101-106"]
unicast_peer = ["10.9.0.1", "10.9.0.2", "10.9.0.3"]
`, n.Name)))
	}
	for i := range 6 {
		vips = append(vips, netip.AddrFrom4([4]byte{10, 9, 0, byte(101 + i)}))
	}
	spread := func(want ...int) func() bool {
		return func() bool {
			counts := map[string]int{}
			for _, v := range vips {
				owners := l.Owners(v)
				if len(owners) != 1 {
					return false
				}
				counts[owners[0]]++
			}
			var got []int
			for _, n := range counts {
				got = append(got, n)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
	}
	l.Eventually(15*time.Second, "each director owns two addresses", spread(2, 2, 2))
	daemons[2].Stop(5 * time.Second)
	l.Eventually(5*time.Second, "the other two share its addresses", spread(3, 3))
}

// A source that another machine has, too, is none: adverts from it would be taken for
// the other's.
func TestO08SourceOfAnother(t *testing.T) {
	t.Parallel()
	f := families()[1]
	l := lab.New(t, "d1", "d2", "r1")
	d1, r1 := l.Node("d1"), l.Node("r1")
	d1.Sysctl("net/ipv6/conf/eth0/accept_dad", "1")
	d1.Sysctl("net/ipv6/conf/eth0/dad_transmits", "1")
	in := unicastInstance(f, d1, 100, l.Node("d2"))
	in.Extra = []string{"unicast_src_ip " + r1.Addr6().String()}
	v := d1.Vipd(lab.VipdConf("", in))
	d1.IP("addr add " + r1.Addr6().String() + "/64 dev eth0")
	v.WaitLog("the configured source address may not be used: another machine has "+r1.Addr6().String()+" too|the configured source address may not be used: .* waits", 10*time.Second)
	l.Eventually(10*time.Second, "the reason of FAULT", func() bool {
		i := v.Status().Instance(f.instance)
		return i.State == "FAULT" && strings.Contains(i.Reason, "another machine has "+r1.Addr6().String()+" too")
	})
	if d1.Has(f.vip) {
		t.Error("d1 has the virtual address")
	}
}
