package router

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// unicastTo makes an instance speak to peers.
func unicastTo(peers ...string) func(*Instance) {
	return func(in *Instance) {
		in.Unicast = true
		for _, p := range peers {
			in.Peers = append(in.Peers, vrrp.Peer{Address: netip.MustParseAddr(p)})
		}
	}
}

// TestUnicastPair: one is master, nothing goes to the group, the crash of the master is
// noticed in time, and a clean stop earlier.
func TestUnicastPair(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		var seen []socket.Frame
		n.lan.Tap(func(f socket.Frame) { seen = append(seen, f) })
		all := unicastTo("10.9.0.1", "10.9.0.2", "10.9.0.3")
		d1 := n.add("d1", "10.9.0.1", config(200, all, func(in *Instance) { in.UnicastTTL = 64 }))
		n.add("d2", "10.9.0.2", config(150, all))
		n.add("d3", "10.9.0.3", config(100, all))
		n.run(10 * time.Second)
		n.wantOwners("d1")
		to := map[string]int{}
		for _, f := range seen {
			if f.From == "d1" {
				to[f.Dst.String()]++
				if f.TTL != 64 {
					t.Fatalf("TTL %d", f.TTL)
				}
			}
		}
		if len(to) != 2 || to["10.9.0.2"] < 5 || to["10.9.0.3"] != to["10.9.0.2"] {
			t.Errorf("d1 sent to %v", to)
		}
		d1.crash()
		n.run(2 * time.Second)
		n.wantOwners()
		n.run(2 * time.Second)
		n.wantOwners("d2")
		n.nodes["d2"].kill()
		n.run(time.Second)
		n.wantOwners("d3")
	})
}

// TestUnicastNeverFallsBack: without a source or a peer an instance is in FAULT, says
// why and sends nothing.
func TestUnicastNeverFallsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		frames := 0
		n.lan.Tap(func(socket.Frame) { frames++ })
		source := func(in *Instance) { in.Source = netip.MustParseAddr("10.9.0.77") }
		d1 := n.add("d1", "10.9.0.1", config(200, unicastTo("10.9.0.2"), source))
		n.run(10 * time.Second)
		d1.wantState(vrrp.Fault, "the configured source address 10.9.0.77 is on no interface")
		d1.apply(config(200, unicastTo("10.9.0.1"))) // itself alone
		n.run(10 * time.Second)
		d1.wantState(vrrp.Fault, "unicast_peer lists no other director")
		d1.apply(config(200, unicastTo()))
		n.run(10 * time.Second)
		d1.wantState(vrrp.Fault, "unicast_peer lists no other director")
		if frames != 0 {
			t.Errorf("%d frames were sent", frames)
		}
		d1.apply(config(200, unicastTo("10.9.0.2")))
		n.run(10 * time.Second)
		n.wantOwners("d1")
		before := frames
		d1.setLinks(map[string]Link{"eth0": link(2)})
		d1.wantState(vrrp.Fault, "eth0 has no IPv4 address")
		if frames != before+1 {
			t.Errorf("%d frames at the loss of the source, want priority 0", frames-before)
		}
	})
}

// TestConfiguredSourceWaitsForDAD: an address that is there but may not be used yet is
// no source; when another machine has it that is said.
func TestConfiguredSourceWaitsForDAD(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		src := netip.MustParseAddr("2001:db8:9::1")
		d1 := n.boot("d1", config(200, unicastTo("2001:db8:9::2"), func(in *Instance) {
			in.IPv6, in.Source, in.Addresses = true, src, []netip.Addr{netip.MustParseAddr("2001:db8:9::100")}
		}))
		for _, failed := range []bool{false, true} {
			l := link(2, "fe80::1", src.String())
			l.Unready = map[netip.Addr]bool{src: failed}
			d1.setLinks(map[string]Link{"eth0": l})
			d1.wantState(vrrp.Fault, map[bool]string{
				false: "the configured source address may not be used: 2001:db8:9::1 waits for duplicate address detection",
				true:  "may not be used: another machine has 2001:db8:9::1 too",
			}[failed])
		}
		d1.setLinks(map[string]Link{"eth0": link(2, "fe80::1", src.String())})
		n.run(5 * time.Second)
		n.wantOwners("d1")
	})
}

