package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// ErrInterfaceGone is returned by Watch when the interface of the socket was
// deleted or moved to another network namespace. The socket is of no more use:
// the owner closes it, and opens another when an interface of that name is
// there again.
var ErrInterfaceGone = errors.New("the interface is gone")

// aliveInterval is how often Watch asks whether the interface still exists; the
// kernel tells a raw socket nothing. An owner that watches links knows sooner, so
// this need not wake an idle process often.
const aliveInterval = 5 * time.Second

// Conn is a raw socket for adverts. A [Poller] reads it while others send.
type Conn struct {
	intake
	file   *os.File // blocking, as the runtime's poller must not watch it, too
	raw    syscall.RawConn
	tap    *os.File        // on a link with a virtual MAC: what is read instead of file; else nil
	in     syscall.RawConn // of what is read
	failed chan error      // of reading; has room for one

	// Of the Poller's Wait.
	lost   uint32
	sent   OnSent        // nil: it does not only listen
	theirs packet.Advert // of the program beside

	// Of Send.
	mu      sync.Mutex
	ids     [256]packet.IPv4ID // by VRID: each instance counts for itself
	out     []byte
	oob     []byte // the IPv6 source and hop limit, as control messages
	to4     unix.RawSockaddrInet4
	to6     unix.RawSockaddrInet6
	iov     unix.Iovec
	hdr     unix.Msghdr // IPv6
	flags   int
	sendErr error

	sendOne func(fd uintptr) // made once: a closure per packet would be an allocation
}

func newConn(key Key, onDrop OnDrop, file, tap *os.File) (*Conn, error) {
	raw, err := file.SyscallConn()
	in := raw
	if tap != nil && err == nil {
		in, err = tap.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening VRRP socket on %v: %w", key, err), closeBoth(file, tap))
	}
	c := &Conn{file: file, raw: raw, tap: tap, in: in, failed: make(chan error, 1), out: make([]byte, 0, maxPacket)}
	c.intake.init(key, onDrop)
	c.to4.Family = unix.AF_INET
	c.to6.Family, c.to6.Scope_id = unix.AF_INET6, uint32(key.Index)
	c.oob = append(unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(key.Index)}), hopLimit(packet.TTL)...)
	c.hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&c.to6)), Namelen: unix.SizeofSockaddrInet6, Iov: &c.iov, Control: &c.oob[0]}
	c.hdr.SetIovlen(1)
	c.hdr.SetControllen(len(c.oob))
	c.sendOne = c.send4
	if key.IPv6 {
		c.sendOne = c.send6
	}
	return c, nil
}

// Key is what the socket was opened for.
func (c *Conn) Key() Key { return c.key }

// Watch returns nil when ctx ends, ErrInterfaceGone within some seconds of the
// interface's end, an error that wraps os.ErrClosed as soon after Close, and any
// error for which a Poller has given the socket up.
func (c *Conn) Watch(ctx context.Context) error {
	look := time.NewTicker(aliveInterval)
	defer look.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-c.failed:
		case <-look.C:
			err = c.alive()
		}
		if err != nil {
			return fmt.Errorf("receiving on %v: %w", c.key, err)
		}
	}
}

// fail tells Watch why the socket is not read any more.
func (c *Conn) fail(err error) {
	select {
	case c.failed <- err:
	default: // the first one will do
	}
}

// handle judges one packet and delivers it if it is good.
func (c *Conn) handle(m *message, now time.Time, deliver func(*Received)) {
	about := m.control()
	c.countLost(about.dropped)
	now = about.at(now)
	if c.sent != nil {
		c.handleHeard(m, now, deliver)
		return
	}
	src, dst, ttl, message := netip.Addr{}, about.dst, about.hopLimit, m.data
	switch {
	case c.key.IPv6 && c.tap != nil:
		ip, reason := packet.ParseIPv6(m.data)
		if reason != packet.DropNone && !m.cut {
			c.onDrop(c.key, ip.Src, reason)
			return
		}
		src, dst, ttl, message = ip.Src, ip.Dst, ip.TTL, ip.Payload
	case c.key.IPv6:
		src = m.source()
	default:
		ip, reason := packet.ParseIPv4(m.data)
		if reason != packet.DropNone && !m.cut {
			c.onDrop(c.key, ip.Src, reason)
			return
		}
		if c.tap != nil && !m.cut && !packet.IPv4Intact(m.data) { // elsewhere the kernel looks at it
			c.onDrop(c.key, ip.Src, packet.DropChecksum)
			return
		}
		src, dst, ttl, message = ip.Src, ip.Dst, ip.TTL, ip.Payload
	}
	switch {
	case m.cut:
		c.onDrop(c.key, src, packet.DropLength)
	case c.tap == nil && c.key.Index != 0 && about.index != c.key.Index:
		c.onDrop(c.key, src, packet.DropInterface)
	default:
		c.accept(src, dst, ttl, message, now, deliver)
	}
}

