package pingcheck

import (
	"bytes"
	"encoding/binary"
)

// The types of ICMP messages (RFC 792, RFC 4443 §4).
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

const headerLength = 8 // of an echo message, in bytes

// echo is one question and what its answers look like.
type echo struct {
	six      bool     // ICMPv6
	raw      bool     // of a raw socket: IPv4 packets are read with their header
	sequence uint16   // counts the requests
	token    [16]byte // the data, which an answer must repeat
}

// request is the message to send.
func (e *echo) request() []byte {
	b := make([]byte, headerLength, headerLength+len(e.token))
	b[0] = echoRequest4
	if e.six {
		b[0] = echoRequest6
	}
	// A datagram socket puts its own number in the place of the identifier. A raw
	// one takes it from the token: that is what tells the answers apart.
	copy(b[4:6], e.token[:2])
	binary.BigEndian.PutUint16(b[6:], e.sequence)
	b = append(b, e.token[:]...)
	if !e.six { // the kernel adds that of ICMPv6
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// answers reports whether a packet answers one of the requests.
func (e *echo) answers(packet []byte) bool {
	want := byte(echoReply4)
	if e.six {
		want = echoReply6
	} else if e.raw {
		var ok bool
		if packet, ok = stripIPv4(packet); !ok {
			return false
		}
	}
	return len(packet) >= headerLength && packet[0] == want && packet[1] == 0 && bytes.Equal(packet[headerLength:], e.token[:])
}

// stripIPv4 takes the IPv4 header off a packet (RFC 791 §3.1).
func stripIPv4(packet []byte) ([]byte, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return nil, false
	}
	n := int(packet[0]&0x0f) * 4
	if n < 20 || n > len(packet) {
		return nil, false
	}
	return packet[n:], true
}

// checksum is that of the Internet protocols (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
