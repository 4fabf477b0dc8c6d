// Package direct makes TCP connections to an address by way of a given machine on
// the same link: frames go to that machine's link address, whatever the packets in
// them are addressed to. So does LVS-DR with the packets of clients, and so a
// director can see whether a real server answers for the virtual address.
//
// The kernel's own sockets cannot do this on a director: the virtual address is its
// own while it is MASTER, IPVS balances what is sent to it, and the answers come
// from an address of its own and are dropped as martian. So the packets are made
// here and read from a packet socket, with just so much of TCP as a check needs.
// Nothing of the machine's settings, routes or tables is touched.
package direct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	headers     = 128  // bytes of IP and TCP, at most
	connectRoom = 2048 // for a packet while a server, that may be dead, is waited for
)

// Path is the way of a connection.
type Path struct {
	Target    netip.AddrPort // what the packets are addressed to
	Via       netip.Addr     // the machine that gets them
	Source    netip.AddrPort // address invalid, port 0: as the kernel would choose for Via
	Interface string         // "": that of the route to Via
}

// Conn is a connection. It is a net.Conn whose reads and writes end with the
// context that it was made with; its methods are called by one goroutine.
type Conn struct {
	packets       *os.File
	held          int // descriptor that holds the local port
	to            unix.SockaddrLinklayer
	local, remote netip.AddrPort
	stop          func() bool
	ctx           context.Context
	until         time.Time // reads end; zero: with ctx
	stream        stream
	buffer        []byte
}

// Dial connects. The error is a syscall.Errno, os.ErrDeadlineExceeded or one that
// says in words what is wrong.
func Dial(ctx context.Context, p Path) (*Conn, error) {
	p.Target = netip.AddrPortFrom(p.Target.Addr().Unmap(), p.Target.Port())
	p.Via = p.Via.Unmap()
	w, err := find(ctx, p.Via, p.Interface)
	if err != nil {
		return nil, ended(ctx, err)
	}
	source := w.source
	if a := p.Source.Addr(); a.IsValid() && !a.IsUnspecified() {
		source = a.Unmap()
	}
	if !source.IsValid() || source.Is4() != p.Target.Addr().Is4() {
		return nil, fmt.Errorf("this machine has no source address towards %v", p.Via)
	}
	c := &Conn{ctx: ctx, remote: p.Target, buffer: make([]byte, connectRoom)}
	if c.held, c.local, err = hold(netip.AddrPortFrom(source, p.Source.Port())); err != nil {
		return nil, fmt.Errorf("taking a port of %v: %w", source, err)
	}
	if c.packets, err = listen(w.index, c.remote, c.local); err != nil {
		unix.Close(c.held)
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	c.to = unix.SockaddrLinklayer{Protocol: ethertype(c.remote.Addr()), Ifindex: w.index, Halen: uint8(len(w.mac))}
	copy(c.to.Addr[:], w.mac)
	c.stop = context.AfterFunc(ctx, func() { _ = c.packets.SetReadDeadline(time.Unix(1, 0)) })
	if err := c.connect(); err != nil {
		c.Close()
		return nil, ended(ctx, err)
	}
	return c, nil
}

// ended turns the end of the context into the error that sockets give for it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (c *Conn) connect() error {
	if err := c.send([]segment{c.stream.begin(time.Now(), rand.Uint32())}); err != nil {
		return err
	}
	for c.stream.state == connecting {
		if err := c.step(); err != nil {
			return err
		}
	}
	c.buffer = make([]byte, window+headers) // the kernel joins segments
	return c.stream.err
}

// step waits for one segment, or for the time to send something again.
func (c *Conn) step() error {
	until := c.end()
	if due := c.stream.due; !due.IsZero() && (until.IsZero() || due.Before(until)) {
		until = due
	}
	if err := c.packets.SetReadDeadline(until); err != nil {
		return err
	}
	if c.ctx.Err() != nil { // its end may have been overwritten
		return os.ErrDeadlineExceeded
	}
	n, err := c.packets.Read(c.buffer)
	now := time.Now()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if end := c.end(); c.ctx.Err() != nil || !end.IsZero() && !now.Before(end) {
			return os.ErrDeadlineExceeded
		}
		return c.send(c.stream.expire(now))
	case err != nil:
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return errno // ENETDOWN: the link went away
		}
		return err
	}
	in, ok := parse(c.buffer[:n])
	if !ok || in.src != c.remote || in.dst != c.local {
		return nil
	}
	return c.send(c.stream.take(now, in))
}

// end is when reads end; zero: never.
func (c *Conn) end() time.Time {
	deadline, ok := c.ctx.Deadline()
	if !c.until.IsZero() && (!ok || c.until.Before(deadline)) {
		return c.until
	}
	return deadline
}

// Shorten lets reads end at t, if that is earlier than the deadline of the context.
func (c *Conn) Shorten(t time.Time) { c.until = t }

// send sends segments. A queue that is full is a loss like any other.
func (c *Conn) send(list []segment) error {
	for i := range list {
		list[i].src, list[i].dst = c.local, c.remote
		packet := list[i].packet()
		raw, err := c.packets.SyscallConn()
		if err != nil {
			return err
		}
		var sent error
		if err := raw.Control(func(fd uintptr) { sent = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, &c.to) }); err != nil {
			return err
		}
		if sent != nil && sent != unix.EAGAIN && sent != unix.ENOBUFS {
			return sent
		}
	}
	return nil
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		if n, err := c.stream.read(b); n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if err := c.step(); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn. It does not wait for the peer; what is lost is sent
// again while answers are read.
func (c *Conn) Write(b []byte) (int, error) {
	if c.stream.err != nil {
		return 0, c.stream.err
	}
	if c.ctx.Err() != nil {
		return 0, os.ErrDeadlineExceeded
	}
	if err := c.send(c.stream.write(time.Now(), b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close resets the connection and frees the descriptors.
func (c *Conn) Close() error {
	c.stop()
	if c.stream.state != failed {
		_ = c.send([]segment{c.stream.reset()}) // the peer's own timers end it, too
	}
	unix.Close(c.held)
	return c.packets.Close()
}

// LocalAddr is the source of the packets.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr is the target.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }
