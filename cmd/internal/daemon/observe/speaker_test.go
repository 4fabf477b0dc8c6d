package observe

import (
	"net/netip"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// Of several instances with one VRID on one interface, an advert of keepalived is that of
// the one which sends to that group, or from that address to that peer.
func TestSpeakerOfAdvert(t *testing.T) {
	addr := netip.MustParseAddr
	away, own, second := addr("224.0.0.77"), addr("192.0.2.1"), addr("192.0.2.11")
	named := func(name string, group netip.Addr) func(*Instance) {
		return func(in *Instance) { in.Config.Name, in.Group = name, group }
	}
	unicast := func(src netip.Addr, peer string) func(*Instance) {
		return func(in *Instance) {
			in.Config.Unicast, in.Source, in.Config.Peers = true, src, []vrrp.Peer{{Address: addr(peer)}}
		}
	}
	all := []Instance{
		web(named("GROUP", socket.Group4)), web(named("AWAY", away)),
		web(named("PEER", socket.Group4), unicast(own, "192.0.2.2")), web(named("SECOND", socket.Group4), unicast(second, "192.0.2.2")),
		web(named("OTHER", socket.Group4), unicast(netip.Addr{}, "192.0.2.3")),
	}
	for name, c := range map[string]struct {
		instances []Instance
		heard     netip.Addr // group of the socket
		src, dst  netip.Addr
		want      string
	}{
		"a group":              {all, socket.Group4, own, socket.Group4, "GROUP"},
		"another group":        {all, away, own, away, "AWAY"},
		"by another's socket":  {all, socket.Group4, own, away, ""},
		"a peer":               {all, socket.Group4, own, addr("192.0.2.2"), "PEER"},
		"from another address": {all, socket.Group4, second, addr("192.0.2.2"), "SECOND"},
		"any source":           {all, socket.Group4, second, addr("192.0.2.3"), "OTHER"},
		"nobody's peer":        {all, socket.Group4, own, addr("192.0.2.9"), ""},
		"the only one":         {all[:1], socket.Group4, own, addr("192.0.2.9"), "GROUP"},
	} {
		log, _ := logged()
		r := New(log)
		r.Configure(c.instances)
		r.Sent(socket.Key{Interface: "eth0", Index: 2, Group: c.heard}, advert(), c.src, c.dst, packet.DropNone)
		got := ""
		for name, s := range r.subjects {
			if time.Since(s.own.at) < time.Minute {
				got += name
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
