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
	"vipd/healthcheck/internal/direct"
)

// dialVia connects to target by way of source.Via. The error is an *Error.
func dialVia(ctx context.Context, op string, start time.Time, target netip.AddrPort, source healthcheck.Source) (Stream, error) {
	op += " via " + source.Via.String()
	conn, err := direct.Dial(ctx, direct.Path{Target: target, Via: source.Via, Source: source.Bind, Interface: source.Interface})
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e := timeoutError(ctx, op, start)
		if errors.Is(e, context.DeadlineExceeded) {
			e.Hint = "does the server hold this address, on lo, and is it up?"
		}
		return nil, e
	}
	e := &Error{Op: op, Err: err}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Local, e.Hint = scarce(errno), hint(errno)
		switch errno {
		case unix.EPERM:
			e.Local, e.Hint = true, "check_path = \"vip\" needs CAP_NET_RAW and CAP_NET_ADMIN"
		case unix.EADDRNOTAVAIL:
			e.Hint = "the bindto address is not on this machine"
		case unix.EADDRINUSE:
			e.Local, e.Hint = true, "the bind_port is in use, or no port is free"
		}
	}
	return nil, e
}
