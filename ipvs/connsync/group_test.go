package connsync

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

func sh(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// wire joins v0 and v1, which take each other's packets although both are of this machine.
func wire(t *testing.T) {
	t.Helper()
	sh(t, `ip link add v0 type veth peer name v1
for d in v0 v1; do echo 0 >/proc/sys/net/ipv4/conf/$d/rp_filter; echo 1 >/proc/sys/net/ipv4/conf/$d/accept_local; ip link set $d up; done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip addr add 10.77.0.1/24 dev v0; ip addr add 10.77.1.1/24 dev v1
ip addr add fe80::77/64 dev v0 nodad; ip addr add fe80::78/64 dev v1 nodad`)
	t.Cleanup(func() { sh(t, "ip link del v0") })
}

// TestDrops: messages count that a socket beside has no room for, as the kernel's own; when that socket is made anew,
// and its count with it, those count that come after.
func TestDrops(t *testing.T) {
	wire(t)
	d := ipvs.Daemon{Interface: "v1", ID: 7}.Normal()
	mouth := ipvs.Daemon{Interface: "v0", ID: 7}.Normal()
	beside := func() *net.UDPConn {
		t.Helper()
		c, _, err := listenTo(d, linkIndex("v1"))
		if err == nil {
			err = c.SetReadBuffer(1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	flood := func() {
		t.Helper()
		fd, err := connectTo(mouth, linkIndex("v0"))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		for range 100 {
			if err := unix.Send(fd, make([]byte, 1000), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	kernel := beside()
	flood() // before the port is opened
	p, err := Group{}.Open(d, func(netip.Addr, ipvs.SyncMessage) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n := p.Drops(); n != 0 {
		t.Errorf("%d dropped at the beginning", n)
	}
	flood()
	first := p.Drops()
	if first == 0 || first > 100 {
		t.Errorf("%d of 100 dropped", first)
	}
	kernel.Close()
	kernel = beside()
	defer kernel.Close()
	if n := p.Drops(); n != first {
		t.Errorf("%d dropped, want %d as before: nothing came", n, first)
	}
	flood()
	if n := p.Drops(); n <= first || n > first+100 {
		t.Errorf("%d dropped, want some more than %d", n, first)
	}
}

// TestGroup: a hello goes by the interface to whoever listens there, in both families, not to its sender; an interface
// that is down is an error of the hello, as it is one of the kernel's messages.
func TestGroup(t *testing.T) {
	wire(t)
	for _, group := range []string{"224.0.0.81", "239.1.2.3", "ff02::81"} {
		d := ipvs.Daemon{ID: 7, Group: netip.MustParseAddr(group)}.Normal()
		heard := make(chan netip.Addr, 64)
		open := func(name string) Port {
			d.Interface = name
			p, err := Group{}.Open(d, func(from netip.Addr, m ipvs.SyncMessage) {
				if m == (ipvs.SyncMessage{ID: 7, Version: 1}) && len(heard) < cap(heard) {
					heard <- from
				}
			})
			if err != nil {
				t.Fatalf("%s on %s: %v", group, name, err)
			}
			return p
		}
		ear, mouth := open("v1"), open("v0")
		deadline := time.Now().Add(5 * time.Second)
		for got := false; !got; { // an IPv6 interface takes a moment
			if err := mouth.Hello(7); err != nil && time.Now().After(deadline) {
				t.Fatalf("%s: %v", group, err)
			}
			select {
			case from := <-heard:
				if got = true; !strings.HasPrefix(from.String(), "10.77.0.1") && from.Is4() {
					t.Errorf("%s: from %v", group, from)
				}
			case <-time.After(100 * time.Millisecond):
				if time.Now().After(deadline) {
					t.Fatalf("%s: nobody heard the hello", group)
				}
			}
		}
		if n := ear.Drops(); n != 0 {
			t.Errorf("%s: %d drops", group, n)
		}
		if err := errors.Join(ear.Close(), mouth.Close()); err != nil {
			t.Error(err)
		}
	}
	d := ipvs.Daemon{Interface: "v0"}
	if err := (Group{}).Reachable(d); err != nil {
		t.Error(err)
	}
	sh(t, "ip link set v0 down")
	if err := (Group{}).Reachable(d); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("an interface that is down: %v", err)
	}
	if _, err := (Group{}).Open(ipvs.Daemon{Interface: "none"}.Normal(), nil); err == nil {
		t.Error("an interface that is not there was opened")
	}
}
