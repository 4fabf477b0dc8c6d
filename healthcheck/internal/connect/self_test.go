package connect

import (
	"context"
	"errors"
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

// TestItself: a socket whose source is the port that it connects to meets itself when
// nobody listens there, and the kernel calls that a connection. The twin, with another
// source to a listener, connects.
func TestItself(t *testing.T) {
	tcp := func(ctx context.Context, to netip.AddrPort, from healthcheck.Source) error {
		c, err := Dial(ctx, to, from)
		if err == nil {
			c.Close()
		}
		return err
	}
	udp := func(ctx context.Context, to netip.AddrPort, from healthcheck.Source) error {
		c, err := UDP(ctx, "ask", to, from)
		if err == nil {
			c.Close()
		}
		return err
	}
	attempt := func(_ context.Context, to netip.AddrPort, from healthcheck.Source) error {
		a := NewAttempt(to, from)
		fd, err := a.Begin()
		if err != nil {
			return err
		}
		return a.End(fd, healthcheck.Ready, time.Second) // as it is on the loopback
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		heard := l.Addr().(*net.TCPAddr).AddrPort()
		other, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		free := other.Addr().(*net.TCPAddr).AddrPort()
		other.Close()
		defer l.Close()
		for name, dial := range map[string]func(context.Context, netip.AddrPort, healthcheck.Source) error{"tcp": tcp, "udp": udp, "attempt": attempt} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			check := checktest.Leaks(t)
			if err := dial(ctx, free, healthcheck.Source{Bind: free}); !errors.Is(err, unix.ECONNREFUSED) || IsLocal(err) {
				t.Errorf("%s to itself at %v: %v, want a refusal", name, free, err)
			}
			if err := dial(ctx, heard, healthcheck.Source{Bind: free}); err != nil {
				t.Errorf("%s to %v: %v", name, heard, err)
			}
			cancel()
			check()
		}
	}
}

// TestInterfaceWithoutDescriptor: to look up an interface takes a descriptor; when there
// is none, that says nothing about the server. The twin, with descriptors, does.
func TestInterfaceWithoutDescriptor(t *testing.T) {
	target := netip.MustParseAddrPort("[fe80::1]:80")
	dial := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Dial(ctx, target, healthcheck.Source{Interface: "none"})
		return err
	}
	if err := dial(); err == nil || IsLocal(err) {
		t.Errorf("an interface that is not there: %v", err)
	}
	var err error
	exhausted(t, func() { err = dial() })
	if !IsLocal(err) || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("without a descriptor: %v, want this machine's trouble", err)
	}
}

// exhausted runs do while no descriptor is free.
func exhausted(t *testing.T, do func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	lowest := uint64(f.Fd()) // the first that would be free
	f.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: lowest, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	do()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
}