// TestUnicastFollowsItsSource: with a new source address the socket is another one, and
// the instance stays what it is.
func TestUnicastFollowsItsSource(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200, unicastTo("10.9.0.2")))
		d2 := n.add("d2", "10.9.0.2", config(100, unicastTo("10.9.0.1", "10.9.0.5")))
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.5")})
		n.run(5 * time.Second)
		n.wantOwners("d1")
		if got := d2.status("VI_1").Status.MasterAddress.String(); got != "10.9.0.5" {
			t.Errorf("d2 hears %s", got)
		}
		if from := slices.Collect(func(yield func(string) bool) {
			for k := range d1.ports {
				if k.Local.IsValid() && !yield(k.String()) {
					return
				}
			}
		}); !slices.Equal(from, []string{"ipv4 unicast 10.9.0.5"}) {
			t.Errorf("d1 has the sockets %v", from)
		}
	})
}

// TestUnicastOnTwoInterfaces: one VRID, two instances that speak from addresses of
// their own; each hears its own peer.
func TestUnicastOnTwoInterfaces(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		second := func(peer string) Instance {
			return config(100, unicastTo(peer), func(in *Instance) {
				in.Name, in.Interface = "VI_2", "eth1"
				in.Addresses = []netip.Addr{netip.MustParseAddr("10.8.0.100")}
			})
		}
		d1 := n.boot("d1", config(200, unicastTo("10.9.0.2")), second("10.8.0.2"))
		d2 := n.boot("d2", config(100, unicastTo("10.9.0.1")), second("10.8.0.1"))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.8.0.1")})
		d2.setLinks(map[string]Link{"eth0": link(2, "10.9.0.2"), "eth1": link(3, "10.8.0.2")})
		n.run(10 * time.Second)
		for _, name := range []string{"VI_1", "VI_2"} {
			one, two := d1.status(name), d2.status(name)
			if (one.Status.State == vrrp.Master) == (two.Status.State == vrrp.Master) || one.Received+two.Received < 5 {
				t.Errorf("%s: %v and %v, %d and %d heard", name, one.Status.State, two.Status.State, one.Received, two.Received)
			}
		}
	})
}

// TestMulticastAgainstUnicast: the one that speaks unicast names what comes by
// multicast about its addresses, and is not moved by it; others' multicast with its VRID
// is no affair of its.
func TestMulticastAgainstUnicast(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(100, unicastTo("10.9.0.2")))
		d2 := n.add("d2", "10.9.0.2", config(200))
		n.run(10 * time.Second)
		n.wantOwners("d1", "d2")
		if got := d1.status("VI_1"); got.Drops[packet.DropByMulticast] < 5 || got.Received != 0 {
			t.Errorf("d1 dropped %v, heard %d", got.Drops, got.Received)
		}
		if len(d1.drops) != 1 || d1.drops[0].Reason != packet.DropByMulticast || d1.drops[0].Instance != "VI_1" {
			t.Errorf("reported %v", d1.drops)
		}
		d2.apply(config(200, func(in *Instance) { in.Addresses = []netip.Addr{netip.MustParseAddr("10.1.1.1")} }))
		before := d1.status("VI_1").Drops[packet.DropByMulticast]
		d2.setLinks(map[string]Link{"eth0": link(2, "10.9.0.3")}) // not the peer either
		n.run(10 * time.Second)
		if now := d1.status("VI_1").Drops[packet.DropByMulticast]; now > before+1 || d1.router.Strays() < 5 {
			t.Errorf("%d more by multicast, %d strays", now-before, d1.router.Strays())
		}
	})
}

