package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
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

// TestSocketsAreOpenedAside: Sync does not wait for a socket; how its opening went is
// told, and known to the next Sync. A socket that is not wanted any more is given up,
// opened or not.
func TestSocketsAreOpenedAside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1)
	s := newSender(ctx, func(r *socket.Received) { r.Release() }, func() { changed <- struct{}{} }, zap.NewNop())
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	good := router.Endpoint{Instance: "good", Interface: "lo", Index: lo.Index, Group: socket.Group4, VRID: 51}
	bad := router.Endpoint{Instance: "bad", Interface: "eth99", Index: 9999, Group: socket.Group4, VRID: 51}
	want := func(e router.Endpoint, opened bool) {
		t.Helper()
		if err := s.Sync([]router.Endpoint{e})[e.Instance]; !errors.Is(err, router.ErrOpening) {
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
