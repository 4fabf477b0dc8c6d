package connect

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Datagram gives a connected socket of kind SOCK_DGRAM or SOCK_RAW whose reads and
// writes end with ctx. An error that the network reports (ICMP) is the error of the
// next read or write, once; Refusal gives it. The error is always an *Error.
func Datagram(ctx context.Context, op string, target netip.AddrPort, source healthcheck.Source, kind, protocol int) (*Conn, error) {
	if ctx.Err() != nil {
		return nil, timeoutError(ctx, op, time.Now())
	}
	s, err := open(op, target, source, kind, protocol)
	if err != nil {
		return nil, err
	}
	level, option := unix.SOL_IP, unix.IP_RECVERR
	if s.family == unix.AF_INET6 {
		level, option = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	// Without it only a closed port is reported, not a host or a net that is away.
	if err := unix.SetsockoptInt(s.fd, level, option, 1); err != nil {
		unix.Close(s.fd)
		return nil, &Error{Op: op, Err: err, Local: true}
	}
	if err := unix.Connect(s.fd, s.to); err != nil {
		unix.Close(s.fd)
		return nil, connectError(op, err, s, source)
	}
	c := &Conn{file: os.NewFile(uintptr(s.fd), "datagram"), local: source.Bind, remote: target}
	if err := c.watch(ctx); err != nil {
		c.file.Close()
		return nil, &Error{Op: op, Err: err, Local: true}
	}
	if c.loops() {
		c.Close()
		return nil, connectError(op, unix.ECONNREFUSED, s, source)
	}
	return c, nil
}

// UDP is Datagram for a UDP socket: it gets packets of the target alone.
func UDP(ctx context.Context, op string, target netip.AddrPort, source healthcheck.Source) (*Conn, error) {
	return Datagram(ctx, op, target, source, unix.SOCK_DGRAM, unix.IPPROTO_UDP)
}

// Control calls f with the descriptor.
func (c *Conn) Control(f func(fd int) error) error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Receive reads one datagram: its beginning into b, and its length, which may be more
// than b has room for.
func (c *Conn) Receive(b []byte) (length int, err error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var inner error
	err = raw.Read(func(fd uintptr) bool {
		for {
			length, _, inner = unix.Recvfrom(int(fd), b, unix.MSG_TRUNC)
			if inner != unix.EINTR {
				return inner != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = inner
	}
	return length, err
}

// Refusal turns an error of reading or writing into one for the operator, with
// the machine at fault told apart.
func Refusal(op string, err error) *Error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &Error{Op: op, Err: errno, Local: scarce(errno), Hint: hint(errno)}
	}
	return &Error{Op: op, Err: err}
}

// Timeout is the error for the end of ctx while an answer was waited for since start.
func Timeout(ctx context.Context, op string, start time.Time) *Error {
	return timeoutError(ctx, op, start)
}

// WaitUntil lets reads end at t, which must not be after the deadline of ctx, the
// context that the connection was made with.
func (c *Conn) WaitUntil(ctx context.Context, t time.Time) error {
	if err := c.file.SetReadDeadline(t); err != nil {
		return err
	}
	if ctx.Err() != nil { // its end may have been overwritten
		return c.file.SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}
