package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Numbers of the wire format.
const (
	Version2 = 2 // RFC 3768
	Version3 = 3 // RFC 5798, RFC 9568

	// Protocol is the IP protocol number of VRRP.
	Protocol = 112
	// TTL is what a multicast advert is sent with and must arrive with
	// (RFC 9568 §5.1.1.3, §5.1.2.3): it has not been forwarded.
	TTL = 255
	// TOS is the traffic class of adverts, DSCP CS6 (network control).
	TOS = 0xc0

	// PriorityStop is sent by a master that gives up (RFC 9568 §5.2.4).
	PriorityStop = 0
	// PriorityOwner belongs to the owner of the addresses.
	PriorityOwner = 255

	// AuthNone and AuthPass are version 2's authentication types
	// (RFC 3768 §5.3.6, RFC 2338 §5.3.6.1).
	AuthNone = 0
	AuthPass = 1

	typeAdvert  = 1
	headerLen   = 8
	authLen     = 8
	checksumOff = 6
	maxCount    = 255

	unit2 = time.Second
	unit3 = 10 * time.Millisecond
	max2  = 255 * unit2
	max3  = 4095 * unit3
)

// Form is the coverage of the checksum.
type Form uint8

// FormPlain covers the message alone, FormPseudo a pseudo-header before it.
// FormPatched is a wrong FormPlain, found by [Advert.DecodePatched] only: what
// keepalived 2.4.3 sends by unicast under v3_checksum_as_v2 to every peer but
// its first. It alters the checksum as if the destination, which is not in it,
// had changed from the first peer to the other.
const (
	FormPlain Form = iota
	FormPseudo
	FormPatched
)

// String returns "plain", "pseudo" or "patched".
func (f Form) String() string {
	switch f {
	case FormPseudo:
		return "pseudo"
	case FormPatched:
		return "patched"
	}
	return "plain"
}

// Errors of AppendTo: the advert does not fit the wire format.
var (
	ErrVersion  = errors.New("VRRP version is neither 2 nor 3")
	ErrVRID     = errors.New("virtual router id is 0")
	ErrInterval = errors.New("advertisement interval is not 1-255 whole seconds (version 2) or 1-4095 centiseconds (version 3)")
	ErrCount    = errors.New("an advert holds at most 255 addresses")
	ErrKey      = errors.New("there is no key of that id")
	ErrFamily   = errors.New("source, destination and addresses are not of one family")
)

// Advert is one VRRP advertisement. What the wire carries but no standard
// gives a meaning to (Reserved, AuthData of AuthNone) is kept, so that an
// accepted message can be written back unchanged.
type Advert struct {
	// Version is Version2 or Version3.
	Version uint8
	// VRID is the virtual router id, 1 to 255.
	VRID uint8
	// Priority is the sender's, 0 when it gives up.
	Priority uint8
	// Interval is the sender's advertisement interval: whole seconds up to 255
	// (version 2), centiseconds up to 40.95 s (version 3).
	Interval time.Duration
	// Reserved is version 3's high nibble before the interval: sent as 0,
	// ignored on receipt.
	Reserved uint8
	// AuthType is version 2's.
	AuthType uint8
	// AuthData is version 2's over IPv4, zero padded; over IPv6 there is none.
	AuthData [authLen]byte
	// Addrs are the virtual addresses in the order of the message, all of the
	// family of the packet that carries it. None is against RFC 9568 §5.2.5,
	// but what virtual routers say whose addresses something else moves, as
	// with keepalived's no_virtual_ipaddress.
	Addrs []netip.Addr
	// Form is the coverage of the checksum; it has a choice only in version 3
	// over IPv4. Decode tells what it found.
	Form Form

	// Signed says that the message bears Trailer, which keepalived's auth_hmac
	// appends. Of a received one Unproven is why it proves nothing, DropNone when
	// it does.
	Signed   bool
	Trailer  Trailer
	Unproven DropReason

	// allOnes remembers a checksum field of 0xffff, the other zero of
	// one's-complement arithmetic, which a sender that patches its checksum
	// (RFC 1624 §3) may leave.
	allOnes bool
}

// Decode reads the VRRP message b, which must be exactly the payload of the IP
// packet (without Ethernet padding), sent from src to dst. It returns DropNone
// or the first check that failed, in the order version, type, length,
// checksum, address count, interval, VRID; a is then not to be used. Addrs is
// reused: nothing is allocated once it has room, and b is not kept.
func (a *Advert) Decode(b []byte, src, dst netip.Addr) DropReason {
	return a.decode(b, nil, src, dst, nil)
}

// DecodePatched is [Advert.Decode] that accepts FormPatched as well, in version
// 3 over IPv4; first are the addresses that may be the sender's first peer.
func (a *Advert) DecodePatched(b []byte, src, dst netip.Addr, first []netip.Addr) DropReason {
	return a.decode(b, nil, src, dst, first)
}

