package daemon

import (
	"net/netip"
	"slices"
	"testing"

	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// Virtual routers that share a VRID do not share keys: those of a multicast group count
// for its socket, those by unicast for the peers that are written.
func TestWantedKeys(t *testing.T) {
	keys := func(b byte) packet.Keys { return packet.Keys{1: []byte{b}} }
	own, peer := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr
	base := router.Endpoint{Interface: "eth0", Index: 2, Group: socket.Group4, VRID: 51}
	multicast, away, first, second := base, base, base, base
	multicast.Keys = keys(1)
	away.Group, away.Keys = peer("224.0.0.77"), keys(2)
	first.Local, first.Peers, first.PatchedToo = own, []netip.Addr{peer("10.9.0.2"), peer("10.9.0.4")}, true
	second.Local, second.Peers, second.Keys = own, []netip.Addr{peer("10.9.0.3")}, keys(4)

	key := func(w wants, from string) byte {
		who := socket.Party{VRID: 51, Source: peer(from)}
		k, ok := w.keys[who]
		if !ok {
			k = w.keys[socket.Party{VRID: 51}]
		}
		if k == nil {
			return 0
		}
		return k[1][0]
	}
	all := wanted([]router.Endpoint{first, multicast, second, away})
	if len(all) != 3 {
		t.Fatalf("%d sockets: %v", len(all), all)
	}
	for name, c := range map[string]struct {
		socket socket.Key
		from   string
		want   byte
	}{
		"the group":               {multicast.Multicast(), "10.9.0.3", 1},
		"another group":           {away.Multicast(), "10.9.0.3", 2},
		"a peer":                  {first.Unicast(), "10.9.0.2", 0},
		"a peer of the other one": {first.Unicast(), "10.9.0.3", 4},
		"a stranger":              {first.Unicast(), "10.9.0.9", 0},
	} {
		if got := key(all[c.socket], c.from); got != c.want {
			t.Errorf("%s: key %d, want %d", name, got, c.want)
		}
	}
	w := all[first.Unicast()]
	if len(w.patched) != 2 || !slices.Equal(w.patched[socket.Party{VRID: 51, Source: peer("10.9.0.4")}], first.Peers) {
		t.Errorf("patched: %v", w.patched)
	}
	// Nobody speaks multicast: what comes by it all the same is judged with the keys of unicast.
	w = wanted([]router.Endpoint{second})[second.Multicast()]
	if key(w, "10.9.0.3") != 4 || key(w, "10.9.0.9") != 4 || !slices.Equal(w.watched, []uint8{51}) || len(w.vrids) != 0 {
		t.Errorf("watching: %+v", w)
	}
}
