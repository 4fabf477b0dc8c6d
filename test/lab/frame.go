package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Packet is a frame taken apart down to its IP payload. Everything is checked
// by the capture's own code, never by that of the daemon under test.
type Packet struct {
	Frame
	SrcMAC, DstMAC string
	EtherType      uint16
	Src, Dst       netip.Addr // invalid when not IP
	Protocol       uint8
	TTL            uint8 // or hop limit
	Payload        []byte
}

// Parse takes a frame apart; ok is false for what is not Ethernet with a whole
// IP header or ARP.
func (f Frame) Parse() (p Packet, ok bool) {
	b := f.Raw
	if len(b) < 14 {
		return p, false
	}
	p = Packet{Frame: f, DstMAC: net.HardwareAddr(b[:6]).String(), SrcMAC: net.HardwareAddr(b[6:12]).String(),
		EtherType: binary.BigEndian.Uint16(b[12:])}
	b = b[14:]
	switch p.EtherType {
	case 0x0800:
		if len(b) < 20 || len(b) < int(b[0]&15)*4 || int(b[0]&15) < 5 {
			return p, false
		}
		end := int(binary.BigEndian.Uint16(b[2:]))
		header := int(b[0]&15) * 4
		if end < header || end > len(b) {
			return p, false
		}
		p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		p.TTL, p.Protocol, p.Payload = b[8], b[9], b[header:end]
	case 0x86dd:
		if len(b) < 40 {
			return p, false
		}
		end := 40 + int(binary.BigEndian.Uint16(b[4:]))
		if end > len(b) {
			return p, false
		}
		p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		p.Protocol, p.TTL, p.Payload = b[6], b[7], b[40:end]
	case 0x0806:
		if len(b) < 28 {
			return p, false
		}
		p.Payload = b
	}
	return p, true
}

// Time of the frame.
func (f Frame) Time() time.Time { return f.At }

// Advert is a VRRP advertisement on the wire.
type Advert struct {
	Packet
	Version, VRID, Priority uint8
	Interval                time.Duration
	AuthType                uint8
	Addrs                   []netip.Addr
}

// Advert decodes a VRRP message; ok is false for everything else.
func (p Packet) Advert() (a Advert, ok bool) {
	b := p.Payload
	if !p.Src.IsValid() || p.Protocol != 112 || len(b) < 8 || b[0]&15 != 1 {
		return a, false
	}
	a = Advert{Packet: p, Version: b[0] >> 4, VRID: b[1], Priority: b[2]}
	switch a.Version {
	case 2:
		a.AuthType, a.Interval = b[4], time.Duration(b[5])*time.Second
	case 3:
		a.Interval = time.Duration(binary.BigEndian.Uint16(b[4:])&0xfff) * 10 * time.Millisecond
	}
	size := 4
	if p.Src.Is6() {
		size = 16
	}
	for rest := b[8:]; len(a.Addrs) < int(b[3]) && len(rest) >= size; rest = rest[size:] {
		addr, _ := netip.AddrFromSlice(rest[:size])
		a.Addrs = append(a.Addrs, addr)
	}
	return a, true
}

// String shows an advert in one line for failure messages.
func (a Advert) String() string {
	return fmt.Sprintf("%s v%d vrid %d prio %d from %v", a.At.Format("05.000000"), a.Version, a.VRID, a.Priority, a.Src)
}

// ARP is an ARP frame.
type ARP struct {
	Packet
	Op                   uint16 // 1 request, 2 reply
	SenderMAC, TargetMAC string
	Sender, Target       netip.Addr
}

// ARP decodes an ARP frame for IPv4 on Ethernet.
func (p Packet) ARP() (a ARP, ok bool) {
	if p.EtherType != 0x0806 {
		return a, false
	}
	b := p.Payload
	if binary.BigEndian.Uint16(b) != 1 || binary.BigEndian.Uint16(b[2:]) != 0x0800 || b[4] != 6 || b[5] != 4 {
		return a, false
	}
	return ARP{Packet: p, Op: binary.BigEndian.Uint16(b[6:]),
		SenderMAC: net.HardwareAddr(b[8:14]).String(), Sender: netip.AddrFrom4([4]byte(b[14:18])),
		TargetMAC: net.HardwareAddr(b[18:24]).String(), Target: netip.AddrFrom4([4]byte(b[24:28]))}, true
}

// Gratuitous reports whether the frame announces an address: sender and target
// are the same.
func (a ARP) Gratuitous() bool { return a.Sender == a.Target }

// NA is a neighbour advertisement (ICMPv6 136).
type NA struct {
	Packet
	Target                      netip.Addr
	MAC                         string // target link-layer option, "" when absent
	Router, Solicited, Override bool
}

// NA decodes a neighbour advertisement.
func (p Packet) NA() (a NA, ok bool) {
	b := p.Payload
	if !p.Src.Is6() || p.Protocol != 58 || len(b) < 24 || b[0] != 136 {
		return a, false
	}
	a = NA{Packet: p, Target: netip.AddrFrom16([16]byte(b[8:24])),
		Router: b[4]&0x80 != 0, Solicited: b[4]&0x40 != 0, Override: b[4]&0x20 != 0}
	for o := b[24:]; len(o) >= 8 && o[1] > 0; {
		n := int(o[1]) * 8
		if n > len(o) {
			break
		}
		if o[0] == 2 {
			a.MAC = net.HardwareAddr(o[2:8]).String()
		}
		o = o[n:]
	}
	return a, true
}

// Echo is an ICMP or ICMPv6 echo request or reply.
type Echo struct {
	Packet
	Reply   bool
	ID, Seq uint16
	Data    []byte
}

// Echo decodes an echo request or reply.
func (p Packet) Echo() (e Echo, ok bool) {
	b := p.Payload
	if !p.Src.IsValid() || len(b) < 8 || b[1] != 0 {
		return e, false
	}
	request, reply := uint8(8), uint8(0)
	switch {
	case p.Src.Is4() && p.Protocol == 1:
	case p.Src.Is6() && p.Protocol == 58:
		request, reply = 128, 129
	default:
		return e, false
	}
	if b[0] != request && b[0] != reply {
		return e, false
	}
	return Echo{Packet: p, Reply: b[0] == reply, ID: binary.BigEndian.Uint16(b[4:]), Seq: binary.BigEndian.Uint16(b[6:]), Data: b[8:]}, true
}
