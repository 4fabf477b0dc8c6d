package packet

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	// IPv4HeaderLen is the length of the header that AppendIPv4 writes.
	IPv4HeaderLen = ipv4HeaderLen
)

// IPv4ID numbers the IPv4 packets of one sender: 1 first, then one more each,
// never 0 (with a header of our own the kernel would choose another).
type IPv4ID uint16

// Next returns the number for the next packet.
func (id *IPv4ID) Next() uint16 {
	*id++
	if *id == 0 {
		*id = 1
	}
	return uint16(*id)
}

// AppendIPv4 appends the IPv4 header of a VRRP packet with payload bytes after
// it: TOS 0xc0, no fragmentation bits, the header checksum filled in. Both
// addresses must be IPv4.
func AppendIPv4(b []byte, src, dst netip.Addr, id uint16, ttl uint8, payload int) []byte {
	start := len(b)
	s, d := src.As4(), dst.As4()
	b = append(b, 0x45, TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(ipv4HeaderLen+payload))
	b = binary.BigEndian.AppendUint16(b, id)
	b = append(b, 0, 0, ttl, Protocol, 0, 0)
	b = append(append(b, s[:]...), d[:]...)
	binary.BigEndian.PutUint16(b[start+10:], fold(sum(0, b[start:])))
	return b
}

// IP is what a receiver needs of an IP packet.
type IP struct {
	Src, Dst netip.Addr
	TTL      uint8 // or hop limit
	// Payload is what follows the header, up to the total length: without
	// padding of the link. It is part of the packet that was taken apart.
	Payload []byte
}

// IPv4Intact reports whether the checksum of an IPv4 header is right. b is a packet that ParseIPv4 has taken apart.
func IPv4Intact(b []byte) bool { return fold(sum(0, b[:int(b[0]&0x0f)*4])) == 0 }

// ParseIPv6 takes an IPv6 packet apart: its version and length are checked (DropShort where they contradict the packet),
// extension headers and other protocols than VRRP are refused (DropType). It does not allocate.
func ParseIPv6(b []byte) (IP, DropReason) {
	if len(b) < ipv6HeaderLen || b[0]>>4 != 6 {
		return IP{}, DropShort
	}
	total := ipv6HeaderLen + int(binary.BigEndian.Uint16(b[4:]))
	if total > len(b) {
		return IP{}, DropShort
	}
	if b[6] != Protocol {
		return IP{}, DropType
	}
	return IP{
		Src:     netip.AddrFrom16([16]byte(b[8:24])),
		Dst:     netip.AddrFrom16([16]byte(b[24:40])),
		TTL:     b[7],
		Payload: b[ipv6HeaderLen:total],
	}, DropNone
}

// ParseIPv4 takes an IPv4 packet apart: its version and lengths are checked
// (DropShort where they contradict the packet), fragments and other protocols
// than VRRP are refused (DropLength, DropType). The header checksum is not
// looked at: the kernel has done that. It does not allocate.
func ParseIPv4(b []byte) (IP, DropReason) {
	if len(b) < ipv4HeaderLen || b[0]>>4 != 4 {
		return IP{}, DropShort
	}
	header := int(b[0]&0x0f) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if header < ipv4HeaderLen || total < header || total > len(b) {
		return IP{}, DropShort
	}
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return IP{}, DropLength
	}
	if b[9] != Protocol {
		return IP{}, DropType
	}
	return IP{
		Src:     netip.AddrFrom4([4]byte(b[12:16])),
		Dst:     netip.AddrFrom4([4]byte(b[16:20])),
		TTL:     b[8],
		Payload: b[header:total],
	}, DropNone
}
