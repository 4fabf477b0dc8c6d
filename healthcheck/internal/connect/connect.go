// Package connect makes the connections of the checks, over TCP and UDP: within the deadline
// of a context, from a chosen source address, closed without leaving anything
// behind, and with errors that tell trouble of this machine from trouble of
// the server or the way to it.
package connect

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Conn is a connected TCP socket whose reads and writes end with the context
// it was dialled with. It is a net.Conn.
//
// Close resets the connection (SO_LINGER 0): neither side keeps a TIME_WAIT
// entry, so checking often uses up neither ports nor memory.
type Conn struct {
	file          *os.File
	stop          func() bool // ends the watch on the context
	local, remote netip.AddrPort
}

// Stream is a connection over TCP, whoever makes its packets.
type Stream interface {
	net.Conn
	Shorten(t time.Time) // reads end at t, if that is earlier than the end of the context
}

// Dial connects to target from source. The error is always an *Error.
func Dial(ctx context.Context, target netip.AddrPort, source healthcheck.Source) (Stream, error) {
	start := time.Now()
	op := "connect " + target.String()
	if ctx.Err() != nil {
		return nil, timeoutError(ctx, op, start)
	}
	if source.Via.IsValid() {
		return dialVia(ctx, op, start, target, source)
	}
	s, err := open(op, target, source, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	err = connect(s.fd, s.to)
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(s.fd)
		return nil, connectError(op, err, s, source)
	}
	// From here on the file owns the descriptor.
	c := &Conn{file: os.NewFile(uintptr(s.fd), "tcp"), local: source.Bind, remote: target}
	if derr := c.watch(ctx); derr != nil {
		c.file.Close()
		return nil, &Error{Op: op, Err: derr, Local: true}
	}
	if err == unix.EINPROGRESS {
		if err := c.wait(); err != nil {
			// A busy machine may look only when the time is over.
			if os.IsTimeout(err) && ctx.Err() != context.Canceled && c.made() {
				return c, nil
			}
			c.Close()
			if os.IsTimeout(err) {
				return nil, timeoutError(ctx, op, start)
			}
			return nil, connectError(op, err, s, source)
		}
	}
	if c.loops() {
		c.Close()
		return nil, connectError(op, unix.ECONNREFUSED, s, source)
	}
	return c, nil
}

// socket is one that is not yet connected.
type socket struct {
	fd, family int
	to         unix.Sockaddr
}

// open makes a socket towards target with the options and the source that it is
// to have. The error is an *Error.
func open(op string, target netip.AddrPort, source healthcheck.Source, kind, protocol int) (socket, error) {
	to, family, err := sockaddr(target, source.Interface)
	if err != nil { // looking up an interface takes a descriptor
		return socket{}, &Error{Op: op, Err: err, Local: IsLocal(err), Hint: hint(cause(err))}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return socket{}, socketError(op, err)
	}
	if kind == unix.SOCK_STREAM {
		err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		if err != nil {
			err = &Error{Op: "setting SO_LINGER", Err: err, Local: true}
		}
	}
	if err == nil {
		err = route(fd, source)
	}
	if err == nil {
		err = bindTo(fd, family, kind, source)
	}
	if err != nil {
		unix.Close(fd)
		return socket{}, err
	}
	return socket{fd, family, to}, nil
}

// route sets what decides on the way that packets take.
func route(fd int, source healthcheck.Source) error {
	if source.Mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(source.Mark)); err != nil {
			return &Error{Op: fmt.Sprintf("setting the fwmark %d", source.Mark), Err: err, Local: true, Hint: "vipd needs CAP_NET_ADMIN for it"}
		}
	}
	if source.Interface == "" {
		return nil
	}
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, source.Interface); err != nil {
		return deviceError(source.Interface, err)
	}
	return nil
}

