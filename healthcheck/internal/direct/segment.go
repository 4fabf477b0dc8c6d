package direct

import (
	"encoding/binary"
	"net/netip"
)

// Flags of TCP segments (RFC 9293 §3.1).
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagPSH = 0x08
	flagACK = 0x10
)

const (
	protocolTCP = 6
	hopLimit    = 64
	tcpHeader   = 20   // bytes without options
	usualMSS    = 536  // of a peer that names none (RFC 9293 §3.7.1)
	ownMSS      = 1220 // fits into any link, IPv6 too
)

// segment is a TCP segment.
type segment struct {
	src, dst netip.AddrPort
	seq, ack uint32
	flags    byte
	window   uint16
	mss      uint16 // the option, of a SYN; 0: none
	data     []byte
}

// length is how far the segment moves the sequence (RFC 9293 §3.4).
func (s *segment) length() uint32 {
	n := uint32(len(s.data))
	if s.flags&flagSYN != 0 {
		n++
	}
	if s.flags&flagFIN != 0 {
		n++
	}
	return n
}

// packet returns the segment as an IPv4 or IPv6 packet with its checksums.
func (s *segment) packet() []byte {
	header := tcpHeader
	if s.mss != 0 {
		header += 4
	}
	tcp := make([]byte, header, header+len(s.data))
	binary.BigEndian.PutUint16(tcp[0:], s.src.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp[12], tcp[13] = byte(header/4)<<4, s.flags
	binary.BigEndian.PutUint16(tcp[14:], s.window)
	if s.mss != 0 {
		tcp[20], tcp[21] = 2, 4
		binary.BigEndian.PutUint16(tcp[22:], s.mss)
	}
	tcp = append(tcp, s.data...)
	src, dst := s.src.Addr().AsSlice(), s.dst.Addr().AsSlice()
	sum := add(add(add(uint32(protocolTCP)+uint32(len(tcp)), src), dst), tcp)
	binary.BigEndian.PutUint16(tcp[16:], fold(sum))

	if s.src.Addr().Is6() {
		ip := make([]byte, 40, 40+len(tcp)) // RFC 8200 §3
		ip[0], ip[6], ip[7] = 6<<4, protocolTCP, hopLimit
		binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)))
		copy(ip[8:], src)
		copy(ip[24:], dst)
		return append(ip, tcp...)
	}
	ip := make([]byte, 20, 20+len(tcp)) // RFC 791 §3.1
	ip[0], ip[6], ip[8], ip[9] = 4<<4|5, 0x40, hopLimit, protocolTCP
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)))
	copy(ip[12:], src)
	copy(ip[16:], dst)
	binary.BigEndian.PutUint16(ip[10:], fold(add(0, ip)))
	return append(ip, tcp...)
}

// parse reads an IPv4 or IPv6 packet with a whole TCP segment. Its checksum is not
// looked at: a packet of a machine on the same host has none yet, and the link
// has one of its own.
func parse(b []byte) (s segment, ok bool) {
	tcp, from, to, ok := network(b)
	if !ok || len(tcp) < tcpHeader {
		return s, false
	}
	header := int(tcp[12]>>4) * 4
	if header < tcpHeader || header > len(tcp) {
		return s, false
	}
	s.src = netip.AddrPortFrom(from, binary.BigEndian.Uint16(tcp[0:]))
	s.dst = netip.AddrPortFrom(to, binary.BigEndian.Uint16(tcp[2:]))
	s.seq, s.ack = binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	s.flags, s.window = tcp[13]&0x1f, binary.BigEndian.Uint16(tcp[14:])
	s.mss = mss(tcp[tcpHeader:header])
	s.data = tcp[header:]
	return s, true
}

// network takes the network header off a packet that is no fragment.
func network(b []byte) (rest []byte, from, to netip.Addr, ok bool) {
	if len(b) >= 40 && b[0]>>4 == 6 {
		n := int(binary.BigEndian.Uint16(b[4:]))
		if b[6] != protocolTCP || 40+n > len(b) {
			return nil, from, to, false
		}
		return b[40 : 40+n], netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), true
	}
	if len(b) < 20 || b[0]>>4 != 4 {
		return nil, from, to, false
	}
	header, n := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if header < 20 || n < header || n > len(b) || b[9] != protocolTCP || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return nil, from, to, false
	}
	return b[header:n], netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), true
}

// mss finds the maximum segment size among options; 0: there is none.
func mss(options []byte) uint16 {
	for len(options) > 0 {
		switch kind := options[0]; {
		case kind == 0:
			return 0
		case kind == 1:
			options = options[1:]
		case len(options) < 2 || options[1] < 2 || int(options[1]) > len(options):
			return 0
		case kind == 2 && options[1] == 4:
			return binary.BigEndian.Uint16(options[2:])
		default:
			options = options[options[1]:]
		}
	}
	return 0
}

// add adds to a checksum (RFC 1071); all parts but the last have an even length.
func add(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
