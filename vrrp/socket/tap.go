package socket

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// openTap opens the receiving half of a socket on a link with a virtual MAC: a packet socket that gets every VRRP packet
// of the family that arrives there. The IP stack would deliver them only to a link that has joined the group. What was
// sent with our own virtual MAC by the other directors arrives on this link alone, and on a link of another MAC never.
func openTap(key Key) (*os.File, error) {
	protocol, offset := unix.ETH_P_IP, 9 // of the field that names the protocol
	if key.IPv6 {
		protocol, offset = unix.ETH_P_IPV6, 6
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	for _, o := range []option{
		{"filtering", func(fd int) error { return filter(fd, offset) }},
		intOption("setting SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		intOption("setting SO_RXQ_OVFL", unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1),
		intOption("setting SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		{"receiving the group", func(fd int) error { return receiveGroup(fd, key) }},
		{"binding to the link", func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(uint16(protocol)), Ifindex: key.Index})
		}},
	} {
		if err := o.set(fd); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return os.NewFile(uintptr(fd), key.String()), nil
}

// htons is a 16-bit number in network order, on any machine.
func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16([]byte{byte(v >> 8), byte(v)})
}

// receiveGroup has the link take frames to the MAC of the group. Nothing is sent for that.
func receiveGroup(fd int, key Key) error {
	m := unix.PacketMreq{Ifindex: int32(key.Index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
	if key.IPv6 {
		g := key.Group.As16()
		copy(m.Address[:], []byte{0x33, 0x33, g[12], g[13], g[14], g[15]})
	} else {
		g := key.Group.As4()
		copy(m.Address[:], []byte{0x01, 0x00, 0x5e, g[1] & 0x7f, g[2], g[3]})
	}
	return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m)
}

// filter lets only VRRP through: what the link has to do otherwise costs nothing here.
func filter(fd, offset int) error {
	return attachFilter(fd,
		bpf.LoadAbsolute{Off: uint32(offset), Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: packet.Protocol, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{},
	)
}

// attachFilter sets the filter of a socket.
func attachFilter(fd int, instructions ...bpf.Instruction) error {
	prog, err := bpf.Assemble(instructions)
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(prog))
	for i, p := range prog {
		code[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}
