package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// datagrams sends text from one socket, count times, each when the one before was answered or a time has passed, and
// counts who answered from the address that was asked: "" is nobody.
func datagrams(t *testing.T, n *lab.Node, to netip.AddrPort, count int, text string) map[string]int {
	t.Helper()
	got := map[string]int{}
	err := n.Go(func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		buf := make([]byte, 2048)
		for range count {
			if _, err := c.Write([]byte(text)); err != nil {
				got[""]++
				continue
			}
			if err := c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				return err
			}
			k, err := c.Read(buf)
			if err != nil {
				k = 0 // nobody
			}
			got[string(buf[:k])]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// udp is a service on a port, checked by TCP on port 80; the servers are addresses.
func udp(vip netip.Addr, port uint16, method, more string, servers ...netip.Addr) string {
	var list []string
	for _, a := range servers {
		list = append(list, at(a, port).String())
	}
	return checked(fmt.Sprintf("address = %q\nprotocol = \"UDP\"\nlvs_sched = \"rr\"\nlvs_method = %q\n%s\n", at(vip, port), method, more),
		"[virtual_server.TCP_CHECK]\nconnect_port = 80\n", list...)
}

// opsTest is a service on a port of its own.
type opsTest struct {
	name   string
	method string
	ipv6   bool
	ops    bool
	want   int // answers of each of the two servers to 1,000 datagrams; 0: all of them from one
}

func opsTests() []opsTest {
	return []opsTest{
		{"without", "DR", false, false, 0},
		{"DR", "DR", false, true, 500},
		{"TUN", "TUN", false, true, 500},
		{"DR, IPv6", "DR", true, true, 500},
		{"TUN, IPv6", "TUN", true, true, 500},
	}
}

// TestO49OnePacket: without ops all datagrams of one socket go to one server; with it each is scheduled by itself, under
// DR and TUN and in both families. Under NAT they are scheduled as well, but the kernel has forgotten them when the answers
// come: these keep the server's address and are no answers to the client.
func TestO49OnePacket(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	const first, nat = 9200, 9210
	vip := map[bool]netip.Addr{false: vipA(), true: lab.VIP6()}
	config := []string{lab.VipdConf("",
		lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{vipA()}},
		lab.Instance{Name: "A6", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{netip.MustParseAddr("fe80::9:100"), lab.VIP6()}}),
		udp(vipA(), nat, "NAT", "ops = true", s.r[0].AddrOn(1), s.r[1].AddrOn(1)),
		udp(vipA(), nat+1, "NAT", "", s.r[0].AddrOn(1), s.r[1].AddrOn(1)),
	}
	s.openNAT()
	for _, r := range s.r[:2] {
		s.openTunnels(r)
		r.ServeUDP(nat, r.AddrOn(1), r.Name)
		r.ServeUDP(nat+1, r.AddrOn(1), r.Name)
		for i, c := range opsTests() {
			r.ServeUDP(first+uint16(i), vip[c.ipv6], r.Name)
		}
	}
	for i, c := range opsTests() {
		servers := []netip.Addr{s.r[0].Addr(), s.r[1].Addr()}
		if c.ipv6 {
			servers = []netip.Addr{s.r[0].Addr6(), s.r[1].Addr6()}
		}
		config = append(config, udp(vip[c.ipv6], first+uint16(i), c.method, fmt.Sprintf("ops = %v", c.ops), servers...))
	}
	s.start(strings.Join(config, "\n"))
	s.WaitOwner(lab.VIP6(), 10*time.Second, "d1")
	s.Eventually(5*time.Second, "every service is there", func() bool { return len(s.d[0].Table()) == len(opsTests())+2 })
	for i, c := range opsTests() {
		t.Run(c.name, func(t *testing.T) {
			got := datagrams(t, s.cl, at(vip[c.ipv6], first+uint16(i)), 1000, "who")
			t.Logf("%v of 1,000", got)
			if c.want == 0 {
				if len(got) != 1 || got[""] > 0 {
					t.Errorf("answered by %v, want one server", got)
				}
				return
			}
			for _, name := range []string{"r1", "r2"} {
				if d := got[name] - c.want; d < -5 || d > 5 {
					t.Errorf("%s answered %d, want %d and 5 more or less", name, got[name], c.want)
				}
			}
		})
	}
	t.Run("NAT", func(t *testing.T) {
		if got := datagrams(t, s.cl, at(vipA(), nat), 6, "who"); got[""] != 6 {
			t.Errorf("answered by %v, though the kernel does not do it: the reference says so", got)
		}
		s.Eventually(10*time.Second, "the kernel has scheduled them", func() bool { return scheduled(s.d[0], "UDP 10.9.0.100:9210") == 6 })
		if got := datagrams(t, s.cl, at(vipA(), nat+1), 20, "who"); got["r1"]+got["r2"] != 20 {
			t.Errorf("without ops answered by %v", got)
		}
	})
}
