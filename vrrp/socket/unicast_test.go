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

var (
	global1 = netip.MustParseAddr("2001:db8:9::1")
	global2 = netip.MustParseAddr("2001:db8:9::2")
)

// openUnicast opens a Conn on the near end for unicast to and from local.
func (w *wire) openUnicast(t testing.TB, local netip.Addr, onDrop OnDrop) *Conn {
	t.Helper()
	var c *Conn
	w.near.do(t, func() (err error) {
		c, err = Open(UnicastKey(w.name, w.index, local), onDrop)
		return err
	})
	t.Cleanup(func() { c.Close() })
	c.SetVRIDs([]uint8{51})
	return c
}

// neighbours makes the near end know the peers of the reference frames.
func (w *wire) neighbours(t testing.TB) {
	t.Helper()
	l, err := w.near.nl.LinkByName(w.name)
	must(t, err)
	addr, err := netlink.ParseAddr("2001:db8:9::" + string(rune('0'+w.host)) + "/64")
	must(t, err)
	addr.Flags = unix.IFA_F_NODAD
	must(t, w.near.nl.AddrAdd(l, addr))
	for host := 2; host <= 3; host++ {
		for _, prefix := range []string{"10.9.0.", "2001:db8:9::"} {
			must(t, w.near.nl.NeighSet(&netlink.Neigh{
				LinkIndex: w.index, State: netlink.NUD_PERMANENT, HardwareAddr: mac(host),
				IP: netip.MustParseAddr(prefix + string(rune('0'+host))).AsSlice(),
			}))
		}
	}
}

// TestSentUnicastFrames: what leaves is the captured frame, byte for byte: TTL, id
// (one an advert, not one a copy) and checksum of each copy.
func TestSentUnicastFrames(t *testing.T) {
	w := newWire(t, 1)
	w.neighbours(t)
	wire := w.capture(t)
	for file, ttl := range map[string]uint8{
		"v2-unicast.txt": 255, "v3-ipv4-unicast.txt": 255, "v3-ipv6-unicast.txt": 64, "v3-ipv6-unicast-ttl255.txt": 255,
	} {
		t.Run(file, func(t *testing.T) {
			frames := referenceFrames(t, file)
			src := netip.MustParseAddr(frames[0].Get("src"))
			conn := w.openUnicast(t, src, (&drops{}).add)
			for i, f := range frames {
				if i == 0 && src.Is4() {
					conn.ids[51] = packet.IPv4ID(binary.BigEndian.Uint16(f.Data[18:]) - 1)
				}
				copies := 0
				if strings.HasPrefix(f.Name, "peer2") {
					copies = 1
				}
				must(t, conn.SendCopy(src, netip.MustParseAddr(f.Get("dst")), ttl, copies, payload(f.Data)))
				if got := wire.next(t); got == nil || !bytes.Equal(withoutFlowLabel(got), withoutFlowLabel(f.Data)) {
					t.Errorf("%s: on the wire\n% x, captured\n% x", f.Name, got, f.Data)
				}
			}
		})
	}
}

// TestDeadPeersSilenceNobody: while the kernel asks for the addresses of peers that are
// dead, and holds their adverts, those to a living peer go out.
func TestDeadPeersSilenceNobody(t *testing.T) {
	for file, addrs := range map[string][]string{
		"v3-ipv4-unicast.txt": {"10.9.0.1", "10.9.0.2", "10.9.0.7", "10.9.0.8", "10.9.0.9"},
		"v3-ipv6-unicast.txt": {"2001:db8:9::1", "2001:db8:9::2", "2001:db8:9::7", "2001:db8:9::8", "2001:db8:9::9"},
	} {
		t.Run(file, func(t *testing.T) {
			w := newWire(t, 1)
			w.neighbours(t)
			wire, message := w.capture(t), payload(referenceFrames(t, file)[0].Data)
			var all []netip.Addr
			for _, a := range addrs {
				all = append(all, netip.MustParseAddr(a))
			}
			conn := w.openUnicast(t, all[0], (&drops{}).add)
			for i := range 500 {
				for _, dead := range all[2:] {
					must(t, conn.SendCopy(all[0], dead, packet.TTL, 0, message))
				}
				if err := conn.SendCopy(all[0], all[1], packet.TTL, 0, message); err != nil {
					t.Fatalf("advert %d to the living peer: %v", i, err)
				}
				if f := wire.next(t); f == nil || !bytes.Equal(f[:6], mac(2)) {
					t.Fatalf("advert %d to the living peer: on the wire is % x", i, f)
				}
			}
		})
	}
}

// TestReceiveUnicast: the copy for this host arrives, also with a low TTL; another
// host's, and multicast, do not.
func TestReceiveUnicast(t *testing.T) {
	for file, local := range map[string]netip.Addr{
		"v2-unicast.txt": addr2, "v3-ipv4-unicast.txt": addr2, "v3-ipv6-unicast.txt": global2,
	} {
		t.Run(file, func(t *testing.T) {
			w := newWire(t, 2)
			w.neighbours(t)
			wire, e := w.capture(t), w.served(t, func(onDrop OnDrop) *Conn { return w.openUnicast(t, local, onDrop) })
			multicast := "v3-ipv4.txt"
			if local.Is6() {
				multicast = "v3-ipv6.txt"
			}
			wire.inject(t, referenceFrames(t, multicast)[0].Data)
			frames := referenceFrames(t, file)
			other := bytes.Clone(frames[1].Data) // for host 3, but to our MAC
			copy(other, mac(2))
			wire.inject(t, other)
			wire.inject(t, frames[0].Data)
			eventually(t, "the advert", func() bool { return len(e.all()) > 0 })
			if got := e.all(); len(got) != 1 || got[0].dst != local || got[0].ttl != frames[0].Data[map[bool]int{false: 22, true: 21}[local.Is6()]] || got[0].iface != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestMulticastSocketSeesUnicast: what comes by unicast for one of its virtual routers
// is delivered, to be named; what is another socket's is left to that.
func TestMulticastSocketSeesUnicast(t *testing.T) {
	w := newWire(t, 2)
	wire, e := w.capture(t), w.serve(t, false)
	frame := referenceFrames(t, "v3-ipv4-unicast.txt")[0].Data
	wire.inject(t, frame)
	eventually(t, "the advert by unicast", func() bool { return len(e.all()) == 1 })
	e.SetVRIDs(nil)
	e.SetWatched([]uint8{51})
	wire.inject(t, frame)
	wire.inject(t, referenceFrames(t, "v3-ipv4.txt")[0].Data)
	eventually(t, "the advert by multicast", func() bool { return len(e.all()) == 2 })
	if got := e.all()[1].dst; got != Group4 {
		t.Errorf("got one to %v", got)
	}
	e.SetWatched(nil)
	wire.inject(t, frame)
	eventually(t, "the count", func() bool { return e.drops.count(packet.DropDestination) == 1 })
}

// TestUnicastWithoutTheAddress: the socket opens before its address is there, and
// sends from it when it is gone.
func TestUnicastWithoutTheAddress(t *testing.T) {
	w := newWire(t, 1)
	w.neighbours(t)
	wire := w.capture(t)
	for _, c := range [][2]string{{"10.9.0.99", "10.9.0.2"}, {"2001:db8:9::99", "2001:db8:9::2"}} {
		src, dst := netip.MustParseAddr(c[0]), netip.MustParseAddr(c[1])
		conn := w.openUnicast(t, src, (&drops{}).add)
		must(t, conn.SendCopy(src, dst, 255, 0, encode(t, 0, src, dst)))
		if got := wire.next(t); got == nil || !bytes.Contains(got, src.AsSlice()) {
			t.Errorf("%v: on the wire % x", src, got)
		}
	}
}

// TestUnicastNoRoute says so, and goes on when there is one.
func TestUnicastNoRoute(t *testing.T) {
	w := newWire(t, 1)
	conn := w.openUnicast(t, addr1, (&drops{}).add)
	far := netip.MustParseAddr("192.0.2.1")
	if err := conn.SendCopy(addr1, far, 255, 0, encode(t, 1, addr1, far)); !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("got %v", err)
	}
	must(t, conn.SendCopy(addr1, addr2, 255, 0, encode(t, 1, addr1, addr2)))
}

// TestUnicastLinkLocal: a link-local address is one of its interface.
func TestUnicastLinkLocal(t *testing.T) {
	w := newWire(t, 1)
	conn, link2 := w.openUnicast(t, link1, (&drops{}).add), netip.MustParseAddr("fe80::2")
	if conn.key.Index != w.index {
		t.Errorf("key %+v", conn.key)
	}
	wire := w.capture(t)
	eventually(t, "the advert, after neighbour discovery", func() bool {
		must(t, conn.SendCopy(link1, link2, 255, 0, encode(t, 1, link1, link2)))
		got := wire.next(t)
		return got != nil && bytes.Equal(got[38:54], link2.AsSlice())
	})
	for _, key := range []Key{
		{Local: link1, IPv6: true}, {Local: addr1, IPv6: true}, {Local: Group4}, {Local: addr1, Group: Group4}, {Local: addr1, Index: 3},
	} {
		if _, err := Open(key, nil); !errors.Is(err, ErrKey) {
			t.Errorf("%+v: %v", key, err)
		}
	}
}

// TestSendCopyDoesNotAllocate in either family.
func TestSendCopyDoesNotAllocate(t *testing.T) {
	w := newWire(t, 1)
	w.neighbours(t)
	for src, dst := range map[netip.Addr]netip.Addr{addr1: addr2, global1: global2} {
		c, message := w.openUnicast(t, src, (&drops{}).add), encode(t, 100, src, dst)
		if n := testing.AllocsPerRun(100, func() {
			if err := c.SendCopy(src, dst, 64, 0, message); err != nil {
				panic(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations a packet", src, n)
		}
	}
}
