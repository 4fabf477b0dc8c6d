package status

import (
	"strings"
	"testing"
	"time"
)

// TestConnectionsText: what keeps connections is told in words; without a sync daemon and IPVS nothing is.
func TestConnectionsText(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Status{
		IPVS: &IPVS{TimeoutTCP: 900, TimeoutTCPFin: 120, TimeoutUDP: 300, Connections: 7, Buckets: 4096},
		Sync: &ConnectionSync{
			Interface: "eth0", ID: 5, Group: "224.0.0.81", Port: 8848, Follows: "A", Dropped: 7, Roles: []string{"master", "backup"},
			Peers: []SyncPeer{{Address: "10.9.0.2", ID: 5, LastHeard: now.Add(-3 * time.Second), Messages: 2, Connections: 40}},
		},
	}
	text := func() string {
		var b strings.Builder
		s.writeConnections(&b, now)
		return b.String()
	}
	const want = `
IPVS forgets idle connections after tcp 900 s, tcpfin 120 s, udp 300 s; 7 connections in 4096 buckets
connection sync on eth0: master and backup, id 5, group 224.0.0.81 port 8848, as A; 7 messages dropped
  heard 3s ago from 10.9.0.2: id 5, 40 connections in 2 messages
`
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	s.Sync.Roles, s.Sync.Peers, s.Sync.Follows, s.Sync.Dropped, s.IPVS = nil, nil, "", 0, nil
	if got := text(); got != "connection sync on eth0: NOT RUNNING, id 5, group 224.0.0.81 port 8848\n" {
		t.Error(got)
	}
	s.Sync = nil
	if got := text(); got != "" {
		t.Error(got)
	}
}
