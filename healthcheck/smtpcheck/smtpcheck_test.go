package smtpcheck_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/smtpcheck"
)

func newChecker(t testing.TB, cfg smtpcheck.Config) *smtpcheck.Checker {
	t.Helper()
	c, err := smtpcheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check makes one attempt with a deadline of 500 ms.
func check(t testing.TB, cfg smtpcheck.Config) healthcheck.Result {
	t.Helper()
	return checktest.Attempt(t, newChecker(t, cfg), 500*time.Millisecond)
}

func TestConformance(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, smtpcheck.Config{Target: addr})
	})
}

// TestConformanceAfterGreeting: the servers go wrong only when they were greeted.
func TestConformanceAfterGreeting(t *testing.T) {
	checktest.ConformanceAfter(t, "220 mail\r\n", func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, smtpcheck.Config{Target: addr})
	})
}

// talk is a server that says each of the lines when it has heard one, the first at
// once, and then waits until the client goes.
func talk(lines ...string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for i, line := range lines {
			if i > 0 {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
			_, _ = io.WriteString(c, line)
		}
		_, _ = io.Copy(io.Discard, in)
	}
}

func TestResults(t *testing.T) {
	many := strings.Repeat("220-x\r\n", 100) + "220 x\r\n"
	tests := []struct {
		name  string
		serve func(net.Conn)
		ok    bool
		want  string
	}{
		{"good", talk("220 mail.example.com ESMTP\r\n", "250 hello\r\n", "221 bye\r\n"), true, "220 mail.example.com ESMTP; HELO answered 250"},
		{"several lines", talk("220-mail\r\n220-rules\r\n220 go on\r\n", "250-one\r\n250-two\r\n250 three\r\n", "221 bye\r\n"), true, "220 mail; HELO answered 250"},
		{"bare line feeds, no text", talk("220\n", "250\n", "221\n"), true, "220; HELO answered 250"},
		{"resets at QUIT", resets, true, "220 a; HELO answered 250"},
		{"HELO is answered before it comes", func(c net.Conn) { _, _ = io.WriteString(c, "220 a\r\n250 b\r\n"); _, _ = io.Copy(io.Discard, c) }, true, "220 a; HELO answered 250"},
		{"does not want us", talk("554 no\r\n"), false, `the server greets with "554 no", wanted 220`},
		{"has too much to do", talk("421 later\r\n"), false, `the server greets with "421 later", wanted 220`},
		{"refuses the name", talk("220 a\r\n", "501 who\r\n"), false, `HELO me.example answered "501 who", wanted 250`},
		{"two codes in one reply", talk("220 a\r\n", "250-b\r\n251 c\r\n"), false, "answer to HELO: one reply has the codes 250 and 251"},
		{"mute", talk(), false, "greeting: no complete reply within 500ms"},
		{"mute after HELO", talk("220 a\r\n"), false, "answer to HELO: no complete reply within 500ms"},
		{"stops in a reply", talk("220-a\r\n"), false, "greeting: no complete reply within 500ms"},
		{"closes at once", func(net.Conn) {}, false, "greeting: the server closed the connection"},
		{"closes after the greeting", func(c net.Conn) { _, _ = io.WriteString(c, "220 a\r\n"); _, _ = c.Read(make([]byte, 100)) }, false, "answer to HELO: the server closed the connection"},
		{"not SMTP", talk("HTTP/1.1 400 Bad Request\r\n"), false, `greeting: no SMTP reply: it begins with "HTTP/1.1 400 Bad Request"`},
		{"a long line", talk("220 " + strings.Repeat("x", 5000) + "\r\n"), false, "greeting: a line of the reply is longer than 4096 bytes"},
		{"many lines", talk(many), false, "greeting: the reply has more than 100 lines"},
		{"control characters", talk("220 a\x1b[2J\r\n", "250 b\r\n"), true, "220 a.[2J; HELO answered 250"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := check(t, smtpcheck.Config{Target: checktest.Serve(t, nil, tt.serve), Helo: "me.example"})
			if r.OK != tt.ok || r.Detail != tt.want || r.LocalFault {
				t.Errorf("got %+v\nwant %v %q", r, tt.ok, tt.want)
			}
		})
	}
}

// resets answers HELO and ends the connection with a reset when it hears QUIT.
func resets(c net.Conn) {
	in := bufio.NewReader(c)
	_, _ = io.WriteString(c, "220 a\r\n")
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(c, "250 b\r\n")
	_, _ = in.ReadString('\n')
	checktest.Reset(c)
}

// TestDialogue: what a server hears, word for word.
func TestDialogue(t *testing.T) {
	heard := make(chan string, 1)
	addr := checktest.Serve(t, nil, func(c net.Conn) {
		all := ""
		_, _ = io.WriteString(c, "220 a\r\n")
		for lines := bufio.NewReader(c); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				heard <- all
				return
			}
			all += line
			_, _ = io.WriteString(c, "250 b\r\n")
		}
	})
	for helo, want := range map[string]string{"": "HELO smtpchecker.keepalived.org\r\nQUIT\r\n", "me.example": "HELO me.example\r\nQUIT\r\n"} {
		if r := check(t, smtpcheck.Config{Target: addr, Helo: helo}); !r.OK {
			t.Fatalf("got %+v", r)
		}
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

// TestFarewell: a server that never answers QUIT delays a check that has passed by
// a second at most, and not its latency.
func TestFarewell(t *testing.T) {
	addr := checktest.Serve(t, nil, talk("220 a\r\n", "250 b\r\n"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	r := newChecker(t, smtpcheck.Config{Target: addr}).Check(ctx)
	if took := time.Since(start); !r.OK || took > 4*time.Second || r.Latency > took/2 {
		t.Errorf("%+v after %v", r, took)
	}
}

func TestNewRefuses(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:25")
	for _, cfg := range []smtpcheck.Config{{}, {Target: netip.MustParseAddrPort("127.0.0.1:0")}, {Target: target, Helo: "a b"},
		{Target: target, Helo: "a\r\nMAIL FROM:<>"}, {Target: target, Helo: strings.Repeat("a", 256)}} {
		if _, err := smtpcheck.New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	target := netip.MustParseAddrPort("10.0.0.1:25")
	seen := map[string]bool{}
	for _, c := range []smtpcheck.Config{{Target: target}, {Target: netip.MustParseAddrPort("10.0.0.1:26")}, {Target: target, Helo: "a"},
		{Target: target, Source: healthcheck.Source{Mark: 1}}} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
	if a, b := (smtpcheck.Config{Target: target}).Key(), (smtpcheck.Config{Target: target, Helo: smtpcheck.DefaultHelo}).Key(); a != b {
		t.Errorf("the default in words: %q, without: %q", b, a)
	}
	if got := fmt.Sprint(smtpcheck.DefaultHelo); got != "smtpchecker.keepalived.org" {
		t.Errorf("the default is %s", got)
	}
}
