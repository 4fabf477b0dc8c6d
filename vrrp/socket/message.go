package socket

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxPacket is more than the longest message there is (8 + 255 × 16 bytes) or
// the longest IPv4 packet with one. What is longer is cut, and refused.
const maxPacket = 4224

// message is the reused room for one recvmsg call. unix.Recvmsg allocates the
// source address of every packet; under a flood that is work for the collector
// in a process whose adverts must not be late.
type message struct {
	hdr  unix.Msghdr
	iov  unix.Iovec
	name unix.RawSockaddrInet6
	buf  [maxPacket]byte
	oob  [128]byte
}

func newMessage() *message {
	m := &message{}
	m.iov.Base = &m.buf[0]
	m.iov.SetLen(len(m.buf))
	m.hdr.Name = (*byte)(unsafe.Pointer(&m.name))
	m.hdr.Iov = &m.iov
	m.hdr.SetIovlen(1)
	m.hdr.Control = &m.oob[0]
	return m
}

// receive reads one packet and returns what of it is in buf; cut says that it
// was longer.
func (m *message) receive(fd uintptr) (data []byte, cut bool, err error) {
	m.hdr.Namelen = unix.SizeofSockaddrInet6
	m.hdr.SetControllen(len(m.oob))
	m.hdr.Flags = 0
	n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
	if errno != 0 {
		return nil, false, errno
	}
	return m.buf[:n], m.hdr.Flags&unix.MSG_TRUNC != 0, nil
}

// source is the sender of an IPv6 packet.
func (m *message) source() netip.Addr { return netip.AddrFrom16(m.name.Addr) }

// control is what the kernel says beside the packet.
type control struct {
	index    int        // arrival interface
	dst      netip.Addr // IPv6 only
	hopLimit uint8      // IPv6 only
	dropped  uint32     // packets lost for want of room since the socket was opened; 0 if none
}

// control reads the control messages of the last packet.
func (m *message) control() control {
	var c control
	rest := m.oob[:m.hdr.Controllen]
	for len(rest) > 0 {
		hdr, data, next, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		rest = next
		switch {
		case hdr.Level == unix.SOL_IP && hdr.Type == unix.IP_PKTINFO && len(data) >= 4:
			c.index = int(binary.NativeEndian.Uint32(data))
		case hdr.Level == unix.SOL_IPV6 && hdr.Type == unix.IPV6_PKTINFO && len(data) >= 20:
			c.dst = netip.AddrFrom16([16]byte(data))
			c.index = int(binary.NativeEndian.Uint32(data[16:]))
		case hdr.Level == unix.SOL_IPV6 && hdr.Type == unix.IPV6_HOPLIMIT && len(data) >= 4:
			c.hopLimit = uint8(binary.NativeEndian.Uint32(data))
		case hdr.Level == unix.SOL_SOCKET && hdr.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			c.dropped = binary.NativeEndian.Uint32(data)
		}
	}
	return c
}