// bindTo sets the source address and port, if there are any.
func bindTo(fd, family, kind int, source healthcheck.Source) error {
	bind := source.Bind
	if !bind.Addr().IsValid() && bind.Port() == 0 {
		return nil
	}
	if !bind.Addr().IsValid() {
		any := netip.IPv4Unspecified()
		if family == unix.AF_INET6 {
			any = netip.IPv6Unspecified()
		}
		bind = netip.AddrPortFrom(any, bind.Port())
	}
	op := "bind " + bind.String()
	level, name := unix.SOL_SOCKET, unix.SO_REUSEADDR // a fixed port is used again at once
	if bind.Port() == 0 {
		op = "bind " + bind.Addr().String()
		level, name = unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT // the port is chosen by connect, per destination
	}
	if kind != unix.SOCK_RAW { // which has no ports, and IPv6 not the option
		if err := unix.SetsockoptInt(fd, level, name, 1); err != nil {
			return &Error{Op: op, Err: err, Local: true}
		}
	}
	sa, bindFamily, err := sockaddr(bind, source.Interface)
	if err != nil {
		return &Error{Op: op, Err: err, Local: IsLocal(err), Hint: hint(cause(err))}
	}
	if bindFamily != family {
		return &Error{Op: op, Err: unix.EAFNOSUPPORT, Hint: "bindto and the server differ in address family"}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return bindError(op, err)
	}
	return nil
}

// connect begins the connection; EINPROGRESS means that it goes on.
func connect(fd int, sa unix.Sockaddr) error {
	err := unix.Connect(fd, sa)
	if err == unix.EINTR {
		return unix.EINPROGRESS // the kernel goes on by itself
	}
	return err
}

// watch lets the end of ctx end all reads, writes and waits.
func (c *Conn) watch(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	if err := c.file.SetDeadline(deadline); err != nil {
		return fmt.Errorf("polling the socket: %w", err)
	}
	c.stop = context.AfterFunc(ctx, func() { _ = c.file.SetDeadline(time.Unix(1, 0)) })
	return nil
}

// wait waits for the outcome of connect. A connection that was made and then
// reset counts as made: the reset belongs to what comes after, and data that
// came before it can still be read. (In SYN_SENT a reset is ECONNREFUSED, so
// the two can be told apart. A second connect(2) would tell too, but it drops
// the received data.)
func (c *Conn) wait() error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Getpeername(int(fd)); err == nil {
			return true
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch errno := syscall.Errno(code); {
		case err != nil:
			result = err
		case errno == 0:
			return false
		case errno != unix.ECONNRESET && errno != unix.EPIPE:
			result = errno
		}
		return true
	})
	if err != nil {
		return err
	}
	return result
}

// made reports that the kernel has made the connection.
func (c *Conn) made() (ok bool) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		_, err := unix.Getpeername(int(fd))
		ok = err == nil
	})
	return ok && err == nil
}

// sockaddr converts an address for the kernel. A link-local one without a zone is
// on the interface.
func sockaddr(ap netip.AddrPort, iface string) (unix.Sockaddr, int, error) {
	addr := ap.Addr().Unmap()
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: addr.As4()}, unix.AF_INET, nil
	}
	if !addr.IsValid() {
		return nil, 0, unix.EDESTADDRREQ
	}
	sa := &unix.SockaddrInet6{Port: int(ap.Port()), Addr: addr.As16()}
	zone := addr.Zone()
	if zone == "" && addr.IsLinkLocalUnicast() {
		zone = iface
	}
	if zone != "" {
		index, err := strconv.Atoi(zone)
		if err != nil {
			iface, err := net.InterfaceByName(zone)
			if err != nil {
				return nil, 0, fmt.Errorf("looking up interface %s: %w", zone, err)
			}
			index = iface.Index
		}
		sa.ZoneId = uint32(index)
	}
	return sa, unix.AF_INET6, nil
}

// Shorten ends all reads and writes at the deadline, which must not be later than
// that of the context of Dial.
func (c *Conn) Shorten(deadline time.Time) { _ = c.file.SetDeadline(deadline) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.file.Read(b) }

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) { return c.file.Write(b) }

// Close resets the connection and frees the descriptor.
func (c *Conn) Close() error {
	if c.stop != nil {
		c.stop()
	}
	return c.file.Close()
}

// LocalAddr is the address that was asked for, not the one the kernel chose.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr is the target.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the context of Dial is the only deadline.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }
