package daemon

import (
	"net/netip"
	"slices"

	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// wants is what a socket is to receive.
type wants struct {
	vrids   []uint8
	watched []uint8 // they speak unicast: by multicast nothing should come
	patched map[socket.Party][]netip.Addr
	keys    map[socket.Party]packet.Keys
}

// wanted works out which sockets the endpoints need, and what for.
func wanted(endpoints []router.Endpoint) map[socket.Key]wants {
	all := map[socket.Key]wants{}
	for _, e := range endpoints {
		if !e.Local.IsValid() {
			w := all[e.Multicast()]
			w.vrids = append(w.vrids, e.VRID)
			w.key(socket.Party{VRID: e.VRID}, e.Keys)
			all[e.Multicast()] = w
		}
	}
	for _, e := range endpoints {
		if !e.Local.IsValid() {
			continue
		}
		if e.Interface != "" {
			w := all[e.Multicast()]
			if !slices.Contains(w.vrids, e.VRID) { // else one that speaks multicast is meant
				w.unicast(e)
			}
			w.watched = append(w.watched, e.VRID)
			all[e.Multicast()] = w
		}
		w := all[e.Unicast()]
		w.vrids = append(w.vrids, e.VRID)
		w.unicast(e)
		w.patch(e)
		all[e.Unicast()] = w
	}
	return all
}

// unicast takes the keys of a virtual router that speaks unicast. There may be others with its VRID: those of its peers
// count for them alone, and the first virtual router's for strangers.
func (w *wants) unicast(e router.Endpoint) {
	for _, peer := range e.Peers {
		w.key(socket.Party{VRID: e.VRID, Source: peer}, e.Keys)
	}
	w.key(socket.Party{VRID: e.VRID}, e.Keys)
}

// key takes keys, unless the party has some, or is known to have none.
func (w *wants) key(who socket.Party, keys packet.Keys) {
	if w.keys == nil {
		w.keys = map[socket.Party]packet.Keys{}
	}
	if _, known := w.keys[who]; !known {
		w.keys[who] = keys
	}
}

// patch accepts packet.FormPatched from the peers, if that is to be.
func (w *wants) patch(e router.Endpoint) {
	if !e.PatchedToo {
		return
	}
	if w.patched == nil {
		w.patched = map[socket.Party][]netip.Addr{}
	}
	for _, peer := range e.Peers {
		w.patched[socket.Party{VRID: e.VRID, Source: peer}] = e.Peers
	}
}
