package tcpcheck_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/tcpcheck"
)

// TestTalk: what is sent, what is expected, and what servers do instead.
func TestTalk(t *testing.T) {
	says := func(text string) netip.AddrPort {
		return checktest.Serve(t, nil, func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
		})
	}
	echo := checktest.Serve(t, nil, func(c net.Conn) { _, _ = io.Copy(c, c) })
	ends := checktest.Serve(t, nil, func(c net.Conn) {
		_, _ = io.WriteString(c, "+PONG")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	early := checktest.Serve(t, nil, func(c net.Conn) {
		_, _ = io.WriteString(c, "+PONG")
		time.Sleep(20 * time.Millisecond)
		checktest.Reset(c)
	})
	drips := checktest.Serve(t, nil, func(c net.Conn) {
		for _, b := range []byte("* OK ready") {
			_, _ = c.Write([]byte{b})
			time.Sleep(2 * time.Millisecond)
		}
		_, _ = io.Copy(io.Discard, c)
	})
	for _, tt := range []struct {
		name, send, expect string
		to                 netip.AddrPort
		ok                 bool
		detail             string
	}{
		{"a banner", "", "^220 ", says("220 ready\r\n"), true, `which says "220 ready\r\n"`},
		{"another banner", "", "^220 ", says("554 no\r\n"), false, `says "554 no\r\n", which is not as expected, then: no more within 300ms`},
		{"silence", "", "^220 ", says(""), false, "but it says nothing: no more within 300ms"},
		{"the answer", "PING\r\n", "^PING", echo, true, `which says "PING\r\n"`},
		{"anything", "PING\r\n", "(?s).", echo, true, "which says"},
		{"sent alone", "PING\r\n", "", says(""), true, "sent 6 bytes"},
		{"closed after it", "PING\r\n", "PONG$", ends, true, "PONG"},
		{"closed before it", "PING\r\n", "PANG", ends, false, "then: the server closed the connection"},
		{"reset after it", "PING\r\n", "PONG", early, true, "PONG"},
		{"dripping", "", "ready$", drips, true, "* OK ready"},
		{"far behind", "", "needle", says(strings.Repeat("x", 15000) + "needle"), true, "xxx\"…"},
		{"too far behind", "", "needle", says(strings.Repeat("x", 17000) + "needle"), false, "nothing in its first 16384 bytes"},
		{"no text", "\x00\xff", "\\x00", echo, true, `"\x00\xff"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChecker(t, tcpcheck.Config{Target: tt.to, Send: tt.send, Expect: tt.expect})
			r := within(t, c, 300*time.Millisecond)
			if r.OK != tt.ok || r.LocalFault || !strings.Contains(r.Detail, tt.detail) || strings.ContainsAny(r.Detail, "\r\n") {
				t.Errorf("%+v, want OK %v, %q", r, tt.ok, tt.detail)
			}
		})
	}
	if _, err := tcpcheck.New(tcpcheck.Config{Target: echo, Expect: "("}); err == nil {
		t.Error("an expression that is none was accepted")
	}
}

// TestTalkDecidesAtOnce: the check decides as soon as it matches, also when the end of a long
// answer comes after a pause and the server then waits.
func TestTalkDecidesAtOnce(t *testing.T) {
	addr := checktest.Serve(t, nil, func(c net.Conn) {
		_, _ = io.WriteString(c, strings.Repeat("x", 8000))
		time.Sleep(20 * time.Millisecond)
		_, _ = io.WriteString(c, "ready")
		_, _ = io.Copy(io.Discard, c)
	})
	c := newChecker(t, tcpcheck.Config{Target: addr, Expect: "ready$"})
	if r := within(t, c, 3*time.Second); !r.OK || r.Latency > 2*time.Second {
		t.Errorf("%+v, want it at once", r)
	}
}

func within(t *testing.T, c healthcheck.Checker, limit time.Duration) healthcheck.Result {
	t.Helper()
	leaks := checktest.Leaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	r := c.Check(ctx)
	cancel()
	leaks()
	return r
}

func TestConformanceTalking(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, tcpcheck.Config{Target: addr, Send: "PING\r\n", Expect: "never said (by anybody)*$"})
	})
}
