package vrrp

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp/packet"
)

// authPair is a master that signs and a backup that listens, d seconds apart.
type authPair struct {
	t              *testing.T
	master, backup *Machine
	from           netip.Addr
	now            time.Time
}

func newAuthPair(t *testing.T, change func(*Auth)) *authPair {
	auth := &Auth{Keys: packet.Keys{1: make([]byte, 32), 2: make([]byte, 32)}, Active: 1, Window: 5 * time.Second}
	if change != nil {
		change(auth)
	}
	cfg := testConfig()
	cfg.Auth = auth
	p := &authPair{t: t, master: New(cfg), backup: New(cfg), from: netip.MustParseAddr("10.9.0.1"), now: time.Unix(1_800_000_000, 250_000_000)}
	p.backup.Handle(p.now, Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.2")}})
	return p
}

// advert is what the master sends at a time of its clock.
func (p *authPair) advert(at time.Time) packet.Advert {
	var a packet.Advert
	p.master.Advert(at, &a, 200)
	return a
}

// admit gives an advert to the backup now and checks what it says.
func (p *authPair) admit(what string, a packet.Advert, want packet.DropReason) {
	p.t.Helper()
	if got := p.backup.Admit(p.now, &a, p.from, 255); got != want {
		p.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestAuthTrailer: the sequence is the clock's, in 1/65536 of a second.
func TestAuthTrailer(t *testing.T) {
	p := newAuthPair(t, nil)
	a := p.advert(p.now)
	if want := (packet.Trailer{KeyID: 1, Seconds: 1_800_000_000, Fraction: 0x4000}); !a.Signed || a.Trailer != want {
		t.Errorf("trailer %+v, want %+v", a.Trailer, want)
	}
	if b := p.advert(p.now); b.Trailer.Sequence() != a.Trailer.Sequence()+1 {
		t.Errorf("at the same time %+v", b.Trailer)
	}
	p = newAuthPair(t, func(a *Auth) { a.Mode = AuthReceiveOnly })
	if a := p.advert(p.now); a.Signed {
		t.Error("receive-only signs")
	}
}

// TestAuthEnforce: each refusal and its twin.
func TestAuthEnforce(t *testing.T) {
	p := newAuthPair(t, nil)
	good := p.advert(p.now)
	unsigned := good
	unsigned.Signed = false
	p.admit("without a signature", unsigned, packet.DropUnsigned)
	for _, reason := range []packet.DropReason{packet.DropTrailer, packet.DropKeyID, packet.DropHMAC} {
		bad := good
		bad.Unproven = reason
		p.admit("with a bad one", bad, reason)
	}
	p.admit("good", good, packet.DropNone)
	p.admit("again", good, packet.DropReplay)
	next := p.advert(p.now.Add(time.Second))
	p.admit("the next", next, packet.DropNone)
	p.admit("an older one", good, packet.DropReplay)
	p.from = netip.MustParseAddr("10.9.0.3")
	p.admit("of another sender", good, packet.DropNone)
}

// TestAuthBadHMACMovesNothing: a forger cannot shut out the sender with a sequence of
// the far future.
func TestAuthBadHMACMovesNothing(t *testing.T) {
	p := newAuthPair(t, func(a *Auth) { a.Monotonic = true })
	forged := p.advert(p.now.Add(1000 * time.Hour))
	forged.Unproven = packet.DropHMAC
	p.admit("forged", forged, packet.DropHMAC)
	p.master.signed = 0
	p.admit("good", p.advert(p.now), packet.DropNone)
}

// TestAuthWindow: both directions, whole seconds; none of it in monotonic mode.
func TestAuthWindow(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		want packet.DropReason
	}{{-6 * time.Second, packet.DropStale}, {-5 * time.Second, packet.DropNone}, {5 * time.Second, packet.DropNone}, {6 * time.Second, packet.DropStale}} {
		p := newAuthPair(t, nil)
		p.admit("time", p.advert(p.now.Add(c.off)), c.want)
		p = newAuthPair(t, func(a *Auth) { a.Monotonic = true })
		p.admit("monotonic", p.advert(p.now.Add(c.off)), packet.DropNone)
	}
}

// TestAuthClockSetBack: a sender whose clock is set back is heard again: at once when
// by less than the window, as it counts on; else when what it said before is stale
// itself. A replay of that never is.
func TestAuthClockSetBack(t *testing.T) {
	p := newAuthPair(t, nil)
	p.admit("first", p.advert(p.now.Add(4*time.Second)), packet.DropNone)
	p.admit("3 s back", p.advert(p.now.Add(time.Second)), packet.DropNone)
	recorded := p.advert(p.now.Add(2 * time.Second))
	p.admit("recorded", recorded, packet.DropNone)
	back := p.advert(p.now.Add(-4 * time.Second)) // more than the window behind what it sent
	if back.Trailer.Seconds != uint32(p.now.Unix())-4 {
		t.Fatalf("the sender counts on: %+v", back.Trailer)
	}
	p.admit("far back", back, packet.DropReplay)
	for range 20 {
		p.now = p.now.Add(time.Second)
		p.admit("replay", recorded, map[bool]packet.DropReason{true: packet.DropStale, false: packet.DropReplay}[p.now.Unix()-int64(recorded.Trailer.Seconds) > 5])
		if a := p.advert(p.now.Add(-4 * time.Second)); p.backup.Admit(p.now, &a, p.from, 255) == packet.DropNone {
			return
		}
	}
	t.Error("the sender is never heard again")
}

// TestAuthModes: what is not enforced passes, and is known for what it is.
func TestAuthModes(t *testing.T) {
	for _, mode := range []AuthMode{AuthPermissive, AuthReceiveOnly} {
		p := newAuthPair(t, func(a *Auth) { a.Mode = mode })
		a := packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second}
		p.admit("unsigned", a, packet.DropNone)
		if got := p.backup.Unproven(); got != packet.DropUnsigned {
			t.Errorf("unproven is %v", got)
		}
		a.Signed, a.Unproven, a.Trailer.Seconds = true, packet.DropHMAC, uint32(p.now.Unix())
		p.admit("wrong HMAC", a, packet.DropNone)
		if got := p.backup.Unproven(); got != packet.DropHMAC {
			t.Errorf("unproven is %v", got)
		}
		a.Unproven = packet.DropNone
		p.admit("good", a, packet.DropNone)
		if got := p.backup.Unproven(); got != packet.DropNone {
			t.Errorf("unproven is %v", got)
		}
	}
}

// TestAuthRotation: a key joins, becomes active and goes by reloads, one router after
// the other, and no advert is refused.
func TestAuthRotation(t *testing.T) {
	p := newAuthPair(t, nil)
	step := func(m *Machine, active uint8, ids ...uint8) {
		cfg := m.cfg
		auth := Auth{Keys: packet.Keys{}, Active: active, Window: 5 * time.Second}
		for _, id := range ids {
			auth.Keys[id] = make([]byte, 32)
		}
		cfg.Auth = &auth
		m.Handle(p.now, Event{Kind: EventConfig, Config: &cfg})
		p.now = p.now.Add(time.Second)
		a := p.advert(p.now)
		if _, known := p.backup.cfg.Auth.Keys[a.Trailer.KeyID]; !known {
			t.Errorf("key %d is active on one and unknown to the other", a.Trailer.KeyID)
		}
		p.admit("after a step", a, packet.DropNone)
	}
	step(p.backup, 1, 1, 3)
	step(p.master, 1, 1, 3)
	step(p.master, 3, 1, 3)
	step(p.backup, 3, 1, 3)
	step(p.backup, 3, 3)
	step(p.master, 3, 3)
	if a := p.advert(p.now.Add(time.Second)); a.Trailer.KeyID != 3 {
		t.Errorf("signed with %d", a.Trailer.KeyID)
	}
}

// TestAuthSendersAreBounded: many senders do not grow the memory.
func TestAuthSendersAreBounded(t *testing.T) {
	p := newAuthPair(t, nil)
	for i := range 1000 {
		p.from = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		p.admit("good", p.advert(p.now.Add(time.Duration(i)*time.Millisecond)), packet.DropNone)
	}
	if n := len(p.backup.marks); n != senders {
		t.Errorf("%d senders are remembered", n)
	}
}

// TestAuthSequenceAlwaysGrows whatever the clock does within the window, and no advert
// is ever accepted twice.
func TestAuthSequenceAlwaysGrows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := newAuthPair(t, func(a *Auth) { a.Monotonic = rapid.Bool().Draw(r, "monotonic") })
		accepted := map[uint64]bool{}
		var sent []packet.Advert
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			p.now = p.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(r, "ms")) * time.Millisecond)
			sender := p.now.Add(time.Duration(rapid.IntRange(-8000, 8000).Draw(r, "skew")) * time.Millisecond)
			sent = append(sent, p.advert(sender))
			a := sent[rapid.IntRange(0, len(sent)-1).Draw(r, "which")]
			if p.backup.Admit(p.now, &a, p.from, 255) == packet.DropNone {
				if accepted[a.Trailer.Sequence()] {
					r.Fatalf("accepted twice: %+v", a.Trailer)
				}
				accepted[a.Trailer.Sequence()] = true
			}
		}
	})
}
