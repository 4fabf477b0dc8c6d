package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logtest "go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// TestRefusedPacketsAreLoggedOnce: of a flood of damaged adverts one is told of,
// all are counted; another reason has its own line; what is usual is not logged.
func TestRefusedPacketsAreLoggedOnce(t *testing.T) {
	core, logs := logtest.New(zapcore.InfoLevel)
	d := dropCounters{log: zap.New(core)}
	key, src := socket.Key{Interface: "eth0"}, netip.MustParseAddr("10.9.0.50")
	for range 1000 {
		d.add(key, src, packet.DropChecksum)
		d.add(key, src, packet.DropUnknownVRID)
	}
	d.add(key, src, packet.DropTTL)
	lines := logs.All()
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2: %v", len(lines), lines)
	}
	for i, want := range []string{"10.9.0.50 dropped: its checksum is wrong", "10.9.0.50 dropped: its TTL is not 255"} {
		if !strings.Contains(lines[i].Message, want) || lines[i].ContextMap()["iface"] != "eth0" {
			t.Errorf("line %d is %q %v, want %q", i, lines[i].Message, lines[i].ContextMap(), want)
		}
	}
	counted := map[string]int64{}
	d.snapshot(counted)
	if counted["packets_dropped_checksum"] != 1000 || counted["packets_dropped_unknown_vrid"] != 1000 || counted["packets_dropped_ttl"] != 1 {
		t.Errorf("counted %v", counted)
	}
}

// TestExplainSend: what an own firewall does is said with its remedy.
func TestExplainSend(t *testing.T) {
	err := explainSend("eth0", socket.Group4, fmt.Errorf("sending: %w", unix.EPERM))
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "firewall") || !strings.Contains(err.Error(), "112 (vrrp) out on eth0") {
		t.Errorf("got %v", err)
	}
	if err := explainSend("eth0", socket.Group4, unix.ENETDOWN); !errors.Is(err, unix.ENETDOWN) || strings.Contains(err.Error(), "firewall") {
		t.Errorf("got %v", err)
	}
}

// runPoller has a poller wait until the test ends.
func runPoller(t *testing.T) *socket.Poller {
	t.Helper()
	p, err := socket.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = p.Wait(time.Time{}, 0)
		}
		done <- err
	}()
	t.Cleanup(func() {
		stop.Store(true)
		p.Wake()
		if err := errors.Join(<-done, p.Close()); err != nil {
			t.Errorf("the poller: %v", err)
		}
	})
	return p
}

// TestSocketsAreOpenedAside: Sync does not wait for a socket; how its opening went is
// told, and known to the next Sync. A socket that is not wanted any more is given up,
// opened or not.
func TestSocketsAreOpenedAside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1)
	s := newSender(ctx, runPoller(t), func(r *socket.Received) { r.Release() }, func() { changed <- struct{}{} }, zap.NewNop())
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	good := router.Endpoint{Instance: "good", Interface: "lo", Index: lo.Index, Group: socket.Group4, VRID: 51}
	bad := router.Endpoint{Instance: "bad", Interface: "eth99", Index: 9999, Group: socket.Group4, VRID: 51}
	want := func(e router.Endpoint, opened bool) {
		t.Helper()
		// The goroutine of the socket may have been quicker than we.
		if err := s.Sync([]router.Endpoint{e})[e.Instance]; !errors.Is(err, router.ErrOpening) && (err == nil) != opened {
			t.Errorf("%s: at first %v", e.Instance, err)
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: nothing is told", e.Instance)
		}
		if err := s.Sync([]router.Endpoint{e})[e.Instance]; (err == nil) != opened || errors.Is(err, router.ErrOpening) {
			t.Errorf("%s: then %v, want it opened: %v", e.Instance, err, opened)
		}
		a := packet.Advert{Version: 3, VRID: 51, Interval: time.Second, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.9")}}
		if err := s.SendAdvert(e.Instance, netip.MustParseAddr("127.0.0.1"), &a); (err == nil) != opened {
			t.Errorf("%s: sending says %v, want it opened: %v", e.Instance, err, opened)
		}
		if err := s.Listening(e.Instance); (err == nil) != opened {
			t.Errorf("%s: listening says %v, want it opened: %v", e.Instance, err, opened)
		}
	}
	want(good, true)
	want(bad, false)
	want(good, true) // it was closed meanwhile
	if len(s.links) != 1 {
		t.Errorf("%d sockets, want 1", len(s.links))
	}
	cancel()
	s.Wait()
}

// TestUnicastSender: each peer gets a copy, one that cannot be reached does not keep the
// others from theirs, and its error says what to look at.
func TestUnicastSender(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	arrived, changed := make(chan netip.Addr, 16), make(chan struct{}, 16)
	s := newSender(ctx, runPoller(t), func(r *socket.Received) {
		if r.Unicast {
			arrived <- r.Dst
		}
		r.Release()
	}, func() { changed <- struct{}{} }, zap.NewNop())
	defer func() { cancel(); s.Wait() }()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	addr := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	endpoint := func(local string, peers ...netip.Addr) router.Endpoint {
		return router.Endpoint{Instance: local, Interface: "lo", Index: lo.Index, Group: socket.Group4, VRID: 51,
			Local: addr(local), Peers: peers, TTL: 255}
	}
	a := endpoint("127.0.0.11", addr("0.0.0.1"), addr("127.0.0.12"), addr("127.0.0.13")) // 0.0.0.0/8 is no host's
	all := []router.Endpoint{a, endpoint("127.0.0.12", a.Local), endpoint("127.0.0.13", a.Local)}
	deadline := time.After(5 * time.Second)
	for len(s.Sync(all)) > 0 {
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the sockets are not opened: %v", s.Sync(all))
		}
	}
	if len(s.links) != 4 {
		t.Errorf("%d sockets, want three for unicast and one that watches multicast", len(s.links))
	}
	advert := packet.Advert{Version: 3, VRID: 51, Priority: 1, Interval: time.Second, Form: packet.FormPseudo, Addrs: []netip.Addr{addr("127.0.0.99")}}
	if err := s.SendAdvert(a.Instance, a.Local, &advert); err == nil || !strings.Contains(err.Error(), "0.0.0.1") {
		t.Errorf("sending to nobody: %v", err)
	}
	for _, want := range a.Peers[1:] {
		select {
		case got := <-arrived:
			if got != a.Peers[1] && got != a.Peers[2] {
				t.Errorf("one for %v", got)
			}
		case <-deadline:
			t.Fatalf("nothing arrives at %v", want)
		}
	}
	if got := explainSend("", addr("10.7.0.2"), fmt.Errorf("sending: %w", unix.ENETUNREACH)); !strings.Contains(got.Error(), `"ip route get 10.7.0.2"`) {
		t.Errorf("no route: %v", got)
	}
}