// TestUnicastAgainstMulticast: the twin. It comes through the multicast socket; what
// another instance's socket has already is not counted.
func TestUnicastAgainstMulticast(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(100), config(100, unicastTo("10.8.0.2"), func(in *Instance) {
			in.Name, in.Interface, in.Addresses = "VI_2", "eth1", []netip.Addr{netip.MustParseAddr("10.8.0.100")}
		}))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.8.0.1")})
		n.run(5 * time.Second)
		deliver := func(dst string) {
			d1.router.Deliver(&socket.Received{
				Advert: packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second, Addrs: []netip.Addr{vip}},
				Src:    netip.MustParseAddr("10.9.0.2"), Dst: netip.MustParseAddr(dst), TTL: 255, Interface: "eth0", Group: socket.Group4,
			})
			n.run(time.Millisecond)
		}
		deliver("10.9.0.1")
		deliver("10.8.0.1")
		if got := d1.status("VI_1"); got.Drops[packet.DropByUnicast] != 1 || got.Received != 0 || d1.router.Strays() != 0 {
			t.Errorf("dropped %v, heard %d, strays %d", got.Drops, got.Received, d1.router.Strays())
		}
		deliver("224.0.0.18")
		if got := d1.status("VI_1"); got.Received != 1 {
			t.Errorf("by multicast: dropped %v, heard %d", got.Drops, got.Received)
		}
	})
}

// TestPatchedChecksumsAreCounted, and said once a peer, not once a minute.
func TestPatchedChecksumsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d3 := n.add("d3", "10.9.0.3", config(100, unicastTo("10.9.0.1", "10.9.0.2"), func(in *Instance) {
			in.PatchedToo, in.Form = true, packet.FormPlain
		}))
		src, dst, first := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.3"), netip.MustParseAddr("10.9.0.2")
		a := packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second, Addrs: []netip.Addr{vip}}
		b, err := a.AppendTo(nil, src, first)
		if err != nil {
			t.Fatal(err)
		}
		b[7]-- // 10.9.0.2 out, 10.9.0.3 in
		for range 130 {
			n.lan.Inject(socket.Frame{From: "d1", Src: src, Dst: dst, TTL: 255, Packet: append(packet.AppendIPv4(nil, src, dst, 1, 255, len(b)), b...)})
			n.run(time.Second)
		}
		d3.wantState(vrrp.Backup, "10.9.0.1 is master")
		if got := d3.status("VI_1").Patched; got != 130 {
			t.Errorf("counted %d", got)
		}
		if len(d3.notes) != 1 || !strings.Contains(d3.notes[0].Text, "10.9.0.1 sends wrong checksums") {
			t.Errorf("noted %v", d3.notes)
		}
	})
}

// TestNoResignationAtDeadLink: by unicast, a resignation at a link without carrier
// would be delivered when the link is back. To a peer behind a router it may find
// another way, and it goes out.
func TestNoResignationAtDeadLink(t *testing.T) {
	for name, nets := range map[string][]netip.Prefix{
		"peer on the link":      {netip.MustParsePrefix("10.9.0.0/24")},
		"peer behind a router":  {netip.MustParsePrefix("10.7.0.0/24")},
		"one peer on each side": {netip.MustParsePrefix("10.9.0.2/31")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", config(200, unicastTo("10.9.0.2", "10.9.0.4")))
				n.run(5 * time.Second)
				n.wantOwners("d1")
				d1.take()
				l := noCarrier(link(2, "10.9.0.1"))
				l.Nets = nets
				d1.setLinks(map[string]Link{"eth0": l})
				sent, want := len(times(d1.take(), "VI_1 advert 0")), 1
				if name == "peer on the link" {
					want = 0
				}
				if sent != want {
					t.Errorf("%d resignations, want %d", sent, want)
				}
				n.wantOwners()
			})
		})
	}
}
