package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
)

func dial(t *testing.T, target netip.AddrPort) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	c, err := Dial(ctx, target, healthcheck.Source{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*Conn)
}

// TestMadeAndReset: when the peer has answered and reset before the check
// looks, the connection counts as made and the answer can be read.
func TestMadeAndReset(t *testing.T) {
	dialled := make(chan struct{})
	c := dial(t, checktest.Serve(t, nil, func(peer net.Conn) {
		<-dialled
		_, _ = io.WriteString(peer, "hello")
		checktest.Reset(peer)
	}))
	close(dialled)
	raw, err := c.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for reset := false; !reset; time.Sleep(time.Millisecond) {
		if err := raw.Control(func(fd uintptr) {
			_, err := unix.Getpeername(int(fd))
			reset = err == unix.ENOTCONN
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.wait(); err != nil {
		t.Errorf("waiting for a connection that was made and reset: %v", err)
	}
	if got, err := io.ReadAll(c); string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestContextEndsIO: reads and writes end with the context of Dial, by cancel
// and by deadline, and Close releases the watch on it.
func TestContextEndsIO(t *testing.T) {
	mute := checktest.Serve(t, nil, func(c net.Conn) { time.Sleep(300 * time.Millisecond) })
	for _, end := range []string{"cancel", "deadline"} {
		t.Run(end, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if end == "deadline" {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			c, err := Dial(ctx, mute, healthcheck.Source{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if end == "cancel" {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read: %v", err)
			}
			block := make([]byte, 1<<20)
			for err = nil; err == nil; {
				_, err = c.Write(block)
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write: %v", err)
			}
		})
	}
}

// TestLocalTrouble: which errors blame this machine, at which step.
func TestLocalTrouble(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:9")
	sa, family, err := sockaddr(target, "")
	if err != nil {
		t.Fatal(err)
	}
	atSocket := func(err error) *Error { return socketError("connect", err) }
	atBind := func(err error) *Error { return bindError("bind", err) }
	atConnect := func(err error) *Error {
		return connectError("connect", err, socket{family: family, to: sa}, healthcheck.Source{})
	}
	tests := []struct {
		step  func(error) *Error
		local []error
		not   []error
	}{
		{atSocket, []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM}, []error{unix.EAFNOSUPPORT}},
		{atBind, []error{unix.EADDRINUSE, unix.EACCES, unix.EPERM, unix.ENOMEM}, []error{unix.EADDRNOTAVAIL, unix.EINVAL}},
		{atConnect, []error{unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EADDRINUSE, unix.EADDRNOTAVAIL},
			[]error{unix.ECONNREFUSED, unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EPERM, unix.EINVAL, unix.ENETDOWN}},
	}
	for _, tt := range tests {
		for _, errno := range tt.local {
			if e := tt.step(errno); !IsLocal(e) || e.Hint == "" || !errors.Is(e, errno) {
				t.Errorf("%v: local %v, %v", errno, e.Local, e)
			}
		}
		for _, errno := range tt.not {
			if e := tt.step(errno); IsLocal(e) {
				t.Errorf("%v blames this machine: %v", errno, e)
			}
		}
	}
	if IsLocal(errors.New("other")) || !IsLocal(unix.ENOBUFS) || IsLocal(unix.ECONNRESET) {
		t.Error("plain errors are sorted wrongly")
	}
}

// TestNoSourceAddress: the same EADDRNOTAVAIL, when this machine has no source
// address for the target, is the way to the server and not a lack of ports.
func TestNoSourceAddress(t *testing.T) {
	target, gone := netip.MustParseAddrPort("127.0.0.1:9"), netip.MustParseAddrPort("192.0.2.1:0")
	sa, family, err := sockaddr(target, "")
	if err != nil {
		t.Fatal(err)
	}
	e := connectError("connect", unix.EADDRNOTAVAIL, socket{family: family, to: sa}, healthcheck.Source{Bind: gone})
	if e.Local || !strings.Contains(e.Hint, "no source address") {
		t.Errorf("got %+v", e)
	}
}

func TestZones(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"lo", "1"} {
		sa, _, err := sockaddr(netip.MustParseAddrPort("[fe80::1%"+zone+"]:80"), "")
		if err != nil || sa.(*unix.SockaddrInet6).ZoneId != uint32(lo.Index) {
			t.Errorf("zone %s: %+v, %v", zone, sa, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Dial(ctx, netip.MustParseAddrPort("[fe80::1%none]:80"), healthcheck.Source{}); err == nil || IsLocal(err) || !strings.Contains(err.Error(), "looking up interface none") {
		t.Errorf("an interface that does not exist: %v", err)
	}
}

// TestMadeButSeenLate: whether a connection was made is asked of the kernel, as
// the answer may have come while nobody looked; the twin gets no answer.
func TestMadeButSeenLate(t *testing.T) {
	c := dial(t, checktest.Serve(t, nil, func(net.Conn) { time.Sleep(time.Second) }))
	if err := c.file.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(); !os.IsTimeout(err) {
		t.Errorf("waiting after the deadline: %v, want a timeout", err)
	}
	if !c.made() {
		t.Error("the connection counts as not made")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := &Conn{file: os.NewFile(uintptr(fd), "tcp")}
	defer other.Close()
	if other.made() {
		t.Error("a socket without a connection counts as made")
	}
}
