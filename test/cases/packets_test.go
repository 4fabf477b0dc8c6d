package cases

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"vipd/test/lab"
)

// coverage is what the checksum of a hand-made advert covers.
type coverage uint8

const (
	withPseudo    coverage = iota // pseudo-header and message
	withoutPseudo                 // message alone, as Cisco's IPv4
	neither                       // wrong in both forms
)

// advert is a VRRPv3 advert made by hand, byte by byte.
type advert struct {
	src      netip.Addr
	vrid     uint8
	priority uint8
	interval time.Duration
	addrs    []netip.Addr
	sum      coverage
}

// send injects the advert from the node's front LAN interface.
func (a advert) send(from *lab.Node) { from.Inject(a.frame(from.MAC())) }

// frame is the Ethernet frame of the advert.
func (a advert) frame(mac string) []byte {
	group, groupMAC := netip.MustParseAddr("224.0.0.18"), "01:00:5e:00:00:12"
	if a.src.Is6() {
		group, groupMAC = netip.MustParseAddr("ff02::12"), "33:33:00:00:00:12"
	}
	message := a.message(group)
	b := append(hardware(groupMAC), hardware(mac)...)
	if a.src.Is6() {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
		b = append(b, 112, 255)
	} else {
		b = append(b, 0x08, 0x00)
		ip := []byte{0x45, 0xc0, 0, 0, 0, 1, 0, 0, 255, 112, 0, 0}
		ip = append(append(ip, a.src.AsSlice()...), group.AsSlice()...)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(message)))
		binary.BigEndian.PutUint16(ip[10:], lab.Checksum(ip))
		return append(append(b, ip...), message...)
	}
	b = append(append(b, a.src.AsSlice()...), group.AsSlice()...)
	return append(b, message...)
}

// message is the VRRP message with the checksum asked for.
func (a advert) message(group netip.Addr) []byte {
	b := []byte{3<<4 | 1, a.vrid, a.priority, uint8(len(a.addrs))}
	b = binary.BigEndian.AppendUint16(b, uint16(a.interval/(10*time.Millisecond)))
	b = append(b, 0, 0)
	for _, addr := range a.addrs {
		b = append(b, addr.AsSlice()...)
	}
	var sum uint16
	switch a.sum {
	case withoutPseudo:
		sum = lab.Checksum(b)
	case withPseudo:
		sum = lab.Checksum(append(pseudoHeader(a.src, group, len(b)), b...))
	case neither:
		sum = lab.Checksum(append([]byte{0x12, 0x34}, b...))
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return b
}

// pseudoHeader is that of IPv4 (RFC 9293 §3.1) or IPv6 (RFC 8200 §8.1).
func pseudoHeader(src, dst netip.Addr, length int) []byte {
	b := append(src.AsSlice(), dst.AsSlice()...)
	if src.Is4() {
		b = append(b, 0, 112)
		return binary.BigEndian.AppendUint16(b, uint16(length))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return append(b, 0, 0, 0, 112)
}

// covers tells which checksum a captured IPv4 advert has.
func covers(a lab.Advert) coverage {
	switch {
	case lab.Checksum(append(pseudoHeader(a.Src, a.Dst, len(a.Payload)), a.Payload...)) == 0:
		return withPseudo
	case lab.Checksum(a.Payload) == 0:
		return withoutPseudo
	}
	return neither
}

func hardware(mac string) []byte {
	b, err := net.ParseMAC(mac)
	if err != nil {
		panic(err) // a constant of the lab
	}
	return b
}
