package socket

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// ErrListens is returned by Send of a socket that only listens.
var ErrListens = errors.New("this socket only listens")

// OnSent is told of an advert that another program on this host has sent, from src to
// dst, and why it would be refused here. Then only its VRID and Priority count. The advert is valid
// during the call, which comes from the Poller's Wait and must not block.
type OnSent func(key Key, a *packet.Advert, src, dst netip.Addr, refused packet.DropReason)

// Listen opens a socket that hears the adverts of an interface beside the program
// that is responsible for them: what arrives is delivered as by [Open], and what
// that program itself sends is told to sent. It sends nothing and joins no group:
// no report of IGMP or MLD leaves the host, now or when it is closed. While it is
// open the card lets frames to the group in, even when the other program has ended.
// It needs CAP_NET_RAW. key is that of a multicast socket.
func Listen(key Key, onDrop OnDrop, sent OnSent) (*Conn, error) {
	if !key.valid() || key.Local.IsValid() {
		return nil, fmt.Errorf("listening on %v: %w", key, ErrKey)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listening on %v: %w%s", key, err, remedy(err))
	}
	for _, o := range listenOptions(key) {
		if err := o.set(fd); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("listening on %v: %s: %w%s", key, o.name, err, remedy(err))
		}
	}
	c, err := newConn(key, onDrop, os.NewFile(uintptr(fd), key.String()+", listening"), nil)
	if err != nil {
		return nil, err
	}
	c.sent = sent
	if c.sent == nil {
		c.sent = func(Key, *packet.Advert, netip.Addr, netip.Addr, packet.DropReason) {}
	}
	return c, nil
}

// listenOptions set a packet socket up. The filter comes before the binding, so that
// nothing else gets into the queue.
func listenOptions(key Key) []option {
	return []option{
		{"filtering", func(fd int) error { return listenFilter(fd, key.IPv6) }},
		intOption("setting SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		intOption("setting SO_RXQ_OVFL", unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1),
		intOption("setting SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		{"receiving the group", func(fd int) error { return receiveGroup(fd, key) }},
		{"binding to the interface", func(fd int) error { // with less than all protocols, what is sent is not seen
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: key.Index})
		}},
	}
}

// listenFilter lets VRRP of one family through, without VLAN tag: of a VLAN the
// interface on top of this one hears.
func listenFilter(fd int, ipv6 bool) error {
	etherType, protocol := uint32(unix.ETH_P_IP), uint32(9) // offset in the IP header
	if ipv6 {
		etherType, protocol = unix.ETH_P_IPV6, 6
	}
	return attachFilter(fd,
		bpf.LoadExtension{Num: bpf.ExtVLANTagPresent},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 5},
		bpf.LoadExtension{Num: bpf.ExtProto},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: etherType, SkipTrue: 3},
		bpf.LoadAbsolute{Off: protocol, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: packet.Protocol, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	)
}

// handleHeard judges a packet from a packet socket.
func (c *Conn) handleHeard(m *message, now time.Time, deliver func(*Received)) {
	ip, reason := c.parseHeard(m)
	switch kind := m.packetType(); {
	case kind == unix.PACKET_OTHERHOST || kind == unix.PACKET_LOOPBACK:
	case kind == unix.PACKET_OUTGOING:
		if b := ip.Payload; reason == packet.DropNone && len(b) > 2 && (c.vrids.has(b[1]) || c.watched.has(b[1])) {
			refused := c.decode(&c.theirs, ip.Src, ip.Dst, b)
			c.theirs.VRID, c.theirs.Priority = b[1], b[2]
			c.sent(c.key, &c.theirs, ip.Src, ip.Dst, refused)
		}
	case reason != packet.DropNone:
		c.onDrop(c.key, ip.Src, reason)
	default:
		c.accept(ip.Src, ip.Dst, ip.TTL, ip.Payload, now, deliver)
	}
}

// parseHeard reads the IP header. The kernel has not looked at it yet.
func (c *Conn) parseHeard(m *message) (packet.IP, packet.DropReason) {
	switch {
	case m.cut:
		return packet.IP{}, packet.DropLength
	case c.key.IPv6:
		return packet.ParseIPv6(m.data)
	}
	ip, reason := packet.ParseIPv4(m.data)
	if reason == packet.DropNone && !packet.IPv4Intact(m.data) {
		reason = packet.DropChecksum
	}
	return ip, reason
}

// packetType is what a packet socket says of the packet (unix.PACKET_…): the byte at
// offset 10 of a sockaddr_ll, the third of the address of a sockaddr_in6.
func (m *message) packetType() uint8 { return m.name.Addr[2] }

// lostInterface tells whether a packet socket has lost its interface.
func lostInterface(fd int) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	if ll, ok := sa.(*unix.SockaddrLinklayer); ok && ll.Ifindex <= 0 {
		return unix.ENODEV
	}
	return nil
}
