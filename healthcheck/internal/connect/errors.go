package connect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Error is why there is no connection.
type Error struct {
	Op    string // "connect 10.0.0.21:80", "bind 10.0.0.9"
	Err   error
	Hint  string // what it means or what to do; may be empty
	Local bool   // this machine lacks something; it says nothing about the server
}

// Error gives one line for the operator.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsLocal says whether err comes from a lack of resources on this machine.
func IsLocal(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Local
	}
	return scarce(cause(err))
}

// cause is the error of the kernel in err, 0 when there is none.
func cause(err error) syscall.Errno {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}

// IsRefused says whether err is the answer of the server's machine that nobody
// serves there.
func IsRefused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }

// scarce says whether errno means that this machine ran out of something.
func scarce(errno error) bool {
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EAGAIN:
		return true
	}
	return false
}

func hint(err error) string {
	switch err {
	case unix.EMFILE:
		return "raise LimitNOFILE of the vipd service"
	case unix.ENFILE:
		return "raise the sysctl fs.file-max"
	case unix.ENOBUFS, unix.ENOMEM:
		return "this machine is out of memory for sockets"
	case unix.EAGAIN:
		return "no free local port; widen the sysctl net.ipv4.ip_local_port_range"
	case unix.EACCES:
		return "a prohibit route on this machine?"
	case unix.EPERM:
		return "dropped by this machine's firewall?"
	case unix.EINVAL:
		return "a blackhole route on this machine?"
	}
	return ""
}

func socketError(op string, err error) *Error {
	e := &Error{Op: op, Err: err, Local: scarce(err), Hint: hint(err)}
	if err == unix.EAFNOSUPPORT {
		e.Hint = "this address family is switched off in the kernel"
	}
	return e
}

// deviceError: an interface that is not there is a broken way to the server and
// counts as a failure; a lack of rights says nothing about it.
func deviceError(iface string, err error) *Error {
	e := &Error{Op: "bind to interface " + iface, Err: err, Local: scarce(err), Hint: hint(err)}
	switch err {
	case unix.ENODEV:
		e.Hint = "the bind_if interface is not on this machine"
	case unix.EPERM:
		e.Local, e.Hint = true, "vipd needs CAP_NET_RAW for it"
	}
	return e
}

// bindError: a source address that is not there is a broken way to the server
// and counts as a failure; a port that is taken or not permitted says nothing
// about it.
func bindError(op string, err error) *Error {
	e := &Error{Op: op, Err: err, Local: scarce(err), Hint: hint(err)}
	switch err {
	case unix.EADDRNOTAVAIL:
		e.Hint = "the bindto address is not on this machine"
	case unix.EADDRINUSE:
		e.Local, e.Hint = true, "the bind_port is in use"
	case unix.EACCES, unix.EPERM:
		e.Local, e.Hint = true, "not permitted to use this bind_port"
	case unix.EINVAL:
		e.Hint = "bindto cannot be used as a source address"
	}
	return e
}

// connectError sorts the errors of connect(2). Those of routes and of the
// server are failures, a lack of resources is not.
func connectError(op string, err error, s socket, source healthcheck.Source) *Error {
	e := &Error{Op: op, Err: err, Local: scarce(err), Hint: hint(err)}
	switch {
	case err == unix.EADDRINUSE:
		e.Local, e.Hint = true, "the bind_port is in use"
	case err == unix.EADDRNOTAVAIL:
		why := probe(s, source)
		if why == unix.EADDRNOTAVAIL || why != nil && !scarce(why) {
			e.Hint = "this machine has no source address for it"
			break
		}
		e.Local, e.Hint = true, hint(unix.EAGAIN)
		if port := source.Bind.Port(); port != 0 {
			e.Hint = fmt.Sprintf("the last connection from bind_port %d still exists", port)
		}
	}
	return e
}

// probe finds out what EADDRNOTAVAIL of a TCP connect meant: no source address
// or no free port. Connecting a UDP socket does the same choice of route and
// address, sends nothing, and has its own ports.
func probe(s socket, source healthcheck.Source) error {
	fd, err := unix.Socket(s.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := route(fd, source); err != nil {
		return err
	}
	if source.Bind.Addr().IsValid() {
		from, _, err := sockaddr(netip.AddrPortFrom(source.Bind.Addr(), 0), source.Interface)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, from); err != nil {
			return err
		}
	}
	return unix.Connect(fd, s.to)
}

// timeoutError is the error for an end of ctx.
func timeoutError(ctx context.Context, op string, start time.Time) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Op: op, Err: context.Canceled}
	}
	return &Error{Op: op, Err: &noAnswer{Within(ctx, start)}}
}

// noAnswer is a timeout in words.
type noAnswer struct{ after string }

func (e *noAnswer) Error() string { return "no answer within " + e.after }

// Is makes the error a context.DeadlineExceeded.
func (e *noAnswer) Is(target error) bool { return target == context.DeadlineExceeded }

// Within is the time from start to the deadline of ctx, rounded for reading.
func Within(ctx context.Context, start time.Time) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return "the time given"
	}
	return shown(max(deadline.Sub(start), 0))
}

// shown is a time, rounded for reading.
func shown(d time.Duration) string {
	if d > 100*time.Millisecond {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
