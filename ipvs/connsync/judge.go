package connsync

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

const (
	// HelloPeriod is the time between two hellos.
	HelloPeriod = 4 * time.Second
	// silentAfter is how long another director may be silent: three hellos and a moment.
	silentAfter = 3*HelloPeriod + time.Second
	// rememberFor is how long messages that were dropped, and a director with another sync id, are spoken of.
	rememberFor = time.Minute
	peersMost   = 32
)

// Peer is another director, as heard on the group.
type Peer struct {
	Address     netip.Addr
	ID          uint8 // of its last message
	Last        time.Time
	Hello       time.Time   // its last hello; zero: none, it is no vipd
	Messages    uint64      // with connections
	Connections uint64      // in them
	hellos      []time.Time // the last one on each port
}

// hearing is what is known of the group at a moment.
type hearing struct {
	want     ipvs.Daemon // without a role
	ports    int         // that it is listened to, from that of want on
	since    time.Time   // since when
	expected bool        // another director is MASTER
	peers    []Peer
	sendErr  error     // of the last hello
	openErr  error     // why it is not listened to
	drops    uint64    // messages that the kernel had no room for
	dropped  time.Time // when that was seen last
}

// judge returns what is wrong, each with its remedy.
func judge(now time.Time, h hearing) (out []string) {
	if h.openErr != nil {
		return []string{fmt.Sprintf("sync: the group %v cannot be listened to on %s: %v", h.want.Group, h.want.Interface, h.openErr)}
	}
	if h.sendErr != nil {
		out = append(out, sendProblem(h))
	}
	heard, strangers := false, []string(nil)
	alone := true
	for _, p := range h.peers {
		recent := now.Sub(p.Last) < rememberFor
		if p.ID == h.want.ID {
			heard = heard || now.Sub(p.Last) < silentAfter || p.Hello.IsZero() && p.Messages > 0
			alone = alone && !recent
			if port, missing := h.silentPort(now, &p); missing {
				out = append(out, fmt.Sprintf("sync: %v is heard on group %v, but not on port %d of it: the connections that the kernel tells of there do not get here. "+
					"net.ipv4.vs.sync_ports is %d here and other there, or something filters the port; the kernel reads it when its sync daemons start: set the same on all directors and restart vipd",
					p.Address, h.want.Group, port, h.ports))
			}
		} else if recent {
			strangers = append(strangers, fmt.Sprintf("sync: %v sends sync id %d, this director has %d: %s; give all directors the same id in lvs_sync_daemon (and other ones, that share the network, another group or port)",
				p.Address, p.ID, h.want.ID, mismatch(h.want.ID, p.ID)))
			heard = heard || now.Sub(p.Last) < silentAfter // it is not silent
		}
	}
	if alone { // else those are of others, who share the network
		out = append(out, strangers...)
	}
	if h.expected && !heard && now.Sub(h.since) > silentAfter {
		out = append(out, fmt.Sprintf("sync: another director is MASTER, but nothing is heard from it on %s, group %v port %d: its connections do not get here. "+
			"Its sync daemon does not run, uses another interface, group or port, or has no route for the group (a keepalived without connections is silent, too)",
			h.want.Interface, h.want.Group, h.want.Port))
	}
	if h.drops > 0 && now.Sub(h.dropped) < rememberFor {
		out = append(out, "sync: the kernel drops messages of other directors, its buffer is too small: raise net.core.rmem_max and net.ipv4.vs.sync_sock_size, then restart vipd")
	}
	return out
}

// silentPort returns the first port without hellos of a director whose hellos come on another.
func (h *hearing) silentPort(now time.Time, p *Peer) (port uint16, missing bool) {
	if now.Sub(p.Hello) >= silentAfter || now.Sub(h.since) <= silentAfter {
		return 0, false
	}
	for i := range h.ports {
		if i >= len(p.hellos) || now.Sub(p.hellos[i]) >= silentAfter {
			return h.want.Port + uint16(i), true
		}
	}
	return 0, false
}

// mismatch says who does not take what when ids differ: a backup with id 0 takes everything.
func mismatch(ours, theirs uint8) string {
	switch {
	case ours == 0:
		return "it does not take the connections of this one"
	case theirs == 0:
		return "this one does not take its connections"
	}
	return "neither takes the other's connections"
}

// sendProblem explains why nothing leaves.
func sendProblem(h hearing) string {
	if errors.Is(h.sendErr, unix.ENETUNREACH) {
		return fmt.Sprintf("sync: the group %v cannot be reached by %s: the interface is down, or no route covers the group. The kernel sends nothing then, and says nothing: ip link set up dev %[2]s; ip route add %[3]s dev %[2]s",
			h.want.Group, h.want.Interface, Route(h.want.Group))
	}
	return fmt.Sprintf("sync: nothing can be sent to the group %v on %s: %v", h.want.Group, h.want.Interface, h.sendErr)
}

// Route is the prefix of a route that covers the group.
func Route(group netip.Addr) string {
	if group.Is4() {
		return "224.0.0.0/4"
	}
	return "ff00::/8"
}

// note records a message of another director on a port, counted from the first.
func note(peers []Peer, now time.Time, port int, from netip.Addr, m ipvs.SyncMessage) []Peer {
	i := slices.IndexFunc(peers, func(p Peer) bool { return p.Address == from })
	if i < 0 {
		if len(peers) == peersMost {
			oldest := slices.IndexFunc(peers, func(p Peer) bool {
				return !slices.ContainsFunc(peers, func(o Peer) bool { return o.Last.Before(p.Last) })
			})
			peers = slices.Delete(peers, oldest, oldest+1)
		}
		peers, i = append(peers, Peer{Address: from}), len(peers)
	}
	p := &peers[i]
	p.ID, p.Last = m.ID, now
	if m.Connections == 0 {
		p.Hello = now
		for len(p.hellos) <= port {
			p.hellos = append(p.hellos, time.Time{})
		}
		p.hellos[port] = now
	} else {
		p.Messages++
		p.Connections += uint64(m.Connections)
	}
	return peers
}
