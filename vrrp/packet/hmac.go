package packet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
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

// DecodeSigned is [Advert.Decode] for a message with an authentication trailer:
// it makes the same checks and those of the trailer's shape, key and HMAC.
// Whether the sequence is fresh is for the receiver to say, who knows the time
// and what came before.
func (a *Advert) DecodeSigned(b []byte, src, dst netip.Addr, keys Keys) (t Trailer, reason DropReason) {
	if len(b) < headerLen+TrailerLen {
		return t, DropLength
	}
	message, tail := b[:len(b)-TrailerLen], b[len(b)-TrailerLen:]
	if reason = a.decode(message, tail, src, dst, nil); reason != DropNone {
		return t, reason
	}
	if tail[0] != trailerHMAC || tail[2] != 0 || tail[3] != 0 {
		return t, DropTrailer
	}
	t = Trailer{
		KeyID: tail[1], Seconds: binary.BigEndian.Uint32(tail[4:]), Fraction: binary.BigEndian.Uint16(tail[8:]),
		Counter: binary.BigEndian.Uint16(tail[10:]), MAC: [16]byte(tail[trailerMAC:]),
	}
	key, ok := keys[t.KeyID]
	if !ok {
		return t, DropKeyID
	}
	if mac := a.mac(message, tail[:trailerMAC], src, key); !hmac.Equal(mac[:], t.MAC[:]) {
		return t, DropHMAC
	}
	return t, DropNone
}

// AppendSigned is [Advert.AppendTo] with the trailer of t, whose MAC it fills
// in. The HMAC covers the source but not the destination, so a copy for another
// peer differs in its checksum only.
func (a *Advert) AppendSigned(b []byte, src, dst netip.Addr, key []byte, t *Trailer) ([]byte, error) {
	start := len(b)
	b, err := a.AppendTo(b, src, dst)
	if err != nil {
		return b, err
	}
	end := len(b)
	b = append(b, trailerHMAC, t.KeyID, 0, 0)
	b = binary.BigEndian.AppendUint32(b, t.Seconds)
	b = binary.BigEndian.AppendUint16(b, t.Fraction)
	b = binary.BigEndian.AppendUint16(b, t.Counter)
	t.MAC = a.mac(b[start:end], b[end:], src, key)
	b = append(b, t.MAC[:]...)
	a.putChecksum(b[start:end], b[end:], src, dst)
	return b, nil
}

// mac computes the HMAC over a pseudo-header, the message with its checksum as
// zero, and the trailer with its HMAC as zero.
func (a *Advert) mac(message, prefix []byte, src netip.Addr, key []byte) (out [16]byte) {
	var pseudo [20]byte
	pseudo[0], pseudo[1], pseudo[2] = 6, message[0]>>4, message[1]
	if src.Is4() {
		pseudo[0] = 4
	}
	copy(pseudo[4:], src.AsSlice())
	h := hmac.New(sha256.New, key)
	h.Write(pseudo[:])
	h.Write(message[:checksumOff])
	h.Write([]byte{0, 0})
	h.Write(message[checksumOff+2:])
	h.Write(prefix)
	h.Write(make([]byte, len(out)))
	return [16]byte(h.Sum(nil))
}