// decode is DecodePatched; tail is what follows the message in the packet.
func (a *Advert) decode(b, tail []byte, src, dst netip.Addr, first []netip.Addr) DropReason {
	a.Signed, a.Trailer, a.Unproven = false, Trailer{}, DropNone
	if !src.IsValid() || src.Is4() != dst.Is4() || !dst.IsValid() {
		return DropFamily
	}
	if len(b) < headerLen {
		return DropShort
	}
	v6 := !src.Is4()
	a.Version = b[0] >> 4
	if a.Version != Version2 && a.Version != Version3 {
		return DropVersion
	}
	if b[0]&0x0f != typeAdvert {
		return DropType
	}
	count := int(b[3])
	// A message that has bytes for addresses but counts none is refused as
	// such below.
	want := messageLen(a.Version, v6, count)
	if len(b) < want || len(b) > want && count > 0 {
		return DropLength
	}
	if !a.verifyChecksum(b, tail, src, dst) && !a.verifyPatched(b, src, dst, first) {
		return DropChecksum
	}
	if len(b) > want {
		return DropCount
	}
	a.VRID, a.Priority = b[1], b[2]
	a.Reserved, a.AuthType, a.AuthData = 0, 0, [authLen]byte{}
	if a.Version == Version2 {
		a.AuthType = b[4]
		a.Interval = time.Duration(b[5]) * unit2
	} else {
		a.Reserved = b[4] >> 4
		a.Interval = time.Duration(binary.BigEndian.Uint16(b[4:])&0x0fff) * unit3
	}
	if a.Interval == 0 {
		return DropIntervalZero
	}
	if a.VRID == 0 {
		return DropUnknownVRID
	}
	a.decodeAddrs(b[headerLen:], v6, count)
	return DropNone
}

// decodeAddrs reads count addresses and, in version 2 over IPv4, the
// authentication data after them. The length has been checked.
func (a *Advert) decodeAddrs(b []byte, v6 bool, count int) {
	a.Addrs = a.Addrs[:0]
	for range count {
		if v6 {
			a.Addrs = append(a.Addrs, netip.AddrFrom16([16]byte(b)))
			b = b[16:]
			continue
		}
		a.Addrs = append(a.Addrs, netip.AddrFrom4([4]byte(b)))
		b = b[4:]
	}
	if a.Version == Version2 && !v6 {
		a.AuthData = [authLen]byte(b)
	}
}

// AppendTo appends the VRRP message for a packet from src to dst to b and
// returns the longer slice. Nothing is allocated when b has room for
// [Advert.Len] more bytes. An advert that the wire format cannot carry is an
// error that wraps one of the Err values; b is then returned as it was.
func (a *Advert) AppendTo(b []byte, src, dst netip.Addr) ([]byte, error) {
	if err := a.check(src, dst); err != nil {
		return b, err
	}
	v6 := !src.Is4()
	start := len(b)
	b = append(b, a.Version<<4|typeAdvert, a.VRID, a.Priority, uint8(len(a.Addrs)))
	if a.Version == Version2 {
		b = append(b, a.AuthType, uint8(a.Interval/unit2), 0, 0)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(a.Reserved&0x0f)<<12|uint16(a.Interval/unit3))
		b = append(b, 0, 0)
	}
	for _, addr := range a.Addrs {
		if v6 {
			raw := addr.As16()
			b = append(b, raw[:]...)
			continue
		}
		raw := addr.As4()
		b = append(b, raw[:]...)
	}
	if a.Version == Version2 && !v6 {
		b = append(b, a.AuthData[:]...)
	}
	a.putChecksum(b[start:], nil, src, dst)
	return b, nil
}

// check says whether the wire format can carry a between src and dst.
func (a *Advert) check(src, dst netip.Addr) error {
	unit, limit := unit3, max3
	switch a.Version {
	case Version2:
		unit, limit = unit2, max2
	case Version3:
	default:
		return fmt.Errorf("encoding version %d: %w", a.Version, ErrVersion)
	}
	if a.VRID == 0 {
		return ErrVRID
	}
	if a.Interval <= 0 || a.Interval > limit || a.Interval%unit != 0 {
		return fmt.Errorf("encoding interval %v in version %d: %w", a.Interval, a.Version, ErrInterval)
	}
	if len(a.Addrs) > maxCount {
		return fmt.Errorf("encoding %d addresses: %w", len(a.Addrs), ErrCount)
	}
	if !src.IsValid() || !dst.IsValid() || src.Is4() != dst.Is4() {
		return fmt.Errorf("encoding an advert from %v to %v: %w", src, dst, ErrFamily)
	}
	for _, addr := range a.Addrs {
		if !addr.IsValid() || addr.Is4() != src.Is4() {
			return fmt.Errorf("encoding virtual address %v in a packet from %v: %w", addr, src, ErrFamily)
		}
	}
	return nil
}

// Len is the number of bytes that AppendTo appends for an IPv4 or IPv6 packet.
func (a *Advert) Len(ipv6 bool) int { return messageLen(a.Version, ipv6, len(a.Addrs)) }

// SetPassword makes a carry the simple text password of version 2
// (RFC 2338 §5.3.6.1), of which at most 8 bytes count; an empty one means no
// authentication.
func (a *Advert) SetPassword(password string) {
	a.AuthType, a.AuthData = AuthNone, [authLen]byte{}
	if password != "" {
		a.AuthType = AuthPass
		copy(a.AuthData[:], password)
	}
}

// AddrsMax is the number of virtual addresses that one advert can carry in an
// unfragmented packet on a link of the given MTU: never more than 255, 0 when
// not even the headers fit.
func AddrsMax(version uint8, ipv6 bool, mtu int) int {
	ip, size := ipv4HeaderLen, 4
	if ipv6 {
		ip, size = ipv6HeaderLen, 16
	}
	room := mtu - ip - messageLen(version, ipv6, 0)
	return max(0, min(room/size, maxCount))
}

// messageLen is the length of a message of count addresses.
func messageLen(version uint8, v6 bool, count int) int {
	switch {
	case v6:
		return headerLen + 16*count
	case version == Version2:
		return headerLen + 4*count + authLen
	default:
		return headerLen + 4*count
	}
}
