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

// from makes an instance without interface that speaks from src.
func from(src string) func(*Instance) {
	return func(in *Instance) { in.Interface, in.Source = "", netip.MustParseAddr(src) }
}

// TestPlaceless: an instance without interface lives where its source address is. It
// moves with it without a change of state, waits in FAULT while it is nowhere, and
// cares for no other state of an interface.
func TestPlaceless(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, unicastTo("10.9.0.2"), from("10.9.0.1")))
		n.add("d2", "10.9.0.2", config(100, unicastTo("10.9.0.1")))
		d1.wantState(vrrp.Init, "waiting for the state of this machine")
		on := func(name string, change ...func(Link) Link) {
			links := map[string]Link{"eth0": link(2, "10.1.1.1"), "eth1": link(3)}
			if name != "" {
				l := link(links[name].Index, "10.9.0.1")
				for _, c := range change {
					l = c(l)
				}
				links[name] = l
			}
			d1.setLinks(links)
		}
		on("eth0")
		n.run(5 * time.Second)
		n.wantOwners("d1")
		at := func(want string) {
			t.Helper()
			if got := d1.status("VI_1").Interface; got != want {
				t.Errorf("it is on %q, want %q", got, want)
			}
		}
		at("eth0")
		d1.take()

		on("eth1")
		n.run(5 * time.Second)
		n.wantOwners("d1")
		at("eth1")
		log := text(d1.take())
		if strings.Contains(log, "FAULT") || strings.Contains(log, "advert 0") || strings.Count(log, "source 10.9.0.1 on eth1") != 1 {
			t.Errorf("at the move:\n%s", log)
		}
		if len(d1.ports) != 1 {
			t.Errorf("%d sockets, want that of the source address alone", len(d1.ports))
		}

		on("eth1", noCarrier)
		n.run(5 * time.Second)
		n.wantOwners("d1")

		on("")
		d1.wantState(vrrp.Fault, "the configured source address 10.9.0.1 is on no interface")
		at("")
		n.run(5 * time.Second)
		n.wantOwners("d2")
		on("eth0")
		n.run(100 * time.Millisecond)
		d1.wantState(vrrp.Backup, "")
		at("eth0")
		n.run(5 * time.Second)
		n.wantOwners("d1")
	})
}

// TestPlacelessTwice: two without interface may have one VRID, each with a source of its own.
func TestPlacelessTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		second := func(in *Instance) {
			in.Name, in.Addresses = "VI_2", []netip.Addr{netip.MustParseAddr("10.8.0.100")}
		}
		d1 := n.boot("d1", config(100, unicastTo("10.9.0.2"), from("10.9.0.1")), config(100, unicastTo("10.8.0.2"), from("10.8.0.1"), second))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.8.0.1")})
		n.run(time.Second)
		deliver := func(src, dst string, addr string, unicast bool) {
			d1.router.Deliver(&socket.Received{
				Advert: packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second, Addrs: []netip.Addr{netip.MustParseAddr(addr)}},
				Src:    netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), TTL: 255, Unicast: unicast,
			})
			n.run(time.Millisecond)
		}
		deliver("10.8.0.2", "10.8.0.1", "10.8.0.100", true)
		one, two := d1.status("VI_1"), d1.status("VI_2")
		if one.Received != 0 || two.Received != 1 {
			t.Errorf("heard %d and %d, want 0 and 1", one.Received, two.Received)
		}
		// By multicast nothing is for an instance that has no interface.
		deliver("10.9.0.2", "224.0.0.18", vip.String(), false)
		if one = d1.status("VI_1"); one.Received != 0 || len(one.Drops) != 0 || d1.router.Strays() != 1 {
			t.Errorf("heard %d, dropped %v, strays %d", one.Received, one.Drops, d1.router.Strays())
		}
		err := d1.router.Apply(t.Context(), []Instance{
			config(100, unicastTo("10.9.0.2"), from("10.9.0.1")), config(100, unicastTo("10.9.0.2"), from("10.9.0.1"), second),
		})
		if err == nil || !strings.Contains(err.Error(), "both use VRID 51") {
			t.Errorf("one source for two: %v", err)
		}
	})
}

// TestPlacelessReload: an interface is given, or taken out: another virtual router, which
// resigns first.
func TestPlacelessReload(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200, unicastTo("10.9.0.2")))
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d1.take()
		for _, in := range []Instance{config(200, unicastTo("10.9.0.2"), from("10.9.0.1")), config(200, unicastTo("10.9.0.2"))} {
			d1.apply(in)
			n.run(5 * time.Second)
			n.wantOwners("d1")
			if log := d1.take(); len(times(log, "VI_1 advert 0")) != 1 {
				t.Errorf("at the change:\n%s", text(log))
			}
		}
		if !slices.Contains(slices.Collect(func(yield func(string) bool) {
			for k := range d1.ports {
				if !yield(k.String()) {
					return
				}
			}
		}), "eth0 ipv4 224.0.0.18") {
			t.Error("with an interface, adverts by multicast are watched for")
		}
	})
}
