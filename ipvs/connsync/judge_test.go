package connsync

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

var (
	other = netip.MustParseAddr("10.9.0.2")
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TestJudge: what the kernel does not say is found out, and a healthy network is not spoken of.
func TestJudge(t *testing.T) {
	want := ipvs.Daemon{Interface: "eth0", ID: 5}.Normal()
	now := begin.Add(time.Minute)
	peer := func(id uint8, ago time.Duration, hello bool) []Peer {
		p := Peer{Address: other, ID: id, Last: now.Add(-ago), Messages: 1}
		if hello {
			p.Hello = p.Last
		}
		return []Peer{p}
	}
	for _, c := range []struct {
		name string
		h    hearing
		want string // "": nothing
	}{
		{"all is well", hearing{expected: true, peers: peer(5, time.Second, true)}, ""},
		{"nobody is expected", hearing{}, ""},
		{"just begun", hearing{expected: true, since: now.Add(-silentAfter)}, ""},
		{"silent from the start", hearing{expected: true}, "nothing is heard from it on eth0, group 224.0.0.81 port 8848"},
		{"silent since", hearing{expected: true, peers: peer(5, silentAfter, true)}, "nothing is heard from it"},
		{"a kernel alone may be silent", hearing{expected: true, peers: peer(5, time.Hour, false)}, ""},
		{"another id", hearing{expected: true, peers: peer(6, time.Second, true)}, "10.9.0.2 sends sync id 6, this director has 5: neither takes the other's connections"},
		{"id 0 there", hearing{peers: peer(0, time.Second, true)}, "this one does not take its connections"},
		{"another pair on the network", hearing{peers: append(peer(6, time.Second, true), peer(5, 20*time.Second, true)...)}, ""},
		{"another pair alone", hearing{peers: append(peer(6, time.Second, true), peer(5, rememberFor, true)...)}, "sends sync id 6"},
		{"another id long ago", hearing{peers: peer(6, 2*rememberFor, true)}, ""},
		{"no route", hearing{sendErr: fmt.Errorf("sending: %w", unix.ENETUNREACH)}, "ip route add 224.0.0.0/4 dev eth0"},
		{"refused", hearing{sendErr: unix.EPERM}, "operation not permitted"},
		{"not open", hearing{openErr: errors.New("there is no interface eth0"), expected: true}, "cannot be listened to on eth0: there is no interface"},
		{"heard on both ports", hearing{ports: 2, peers: onPorts(now, 0, time.Second)}, ""},
		{"heard on one port of two", hearing{ports: 2, peers: onPorts(now, 0)}, "10.9.0.2 is heard on group 224.0.0.81, but not on port 8849 of it"},
		{"not any more on the first", hearing{ports: 2, peers: onPorts(now, silentAfter, 0)}, "not on port 8848 of it"},
		{"heard on one port of two, just begun", hearing{ports: 2, peers: onPorts(now, 0), since: now.Add(-silentAfter)}, ""},
		{"on no port any more", hearing{ports: 2, peers: onPorts(now, silentAfter, silentAfter)}, ""},
		{"drops", hearing{drops: 7, dropped: now.Add(-HelloPeriod)}, "drops messages of other directors"},
		{"drops long ago", hearing{drops: 7, dropped: begin}, ""},
	} {
		h := c.h
		h.want = want
		if h.since.IsZero() {
			h.since = begin
		}
		got := judge(now, h)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := mismatch(0, 3); got != "it does not take the connections of this one" {
		t.Error(got)
	}
}

// TestNote: peers are counted, and no flood of addresses fills the memory.
func TestNote(t *testing.T) {
	var peers []Peer
	for i := range 2 * peersMost {
		a := netip.AddrFrom4([4]byte{10, 9, 1, byte(i)})
		peers = note(peers, begin.Add(time.Duration(i)*time.Second), 0, a, ipvs.SyncMessage{ID: 1, Connections: 2})
	}
	if len(peers) != peersMost || peers[len(peers)-1].Address != netip.AddrFrom4([4]byte{10, 9, 1, 2*peersMost - 1}) {
		t.Errorf("%d peers, the last %v", len(peers), peers[len(peers)-1])
	}
	last := peers[len(peers)-1].Address
	peers = note(peers, begin.Add(time.Hour), 0, last, ipvs.SyncMessage{ID: 2})
	p := peers[len(peers)-1]
	if p.Messages != 1 || p.Connections != 2 || p.ID != 2 || p.Hello != begin.Add(time.Hour) {
		t.Errorf("%+v", p)
	}
}

// onPorts is a director whose hellos came so long ago on ports in a row.
func onPorts(now time.Time, ago ...time.Duration) (peers []Peer) {
	for i, d := range ago {
		peers = note(peers, now.Add(-d), i, other, ipvs.SyncMessage{ID: 5})
	}
	return peers
}

// TestSocketDrops reads a file of the kernel: those of the group but for our own socket.
func TestSocketDrops(t *testing.T) {
	const text = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  525: 510000E0:2290 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 146 2 0000000035eb691f 12
  526: 510000E0:2290 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 147 2 0000000035eb691f 99
  527: 00000000:2290 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 148 2 0000000035eb691f 50
`
	if n := socketDrops(text, netip.MustParseAddrPort("224.0.0.81:8848"), 147); n != 12 {
		t.Errorf("%d drops, want 12", n)
	}
	if n := socketDrops(text, netip.MustParseAddrPort("224.0.0.82:8848"), 0); n != 0 {
		t.Errorf("%d drops of a group that is not there", n)
	}
}

// FuzzSocketDrops: no text makes it fail.
func FuzzSocketDrops(f *testing.F) {
	f.Add("1: 510000E0:2290 0:0 07 0:0 0:0 0 0 0 146 2 0 12")
	f.Fuzz(func(t *testing.T, text string) {
		if n := socketDrops(text, netip.MustParseAddrPort("224.0.0.81:8848"), 0); n > 0 && !strings.Contains(strings.ToUpper(text), "510000E0:2290") {
			t.Errorf("%d drops in %q", n, text)
		}
	})
}
