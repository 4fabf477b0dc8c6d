package router

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

func down(l Link) Link      { l.Up = false; return l }
func noCarrier(l Link) Link { l.Carrier = false; return l }

// tentative is a link whose link-local address is not usable.
func tentative(duplicate bool) Link {
	l := link(2, "10.9.0.1")
	l.Tentative6, l.Duplicate6 = netip.MustParseAddr("fe80::1"), duplicate
	return l
}

func onIPv6(in *Instance) {
	in.IPv6, in.Group, in.Addresses = true, socket.Group6, []netip.Addr{netip.MustParseAddr("fe80::100")}
}

// TestLinkStates walks one MASTER through everything that can happen to its
// interface (O19, O20, O25, O26), and back each time without a restart.
func TestLinkStates(t *testing.T) {
	good := link(2, "10.9.0.1")
	tests := []struct {
		name, reason string
		links        map[string]Link
		change       func(*Instance)
	}{
		{"admin down", "eth0 is down", map[string]Link{"eth0": down(good)}, nil},
		{"carrier lost", "eth0 has no carrier", map[string]Link{"eth0": noCarrier(good)}, nil},
		{"deleted", "eth0 does not exist", map[string]Link{"eth1": good}, nil},
		{"all gone", "eth0 does not exist", map[string]Link{}, nil},
		{"addresses flushed", "eth0 has no IPv4 address", map[string]Link{"eth0": link(2)}, nil},
		{"only the VIP left", "eth0 has no IPv4 address of its own: 10.9.0.100 is a virtual address", map[string]Link{"eth0": link(2, vip.String())}, nil},
		{"no link-local", "eth0 has no link-local address", map[string]Link{"eth0": link(2, "10.9.0.1")}, onIPv6},
		{"link-local in detection", "eth0 has no link-local address that may be used: fe80::1 waits for duplicate address detection", map[string]Link{"eth0": tentative(false)}, onIPv6},
		{"link-local of another", "eth0 has no link-local address that may be used: another machine has fe80::1 too (duplicate address detection failed)", map[string]Link{"eth0": tentative(true)}, onIPv6},
		{"configured source gone", "the configured source address 10.9.0.77 is on no interface", map[string]Link{"eth0": good}, func(in *Instance) {
			in.Source = netip.MustParseAddr("10.9.0.77")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				in := config(200)
				if tt.change != nil {
					tt.change(&in)
				}
				d1 := n.boot("d1", in)
				all := map[string]Link{"eth0": link(2, "10.9.0.1", "fe80::1"), "eth1": link(3, "10.9.0.77")}
				d1.setLinks(all)
				n.run(5 * time.Second)
				n.wantOwners("d1")
				d1.take()
				d1.setLinks(tt.links)
				d1.wantState(vrrp.Fault, tt.reason)
				n.wantOwners()
				d1.setLinks(tt.links)
				n.run(time.Minute)
				if got := times(d1.take(), "VI_1 MASTER -> FAULT: "+tt.reason); len(got) != 1 {
					t.Errorf("%d such transitions", len(got))
				}
				d1.setLinks(all)
				d1.wantState(vrrp.Backup, "listening")
				n.run(5 * time.Second)
				n.wantOwners("d1")
			})
		})
	}
}

// TestLinkLossResigns: priority 0 goes out with the last known source when the
// addresses are gone but the link is not.
func TestLinkLossResigns(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		d2 := n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d2.take()
		d1.setLinks(map[string]Link{"eth0": link(2)})
		lost := n.now()
		n.run(time.Second)
		if got := times(d2.take(), "VI_1 BACKUP -> MASTER: 10.9.0.1 resigned"); len(got) != 1 || got[0]-lost != 609375*time.Microsecond {
			t.Errorf("d2 took over at %v, addresses lost at %v", got, lost)
		}
	})
}

// TestO25DeadLink: on a dead link nothing can be sent, and that is no news.
func TestO25DeadLink(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		d2 := n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d2.take()
		last := n.now().Truncate(time.Second) + 218750*time.Microsecond - time.Second
		n.lan.SetLink("d1", false)
		d1.setLinks(map[string]Link{"eth0": noCarrier(link(2, "10.9.0.1"))})
		d1.wantState(vrrp.Fault, "eth0 has no carrier")
		n.run(5 * time.Second)
		got := times(d2.take(), "VI_1 BACKUP -> MASTER: no advert from 10.9.0.1")
		if len(got) != 1 || got[0] != last+3609375*time.Microsecond {
			t.Errorf("d2 took over at %v, last advert at %v", got, last)
		}
		if s := d1.status("VI_1"); s.SendError != 1 || len(d1.notes) != 0 {
			t.Errorf("%d send errors, notes %v; want one error and no note", s.SendError, d1.notes)
		}
	})
}

// TestO19BothRecycled takes both nodes' interfaces down and up one after the other.
func TestO19BothRecycled(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1, d2 := n.add("d1", "10.9.0.1", config(200)), n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		for _, d := range []*node{d2, d1} {
			addr := map[*node]string{d1: "10.9.0.1", d2: "10.9.0.2"}[d]
			d.setLinks(map[string]Link{"eth0": down(link(2))})
			n.run(100 * time.Millisecond)
			d.setLinks(map[string]Link{"eth0": link(2)})
			n.run(2 * time.Second)
			d.setLinks(map[string]Link{"eth0": link(2, addr)})
		}
		n.run(5 * time.Second)
		n.wantOwners("d1")
	})
}

// TestO20Recreated: the interface comes back with another index, and with new
// sockets; also when it did not exist at the start.
func TestO20Recreated(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		n.add("d1", "10.9.0.1", config(200))
		d2 := n.boot("d2", config(100))
		d2.setLinks(map[string]Link{})
		d2.wantState(vrrp.Fault, "eth0 does not exist")
		n.run(5 * time.Second)
		d2.setLinks(map[string]Link{"eth0": link(7, "10.9.0.2")})
		n.run(10 * time.Second)
		d2.wantState(vrrp.Backup, "10.9.0.1 is master")
		d2.setLinks(map[string]Link{"eth0": link(8, "10.9.0.2")}) // deleted and re-created unnoticed
		n.run(10 * time.Second)
		d2.wantState(vrrp.Backup, "10.9.0.1 is master")
		n.wantOwners("d1")
		if len(d2.ports) != 1 {
			t.Errorf("%d sockets open, want 1", len(d2.ports))
		}
		for _, p := range d2.ports {
			if p.port.Key().Index != 8 {
				t.Errorf("socket is on index %d", p.port.Key().Index)
			}
		}
	})
}

// TestUnchangedStateIsSilent: the watcher tells the whole state again and again.
func TestUnchangedStateIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(3300 * time.Millisecond)
		d1.take()
		syncs := d1.syncs
		for range 100 {
			d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth7": link(9, "10.7.0.1")})
			d1.router.TrackResult("nobody's", true)
		}
		d1.apply(config(200))
		if got := d1.take(); len(got) != 0 || d1.syncs != syncs {
			t.Errorf("%d syncs and\n%s", d1.syncs-syncs, text(got))
		}
	})
}

// TestSocketTrouble: without a socket nothing is heard, so nothing may be claimed.
func TestSocketTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200))
		d1.mu.Lock()
		d1.syncErr = map[string]error{"VI_1": errors.New("too many open files")}
		d1.mu.Unlock()
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
		d1.wantState(vrrp.Fault, "no VRRP socket on eth0: too many open files")
		n.run(10 * time.Second)
		d1.wantState(vrrp.Fault, "too many open files")
		if d1.syncs < 10 || d1.syncs > 12 {
			t.Errorf("%d tries in 10 s, want one a second", d1.syncs)
		}
		d1.mu.Lock()
		d1.syncErr = nil
		d1.mu.Unlock()
		n.run(time.Second)
		d1.wantState(vrrp.Backup, "listening")
		syncs := d1.syncs
		n.run(time.Minute)
		if d1.syncs != syncs {
			t.Errorf("%d tries after the trouble", d1.syncs-syncs)
		}
	})
}