// countLost counts the packets for which the receive buffer had no room; the
// kernel gives their number since the socket was opened.
func (c *Conn) countLost(total uint32) {
	if total == 0 {
		return
	}
	for range min(total-c.lost, 1<<16) {
		c.onDrop(c.key, netip.Addr{}, packet.DropOverrun)
	}
	c.lost = total
}

// Alive returns ErrInterfaceGone when the interface of the socket does not exist any
// more. It asks the kernel.
func (c *Conn) Alive() error { return c.alive() }

// alive says whether the interface still exists in this network namespace.
func (c *Conn) alive() error {
	var err error
	ctl := c.raw.Control(func(fd uintptr) {
		switch {
		case c.sent != nil:
			err = lostInterface(int(fd))
		case c.key.Index != 0:
			err = exists(int(fd))
		}
	})
	switch {
	case ctl != nil:
		return os.ErrClosed
	case errors.Is(err, unix.ENODEV):
		return ErrInterfaceGone
	}
	return err
}

// Send sends a VRRP message, which has its checksum, from src to dst. It never
// blocks, and allocates nothing when it succeeds. The source need not be an
// address of the interface. An IPv4 packet gets the next id of the message's
// VRID, starting with 1. ENETDOWN or ENETUNREACH says that the interface is
// down, ENODEV or ENXIO that it is gone, EAGAIN or ENOBUFS that its queue is full.
func (c *Conn) Send(src, dst netip.Addr, vrrp []byte) error {
	return c.SendCopy(src, dst, packet.TTL, 0, vrrp)
}

// SendCopy is Send with a TTL or hop limit, for unicast. copy counts the packets
// of one advert: those after the first, 0, have the id of the first. ENETUNREACH
// or EHOSTUNREACH says that no route leads to dst.
func (c *Conn) SendCopy(src, dst netip.Addr, ttl uint8, copy int, vrrp []byte) error {
	if src.Is4() == c.key.IPv6 || dst.Is4() == c.key.IPv6 || !src.IsValid() || !dst.IsValid() || len(vrrp) < 2 {
		return fmt.Errorf("sending %d bytes from %v to %v on %v: %w", len(vrrp), src, dst, c.key, packet.ErrFamily)
	}
	if c.sent != nil {
		return fmt.Errorf("sending on %v: %w", c.key, ErrListens)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flags = unix.MSG_DONTWAIT
	if dst.IsMulticast() {
		c.flags |= unix.MSG_DONTROUTE
	}
	c.out = c.out[:0]
	if c.key.IPv6 {
		c.address6(src, dst, ttl)
	} else {
		if copy == 0 {
			c.ids[vrrp[1]].Next()
		}
		c.out = packet.AppendIPv4(c.out, src, dst, uint16(c.ids[vrrp[1]]), ttl, len(vrrp))
		c.to4.Addr = dst.As4()
	}
	c.out = append(c.out, vrrp...)
	if err := c.raw.Control(c.sendOne); err != nil {
		return fmt.Errorf("sending on %v: %w", c.key, err)
	}
	if c.sendErr != nil {
		return fmt.Errorf("sending from %v to %v on %v: %w", src, dst, c.key, c.sendErr)
	}
	return nil
}

// hopLimit is the control message for the hop limit of a packet.
func hopLimit(n uint8) []byte {
	b := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.SOL_IPV6, unix.IPV6_HOPLIMIT
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], uint32(n))
	return b
}

// address6 fills in the control messages and the destination of an IPv6 packet.
func (c *Conn) address6(src, dst netip.Addr, ttl uint8) {
	source := src.As16()
	copy(c.oob[unix.CmsgLen(0):], source[:])
	binary.NativeEndian.PutUint32(c.oob[unix.CmsgSpace(unix.SizeofInet6Pktinfo)+unix.CmsgLen(0):], uint32(ttl))
	c.to6.Addr = dst.As16()
}

// send4 sends what is in out. Past the scheduler, as send6: it never waits.
func (c *Conn) send4(fd uintptr) {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&c.out[0])), uintptr(len(c.out)), uintptr(c.flags),
		uintptr(unsafe.Pointer(&c.to4)), unix.SizeofSockaddrInet4)
	c.sendErr = errnoErr(errno)
}

func (c *Conn) send6(fd uintptr) {
	c.iov.Base = &c.out[0]
	c.iov.SetLen(len(c.out))
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&c.hdr)), uintptr(c.flags))
	c.sendErr = errnoErr(errno)
}

// errnoErr is nil for 0.
func errnoErr(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// Close leaves the group and closes the socket. A Poller that reads it has to be
// told first.
func (c *Conn) Close() error {
	if err := closeBoth(c.file, c.tap); err != nil {
		return fmt.Errorf("closing %v: %w", c.key, err)
	}
	return nil
}

// closeBoth closes a socket and its tap, which may be nil.
func closeBoth(file, tap *os.File) error {
	err := file.Close()
	if tap != nil {
		err = errors.Join(err, tap.Close())
	}
	return err
}
