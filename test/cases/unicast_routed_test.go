package cases

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O09: adverts of a peer behind routers arrive with a lowered TTL and are dropped, or
// never leave, as the sender looks for the peer on its own network.
//
// Claim: by unicast any TTL is accepted unless min_ttl or max_ttl say otherwise, and
// adverts follow the routing table. Multicast still demands 255.

// routed is a site with two routers between d1 and d2: the front LAN, where d1 is,
// the second LAN between the routers, and a cable from the second router to d2.
func routed(t *testing.T) *lab.Lab {
	t.Helper()
	l := lab.New(t, "d1", "d2")
	ra, rb := l.AddHost("ra", 21), l.AddHost("rb", 22)
	d1, d2 := l.Node("d1"), l.Node("d2")
	d1.Unplug(1)
	d2.Unplug(0)
	d2.Unplug(1)
	rb.Unplug(0)
	rb.IP("link add eth2 type veth peer name eth2 netns " + d2.NS)
	for n, octet := range map[*lab.Node]int{rb: 22, d2: 2} {
		n.IP(fmt.Sprintf("addr add 10.7.0.%d/24 dev eth2", octet))
		n.IP(fmt.Sprintf("addr add 2001:db8:7::%d/64 dev eth2 nodad", octet))
		n.IP("link set eth2 up")
	}
	for _, n := range []*lab.Node{ra, rb} {
		n.Sysctl("net/ipv4/ip_forward", "1")
		n.Sysctl("net/ipv6/conf/all/forwarding", "1")
	}
	d1.IP("route add default via 10.9.0.21")
	d1.IP("-6 route add default via 2001:db8:9::21")
	ra.IP("route add 10.7.0.0/24 via 10.8.0.22")
	ra.IP("-6 route add 2001:db8:7::/64 via 2001:db8:8::22")
	rb.IP("route add 10.9.0.0/24 via 10.8.0.21")
	rb.IP("-6 route add 2001:db8:9::/64 via 2001:db8:8::21")
	d2.IP("route add default via 10.7.0.22")
	d2.IP("-6 route add default via 2001:db8:7::22")
	for _, to := range []string{"10.7.0.2", "2001:db8:7::2"} {
		l.Eventually(10*time.Second, "d1 reaches "+to, func() bool {
			_, err := d1.Try("ping", "-c", "1", "-W", "1", to)
			return err == nil
		})
	}
	return l
}

// routedInstance is the instance of d1 (0) or d2 (1) of that site.
func routedInstance(f family, which, priority int, bounds string) lab.Instance {
	ends := [2]string{"10.9.0.1", "10.7.0.2"}
	if f.vip.Is6() {
		ends = [2]string{"2001:db8:9::1", "2001:db8:7::2"}
	}
	return lab.Instance{
		Name: f.instance, Interface: [2]string{"eth0", "eth2"}[which], VRID: f.vrid, Priority: priority, Interval: unicastInterval,
		VIPs: f.vips, Peers: []string{ends[1-which] + bounds}, Extra: []string{"unicast_src_ip " + ends[which]},
	}
}

func TestO09PeersBehindRouters(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, c := range []struct {
			bounds string
			heard  bool
		}{{"", true}, {" min_ttl 253", true}, {" max_ttl 253", true}, {" min_ttl 254", false}, {" max_ttl 252", false}} {
			t.Run(f.name+c.bounds, func(t *testing.T) {
				t.Parallel()
				l := routed(t)
				d1, d2 := l.Node("d1"), l.Node("d2")
				seen := d2.CaptureOn("eth2")
				d1.Vipd(lab.VipdConf("", routedInstance(f, 0, 200, "")))
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				v := d2.Vipd(lab.VipdConf("", routedInstance(f, 1, 100, c.bounds)))
				a := seen.WaitAdvert(10*time.Second, f.vrid, netip.MustParseAddr(strings.Fields(routedInstance(f, 1, 1, "").Peers[0])[0]), time.Now())
				if a.TTL != 253 {
					t.Errorf("behind two routers the TTL is %d, want 253", a.TTL)
				}
				if !c.heard {
					v.WaitLog("its TTL is outside min_ttl..max_ttl", 5*time.Second)
					l.WaitOwner(f.vip, 10*time.Second, "d1", "d2")
					return
				}
				v.WaitState(f.instance, "BACKUP", 5*time.Second)
				(&pair{Lab: l, t: t}).owns(f, d1, 2*time.Second)
				for _, a := range lab.From(seen.Adverts(f.vrid), a.Dst) {
					t.Errorf("d2 sends though d1 is better: %v", a)
				}
			})
		}
	}
}

