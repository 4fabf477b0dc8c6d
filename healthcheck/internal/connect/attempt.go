package connect

import (
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Attempt connects to one target from one source, again and again, for who waits for
// many connections at once. Its calls never wait, and most of them go past the
// scheduler: a system call that might wait wakes the runtime's monitor thread, which
// costs more than the call. It is for one attempt at a time.
type Attempt struct {
	op     string
	target netip.AddrPort
	source healthcheck.Source
	// The target for the kernel, where nothing but the target decides on the way.
	plain   bool
	family  int
	size    uintptr
	address unix.RawSockaddrInet6 // or a RawSockaddrInet4, which is shorter
}

// NewAttempt prepares connecting.
func NewAttempt(target netip.AddrPort, source healthcheck.Source) *Attempt {
	a := &Attempt{op: "connect " + target.String(), target: target, source: source}
	addr := target.Addr().Unmap()
	if source != (healthcheck.Source{}) || addr.Zone() != "" || addr.IsLinkLocalUnicast() {
		return a
	}
	port := target.Port()<<8 | target.Port()>>8
	a.plain = true
	if addr.Is4() {
		a.family, a.size = unix.AF_INET, unix.SizeofSockaddrInet4
		*(*unix.RawSockaddrInet4)(unsafe.Pointer(&a.address)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: addr.As4()}
		return a
	}
	a.family, a.size = unix.AF_INET6, unix.SizeofSockaddrInet6
	a.address = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: addr.As16()}
	return a
}

// Begin begins to connect. The descriptor becomes writable when that is decided; End
// closes it. The error is an *Error.
func (a *Attempt) Begin() (fd int, err error) {
	var s socket
	if a.plain {
		s, err = a.begin()
	} else {
		s, err = open(a.op, a.target, a.source, unix.SOCK_STREAM, unix.IPPROTO_TCP)
		if err != nil {
			return -1, err
		}
		err = connect(s.fd, s.to)
	}
	if err == nil || err == unix.EINPROGRESS {
		return s.fd, nil
	}
	if s.fd >= 0 {
		closeNow(s.fd)
	}
	if s.fd < 0 {
		return -1, socketError(a.op, err)
	}
	return -1, connectError(a.op, err, s, a.source)
}

// begin is Begin in two system calls. Without a descriptor there is no socket.
func (a *Attempt) begin() (socket, error) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(a.family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if errno != 0 {
		return socket{fd: -1}, errno
	}
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&a.address)), a.size)
	s := socket{fd: int(fd), family: a.family}
	switch errno {
	case 0:
		return s, nil
	case unix.EINPROGRESS, unix.EINTR: // after EINTR the kernel goes on by itself
		return s, unix.EINPROGRESS
	}
	s.to, _, _ = sockaddr(a.target, "") // cannot fail: there is no zone
	return s, errno
}

// End closes the descriptor and tells why there was no connection, nil when there was
// one. The error is an *Error. limit is the time that there was.
func (a *Attempt) End(fd int, why healthcheck.Reason, limit time.Duration) error {
	err := a.outcome(fd, why, limit)
	if err == nil {
		if itself(fd, a.target, a.source.Bind.Port()) {
			err = &Error{Op: a.op, Err: unix.ECONNREFUSED}
		}
		reset := unix.Linger{Onoff: 1}
		// Without it an entry in TIME_WAIT is left.
		_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&reset)), unsafe.Sizeof(reset), 0)
	}
	closeNow(fd)
	return err
}

// outcome is End without the end. A connection that was made and then reset counts as
// made, as in Conn.wait; a busy machine may look only when the time is over.
func (a *Attempt) outcome(fd int, why healthcheck.Reason, limit time.Duration) error {
	if why == healthcheck.Ready {
		return nil
	}
	if _, err := unix.Getpeername(fd); err == nil {
		return nil
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch errno := syscall.Errno(code); {
	case err != nil:
	case errno == unix.ECONNRESET, errno == unix.EPIPE:
		return nil
	case errno != 0:
		err = errno
	case why == healthcheck.Over:
		return &Error{Op: a.op, Err: &noAnswer{shown(limit)}}
	default:
		err = unix.ENOTCONN
	}
	to, family, _ := sockaddr(a.target, a.source.Interface)
	return connectError(a.op, err, socket{fd, family, to}, a.source)
}

// closeNow closes a descriptor of a socket that does not linger: it does not wait.
func closeNow(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }
