package vrrp

import (
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp/packet"
)

// Admit makes the receive checks that need the router's configuration, in the
// order of RFC 9568 §7.1 (RFC 3768 §7.1): TTL or hop limit, version, version 2's
// authentication and interval; then whether the sender is ourselves, and whether
// it is a stranger that happens to use our VRID. Only an advert for which Admit
// returns DropNone may be handed to Handle.
//
// With unicast peers the sender comes first: it must be one of them, and the TTL,
// which routers on the way lower, only within the bounds set for that peer.
//
// A stranger lists no address of ours. A list that overlaps is admitted and the
// difference shown in Status; an empty list on either side, and SkipCheckAddr,
// skip the test. A peer is never a stranger.
//
// With Auth the signature is proved after the version and before everything else
// that a liar could say; now is the time on the wall.
func (m *Machine) Admit(now time.Time, a *packet.Advert, from netip.Addr, ttl uint8) packet.DropReason {
	policy := packet.Policy{Version: m.cfg.Version, Interval: m.cfg.AdvertInterval, AnyTTL: m.cfg.Unicast}
	if !m.cfg.IPv6 {
		policy.AuthPass = m.cfg.AuthPass
	}
	peer := false
	if m.cfg.Unicast {
		var reason packet.DropReason
		if peer, reason = m.peer(from, ttl); reason != packet.DropNone {
			return reason
		}
	}
	if reason := packet.Verify(a, policy, ttl); reason != packet.DropNone {
		return reason
	}
	switch {
	case from.Is4() == m.cfg.IPv6:
		return packet.DropFamily
	case from == m.env.Source:
		return packet.DropOwnSource
	}
	if reason := m.authenticate(now, a, from); reason != packet.DropNone {
		return reason
	}
	switch {
	case m.state != Backup && m.state != Master:
		return packet.DropNotRunning
	case m.cfg.IgnoreAdverts && m.cfg.Owner() && !m.leaving: // a successor is listened to
		return packet.DropOwner
	}
	if m.cfg.SkipCheckAddr || len(a.Addrs) == 0 || len(m.own) == 0 {
		m.mismatch = false
		return packet.DropNone
	}
	if slices.Equal(a.Addrs, m.cfg.Addresses) { // mostly
		m.mismatch = len(a.Addrs) != len(m.own)
		return packet.DropNone
	}
	shared := 0
	for _, addr := range a.Addrs {
		if _, ok := m.own[addr]; ok {
			shared++
		}
	}
	if shared == 0 && !peer {
		return packet.DropForeign
	}
	m.mismatch = shared != len(a.Addrs) || shared != len(m.own)
	return packet.DropNone
}

// peer reports whether an advert by unicast is from one of the peers, or why it
// is not admitted.
func (m *Machine) peer(from netip.Addr, ttl uint8) (bool, packet.DropReason) {
	if from == m.env.Source {
		return false, packet.DropOwnSource
	}
	for i := range m.cfg.Peers {
		p := &m.cfg.Peers[i]
		if p.Address != from {
			continue
		}
		if ttl < p.MinTTL || p.MaxTTL != 0 && ttl > p.MaxTTL {
			return true, packet.DropTTLRange
		}
		return true, packet.DropNone
	}
	if m.cfg.AnySource {
		return false, packet.DropNone
	}
	return false, packet.DropNotPeer
}
