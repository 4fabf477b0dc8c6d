package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck/checktest"
)

// The director, which has the virtual addresses itself when a test says so, and
// the real server, on one link.
var (
	director4, director6 = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("2001:db8:9::1")
	server4, server6     = netip.MustParseAddr("10.9.0.11"), netip.MustParseAddr("2001:db8:9::11")
	vip4, vip6           = netip.MustParseAddr("10.9.0.100"), netip.MustParseAddr("2001:db8:9::100")
)

// server is the real server: a thread in a namespace of its own that does what it
// is sent.
type server struct {
	tid  int
	work chan func()
	done sync.WaitGroup
	in   func(func()) // runs something on the server and waits for it
}

// newServer makes it and joins it to the namespace of the calling thread.
func newServer(t *testing.T) *server {
	s := &server{work: make(chan func())}
	ready := make(chan bool)
	s.done.Go(func() {
		runtime.LockOSThread() // never unlocked
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("making a network namespace: %v; run the tests as root", err)
		}
		s.tid = unix.Gettid()
		ready <- true
		for f := range s.work {
			f()
			ready <- true
		}
	})
	<-ready
	t.Cleanup(func() { close(s.work); s.done.Wait() })
	checktest.IP(t, fmt.Sprintf("link add eth0 type veth peer name eth0 netns %d", s.tid))
	side := func(addresses ...netip.Addr) {
		checktest.Sysctl(t, "net/ipv6/conf/eth0/accept_dad", "0")
		checktest.IP(t, "link set lo up")
		checktest.IP(t, "link set eth0 up")
		for _, a := range addresses {
			if a.Is4() {
				checktest.IP(t, fmt.Sprintf("addr add %v/24 dev eth0", a))
			} else {
				checktest.IP(t, fmt.Sprintf("addr add %v/64 dev eth0 nodad", a))
			}
		}
	}
	s.do(ready, func() { side(server4, server6) })
	side(director4, director6)
	s.in = func(f func()) { s.do(ready, f) }
	return s
}

// do runs f on the server.
func (s *server) do(ready chan bool, f func()) {
	s.work <- f
	<-ready
}

// hold gives an address to the loopback of the namespace of the calling thread.
func holdVIP(t *testing.T, a netip.Addr, verb string) {
	checktest.IP(t, fmt.Sprintf("addr %s %v/%d dev lo", verb, a, a.BitLen()))
}

// dial connects and says whether that took its whole time.
func dial(t *testing.T, target netip.AddrPort, via netip.Addr, limit time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return Dial(ctx, Path{Target: target, Via: via})
}

// TestThroughServer: a connection to the virtual address reaches the server that
// it is sent by, whether the director has the address too or not; it carries data
// both ways; and it fails when that server lacks the address, though its own
// address answers.
func TestThroughServer(t *testing.T) {
	for _, family := range []struct{ vip, server netip.Addr }{{vip4, server4}, {vip6, server6}} {
		for _, master := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v master %v", family.vip, master), func(t *testing.T) {
				checktest.InNamespace(t, func() {
					s := newServer(t)
					if master {
						holdVIP(t, family.vip, "add")
					}
					target := netip.AddrPortFrom(family.vip, 80)
					s.in(func() {
						holdVIP(t, family.vip, "add")
						s.echo(t, netip.AddrPortFrom(netip.IPv6Unspecified(), 80))
					})
					before := checktest.Sockets(t)
					talk(t, target, family.server)
					if _, err := dial(t, netip.AddrPortFrom(family.vip, 81), family.server, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("a closed port: %v", err)
					}
					s.in(func() { holdVIP(t, family.vip, "del") })
					if _, err := dial(t, target, family.server, 400*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("without the address: %v", err)
					}
					if c, err := dial(t, netip.AddrPortFrom(family.server, 80), family.server, time.Second); err != nil {
						t.Errorf("its own address: %v", err)
					} else {
						c.Close()
					}
					if after := checktest.Sockets(t); after != before {
						t.Errorf("sockets: %d before, %d after", before, after)
					}
				})
			})
		}
	}
}

// talk sends 200 kB and reads them back.
func talk(t *testing.T, target netip.AddrPort, via netip.Addr) {
	c, err := dial(t, target, via, 10*time.Second)
	if err != nil {
		t.Errorf("connecting: %v", err)
		return
	}
	defer c.Close()
	text := strings.Repeat("0123456789", 2000)
	for i := range 10 {
		if _, err := io.WriteString(c, text); err != nil {
			t.Errorf("sending: %v", err)
			return
		}
		b := make([]byte, len(text))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
			t.Errorf("round %d: %v, as sent: %v", i, err, string(b) == text)
			return
		}
	}
}

// echo listens until the test ends, on the thread of the server.
func (s *server) echo(t *testing.T, a netip.AddrPort) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

// TestNoWay: what leads to no server is told apart from one that does not answer.
func TestNoWay(t *testing.T) {
	checktest.InNamespace(t, func() {
		newServer(t)
		target := netip.AddrPortFrom(vip4, 80)
		for via, want := range map[string]string{
			"10.9.0.1": "is an address of this machine", "192.0.2.1": "network is unreachable", "10.9.0.77": "",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, err := Dial(ctx, Path{Target: target, Via: netip.MustParseAddr(via)})
			cancel()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("via %s: %v, want %q", via, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		defer timer.Stop()
		start := time.Now()
		if _, err := Dial(ctx, Path{Target: target, Via: server4}); err == nil || time.Since(start) > time.Second {
			t.Errorf("cancelled: %v after %v", err, time.Since(start))
		}
	})
}