// TestFought: VIPs removed by others again and again.
func TestFought(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d1.take()
		d1.router.Fought("VI_1", "VIP", "10.9.0.100")
		d1.router.Fought("VI_9", "VIP", "10.9.0.100") // no such instance
		n.run(29999 * time.Millisecond)
		d1.wantState(vrrp.Fault, "VIP fought over: 10.9.0.100")
		n.wantOwners("d2")
		if got := times(d1.take(), "VI_1 advert 0"); len(got) != 1 {
			t.Errorf("%d resignations, want 1", len(got))
		}
		n.run(time.Millisecond)
		d1.wantState(vrrp.Backup, "listening")
		n.run(5 * time.Second)
		n.wantOwners("d1")
	})
}

// TestFoughtWithNothingElseDue: the end of the 30 s is noticed by itself.
func TestFoughtWithNothingElseDue(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200, func(in *Instance) { in.TrackScripts = []Track{{Name: "chk"}} }))
		d1.router.Fought("VI_1", "VIP", "10.9.0.100")
		n.run(29 * time.Second)
		d1.wantState(vrrp.Fault, "VIP fought over")
		n.run(time.Second)
		d1.wantState(vrrp.Fault, "waiting for the first result of script chk")
	})
}

// TestHinder: what is told from outside keeps an instance out until it is told no more;
// others, and other reasons, are not concerned.
func TestHinder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d1.router.Hinder(map[string][]string{"VI_9": {"no route"}})
		n.run(time.Second)
		n.wantOwners("d1")
		d1.router.Hinder(map[string][]string{"VI_1": {"static route is missing"}})
		n.run(2 * time.Second)
		d1.wantState(vrrp.Fault, "static route is missing")
		n.wantOwners("d2")
		d1.router.Hinder(nil)
		n.run(5 * time.Second)
		n.wantOwners("d1")
	})
}

// TestFoughtNames: the reason names what was fought over.
func TestFoughtNames(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(5 * time.Second)
		d1.router.Fought("VI_1", "route", "10.1.0.0/16 via 10.9.0.254")
		n.run(time.Second)
		d1.wantState(vrrp.Fault, "route fought over: 10.1.0.0/16 via 10.9.0.254")
	})
}

// foreign is an advert of another cluster that uses our VRID.
func foreign(priority uint8, src, address string) socket.Frame {
	a := packet.Advert{Version: 3, VRID: 51, Priority: priority, Interval: time.Second, Addrs: []netip.Addr{netip.MustParseAddr(address)}}
	from := netip.MustParseAddr(src)
	b, err := a.AppendTo(nil, from, socket.Group4)
	if err != nil {
		panic(err)
	}
	ip := packet.AppendIPv4(nil, from, socket.Group4, 1, packet.TTL, len(b))
	return socket.Frame{From: "stranger", Src: from, Dst: socket.Group4, TTL: packet.TTL, Packet: append(ip, b...)}
}

// TestO14ForeignCluster: strangers change nothing, are counted, named, and
// reported once a minute. The twin lists our address.
func TestO14ForeignCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1, d2 := n.add("d1", "10.9.0.1", config(200)), n.add("d2", "10.9.0.2", config(100))
		n.run(5 * time.Second)
		d1.take()
		d2.take()
		for range 600 {
			n.lan.Inject(foreign(250, "10.9.0.50", "10.9.0.200"))
			n.lan.Inject(foreign(50, "10.9.0.50", "10.9.0.200"))
			n.run(100 * time.Millisecond)
		}
		if got := times(append(d1.take(), d2.take()...), "VI_1 MASTER"); got != nil {
			t.Error("a stranger moved the MASTER")
		}
		for _, d := range []*node{d1, d2} {
			s := d.status("VI_1")
			if s.Drops[packet.DropForeign] != 1200 || s.Foreign.String() != "10.9.0.50" || s.ForeignAt.IsZero() {
				t.Errorf("%s: drops %v, last stranger %v", d.name, s.Drops, s.Foreign)
			}
			if len(d.drops) != 1 || d.drops[0].Reason != packet.DropForeign || d.drops[0].Source.String() != "10.9.0.50" {
				t.Errorf("%s: reports %v, want one", d.name, d.drops)
			}
		}
		n.run(time.Second)
		n.lan.Inject(foreign(50, "10.9.0.50", "10.9.0.200"))
		n.run(0)
		if len(d1.drops) != 2 || d1.drops[1].Count != 1201 {
			t.Errorf("after a minute: %v", d1.drops)
		}
		n.lan.Inject(foreign(250, "10.9.0.50", vip.String()))
		n.run(0)
		d1.wantState(vrrp.Backup, "10.9.0.50 has the higher priority 250")
	})
}

