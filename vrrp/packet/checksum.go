package packet

import (
	"encoding/binary"
	"net/netip"
)

// sum adds b to a one's-complement sum of 16-bit words that is not yet folded
// (RFC 1071). An odd last byte counts as the high half of a word. A uint32 is
// wide enough for 65,536 words.
func sum(s uint32, b []byte) uint32 {
	for len(b) >= 2 {
		s += uint32(b[0])<<8 | uint32(b[1])
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

// fold turns the sum into a checksum.
func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// pseudoSum is the sum of the pseudo-header of a message of n bytes: source,
// destination, length and protocol. The IPv4 and the IPv6 form (RFC 8200 §8.1)
// place the same words differently, which a sum does not see.
func pseudoSum(src, dst netip.Addr, n int) uint32 {
	s := uint32(n>>16) + uint32(n&0xffff) + Protocol
	if src.Is4() {
		a, b := src.As4(), dst.As4()
		return sum(sum(s, a[:]), b[:])
	}
	a, b := src.As16(), dst.As16()
	return sum(sum(s, a[:]), b[:])
}

// messageSum is the sum of the message with its checksum field as zero.
func messageSum(b []byte) uint32 {
	return sum(sum(0, b[:checksumOff]), b[checksumOff+2:])
}

// verifyChecksum finds the form of the checksum in b, and false if it is wrong
// in each form accepted for a.Version and the family. tail follows the message
// in the packet; over IPv6 it is covered.
func (a *Advert) verifyChecksum(b, tail []byte, src, dst netip.Addr) bool {
	if src.Is4() {
		tail = nil
	}
	got := binary.BigEndian.Uint16(b[checksumOff:])
	plain := sum(messageSum(b), tail)
	a.allOnes = got == 0xffff
	if a.allOnes {
		got = 0
	}
	if a.Version == Version2 && src.Is4() {
		a.Form = FormPlain
		return got == fold(plain)
	}
	a.Form = FormPseudo
	if got == fold(plain+pseudoSum(src, dst, len(b)+len(tail))) {
		return true
	}
	a.Form = FormPlain
	return src.Is4() && got == fold(plain)
}

// verifyPatched finds FormPatched: the plain checksum from which one of first was
// taken out and to which dst was added (RFC 1624 §3), though neither is in it.
func (a *Advert) verifyPatched(b []byte, src, dst netip.Addr, first []netip.Addr) bool {
	if a.Version != Version3 || !src.Is4() {
		return false
	}
	got, plain, to := binary.BigEndian.Uint16(b[checksumOff:]), messageSum(b), dst.As4()
	plain = sum(plain, to[:])
	for _, p := range first {
		if !p.Is4() || p == src || p == dst {
			continue
		}
		out := p.As4()
		for i := range out {
			out[i] = ^out[i]
		}
		if c := fold(sum(plain, out[:])); got == c || got == 0xffff && c == 0 {
			a.Form = FormPatched
			return true
		}
	}
	return false
}

// putChecksum fills in the checksum of the message b, which tail follows.
func (a *Advert) putChecksum(b, tail []byte, src, dst netip.Addr) {
	if src.Is4() {
		tail = nil
	}
	s := sum(messageSum(b), tail)
	if !src.Is4() || a.Version == Version3 && a.Form == FormPseudo {
		s += pseudoSum(src, dst, len(b)+len(tail))
	}
	c := fold(s)
	if c == 0 && a.allOnes {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[checksumOff:], c)
}
