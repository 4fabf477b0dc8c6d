package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// listener is a served Conn of Listen.
type listener struct {
	endpoint

	mu   sync.Mutex
	sent []string // "PRIORITY SOURCE"
}

func (w *wire) listen(t *testing.T, v6 bool) *listener {
	t.Helper()
	e := &listener{endpoint: endpoint{done: make(chan error, 1)}}
	w.near.do(t, func() (err error) {
		e.Conn, err = Listen(w.key(v6), e.drops.add, func(key Key, a *packet.Advert, src, _ netip.Addr, refused packet.DropReason) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.sent = append(e.sent, fmt.Sprint(a.Priority, " ", src, " ", refused))
		})
		return err
	})
	e.SetVRIDs([]uint8{51})
	t.Cleanup(func() { e.Close() })
	(&e.endpoint).serve(t)
	return e
}

func (e *listener) outgoing() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.sent)
}

// memberships are the groups that the near end has joined.
func (w *wire) memberships(t *testing.T) string {
	var all []byte
	w.near.do(t, func() error {
		for _, name := range []string{"igmp", "igmp6"} {
			b, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				return err
			}
			if name == "igmp" { // without the running timers
				b = bytes.ReplaceAll(b, []byte(" "), nil)
			}
			all = append(all, b...)
		}
		return nil
	})
	return string(all)
}

// TestListen: beside the program that is responsible a listener hears what others send, with
// the values of the headers, and what that program sends; bad packets are counted.
// It joins nothing and can send nothing, and hears on when the other has ended.
func TestListen(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprintf("ipv6=%v", v6), func(t *testing.T) {
			w := newWire(t, 2)
			wire := w.capture(t)
			file, other, mine, group, vip := "v3-ipv4.txt", addr1, netip.MustParseAddr("10.9.0.2"), Group4, vip4
			if v6 {
				file, other, mine, group, vip = "v3-ipv6.txt", link1, netip.MustParseAddr("fe80::2"), Group6, vip6
			}
			before := w.memberships(t)
			e := w.listen(t, v6)
			if after := w.memberships(t); after != before {
				t.Errorf("memberships changed from\n%s\nto\n%s", before, after)
			}
			frame := bytes.Clone(referenceFrames(t, file)[0].Data)
			wire.inject(t, frame)
			eventually(t, "an advert although nobody here has joined the group", func() bool { return len(e.all()) == 1 })
			got := e.all()[0]
			got.at = time.Time{}
			if want := (arrival{100, other, group, 255, vip, w.name, v6, time.Time{}}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}

			program := w.open(t, v6, (&drops{}).add)
			must(t, program.Send(mine, group, encode(t, 123, mine, group)))
			eventually(t, "the advert of the program beside", func() bool { return e.outgoing() == fmt.Sprintf("[123 %v %v]", mine, packet.DropNone) })
			spoilt := encode(t, 124, mine, group)
			spoilt[len(spoilt)-1] ^= 1
			must(t, program.Send(mine, group, spoilt))
			eventually(t, "and one that would be refused", func() bool {
				return strings.HasSuffix(e.outgoing(), fmt.Sprintf(" 124 %v %v]", mine, packet.DropChecksum))
			})
			for i := range 2 {
				if wire.next(t) == nil {
					t.Errorf("advert %d of the program is not on the wire", i)
				}
			}
			if err := e.Send(mine, group, encode(t, 9, mine, group)); !errors.Is(err, ErrListens) {
				t.Errorf("a listener sends: %v", err)
			}
			if f := wire.next(t); f != nil {
				t.Errorf("something was sent: % x", f)
			}

			bad := bytes.Clone(frame)
			bad[len(bad)-1] ^= 1
			wire.inject(t, bad)
			eventually(t, "the wrong checksum is counted", func() bool { return e.drops.count(packet.DropChecksum) == 1 })
			strange := bytes.Clone(frame)
			copy(strange, []byte{2, 0, 0, 0, 0, 0x77}) // to another host
			wire.inject(t, strange)
			tagged := append(bytes.Clone(frame[:12]), 0x81, 0, 0, 7)
			wire.inject(t, append(tagged, frame[12:]...)) // of a VLAN
			must(t, program.Close())
			wire.inject(t, frame)
			eventually(t, "the good one after them", func() bool { return len(e.all()) >= 2 })
			if all := e.all(); len(all) != 2 || len(e.sent) != 2 {
				t.Errorf("received %v, sent %v", all, e.outgoing())
			}
		})
	}
}

// TestListenAndTheLink: a link that goes down and comes up again is still heard; the end
// of the interface is told.
func TestListenAndTheLink(t *testing.T) {
	w := newWire(t, 2)
	wire, e := w.capture(t), w.listen(t, false)
	l, err := w.near.nl.LinkByName(w.name)
	must(t, err)
	must(t, w.near.nl.LinkSetDown(l))
	time.Sleep(50 * time.Millisecond)
	must(t, w.near.nl.LinkSetUp(l))
	eventually(t, "an advert after the link was down", func() bool {
		wire.inject(t, referenceFrames(t, "v3-ipv4.txt")[0].Data)
		return len(e.all()) > 0
	})
	must(t, w.remove())
	select {
	case err := <-e.done:
		if !errors.Is(err, ErrInterfaceGone) {
			t.Error(err)
		}
	case <-time.After(3 * aliveInterval):
		t.Error("Serve still runs")
	}
}

// TestListenIsSilent: opening and closing a listener puts nothing on the wire; its twin, a
// socket that joins, does.
func TestListenIsSilent(t *testing.T) {
	w := newWire(t, 2)
	wire := w.capture(t)
	reports := func(v6 bool) (n int) { // of IGMP and MLD, for the groups of VRRP
		buf := make([]byte, 2000)
		for range 1000 {
			k, from, err := unix.Recvfrom(wire.fd, buf, 0)
			if err == unix.EAGAIN {
				return n
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); err != nil || ok && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			b := buf[:k]
			four := binary.BigEndian.Uint16(b[12:]) == etherTypeIPv4 && bytes.Contains(b, Group4.AsSlice())
			six := binary.BigEndian.Uint16(b[12:]) == etherTypeIPv6 && bytes.Contains(b[54:], Group6.AsSlice())
			if four && !v6 || six && v6 {
				n++
			}
		}
		return n
	}
	for _, v6 := range []bool{false, true} {
		reports(v6)
		e := w.listen(t, v6)
		time.Sleep(time.Second) // reports are sent with a delay
		must(t, e.Close())
		if n := reports(v6); n != 0 {
			t.Errorf("ipv6=%v: %d frames to or about the group", v6, n)
		}
		c := w.open(t, v6, (&drops{}).add)
		time.Sleep(time.Second)
		must(t, c.Close())
		if n := reports(v6); n == 0 {
			t.Errorf("ipv6=%v: a socket that joins sends no report: the test sees nothing", v6)
		}
	}
}

// TestListenErrors: what no listener can be opened for.
func TestListenErrors(t *testing.T) {
	w := newWire(t, 2)
	for _, key := range []Key{{}, UnicastKey(w.name, w.index, addr2), {Interface: "eth0", Index: 2, Group: Group6}} {
		if c, err := Listen(key, (&drops{}).add, nil); !errors.Is(err, ErrKey) {
			t.Errorf("%v: %v", key, err)
			if c != nil {
				c.Close()
			}
		}
	}
	gone := w.key(false)
	gone.Index += 1000
	w.near.do(t, func() error {
		if c, err := Listen(gone, (&drops{}).add, nil); err == nil {
			c.Close()
			t.Error("a listener on an interface that does not exist")
		}
		return nil
	})
}
