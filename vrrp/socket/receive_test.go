package socket

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"vipd/vrrp/packet"
)

// TestReceive: the reference frames arrive with the values of their headers,
// as sent and, IPv4, padded as on a real wire.
func TestReceive(t *testing.T) {
	for _, file := range []string{"v2-3vips.txt", "v3-ipv4.txt", "v3-ipv4-nopseudo.txt", "v3-ipv6.txt"} {
		t.Run(file, func(t *testing.T) {
			v6 := strings.Contains(file, "ipv6")
			w := newWire(t, 2)
			wire, e := w.capture(t), w.serve(t, v6)
			frame := bytes.Clone(referenceFrames(t, file)[0].Data)
			wire.inject(t, frame)
			if !v6 {
				frame = append(frame, make([]byte, max(0, 60-len(frame)))...)
			}
			wire.inject(t, frame)
			eventually(t, "two adverts", func() bool { return len(e.all()) == 2 })
			for _, a := range e.all() {
				a.at = time.Time{}
				want := arrival{100, addr1, Group4, 255, vip4, w.name, false, time.Time{}}
				if v6 {
					want = arrival{100, link1, Group6, 255, vip6, w.name, true, time.Time{}}
				}
				if a != want {
					t.Errorf("got %+v, want %+v", a, want)
				}
			}
		})
	}
}

// TestReceiveRefuses: every bad frame that the socket can judge is counted for
// its reason and not delivered; the good one after it is.
func TestReceiveRefuses(t *testing.T) {
	w := newWire(t, 2)
	wire, e4, e6 := w.capture(t), w.serve(t, false), w.serve(t, true)
	good4 := referenceFrames(t, "v3-ipv4.txt")[0].Data
	good6 := referenceFrames(t, "v3-ipv6.txt")[0].Data
	for _, f := range referenceFrames(t, "bad.txt") {
		wire.inject(t, f.Data)
	}
	wire.inject(t, good4)
	wire.inject(t, good6)
	has := func(e *endpoint, want ...string) func() bool {
		return func() bool {
			for i, a := range e.all() {
				if i >= len(want) || want[i] != a.String() {
					return false
				}
			}
			return len(e.all()) == len(want)
		}
	}
	// Those that need the instance's configuration pass here: two of TTL 254,
	// three of version 2; then the good ones.
	eventually(t, "IPv4", has(e4, "100/254", "100/254", "100/255", "100/255", "100/255", "100/255"))
	eventually(t, "IPv6", has(e6, "100/254", "100/255"))
	for reason, want := range map[packet.DropReason][2]int{
		packet.DropChecksum: {2, 1},
		packet.DropVersion:  {2, 0},
		packet.DropType:     {1, 0},
		packet.DropShort:    {1, 0},
		packet.DropLength:   {4 + 1, 2},
		packet.DropSigned:   {6, 1},
		packet.DropCount:    {1, 0},
	} {
		if got := [2]int{e4.drops.count(reason), e6.drops.count(reason)}; got != want {
			t.Errorf("%v: counted %v (IPv4, IPv6), want %v", reason, got, want)
		}
	}
}

func (a arrival) String() string { return fmt.Sprintf("%d/%d", a.priority, a.ttl) }

// TestNotOurs: unicast, another group and our own multicast are not received.
func TestNotOurs(t *testing.T) {
	w := newWire(t, 2)
	wire, e := w.capture(t), w.serve(t, false)
	good := referenceFrames(t, "v3-ipv4.txt")[0].Data
	unicast := bytes.Clone(good)
	copy(unicast, mac(2))
	copy(unicast[30:34], addr2.AsSlice())
	unicast[24], unicast[25] = 0, 0
	binary.BigEndian.PutUint16(unicast[24:], ipChecksum(unicast[14:34]))
	wire.inject(t, unicast)
	must(t, e.Send(addr2, Group4, encode(t, 100, addr2, Group4)))
	wire.inject(t, good)
	eventually(t, "the good advert", func() bool { return len(e.all()) > 0 })
	if got := e.all(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func ipChecksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// TestMembership: the group is joined while the socket is open, also over a
// link that went down and up, and left by Close.
func TestMembership(t *testing.T) {
	w := newWire(t, 2)
	wire, e4, e6 := w.capture(t), w.serve(t, false), w.serve(t, true)
	joined := func() (in4, in6 bool) {
		w.near.do(t, func() error {
			igmp, err := os.ReadFile("/proc/thread-self/net/igmp")
			must(t, err)
			igmp6, err := os.ReadFile("/proc/thread-self/net/igmp6")
			must(t, err)
			in4 = bytes.Contains(igmp, []byte("120000E0"))
			in6 = bytes.Contains(igmp6, []byte("ff020000000000000000000000000012"))
			return nil
		})
		return in4, in6
	}
	if in4, in6 := joined(); !in4 || !in6 {
		t.Fatalf("joined: IPv4 %v, IPv6 %v", in4, in6)
	}
	l, err := w.near.nl.LinkByName(w.name)
	must(t, err)
	must(t, w.near.nl.LinkSetDown(l))
	must(t, w.near.nl.LinkSetUp(l))
	eventually(t, "adverts after the link was down", func() bool {
		wire.inject(t, referenceFrames(t, "v3-ipv4.txt")[0].Data)
		wire.inject(t, referenceFrames(t, "v3-ipv6.txt")[0].Data)
		return len(e4.all()) > 0 && len(e6.all()) > 0
	})
	must(t, e4.Close())
	must(t, e6.Close())
	if err := <-e4.done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Watch after Close: %v", err)
	}
	eventually(t, "the groups left", func() bool { in4, in6 := joined(); return !in4 && !in6 })
}

// TestInterfaceGone: Watch tells the owner, and a socket for the interface
// that was made again under the same name works.
func TestInterfaceGone(t *testing.T) {
	w := newWire(t, 2)
	e4, e6 := w.serve(t, false), w.serve(t, true)
	must(t, w.remove())
	for _, e := range []*endpoint{e4, e6} {
		select {
		case err := <-e.done:
			if !errors.Is(err, ErrInterfaceGone) {
				t.Errorf("%v: %v", e.key, err)
			}
		case <-time.After(3 * aliveInterval):
			t.Errorf("%v: Watch still runs", e.key)
		}
	}
	w.create(t)
	wire, again := w.capture(t), w.serve(t, false)
	wire.inject(t, referenceFrames(t, "v3-ipv4.txt")[0].Data)
	eventually(t, "an advert on the new interface", func() bool { return len(again.all()) == 1 })
}

// TestWatchStops: the end of ctx ends Watch at once, idle as it is.
func TestWatchStops(t *testing.T) {
	w := newWire(t, 2)
	c := w.open(t, false, (&drops{}).add)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Watch(ctx) }()
	time.Sleep(20 * time.Millisecond)
	start := time.Now()
	cancel()
	if err := <-done; err != nil || time.Since(start) > aliveInterval/2 {
		t.Errorf("returned %v after %v", err, time.Since(start))
	}
}