// The route changes while the directors run: adverts take the new way, and no socket
// clings to the interface of old.
func TestO09RouteChanges(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2")
		d1, d2 := l.Node("d1"), l.Node("d2")
		// Both know each other by addresses on lo, reached over either LAN.
		inner := func(n *lab.Node, octet int) string {
			addr, bits := fmt.Sprintf("10.6.0.%d", octet), 32
			if f.vip.Is6() {
				addr, bits = fmt.Sprintf("2001:db8:6::%d", octet), 128
			}
			n.IP(fmt.Sprintf("addr add %s/%d dev lo", addr, bits))
			return addr
		}
		a1, a2 := inner(d1, 1), inner(d2, 2)
		route := func(n *lab.Node, to string, lan, octet int) {
			via := fmt.Sprintf("10.%d.0.%d", 9-lan, octet)
			if f.vip.Is6() {
				via = fmt.Sprintf("2001:db8:%d::%d", 9-lan, octet)
			}
			n.IP(fmt.Sprintf("route replace %s via %s", to, via))
		}
		instance := func(src, peer string, priority int) lab.Instance {
			return lab.Instance{Name: f.instance, VRID: f.vrid, Priority: priority, Interval: unicastInterval, VIPs: f.vips,
				Peers: []string{peer}, Extra: []string{"unicast_src_ip " + src}}
		}
		route(d1, a2, 0, 2)
		route(d2, a1, 0, 1)
		d1.Vipd(lab.VipdConf("", instance(a1, a2, 200)))
		l.WaitOwner(f.vip, 10*time.Second, "d1")
		d2.Vipd(lab.VipdConf("", instance(a2, a1, 100))).WaitState(f.instance, "BACKUP", 5*time.Second)
		other := d2.CaptureOn("eth1")
		route(d1, a2, 1, 2) // one way only: the answer may come another
		other.WaitAdvert(5*time.Second, f.vrid, netip.MustParseAddr(a1), time.Now())
		(&pair{Lab: l, t: t}).owns(f, d1, 2*time.Second)
	})
}

// O10 by unicast: the destination is in the pseudo-header, so each peer must get a
// checksum of its own, and IPv6 likewise.
func TestO10ThreeUnicastNodes(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, plain := range []bool{false, true} {
			if plain && f.vip.Is6() {
				continue
			}
			t.Run(fmt.Sprintf("%s plain %v", f.name, plain), func(t *testing.T) {
				t.Parallel()
				l := lab.New(t, "d1", "d2", "d3")
				nodes := l.Nodes("d1", "d2", "d3")
				var seen []*lab.Capture
				for i, n := range nodes {
					seen = append(seen, n.Capture())
					in := unicastInstance(f, n, 200-50*i, nodes...)
					if plain {
						in.Extra = append(in.Extra, plainForm)
					}
					n.Vipd(lab.VipdConf("", in))
				}
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				(&pair{Lab: l, t: t}).owns(f, nodes[0], 2*time.Second)
				want := map[bool]coverage{false: withPseudo, true: withoutPseudo}[plain]
				for i := 1; i < 3; i++ {
					adverts := lab.From(seen[i].Adverts(f.vrid), f.own(nodes[0]))
					if len(adverts) < 5 {
						t.Errorf("%s got %d adverts", nodes[i].Name, len(adverts))
					}
					for _, a := range adverts {
						if a.Dst != f.own(nodes[i]) || covers(a) != want {
							t.Fatalf("%s got %v to %v with the checksum of form %d, want %d", nodes[i].Name, a, a.Dst, covers(a), want)
						}
					}
				}
			})
		}
	}
}

