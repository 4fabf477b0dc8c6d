package vrrp

import (
	"bytes"
	"maps"
	"net/netip"
	"time"

	"vipd/vrrp/packet"
)

// AuthMode says what a router with keys sends and accepts.
type AuthMode uint8

// The modes, in the reverse order of an introduction: first every router learns
// to read signatures, then all sign, then none accepts anything else.
const (
	AuthEnforce     AuthMode = iota // sign, accept proven adverts only
	AuthPermissive                  // sign, accept what proves nothing too
	AuthReceiveOnly                 // do not sign, accept what proves nothing too
)

// Auth is keepalived's auth_hmac: adverts are signed with a key that all routers
// share, and with a time, so that none can be played again.
type Auth struct {
	Mode   AuthMode
	Keys   packet.Keys // those accepted
	Active uint8       // id of the key to sign with
	// Monotonic does without the clocks of the routers being the same: an advert
	// need only be later than the last one of its sender. One that was recorded
	// before the receiver started is then believed.
	Monotonic bool
	Window    time.Duration // by how much the clocks may differ
}

// Equal reports whether a and b are the same; nil is no authentication.
func (a *Auth) Equal(b *Auth) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && a.Active == b.Active && a.Monotonic == b.Monotonic && a.Window == b.Window &&
		maps.EqualFunc(a.Keys, b.Keys, bytes.Equal)
}

// senders is how many senders' sequences are remembered. Only a good signature
// gets a sender in, so strangers cannot push others out.
const senders = 64

// mark is the last sequence accepted of a sender.
type mark struct {
	from netip.Addr
	last packet.Trailer
}

// authenticate returns why an advert is not to be believed. Outside AuthEnforce it
// is all the same, and the reason is kept for Unproven.
func (m *Machine) authenticate(now time.Time, a *packet.Advert, from netip.Addr) packet.DropReason {
	m.unproven = packet.DropNone
	if m.cfg.Auth == nil {
		return packet.DropNone
	}
	reason := m.prove(now, a, from)
	if m.cfg.Auth.Mode == AuthEnforce {
		return reason
	}
	m.unproven = reason
	return packet.DropNone
}

// prove checks shape, time, key, HMAC and sequence, in this order. The sequence
// remembered moves with a good HMAC only.
func (m *Machine) prove(now time.Time, a *packet.Advert, from netip.Addr) packet.DropReason {
	t := &a.Trailer
	switch {
	case !a.Signed:
		return packet.DropUnsigned
	case a.Unproven == packet.DropTrailer:
		return packet.DropTrailer
	case !m.cfg.Auth.Monotonic && apart(now.Unix(), int64(t.Seconds)) > m.cfg.Auth.Window:
		return packet.DropStale
	case a.Unproven != packet.DropNone:
		return a.Unproven
	}
	for i := range m.marks {
		last := &m.marks[i]
		if last.from != from {
			continue
		}
		if !newer(t.Sequence(), last.last.Sequence()) && !m.forgotten(now, &last.last) {
			return packet.DropReplay
		}
		last.last = *t
		return packet.DropNone
	}
	if len(m.marks) >= senders {
		m.marks = append(m.marks[:0], m.marks[1:]...)
	}
	m.marks = append(m.marks, mark{from, *t})
	return packet.DropNone
}

// forgotten reports whether a remembered sequence is itself too old to be accepted:
// nothing that it forbids could be, and the sender's clock may have been set back.
func (m *Machine) forgotten(now time.Time, t *packet.Trailer) bool {
	return !m.cfg.Auth.Monotonic && time.Duration(now.Unix()-int64(t.Seconds))*time.Second > m.cfg.Auth.Window
}

// apart is the distance of two times in seconds.
func apart(a, b int64) time.Duration { return time.Duration(max(a-b, b-a)) * time.Second }

// newer compares sequences as serial numbers (RFC 1982).
func newer(a, b uint64) bool { return int64(a-b) > 0 }

// sign fills in the trailer of an advert to send, if it is to have one.
func (m *Machine) sign(now time.Time, a *packet.Advert) {
	auth := m.cfg.Auth
	if auth == nil || auth.Mode == AuthReceiveOnly {
		return
	}
	t := packet.Trailer{
		KeyID: auth.Active, Seconds: uint32(now.Unix()),
		Fraction: uint16(uint64(now.Nanosecond()) << 16 / uint64(time.Second)),
	}
	if last := m.signed; last != 0 && !newer(t.Sequence(), last) {
		// The clock stands, or was set back: by more than the window, all that is
		// left is to begin anew, for the others take it for stale else.
		ahead := time.Duration(int64(last>>32)-int64(t.Seconds)) * time.Second
		if auth.Monotonic || ahead <= auth.Window {
			t.SetSequence(last + 1)
		}
	}
	m.signed = t.Sequence()
	a.Signed, a.Trailer = true, t
}

// Unproven returns why the advert that was admitted last proves nothing, in a mode
// that accepts it; DropNone for one that does, and without Auth.
func (m *Machine) Unproven() packet.DropReason { return m.unproven }