// TestAddressMismatchIsNoted: some addresses in common are enough to act on, and
// worth a word, once.
func TestAddressMismatchIsNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		n.add("d1", "10.9.0.1", config(200, func(in *Instance) {
			in.Addresses = append(in.Addresses, netip.MustParseAddr("10.9.0.101"))
		}))
		d2 := n.add("d2", "10.9.0.2", config(100))
		n.run(time.Minute)
		n.wantOwners("d1")
		d2.mu.Lock()
		if len(d2.notes) != 1 || !strings.HasPrefix(d2.notes[0].Text, "10.9.0.1 advertises other addresses") {
			t.Errorf("notes are %v", d2.notes)
		}
		d2.mu.Unlock()
		if !d2.status("VI_1").Status.AddressMismatch {
			t.Error("status does not show it")
		}
		n.nodes["d1"].apply(config(200))
		n.run(2 * time.Second)
		if d2.status("VI_1").Status.AddressMismatch {
			t.Error("status still shows it")
		}
	})
}

// TestO15OwnAdvertOnAnotherInterface: two interfaces on one LAN, one VRID.
func TestO15OwnAdvertOnAnotherInterface(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(100))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.9.0.21")})
		n.run(5 * time.Second)
		n.lan.Inject(foreign(200, "10.9.0.21", vip.String())) // our own, from eth1
		n.lan.Inject(foreign(0, "10.9.0.21", vip.String()))
		n.run(0)
		n.wantOwners("d1")
		if got := d1.status("VI_1").Drops[packet.DropOwnSource]; got != 2 {
			t.Errorf("%d own adverts counted, want 2", got)
		}
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")}) // the twin: now it is another's
		n.lan.Inject(foreign(200, "10.9.0.21", vip.String()))
		n.run(0)
		n.wantOwners()
	})
}

// TestTwinSource: another router with the very address we send from is named, and never
// acted on. What we send on another interface of ours is no twin.
func TestTwinSource(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(100))
		d2 := n.add("d2", "10.9.0.1", config(200))
		n.run(10 * time.Second)
		n.wantOwners("d1", "d2")
		for _, d := range []*node{d1, d2} {
			s := d.status("VI_1")
			if s.Drops[packet.DropTwin] < 5 || s.Drops[packet.DropOwnSource] != 0 || time.Since(s.TwinAt) > time.Second {
				t.Errorf("%s: %v, last at %v", d.name, s.Drops, s.TwinAt)
			}
			d.mu.Lock()
			if len(d.drops) != 1 || d.drops[0].Reason != packet.DropTwin { // at most once a minute
				t.Errorf("%s reports %v", d.name, d.drops)
			}
			d.mu.Unlock()
		}
		d2.setLinks(map[string]Link{"eth0": link(2, "10.9.0.2")})
		n.run(5 * time.Second)
		n.wantOwners("d2")
	})
}

// TestBlock: an instance that must not work resigns at once, says why, and listens
// again when it may; others do not notice.
func TestBlock(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200), config(200, func(in *Instance) { in.Name, in.VRID = "VI_2", 52 }))
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d1.take()
		d1.router.Block(map[string]string{"VI_1": "no_accept is not possible"})
		n.run(time.Minute)
		d1.wantState(vrrp.Fault, "no_accept is not possible")
		log := d1.take()
		if got := times(log, "VI_1 advert 0"); len(got) != 1 || times(log, "VI_2 MASTER") != nil {
			t.Errorf("blocked:\n%s", text(log))
		}
		d1.apply(config(200), config(200, func(in *Instance) { in.Name, in.VRID = "VI_2", 52 }))
		d1.wantState(vrrp.Fault, "no_accept is not possible")
		d1.router.Block(nil)
		n.run(time.Millisecond)
		d1.wantState(vrrp.Backup, "listening")
		n.run(4 * time.Second)
		n.wantOwners("d1")
	})
}
