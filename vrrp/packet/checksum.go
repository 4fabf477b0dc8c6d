package packet

import (
	"encoding/binary"
	"net/netip"

	"vipd/internal/checksum"
)

// pseudoSum is the sum of the pseudo-header of a message of n bytes: source,
// destination, length and protocol. The IPv4 and the IPv6 form (RFC 8200 §8.1)
// place the same words differently, which a sum does not see.
func pseudoSum(src, dst netip.Addr, n int) uint32 {
	s := uint32(n>>16) + uint32(n&0xffff) + Protocol
	if src.Is4() {
		a, b := src.As4(), dst.As4()
		return checksum.Add(checksum.Add(s, a[:]), b[:])
	}
	a, b := src.As16(), dst.As16()
	return checksum.Add(checksum.Add(s, a[:]), b[:])
}

// messageSum is the sum of the message with its checksum field as zero.
func messageSum(b []byte) uint32 {
	return checksum.Add(checksum.Add(0, b[:checksumOff]), b[checksumOff+2:])
}

// verifyChecksum finds the form of the checksum in b, and false if it is wrong
// in each form accepted for a.Version and the family. tail follows the message
// in the packet; over IPv6 it is covered.
func (a *Advert) verifyChecksum(b, tail []byte, src, dst netip.Addr) bool {
	if src.Is4() {
		tail = nil
	}
	got := binary.BigEndian.Uint16(b[checksumOff:])
	plain := checksum.Add(messageSum(b), tail)
	a.allOnes = got == 0xffff
	if a.allOnes {
		got = 0
	}
	if a.Version == Version2 && src.Is4() {
		a.Form = FormPlain
		return got == checksum.Fold(plain)
	}
	a.Form = FormPseudo
	if got == checksum.Fold(plain+pseudoSum(src, dst, len(b)+len(tail))) {
		return true
	}
	a.Form = FormPlain
	return src.Is4() && got == checksum.Fold(plain)
}

// verifyPatched finds FormPatched: the plain checksum from which one of first was
// taken out and to which dst was added (RFC 1624 §3), though neither is in it.
func (a *Advert) verifyPatched(b []byte, src, dst netip.Addr, first []netip.Addr) bool {
	if a.Version != Version3 || !src.Is4() {
		return false
	}
	got, plain, to := binary.BigEndian.Uint16(b[checksumOff:]), messageSum(b), dst.As4()
	plain = checksum.Add(plain, to[:])
	for _, p := range first {
		if !p.Is4() || p == src || p == dst {
			continue
		}
		out := p.As4()
		for i := range out {
			out[i] = ^out[i]
		}
		if c := checksum.Fold(checksum.Add(plain, out[:])); got == c || got == 0xffff && c == 0 {
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
	s := checksum.Add(messageSum(b), tail)
	if !src.Is4() || a.Version == Version3 && a.Form == FormPseudo {
		s += pseudoSum(src, dst, len(b)+len(tail))
	}
	c := checksum.Fold(s)
	if c == 0 && a.allOnes {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[checksumOff:], c)
}