// keepalived 2.4 under v3_checksum_as_v2 sends every peer but its first a wrong
// checksum. With that setting it is accepted here, counted, and said once; any other
// wrong checksum is not, and without the setting neither is.
func TestO10PatchedChecksums(t *testing.T) {
	t.Parallel()
	f := families()[0]
	for _, c := range []struct {
		name            string
		setting, spoilt bool
		accepted        bool
	}{{"accepted", true, false, true}, {"another wrong one", true, true, false}, {"without the setting", false, false, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "d2", "d3")
			d1, d2, d3 := l.Node("d1"), l.Node("d2"), l.Node("d3")
			frame := d1.Frame(lab.Speech{Src: d1.Addr(), Dst: d3.Addr(), DstMAC: d3.MAC(), VRID: f.vrid, Priority: 200, Interval: unicastInterval, Addrs: f.vips})
			message := frame[34:]
			binary.BigEndian.PutUint16(message[6:], patchedSum(message, d2.Addr(), d3.Addr()))
			if c.spoilt {
				message[7] ^= 0x55
			}
			flood := d1.Flood(20, frame)
			in := unicastInstance(f, d3, 100, d1, d2)
			if c.setting {
				in.Extra = append(in.Extra, plainForm)
			}
			v := d3.Vipd(lab.VipdConf("", in))
			if !c.accepted {
				l.WaitOwner(f.vip, 10*time.Second, "d3")
				v.WaitLog("its checksum is wrong", 5*time.Second)
				flood.Stop()
				return
			}
			v.WaitState(f.instance, "BACKUP", 5*time.Second)
			l.Never(3*time.Second, "d3 takes over", func() bool { return d3.Has(f.vip) })
			flood.Stop()
			if n := v.Status().Instance(f.instance).Counters["adverts_patched_checksum"]; n < 30 {
				t.Errorf("adverts_patched_checksum is %d", n)
			}
			if n := strings.Count(v.Log(), "10.9.0.1 sends wrong checksums, as keepalived 2.4 does"); n != 1 {
				t.Errorf("it is said %d times, want once", n)
			}
			l.WaitOwner(f.vip, 5*time.Second, "d3") // nobody speaks any more
		})
	}
}

// patchedSum is the checksum of the message alone, altered as if the destination had
// changed from one peer to another (RFC 1624).
func patchedSum(message []byte, from, to netip.Addr) uint16 {
	b := append([]byte(nil), message...)
	b[6], b[7] = 0, 0
	for _, x := range from.AsSlice() {
		b = append(b, ^x)
	}
	return lab.Checksum(append(b, to.AsSlice()...))
}

// Beside Debian's keepalived by unicast, in either role.
func TestO08UnicastBesideKeepalived(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for version := 2; version <= 3; version++ {
			if version == 2 && f.vip.Is6() {
				continue
			}
			for _, better := range []string{"keepalived", "vipd"} {
				t.Run(fmt.Sprintf("%s version %d, %s is better", f.name, version, better), func(t *testing.T) {
					t.Parallel()
					besideKeepalived(t, f, version, better == "keepalived")
				})
			}
		}
	}
}

// besideKeepalived runs keepalived on d1 and vipd on d2 as peers of each other.
func besideKeepalived(t *testing.T, f family, version int, better bool) {
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	mine, theirs := unicastInstance(f, d2, 200, d1), unicastInstance(f, d1, 100, d2)
	if better {
		mine.Priority, theirs.Priority = 100, 200
	}
	for _, i := range []*lab.Instance{&mine, &theirs} {
		i.Version = version
		if version == 2 {
			i.Interval, i.AuthPass = time.Second, "s3cret"
		}
	}
	first, second := d1, d2
	start := map[*lab.Node]func() *lab.Process{
		d1: func() *lab.Process { return d1.Keepalived(lab.KeepalivedConf("", theirs)) },
		d2: func() *lab.Process { return d2.Vipd(lab.VipdConf("", mine)).Process },
	}
	if !better {
		first, second = d2, d1
	}
	p := &pair{Lab: l, t: t}
	best, backup := start[first](), (*lab.Process)(nil)
	l.WaitOwner(f.vip, 15*time.Second, first.Name)
	backup = start[second]()
	p.owns(f, first, 3*mine.Interval+2*time.Second)
	best.Stop(10 * time.Second)
	l.WaitOwner(f.vip, 6*time.Second, second.Name)
	// The better one comes back and preempts.
	start[first]()
	l.WaitOwner(f.vip, 15*time.Second, first.Name)
	p.owns(f, first, 2*mine.Interval+time.Second)
	for _, bad := range []string{"invalid", "Invalid", "dropped", "TTL", "bogus"} {
		for _, daemon := range []*lab.Process{best, backup} {
			for line := range strings.Lines(daemon.Log()) {
				if strings.Contains(line, bad) {
					t.Errorf("%s complains: %s", daemon.Name, line)
				}
			}
		}
	}
}
