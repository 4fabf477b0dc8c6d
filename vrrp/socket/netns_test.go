package socket

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// netns is an unnamed network namespace of the test's own; it ends with its
// last socket and descriptor.
type netns struct {
	file *os.File
	nl   *netlink.Handle
}

// inThread runs f on a thread of its own, which ends with it, so that f may
// move it into a namespace.
func inThread(t testing.TB, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func newNetns(t testing.TB) *netns {
	t.Helper()
	ns := &netns{}
	inThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w (run the tests as root, or under: unshare -rn)", err)
		}
		var err error
		if ns.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		ns.nl, err = netlink.NewHandle()
		return err
	})
	t.Cleanup(func() {
		ns.nl.Close()
		ns.file.Close()
	})
	return ns
}

// do runs f inside the namespace.
func (ns *netns) do(t testing.TB, f func() error) {
	t.Helper()
	inThread(t, func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the namespace: %w", err)
		}
		return f()
	})
}

var vethSerial atomic.Uint32

// wire is a veth pair between two namespaces: near is where the socket under
// test is, far where its packets are captured and others are sent.
type wire struct {
	near, far       *netns
	name, farName   string
	index, farIndex int
	host            int // last number of the near end's addresses; the far end has the other of 1 and 2
}

// newWire makes a pair whose near end, as host 1, has the addresses of the
// sender of the reference frames: 02:00:00:00:00:01, 10.9.0.1/24, fe80::1. As
// host 2 it can receive them.
func newWire(t testing.TB, host int) *wire {
	t.Helper()
	w := &wire{near: newNetns(t), far: newNetns(t), host: host}
	serial := vethSerial.Add(1)
	w.name, w.farName = fmt.Sprintf("near%d", serial), fmt.Sprintf("far%d", serial)
	w.create(t)
	t.Cleanup(func() { w.remove() })
	return w
}

func (w *wire) create(t testing.TB) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = w.name, mac(w.host)
	must(t, w.near.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: w.farName, PeerHardwareAddr: mac(3 - w.host),
		PeerNamespace: netlink.NsFd(int(w.far.file.Fd())),
	}))
	w.index = setUp(t, w.near, w.name, w.host)
	w.farIndex = setUp(t, w.far, w.farName, 3-w.host)
	for range 200 { // carrier comes with the second end
		if l, err := w.near.nl.LinkByName(w.name); err == nil && l.Attrs().OperState == netlink.OperUp {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the veth pair does not come up")
}

func mac(host int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(host)} }

func (w *wire) remove() error {
	l, err := w.near.nl.LinkByName(w.name)
	if err != nil {
		return err
	}
	return w.near.nl.LinkDel(l)
}

func setUp(t testing.TB, ns *netns, name string, host int) (index int) {
	t.Helper()
	l, err := ns.nl.LinkByName(name)
	must(t, err)
	must(t, ns.nl.LinkSetIP6AddrGenMode(l, 1)) // no link-local address of the kernel's
	for _, s := range []string{fmt.Sprintf("10.9.0.%d/24", host), fmt.Sprintf("fe80::%d/64", host)} {
		addr, err := netlink.ParseAddr(s)
		must(t, err)
		addr.Flags = unix.IFA_F_NODAD
		must(t, ns.nl.AddrAdd(l, addr))
	}
	must(t, ns.nl.LinkSetUp(l))
	return l.Attrs().Index
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// capture is an AF_PACKET socket on the far end.
type capture struct {
	fd int
	to unix.SockaddrLinklayer
}

const etherTypeIPv4, etherTypeIPv6 = 0x0800, 0x86dd

func (w *wire) capture(t testing.TB) *capture {
	t.Helper()
	c := &capture{}
	w.far.do(t, func() error {
		all := uint16(unix.ETH_P_ALL)>>8 | uint16(unix.ETH_P_ALL&0xff)<<8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		c.fd = fd
		c.to = unix.SockaddrLinklayer{Protocol: all, Ifindex: w.farIndex}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &c.to)
	})
	t.Cleanup(func() { unix.Close(c.fd) })
	return c
}

// next returns the next VRRP frame, or nil if none comes within 100 ms.
func (c *capture) next(t testing.TB) []byte {
	t.Helper()
	buf := make([]byte, 9000)
	for range 1000 {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		if err == unix.EAGAIN {
			return nil
		}
		if err == unix.EINTR {
			continue
		}
		must(t, err)
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		switch b := buf[:n]; {
		case n < 34:
		case binary.BigEndian.Uint16(b[12:]) == etherTypeIPv4 && b[23] == 112,
			binary.BigEndian.Uint16(b[12:]) == etherTypeIPv6 && b[20] == 112:
			return append([]byte(nil), b...)
		}
	}
	t.Fatal("1,000 other frames and no advert")
	return nil
}

// inject sends a whole Ethernet frame from the far end.
func (c *capture) inject(t testing.TB, frame []byte) {
	t.Helper()
	must(t, unix.Sendto(c.fd, frame, 0, &c.to))
}
