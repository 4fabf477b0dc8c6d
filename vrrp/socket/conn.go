package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// ErrInterfaceGone is returned by Serve when the interface of the socket was
// deleted or moved to another network namespace. The socket is of no more use:
// the owner closes it, and opens another when an interface of that name is
// there again.
var ErrInterfaceGone = errors.New("the interface is gone")

// aliveInterval is how often an idle Serve asks whether its interface still
// exists; the kernel tells a raw socket nothing. An owner that watches links
// knows sooner.
const aliveInterval = time.Second

// Conn is a raw socket for adverts. Serve may run in one goroutine while
// others send.
type Conn struct {
	intake
	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool

	// Of Serve.
	in      *message
	data    []byte
	cut     bool
	readErr error
	lost    uint32

	// Of Send.
	mu      sync.Mutex
	ids     [256]packet.IPv4ID // by VRID: each instance counts for itself
	out     []byte
	oob     []byte // the IPv6 source and hop limit, as control messages
	to4     unix.SockaddrInet4
	to6     unix.SockaddrInet6
	flags   int
	sendErr error

	readOne, sendOne func(fd uintptr) // made once: a closure per packet would be an allocation
}

func newConn(key Key, onDrop OnDrop, file *os.File) (*Conn, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening VRRP socket on %v: %w", key, err)
	}
	c := &Conn{file: file, raw: raw, in: newMessage(), out: make([]byte, 0, maxPacket)}
	c.intake.init(key, onDrop)
	c.to6.ZoneId = uint32(key.Index)
	c.oob = append(unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(key.Index)}), hopLimit(packet.TTL)...)
	c.sendOne = c.send4
	if key.IPv6 {
		c.sendOne = c.send6
	}
	c.readOne = func(fd uintptr) { c.data, c.cut, c.readErr = c.in.receive(fd) }
	return c, nil
}

// Key is what the socket was opened for.
func (c *Conn) Key() Key { return c.key }

// Serve reads adverts until ctx ends, and then returns nil. Each good one is
// given to deliver, from this goroutine, in order of arrival; deliver must not
// block and must see to the Release. Serve returns ErrInterfaceGone within
// about a second of the interface's end, an error that wraps os.ErrClosed
// after Close, and any other error of the socket. It is called once.
func (c *Conn) Serve(ctx context.Context, deliver func(*Received)) error {
	stop := context.AfterFunc(ctx, func() { c.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	ready := func(fd uintptr) bool {
		c.readOne(fd)
		return !errors.Is(c.readErr, unix.EAGAIN)
	}
	for {
		// The deadline first, then the look at ctx: the end of ctx between the
		// two sets its own deadline after ours.
		err := c.file.SetReadDeadline(time.Now().Add(aliveInterval))
		for err == nil && ctx.Err() == nil {
			if err = c.raw.Read(ready); err == nil {
				err = c.handle(deliver)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case c.closed.Load():
			err = os.ErrClosed
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = c.alive()
		}
		if err != nil {
			return fmt.Errorf("receiving on %v: %w", c.key, err)
		}
	}
}

// handle judges the packet just read.
func (c *Conn) handle(deliver func(*Received)) error {
	if c.readErr != nil {
		if errors.Is(c.readErr, unix.EINTR) {
			return nil
		}
		return c.readErr
	}
	about := c.in.control()
	c.countLost(about.dropped)
	src, dst, ttl, message := netip.Addr{}, about.dst, about.hopLimit, c.data
	if c.key.IPv6 {
		src = c.in.source()
	} else {
		ip, reason := packet.ParseIPv4(c.data)
		if reason != packet.DropNone && !c.cut {
			c.onDrop(c.key, ip.Src, reason)
			return nil
		}
		src, dst, ttl, message = ip.Src, ip.Dst, ip.TTL, ip.Payload
	}
	switch {
	case c.cut:
		c.onDrop(c.key, src, packet.DropLength)
	case c.key.Index != 0 && about.index != c.key.Index:
		c.onDrop(c.key, src, packet.DropInterface)
	default:
		c.accept(src, dst, ttl, message, deliver)
	}
	return nil
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

// alive says whether the interface still exists in this network namespace.
func (c *Conn) alive() error {
	if c.key.Index == 0 {
		return nil
	}
	var err error
	if ctl := c.raw.Control(func(fd uintptr) { err = exists(int(fd)) }); ctl != nil {
		return ctl
	}
	if errors.Is(err, unix.ENODEV) {
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

func (c *Conn) send4(fd uintptr) { c.sendErr = unix.Sendto(int(fd), c.out, c.flags, &c.to4) }

func (c *Conn) send6(fd uintptr) {
	_, c.sendErr = unix.SendmsgN(int(fd), c.out, c.oob, &c.to6, c.flags)
}

// Close leaves the group and closes the socket; a running Serve returns.
func (c *Conn) Close() error {
	c.closed.Store(true)
	if err := c.file.Close(); err != nil {
		return fmt.Errorf("closing %v: %w", c.key, err)
	}
	return nil
}
