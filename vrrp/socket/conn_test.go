package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

func withoutFlowLabel(frame []byte) []byte {
	b := bytes.Clone(frame)
	if binary.BigEndian.Uint16(b[12:]) == etherTypeIPv6 {
		b[15], b[16], b[17] = b[15]&0xf0, 0, 0
	}
	return b
}

// TestSentFrames: what leaves the interface is the captured frame, byte for
// byte with Ethernet and IP headers.
func TestSentFrames(t *testing.T) {
	files := []string{
		"v2-none.txt", "v2-pass.txt", "v2-3vips.txt", "v2-excluded.txt", "v2-owner.txt",
		"v3-ipv4.txt", "v3-ipv4-10ms.txt", "v3-ipv4-nopseudo.txt", "v3-owner.txt", "v3-ipv6.txt",
		"prio0-v2.txt", "prio0-v3-ipv4.txt", "prio0-v3-ipv6.txt",
	}
	w := newWire(t, 1)
	wire := w.capture(t)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			conn := w.open(t, strings.Contains(file, "ipv6"), (&drops{}).add)
			for i, f := range referenceFrames(t, file) {
				if i == 0 && !conn.key.IPv6 {
					conn.ids[51] = packet.IPv4ID(binary.BigEndian.Uint16(f.Data[18:]) - 1)
				}
				src, dst := netip.MustParseAddr(f.Get("src")), netip.MustParseAddr(f.Get("dst"))
				must(t, conn.Send(src, dst, payload(f.Data)))
				got, want := wire.next(t), f.Data
				if got == nil {
					t.Fatalf("%s: nothing on the wire", f.Name)
				}
				if !bytes.Equal(withoutFlowLabel(got), withoutFlowLabel(want)) {
					t.Errorf("%s: on the wire\n% x, captured\n% x", f.Name, got, want)
				}
			}
		})
	}
}

// TestFirstID: each virtual router counts for itself, from 1.
func TestFirstID(t *testing.T) {
	w := newWire(t, 1)
	wire, conn := w.capture(t), w.open(t, false, (&drops{}).add)
	message := encode(t, 100, addr1, Group4)
	other := append([]byte{message[0], 52}, message[2:]...)
	for i, m := range [][]byte{message, other, message} {
		must(t, conn.Send(addr1, Group4, m))
		if got, want := binary.BigEndian.Uint16(wire.next(t)[18:]), []uint16{1, 1, 2}[i]; got != want {
			t.Errorf("packet %d has id %d, want %d", i, got, want)
		}
	}
}

// TestSendWithoutTheAddress: a last advert from an address that is gone.
func TestSendWithoutTheAddress(t *testing.T) {
	w := newWire(t, 1)
	wire := w.capture(t)
	conn4, conn6 := w.open(t, false, (&drops{}).add), w.open(t, true, (&drops{}).add)
	l, err := w.near.nl.LinkByName(w.name)
	must(t, err)
	for _, s := range []string{"10.9.0.1/24", "fe80::1/64"} {
		addr, err := netlink.ParseAddr(s)
		must(t, err)
		must(t, w.near.nl.AddrDel(l, addr))
	}
	must(t, conn4.Send(addr1, Group4, encode(t, 0, addr1, Group4)))
	if got := wire.next(t); got == nil || !bytes.Equal(got[26:30], addr1.AsSlice()) {
		t.Errorf("IPv4: on the wire % x", got)
	}
	must(t, conn6.Send(link1, Group6, encode(t, 0, link1, Group6)))
	got := wire.next(t)
	if got == nil || !bytes.Equal(got[22:38], link1.AsSlice()) {
		t.Fatalf("IPv6: on the wire % x", got)
	}
	var a packet.Advert
	if reason := a.Decode(payload(got), link1, Group6); reason != packet.DropNone {
		t.Errorf("IPv6: refused: %v", reason)
	}
}

func TestSendErrors(t *testing.T) {
	w := newWire(t, 1)
	conn := w.open(t, false, (&drops{}).add)
	if err := conn.Send(link1, Group6, encode(t, 1, link1, Group6)); !errors.Is(err, packet.ErrFamily) {
		t.Errorf("IPv6 on an IPv4 socket: %v", err)
	}
	l, err := w.near.nl.LinkByName(w.name)
	must(t, err)
	must(t, w.near.nl.LinkSetDown(l))
	err = conn.Send(addr1, Group4, encode(t, 1, addr1, Group4))
	if !errors.Is(err, unix.ENETDOWN) && !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("interface down: %v", err)
	}
	must(t, w.near.nl.LinkSetUp(l))
	must(t, conn.Send(addr1, Group4, encode(t, 1, addr1, Group4)))
	must(t, w.remove())
	err = conn.Send(addr1, Group4, encode(t, 1, addr1, Group4))
	if !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENXIO) {
		t.Errorf("interface gone: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	for _, key := range []Key{
		{Interface: "x", Group: Group4},
		{Interface: "x", Index: 1, Group: addr1},
		{Interface: "x", Index: 1, Group: Group6},
		{Interface: "x", Index: 1, IPv6: true, Group: Group4},
	} {
		if _, err := Open(key, nil); !errors.Is(err, ErrKey) {
			t.Errorf("%+v: %v", key, err)
		}
	}
	ns := newNetns(t)
	ns.do(t, func() error {
		if _, err := Open(Key{Interface: "nope", Index: 999, Group: Group4}, nil); !errors.Is(err, unix.ENODEV) {
			t.Errorf("no such interface: %v", err)
		}
		return nil
	})
}

// TestSendDoesNotAllocate in either family.
func TestSendDoesNotAllocate(t *testing.T) {
	w := newWire(t, 1)
	for _, v6 := range []bool{false, true} {
		c, src, dst := w.open(t, v6, (&drops{}).add), addr1, Group4
		if v6 {
			src, dst = link1, Group6
		}
		message := encode(t, 100, src, dst)
		n := testing.AllocsPerRun(100, func() {
			if err := c.Send(src, dst, message); err != nil {
				panic(err)
			}
		})
		if n != 0 {
			t.Errorf("IPv6 %v: %v allocations a packet", v6, n)
		}
	}
}

func BenchmarkConn(b *testing.B) {
	w := newWire(b, 1)
	for _, v6 := range []bool{false, true} {
		src, dst := addr1, Group4
		if v6 {
			src, dst = link1, Group6
		}
		c, message := w.open(b, v6, (&drops{}).add), encode(b, 100, src, dst)
		b.Run(map[bool]string{false: "Send4", true: "Send6"}[v6], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, c.Send(src, dst, message))
			}
		})
	}
}
