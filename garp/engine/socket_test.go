package engine

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/garp"
)

// lab is a network namespace with a veth pair in it and a capture on one end.
type lab struct {
	handle  *netlink.Handle
	near    netlink.Link // sends
	capture int
	socket  *Socket
}

// newLab opens sockets in a namespace of its own. The namespace lives as long
// as they do; no thread stays in it.
func newLab(t *testing.T) *lab {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	must(t, err)
	defer home.Close()
	ns, err := netns.New()
	must(t, err)
	defer ns.Close()
	defer func() { must(t, netns.Set(home)) }()

	l := &lab{}
	l.handle, err = netlink.NewHandle()
	must(t, err)
	t.Cleanup(l.handle.Close)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = "near", mac[:]
	must(t, l.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far"}))
	l.near, err = l.handle.LinkByName("near")
	must(t, err)
	far, err := l.handle.LinkByName("far")
	must(t, err)
	must(t, l.handle.LinkSetUp(l.near))
	must(t, l.handle.LinkSetUp(far))
	l.waitUp(t, "near")
	l.waitUp(t, "far")

	l.capture, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(l.capture) })
	var all [2]byte
	binary.BigEndian.PutUint16(all[:], unix.ETH_P_ALL)
	must(t, unix.Bind(l.capture, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(all[:]), Ifindex: far.Attrs().Index}))
	must(t, unix.SetsockoptTimeval(l.capture, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))

	l.socket, err = OpenSocket()
	must(t, err)
	t.Cleanup(func() { must(t, l.socket.Close()) })
	return l
}

// waitUp waits until the link is running: before, the kernel drops what is
// sent on it without an error.
func (l *lab) waitUp(t *testing.T, name string) {
	t.Helper()
	for range 1000 {
		link, err := l.handle.LinkByName(name)
		must(t, err)
		if link.Attrs().OperState == netlink.OperUp && link.Attrs().RawFlags&unix.IFF_LOWER_UP != 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("link %s does not come up", name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, unix.EPERM) {
		t.Fatalf("%v: this test makes a network namespace; run it as root", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// read captures up to n announcements, in hex; what else the kernel says on
// a new link is skipped.
func (l *lab) read(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	buf := make([]byte, 2048)
	for end := time.Now().Add(2 * time.Second); len(out) < n && time.Now().Before(end); {
		size, _, err := unix.Recvfrom(l.capture, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		must(t, err)
		f := buf[:size]
		if arp := f[12] == 8 && f[13] == 6; arp || size > 54 && f[54] == 136 {
			out = append(out, hex.EncodeToString(f))
		}
	}
	return out
}

func captured(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + file)
	must(t, err)
	var out []string
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "frame "); ok {
			_, frame, _ := strings.Cut(rest, ":")
			out = append(out, strings.TrimSpace(frame))
		}
	}
	return out
}

// What arrives at the other end of a wire is, byte for byte, what keepalived
// sends there, in the same order.
func TestFramesOnTheWire(t *testing.T) {
	l := newLab(t)
	link := garp.Link{Name: "near", Index: l.near.Attrs().Index, MAC: mac, ARP: true, Up: true}
	timing := garp.Timing{MasterRepeat: 2}
	targets := func(name string, addrs ...string) (out []garp.Target) {
		for _, a := range addrs {
			out = append(out, garp.Target{Instance: name, Address: netip.MustParseAddr(a), Interface: "near"})
		}
		return out
	}
	all := map[string][]garp.Target{
		"V4": targets("V4", "10.9.0.10", "10.9.0.11"),
		"V6": targets("V6", "fe80::10", "2001:db8:9::10"),
	}
	e := start(t, l.socket, zap.NewNop(),
		garp.Instance{Name: "V4", Interface: "near", Timing: timing, Targets: all["V4"]},
		garp.Instance{Name: "V6", Interface: "near", Timing: timing, Targets: all["V6"]})
	e.LinkChanged(link)

	for _, c := range []struct {
		instance, file string
		router         bool
	}{
		{"V4", "garp-plain.txt", false},
		{"V6", "na-plain.txt", false},
		{"V6", "na-router.txt", true},
	} {
		link.Router = c.router
		e.LinkChanged(link)
		for _, tg := range all[c.instance] {
			e.Present(tg)
		}
		e.Announce(c.instance, garp.BurstMaster)
		want := captured(t, c.file)
		want = append(want, want...)
		got := l.read(t, len(want))
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: on the wire\n%s\nwant\n%s", c.file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		e.Stop(c.instance)
	}
}

func TestSocketErrors(t *testing.T) {
	l := newLab(t)
	frame, err := garp.NewBuilder().ARP(mac, netip.MustParseAddr("10.9.0.10"), garp.Request)
	must(t, err)
	index := l.near.Attrs().Index
	if err := l.socket.Send(index, frame); err != nil {
		t.Errorf("sending on a good link: %v", err)
	}
	if err := l.socket.Send(index, frame[:10]); !errors.Is(err, unix.EINVAL) {
		t.Errorf("sending half a header: %v, want EINVAL", err)
	}
	must(t, l.handle.LinkSetDown(l.near))
	if err := l.socket.Send(index, frame); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("sending on a link that is down: %v, want ENETDOWN", err)
	}
	must(t, l.handle.LinkDel(l.near))
	if err := l.socket.Send(index, frame); !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ENODEV) {
		t.Errorf("sending on a link that is gone: %v, want ENXIO or ENODEV", err)
	}
}

func TestSocketSendAllocatesNothing(t *testing.T) {
	l := newLab(t)
	frame, err := garp.NewBuilder().ARP(mac, netip.MustParseAddr("10.9.0.10"), garp.Request)
	must(t, err)
	n := testing.AllocsPerRun(500, func() {
		if err := l.socket.Send(l.near.Attrs().Index, frame); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a frame, want 0", n)
	}
}
