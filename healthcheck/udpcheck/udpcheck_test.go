package udpcheck_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/udpcheck"
)

// serve answers datagrams with what answer returns; nil is silence.
func serve(t *testing.T, answer func([]byte) []byte) netip.AddrPort {
	t.Helper()
	return checktest.ServePackets(t, checktest.AnyPort, func(b []byte) [][]byte {
		if out := answer(b); out != nil {
			return [][]byte{out}
		}
		return nil
	})
}

// closed is an address where nobody listens.
func closed(t *testing.T) netip.AddrPort {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func check(t *testing.T, cfg udpcheck.Config, limit time.Duration) healthcheck.Result {
	t.Helper()
	c, err := udpcheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return checktest.CleanAttempt(t, c, limit)
}

func any4(b ...byte) udpcheck.Pattern {
	return udpcheck.Pattern{Bytes: b, Mask: bytes.Repeat([]byte{0xff}, len(b))}
}

func TestResults(t *testing.T) {
	echo := checktest.Echo(t)
	empty := serve(t, func([]byte) []byte { return []byte{} })
	mute := serve(t, func([]byte) []byte { return nil })
	large := serve(t, func([]byte) []byte { return make([]byte, 60000) })
	refused := closed(t)
	want := func(p udpcheck.Pattern, least, most int, payload ...byte) udpcheck.Config {
		return udpcheck.Config{Payload: payload, Require: true, Min: least, Max: most, Reply: p}
	}
	tests := []struct {
		name   string
		to     netip.AddrPort
		cfg    udpcheck.Config
		ok     bool
		detail string
	}{
		{"refused", refused, udpcheck.Config{}, false, "connection refused (nobody listens on this port)"},
		{"refused, an answer wanted", refused, want(udpcheck.Pattern{}, 0, 255), false, "connection refused"},
		{"silence is no error", mute, udpcheck.Config{}, true, "no error within "},
		{"silence is no answer", mute, want(udpcheck.Pattern{}, 0, 255), false, "no answer within "},
		{"any answer", echo, udpcheck.Config{}, true, "16 bytes in answer"},
		{"an answer", echo, want(udpcheck.Pattern{}, 0, 255, 1, 2, 3), true, "3 bytes in answer as wanted"},
		{"the right one", echo, want(any4(1, 2), 0, 255, 1, 2, 3), true, "as wanted"},
		{"another", echo, want(any4(1, 3), 0, 255, 1, 2, 3), false, "byte 1 of it is 02, wanted 03"},
		{"bits that do not matter", echo, want(udpcheck.Pattern{Bytes: []byte{1, 0x12}, Mask: []byte{0xff, 0x0f}}, 0, 255, 1, 2, 3), true, "as wanted"},
		{"bits that do", echo, want(udpcheck.Pattern{Bytes: []byte{1, 0x12}, Mask: []byte{0xff, 0xf0}}, 0, 255, 1, 2, 3), false, "is 02, wanted 1X"},
		{"too short", echo, want(udpcheck.Pattern{}, 4, 255, 1, 2, 3), false, "3 bytes in answer, wanted 4 to 255"},
		{"too long", large, want(udpcheck.Pattern{}, 0, 255), false, "60000 bytes in answer, wanted 0 to 255"},
		{"large", large, want(udpcheck.Pattern{}, 0, 65535), true, "60000 bytes"},
		{"an empty answer is one", empty, want(any4(1), 0, 255), true, "0 bytes in answer"},
		{"an empty question", echo, want(udpcheck.Pattern{}, 0, 0, []byte{}...), true, ""},
	}
	tests[len(tests)-1].cfg.Payload = []byte{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Target = tt.to
			r := check(t, tt.cfg, 80*time.Millisecond)
			if r.OK != tt.ok || r.LocalFault || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("got %+v, want OK %v and %q", r, tt.ok, tt.detail)
			}
		})
	}
}

