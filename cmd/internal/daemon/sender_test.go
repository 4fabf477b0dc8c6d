package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logtest "go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
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
	err := explainSend("eth0", fmt.Errorf("sending: %w", unix.EPERM))
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "firewall") || !strings.Contains(err.Error(), "112 (vrrp) out on eth0") {
		t.Errorf("got %v", err)
	}
	if err := explainSend("eth0", unix.ENETDOWN); !errors.Is(err, unix.ENETDOWN) || strings.Contains(err.Error(), "firewall") {
		t.Errorf("got %v", err)
	}
}
