package pingcheck

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
)

func newChecker(t *testing.T, target string, source healthcheck.Source) *Checker {
	t.Helper()
	c, err := New(Config{Target: netip.MustParseAddr(target), Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLoopback: both families, with the kind of socket that the setting of the
// machine allows; vipd leaves the setting as it is.
func TestLoopback(t *testing.T) {
	for _, setting := range []struct {
		groups string
		raw    bool
	}{{"0 2147483647", false}, {"1 0", true}} {
		for _, target := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"} {
			t.Run(setting.groups+" "+target, func(t *testing.T) {
				checktest.InNamespace(t, func() {
					const path = "net/ipv4/ping_group_range"
					checktest.Sysctl(t, path, setting.groups)
					before := checktest.ReadSysctl(t, path)
					c := newChecker(t, target, healthcheck.Source{})
					for range 2 {
						if r := checktest.CleanAttempt(t, c, time.Second); !r.OK || !strings.Contains(r.Detail, "answered after") {
							t.Errorf("%+v", r)
						}
					}
					if got := c.raw.Load(); got != setting.raw {
						t.Errorf("raw socket: %v, want %v", got, setting.raw)
					}
					if now := checktest.ReadSysctl(t, path); now != before {
						t.Errorf("ping_group_range was %q and is %q", before, now)
					}
				})
			})
		}
	}
}

// TestFailures: what the network says is a failure of the server, with the kind
// of socket that is used.
func TestFailures(t *testing.T) {
	for _, groups := range []string{"0 2147483647", "1 0"} {
		for _, tt := range []struct {
			name, setup, detail string
			local               bool
		}{
			{"no route", "", "network is unreachable", false},
			{"unreachable", "route add unreachable 10.9.0.21", "no route to host", false},
			{"prohibit", "route add prohibit 10.9.0.21", "permission denied", false},
			{"nobody answers", "addr add 10.9.0.11/24 dev br1", "no answer within", false},
		} {
			t.Run(groups+" "+tt.name, func(t *testing.T) {
				checktest.InNamespace(t, func() {
					checktest.Sysctl(t, "net/ipv4/ping_group_range", groups)
					checktest.IP(t, "link add br1 type bridge")
					checktest.IP(t, "link set br1 up")
					if tt.setup != "" {
						checktest.IP(t, tt.setup)
					}
					r := checktest.CleanAttempt(t, newChecker(t, "10.9.0.21", healthcheck.Source{}), 150*time.Millisecond)
					if r.OK || r.LocalFault != tt.local || !strings.Contains(r.Detail, tt.detail) {
						t.Errorf("%+v, want %q", r, tt.detail)
					}
				})
			})
		}
	}
}

// TestSource: an address to come from, with each kind of socket.
func TestSource(t *testing.T) {
	for _, groups := range []string{"0 2147483647", "1 0"} {
		for bind, ok := range map[string]bool{"127.0.0.2": true, "192.0.2.1": false, "::1": true, "2001:db8::1": false} {
			t.Run(groups+" "+bind, func(t *testing.T) {
				checktest.InNamespace(t, func() {
					checktest.Sysctl(t, "net/ipv4/ping_group_range", groups)
					target, from := "127.0.0.1", netip.MustParseAddr(bind)
					if from.Is6() {
						target = "::1"
					}
					r := checktest.CleanAttempt(t, newChecker(t, target, healthcheck.Source{Bind: netip.AddrPortFrom(from, 0)}), time.Second)
					if r.OK != ok || r.LocalFault {
						t.Errorf("%+v, want OK %v", r, ok)
					}
				})
			})
		}
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := newChecker(t, "127.0.0.1", healthcheck.Source{}).Check(ctx); r.OK {
		t.Errorf("passed although its context had ended: %+v", r)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no target was accepted")
	}
	if a, b := (Config{Target: netip.MustParseAddr("10.0.0.1")}).Key(), (Config{Target: netip.MustParseAddr("10.0.0.2")}).Key(); a == b {
		t.Errorf("%q is the key of two checks", a)
	}
}

// TestChecksum is the example of RFC 1071 §3.
func TestChecksum(t *testing.T) {
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("%04x", got)
	}
}

// FuzzAnswers: only a packet with the token in an echo reply is an answer,
// whatever else comes in.
func FuzzAnswers(f *testing.F) {
	e := echo{token: [16]byte{1, 2, 3}}
	reply := e.request()
	reply[0] = echoReply4
	f.Add(reply, false, false)
	f.Add(append(append([]byte{0x45}, make([]byte, 19)...), reply...), false, true)
	f.Add([]byte{0x4f}, false, true)
	f.Add([]byte{echoReply6, 0, 0, 0, 0, 0, 0, 0}, true, false)
	f.Fuzz(func(t *testing.T, packet []byte, six, raw bool) {
		e := echo{six: six, raw: raw, token: [16]byte{1, 2, 3}}
		if e.answers(packet) && !bytes.HasSuffix(packet, e.token[:]) {
			t.Errorf("%x is taken for an answer", packet)
		}
	})
}

// TestAnswers: the twin of the fuzz target: the right packets are answers.
func TestAnswers(t *testing.T) {
	for _, six := range []bool{false, true} {
		e := echo{six: six, sequence: 2, token: [16]byte{9}}
		own := e.request()
		if e.answers(own) {
			t.Error("the request is taken for its answer")
		}
		own[0] = echoReply4
		if six {
			own[0] = echoReply6
		}
		if !e.answers(own) {
			t.Errorf("six %v: the answer %x is not known", six, own)
		}
		if e.raw = true; !six && !e.answers(append(append([]byte{0x46}, make([]byte, 23)...), own...)) {
			t.Error("the answer with an IPv4 header of 24 bytes is not known")
		}
	}
}
