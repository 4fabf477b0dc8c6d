package socket

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxPacket is more than the longest message there is (8 + 255 × 16 bytes) or
	// the longest IPv4 packet with one. What is longer is cut, and refused.
	maxPacket = 4224
	// batchSize is how many packets are read by one call.
	batchSize = 32
)

// batch is the reused room for the packets of one recvmmsg call. unix.Recvmsg
// allocates the source address of every packet; under a flood that is work for
// the collector in a process whose adverts must not be late.
type batch struct {
	headers  [batchSize]mmsghdr
	messages [batchSize]message
	n        int // packets read
	err      error
}

// mmsghdr is struct mmsghdr of the kernel.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// message is the room for one packet.
type message struct {
	iov  unix.Iovec
	name unix.RawSockaddrInet6
	buf  [maxPacket]byte
	oob  [128]byte

	data    []byte // what was read, within buf
	cut     bool   // it was longer
	options []byte // control messages, within oob
}

func newBatch() *batch {
	b := &batch{}
	for i := range b.messages {
		m, h := &b.messages[i], &b.headers[i].hdr
		m.iov.Base = &m.buf[0]
		m.iov.SetLen(len(m.buf))
		h.Name = (*byte)(unsafe.Pointer(&m.name))
		h.Iov = &m.iov
		h.SetIovlen(1)
		h.Control = &m.oob[0]
		b.reset(i)
	}
	return b
}

// reset makes the header of a packet ready for the next one.
func (b *batch) reset(i int) {
	h := &b.headers[i].hdr
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(len(b.messages[i].oob))
	h.Flags = 0
}

// receive reads what is there, without waiting. It leaves the number of packets
// in n; that there was nothing is no error.
func (b *batch) receive(fd uintptr) {
	b.n, b.err = 0, nil
	// Not through the scheduler: it never waits.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.headers[0])), batchSize, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		b.n = int(n)
	case unix.EAGAIN, unix.EINTR:
	default:
		b.err = errno
	}
}

// message is the i-th packet of the last call.
func (b *batch) message(i int) *message {
	m, h := &b.messages[i], &b.headers[i]
	m.data, m.cut = m.buf[:min(int(h.len), maxPacket)], h.hdr.Flags&unix.MSG_TRUNC != 0
	m.options = m.oob[:h.hdr.Controllen]
	b.reset(i)
	return m
}

// source is the sender of an IPv6 packet.
func (m *message) source() netip.Addr { return netip.AddrFrom16(m.name.Addr) }

// control is what the kernel says beside the packet.
type control struct {
	index    int        // arrival interface
	dst      netip.Addr // IPv6 only
	hopLimit uint8      // IPv6 only
	arrived  int64      // nanoseconds of the wall clock; 0: not told
	dropped  uint32     // packets lost for want of room since the socket was opened; 0 if none
}

// believed is the longest time for which an advert that waited counts from its
// arrival. Longer ones count from their reading: then the process was frozen, or the
// clock on the wall was set.
const believed = 100 * time.Millisecond

// at is when the packet arrived, as far as can be told at the time now.
func (c *control) at(now time.Time) time.Time {
	if c.arrived != 0 {
		if age := time.Duration(now.UnixNano() - c.arrived); age > 0 && age <= believed {
			return now.Add(-age)
		}
	}
	return now
}

// control reads the control messages of the packet.
func (m *message) control() control {
	var c control
	rest := m.options
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
		case hdr.Level == unix.SOL_SOCKET && hdr.Type == unix.SCM_TIMESTAMPNS && len(data) >= 16:
			c.arrived = int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:]))
		case hdr.Level == unix.SOL_SOCKET && hdr.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			c.dropped = binary.NativeEndian.Uint32(data)
		}
	}
	return c
}
