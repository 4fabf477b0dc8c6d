package packet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"net/netip"
)

// TrailerLen is the length of the authentication that keepalived 2.4.2 and
// later appends to the message under auth_hmac. It is inside the IP length;
// over IPv4 outside the VRRP checksum, over IPv6, where the kernel computes
// that, inside.
const TrailerLen = 28

const (
	trailerHMAC = 1  // the one type there is: HMAC-SHA256, cut to 16 bytes
	trailerMAC  = 12 // where the HMAC begins
)

// Keys are HMAC keys by their id, 32 to 64 bytes each.
type Keys map[uint8][]byte

// Authenticator makes and proves the HMACs of one set of keys, without an
// allocation once each key was used. It is not for concurrent use.
type Authenticator struct {
	macs  map[uint8]hash.Hash
	head  [20]byte
	zeros [16]byte
	sum   [sha256.Size]byte
}

// NewAuthenticator returns one for the keys.
func NewAuthenticator(keys Keys) *Authenticator {
	x := &Authenticator{macs: make(map[uint8]hash.Hash, len(keys))}
	for id, key := range keys {
		x.macs[id] = hmac.New(sha256.New, key)
	}
	return x
}

// Trailer is the authentication of one advert. All unicast copies of an advert
// carry the same one.
type Trailer struct {
	KeyID uint8
	// Seconds (UTC), Fraction (of a second, in 1/65536) and Counter (0 while
	// the clock moves on between adverts) are, in this order, a sequence number
	// that only grows.
	Seconds  uint32
	Fraction uint16
	Counter  uint16
	MAC      [16]byte
}

// Sequence is the 64-bit number that orders the adverts of a sender.
func (t *Trailer) Sequence() uint64 {
	return uint64(t.Seconds)<<32 | uint64(t.Fraction)<<16 | uint64(t.Counter)
}

// SetSequence sets the parts of the sequence number.
func (t *Trailer) SetSequence(n uint64) {
	t.Seconds, t.Fraction, t.Counter = uint32(n>>32), uint16(n>>16), uint16(n)
}

// HasTrailer reports whether the message b has the length of one with an
// authentication trailer.
func HasTrailer(b []byte, ipv6 bool) bool {
	return len(b) >= headerLen && len(b) == messageLen(b[0]>>4, ipv6, int(b[3]))+TrailerLen
}

// DecodeAuth is [Advert.DecodePatched] for a router with keys. With or without a
// trailer, a message that is good otherwise is good; a.Unproven tells why it
// proves nothing (DropUnsigned without trailer), or is DropNone, and a.Trailer is
// what the sender says then. Whether its sequence is fresh is for the receiver to
// say, who knows the time and what came before.
func (a *Advert) DecodeAuth(b []byte, src, dst netip.Addr, first []netip.Addr, x *Authenticator) DropReason {
	if !HasTrailer(b, !src.Is4()) {
		reason := a.decode(b, nil, src, dst, first)
		a.Unproven = DropUnsigned
		return reason
	}
	message, tail := b[:len(b)-TrailerLen], b[len(b)-TrailerLen:]
	if reason := a.decode(message, tail, src, dst, first); reason != DropNone {
		return reason
	}
	a.Signed = true
	a.Trailer, a.Unproven = a.prove(message, tail, src, x)
	return DropNone
}

// DecodeSigned is DecodeAuth that refuses what proves nothing.
func (a *Advert) DecodeSigned(b []byte, src, dst netip.Addr, x *Authenticator) (Trailer, DropReason) {
	reason := a.DecodeAuth(b, src, dst, nil, x)
	if reason == DropNone {
		reason = a.Unproven
	}
	return a.Trailer, reason
}

// prove checks the trailer's shape, key and HMAC.
func (a *Advert) prove(message, tail []byte, src netip.Addr, x *Authenticator) (t Trailer, reason DropReason) {
	if tail[0] != trailerHMAC || tail[2] != 0 || tail[3] != 0 {
		return t, DropTrailer
	}
	t = Trailer{
		KeyID: tail[1], Seconds: binary.BigEndian.Uint32(tail[4:]), Fraction: binary.BigEndian.Uint16(tail[8:]),
		Counter: binary.BigEndian.Uint16(tail[10:]), MAC: [16]byte(tail[trailerMAC:]),
	}
	mac, ok := x.mac(message, tail[:trailerMAC], src, t.KeyID)
	switch {
	case !ok:
		return t, DropKeyID
	case !hmac.Equal(mac[:], t.MAC[:]):
		return t, DropHMAC
	}
	return t, DropNone
}

// AppendSigned is [Advert.AppendTo] with a.Trailer, whose MAC it fills in with the
// key of its id. The HMAC covers the source but not the destination, so a copy for
// another peer differs in its checksum only.
func (a *Advert) AppendSigned(b []byte, src, dst netip.Addr, x *Authenticator) ([]byte, error) {
	start := len(b)
	b, err := a.AppendTo(b, src, dst)
	if err != nil {
		return b, err
	}
	t, end := &a.Trailer, len(b)
	b = append(b, trailerHMAC, t.KeyID, 0, 0)
	b = binary.BigEndian.AppendUint32(b, t.Seconds)
	b = binary.BigEndian.AppendUint16(b, t.Fraction)
	b = binary.BigEndian.AppendUint16(b, t.Counter)
	var ok bool
	if t.MAC, ok = x.mac(b[start:end], b[end:], src, t.KeyID); !ok {
		return b[:start], fmt.Errorf("signing with key %d: %w", t.KeyID, ErrKey)
	}
	b = append(b, t.MAC[:]...)
	a.putChecksum(b[start:end], b[end:], src, dst)
	return b, nil
}

// mac computes the HMAC over a pseudo-header, the message with its checksum as
// zero, and the trailer with its HMAC as zero; false without the key.
func (x *Authenticator) mac(message, prefix []byte, src netip.Addr, id uint8) (out [16]byte, ok bool) {
	h, ok := x.macs[id]
	if !ok {
		return out, false
	}
	x.head = [20]byte{6, message[0] >> 4, message[1]}
	if src.Is4() {
		x.head[0] = 4
		raw := src.As4()
		copy(x.head[4:], raw[:])
	} else {
		raw := src.As16()
		copy(x.head[4:], raw[:])
	}
	h.Reset()
	h.Write(x.head[:])
	h.Write(message[:checksumOff])
	h.Write(x.zeros[:2])
	h.Write(message[checksumOff+2:])
	h.Write(prefix)
	h.Write(x.zeros[:])
	return [16]byte(h.Sum(x.sum[:0])), true
}