// TestMemory: checks that wait hold no room for the largest datagram, as all of those
// without require_reply wait for their whole time.
func TestMemory(t *testing.T) {
	mute := serve(t, func([]byte) []byte { return nil })
	c, err := udpcheck.New(udpcheck.Config{Target: mute, Require: true, Max: 65535, Reply: any4(1, 2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	const times, most = 50, 16 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		c.Check(ctx)
		cancel()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > most {
		t.Errorf("%d bytes each, at most %d are allowed", each, most)
	}
}

// TestUnreachable: errors that the network reports are failures. The silent twin
// on the same link passes.
func TestUnreachable(t *testing.T) {
	for _, kind := range []string{"unreachable", "prohibit", "blackhole"} {
		t.Run(kind, func(t *testing.T) {
			checktest.InNamespace(t, func() {
				checktest.IP(t, "link add br1 type bridge")
				checktest.IP(t, "addr add 10.9.0.11/24 dev br1")
				checktest.IP(t, "link set br1 up")
				checktest.IP(t, "route add "+kind+" 10.9.0.21")
				r := check(t, udpcheck.Config{Target: netip.MustParseAddrPort("10.9.0.21:53")}, time.Second)
				if r.OK || r.LocalFault {
					t.Errorf("%+v, want a failure", r)
				}
			})
		})
	}
}

func TestEnds(t *testing.T) {
	mute := serve(t, func([]byte) []byte { return nil })
	c, err := udpcheck.New(udpcheck.Config{Target: mute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(30*time.Millisecond, cancel)
	defer timer.Stop()
	start := time.Now()
	if r := c.Check(ctx); r.OK || time.Since(start) > time.Second {
		t.Errorf("cancelled: %+v after %v", r, time.Since(start))
	}
	if r := c.Check(ctx); r.OK {
		t.Errorf("passed although its context had ended: %+v", r)
	}
}

func TestNewRefuses(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:53")
	for name, cfg := range map[string]udpcheck.Config{
		"no target": {}, "no port": {Target: netip.MustParseAddrPort("127.0.0.1:0")},
		"mask": {Target: target, Reply: udpcheck.Pattern{Bytes: []byte{1}}}, "lengths": {Target: target, Require: true, Min: 2, Max: 1},
	} {
		if _, err := udpcheck.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	base := udpcheck.Config{Target: netip.MustParseAddrPort("10.0.0.1:53")}
	with := func(f func(*udpcheck.Config)) udpcheck.Config { c := base; f(&c); return c }
	seen := map[string]bool{}
	for _, c := range []udpcheck.Config{
		base,
		with(func(c *udpcheck.Config) { c.Target = netip.MustParseAddrPort("10.0.0.1:54") }),
		with(func(c *udpcheck.Config) { c.Source.Mark = 1 }),
		with(func(c *udpcheck.Config) { c.Payload = []byte{} }),
		with(func(c *udpcheck.Config) { c.Payload = []byte{1} }),
		with(func(c *udpcheck.Config) { c.Require = true }),
		with(func(c *udpcheck.Config) { c.Require, c.Max = true, 1 }),
		with(func(c *udpcheck.Config) { c.Require, c.Reply = true, any4(1) }),
		with(func(c *udpcheck.Config) {
			c.Require, c.Reply = true, udpcheck.Pattern{Bytes: []byte{1}, Mask: []byte{15}}
		}),
	} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
}

// FuzzMismatch: whatever the answer, the pattern is found in it exactly when
// every bit that matters is the same.
func FuzzMismatch(f *testing.F) {
	f.Add([]byte{1, 2}, []byte{255, 15}, []byte{1, 0x12, 3})
	f.Add([]byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, pattern, mask, data []byte) {
		n := min(len(pattern), len(mask))
		p := udpcheck.Pattern{Bytes: pattern[:n], Mask: mask[:n]}
		got := p.Mismatch(data)
		if got < -1 || got >= min(n, len(data)) {
			t.Fatalf("position %d of %d", got, len(data))
		}
		want := -1
		for i := min(n, len(data)) - 1; i >= 0; i-- {
			if data[i]&mask[i] != pattern[i]&mask[i] {
				want = i
			}
		}
		if got != want {
			t.Errorf("%x/%x in %x: %d, want %d", pattern, mask, data, got, want)
		}
	})
}
