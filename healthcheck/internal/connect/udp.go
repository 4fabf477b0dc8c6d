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

// DialUDP connects a UDP socket to target from source: it gets packets of the target
// alone, and ICMP errors. The error is always an *Error.
func DialUDP(ctx context.Context, target netip.AddrPort, source healthcheck.Source) (*Conn, error) {
	op := "connect " + target.String()
	if ctx.Err() != nil {
		return nil, timeoutError(ctx, op, time.Now())
	}
	s, err := open(op, target, source, unix.SOCK_DGRAM, unix.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(s.fd, s.to); err != nil {
		unix.Close(s.fd)
		return nil, connectError(op, err, s, source)
	}
	c := &Conn{file: os.NewFile(uintptr(s.fd), "udp"), local: source.Bind, remote: target}
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

// PacketError sorts an error of sending or receiving on a socket of DialUDP, as
// those of connecting over TCP are sorted.
func PacketError(op string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return &Error{Op: op, Err: err}
	}
	return &Error{Op: op, Err: errno, Local: scarce(errno), Hint: hint(errno)}
}
