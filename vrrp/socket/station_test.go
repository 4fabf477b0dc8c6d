package socket

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"vipd/vrrp/packet"
)

func lanKey(v6 bool) Key {
	if v6 {
		return Key{Interface: "eth0", Index: 2, IPv6: true, Group: Group6}
	}
	return Key{Interface: "eth0", Index: 2, Group: Group4}
}

// encode returns the bytes of an advert of VRID 51.
func encode(t testing.TB, priority uint8, src, dst netip.Addr) []byte {
	t.Helper()
	a := packet.Advert{
		Version: packet.Version3, VRID: 51, Priority: priority, Interval: time.Second,
		Addrs: []netip.Addr{vip4}, Form: packet.FormPseudo,
	}
	if !src.Is4() {
		a.Addrs[0] = vip6
	}
	b, err := a.AppendTo(nil, src, dst)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drops counts refused packets by reason; safe from any goroutine.
type drops struct {
	mu sync.Mutex
	n  [packet.NumDropReasons]int
}

func (d *drops) add(_ Key, _ netip.Addr, reason packet.DropReason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n[reason]++
}

func (d *drops) count(reason packet.DropReason) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n[reason]
}

// arrival is a Received that was let go of.
type arrival struct {
	priority uint8
	src, dst netip.Addr
	ttl      uint8
	vip      netip.Addr
	iface    string
	v6       bool
	at       time.Time
}

// inbox collects what a Conn or Port delivers.
type inbox struct {
	mu  sync.Mutex
	got []arrival

	unproven []packet.DropReason // of each
}

func (in *inbox) deliver(r *Received) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = append(in.got, arrival{
		r.Advert.Priority, r.Src, r.Dst, r.TTL, r.Advert.Addrs[0], r.Interface, r.IPv6, r.At,
	})
	in.unproven = append(in.unproven, r.Advert.Unproven)
	r.Release()
}

func (in *inbox) proofs() []packet.DropReason {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.unproven)
}

func (in *inbox) all() []arrival {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

func (in *inbox) priorities() string {
	var p []uint8
	for _, a := range in.all() {
		p = append(p, a.priority)
	}
	return fmt.Sprint(p)
}

// station is a port that serves.
type station struct {
	*Port
	inbox
	drops drops
}

// attach opens a port and serves it until the test ends.
func attach(t *testing.T, l *LAN, host string, v6 bool) *station {
	t.Helper()
	s := &station{}
	s.Port = l.Open(host, lanKey(v6), s.drops.add)
	s.SetVRIDs([]uint8{51})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, s.deliver) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving %s: %v", host, err)
		}
	})
	return s
}

func send(t *testing.T, s *station, priority uint8) {
	t.Helper()
	src, dst := addr1, Group4
	if s.key.IPv6 {
		src, dst = link1, Group6
	}
	if err := s.Send(src, dst, encode(t, priority, src, dst)); err != nil {
		t.Fatal(err)
	}
}
