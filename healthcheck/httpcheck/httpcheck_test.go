package httpcheck_test

import (
	"bufio"
	"crypto/md5"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/httpcheck"
)

func newChecker(t testing.TB, cfg httpcheck.Config) *httpcheck.Checker {
	t.Helper()
	c, err := httpcheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check makes one attempt with the given deadline.
func check(t testing.TB, cfg httpcheck.Config, timeout time.Duration) healthcheck.Result {
	t.Helper()
	return checktest.Attempt(t, newChecker(t, cfg), timeout)
}

// readRequest reads up to the blank line.
func readRequest(conn net.Conn) string {
	var b strings.Builder
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

// answer gives a server that reads the request, sends reply and closes.
func answer(reply string) func(net.Conn) {
	return func(conn net.Conn) {
		readRequest(conn)
		_, _ = io.WriteString(conn, reply)
	}
}

func digest(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

func TestConformance(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, httpcheck.Config{Target: addr, URLs: []httpcheck.URL{{Path: "/"}}})
	})
}

func TestConformanceOfTLS(t *testing.T) {
	checktest.ConformanceTLS(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, httpcheck.Config{Target: addr, TLS: true, URLs: []httpcheck.URL{{Path: "/", Digest: digest("")}}})
	})
}

// TestConformanceOfHandshake: the servers go wrong instead of speaking TLS.
func TestConformanceOfHandshake(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, httpcheck.Config{Target: addr, TLS: true, URLs: []httpcheck.URL{{Path: "/"}}})
	})
}

// TestO42UntidyReplies: each of these replies is good enough for its check,
// over TCP and inside TLS.
func TestO42UntidyReplies(t *testing.T) {
	hello := httpcheck.URL{Path: "/", Digest: digest("hello")}
	tests := []struct {
		name  string
		serve func(net.Conn)
		url   httpcheck.URL
	}{
		{"reply then reset", func(c net.Conn) { answer("HTTP/1.1 200 OK\r\n\r\n")(c); checktest.Reset(c) }, httpcheck.URL{}},
		{"reply then reset before the body is complete", func(c net.Conn) {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")(c)
			checktest.Reset(c)
		}, httpcheck.URL{}},
		{"reply before the request is read, then close", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n") }, httpcheck.URL{}},
		{"reply before the request is read, then reset", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
			checktest.Reset(c)
		}, httpcheck.URL{}},
		{"HTTP/1.0 without length", answer("HTTP/1.0 200 OK\r\n\r\nhello"), hello},
		{"HTTP/1.1 without length", answer("HTTP/1.1 200 OK\r\n\r\nhello"), hello},
		{"length, and the server keeps the connection open", func(c net.Conn) {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")(c)
			_, _ = io.Copy(io.Discard, c)
		}, hello},
		{"chunked", answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), hello},
		{"100 before the final status", answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), hello},
		{"bare line feeds, no reason", answer("HTTP/1.0 200\n\n"), httpcheck.URL{}},
	}
	for _, tt := range tests {
		for _, secure := range []*tls.Config{nil, checktest.TLSConfig(t, "www.example.org")} {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure != nil), func(t *testing.T) {
				addr := checktest.Serve(t, secure, tt.serve)
				cfg := httpcheck.Config{Target: addr, TLS: secure != nil, URLs: []httpcheck.URL{tt.url}}
				for range 20 {
					if r := check(t, cfg, 5*time.Second); !r.OK {
						t.Fatalf("got %+v", r)
					}
				}
			})
		}
	}
}

func TestResults(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	tests := []struct {
		name  string
		serve func(net.Conn)
		url   httpcheck.URL
		ok    bool
		want  string
	}{
		{"good", answer(ok), httpcheck.URL{Path: "/x"}, true, "GET /x: status 200"},
		{"204 is in 200-299", answer("HTTP/1.1 204 No\r\n\r\n"), httpcheck.URL{}, true, "GET /: status 204"},
		{"503", answer("HTTP/1.1 503 No\r\n\r\n"), httpcheck.URL{}, false, "GET /: status 503, wanted 200-299"},
		{"redirect", answer("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n"), httpcheck.URL{}, false, "GET /: status 301, wanted 200-299"},
		{"listed", answer("HTTP/1.1 301 Moved\r\n\r\n"), httpcheck.URL{Status: []httpcheck.StatusRange{{200, 200}, {301, 302}}}, true, "GET /: status 301"},
		{"not listed", answer("HTTP/1.1 303 Moved\r\n\r\n"), httpcheck.URL{Status: []httpcheck.StatusRange{{200, 200}, {301, 302}}}, false,
			"GET /: status 303, wanted 200, 301-302"},
		{"digest", answer(ok), httpcheck.URL{Digest: strings.ToUpper(digest("hello"))}, true, "GET /: status 200, digest as wanted"},
		{"digest, and a usual status", answer("HTTP/1.1 404 No\r\n\r\nhello"), httpcheck.URL{Digest: digest("hello")}, false, "GET /: status 404, wanted 200-299"},
		{"digest with another status", answer("HTTP/1.1 404 No\r\n\r\nhello"), httpcheck.URL{Digest: digest("hello"), Status: []httpcheck.StatusRange{{404, 404}}}, true, "GET /: status 404, digest as wanted"},
		{"digest and status", answer("HTTP/1.1 404 No\r\n\r\nhello"), httpcheck.URL{Digest: digest("hello"), Status: []httpcheck.StatusRange{{200, 200}}}, false,
			"GET /: status 404, wanted 200"},
		{"another digest", answer(ok), httpcheck.URL{Digest: digest("world")}, false,
			"GET /: status 200, digest 5d41402abc4b2a76b9719d911017c592, wanted 7d793037a0760186574b0282f2f435e7"},
		{"body cut", answer("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"), httpcheck.URL{Digest: digest("hello")}, false,
			"GET /: status 200, but the body cannot be read: the reply ended too early (got 43 bytes)"},
		{"closed without a word", func(c net.Conn) { readRequest(c) }, httpcheck.URL{}, false, "GET /: the reply ended too early (got 0 bytes)"},
		{"mute", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, httpcheck.URL{}, false, "GET /: no complete reply within 500ms (got 0 bytes)"},
		{"stops in the header", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, httpcheck.URL{}, false, "GET /: no complete reply within 500ms (got 36 bytes)"},
		{"not HTTP", func(c net.Conn) {
			_, _ = io.WriteString(c, "220 mail\tready\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, httpcheck.URL{}, false, `GET /: no HTTP reply: it begins with "220 mail\tready"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := checktest.Serve(t, nil, tt.serve)
			r := check(t, httpcheck.Config{Target: addr, URLs: []httpcheck.URL{tt.url}}, 500*time.Millisecond)
			if r.OK != tt.ok || r.Detail != tt.want || r.LocalFault {
				t.Errorf("got %+v\nwant %v %q", r, tt.ok, tt.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	addr := checktest.Refused(t)
	r := check(t, httpcheck.Config{Target: addr, URLs: []httpcheck.URL{{}}}, time.Second)
	if want := "connect " + addr.String() + ": connection refused"; r.OK || r.Detail != want {
		t.Errorf("got %+v, want %q", r, want)
	}
}

// TestDeadlines: each URL has its own time, and all of them that of the attempt.
func TestDeadlines(t *testing.T) {
	addr := checktest.Serve(t, nil, func(c net.Conn) {
		time.Sleep(100 * time.Millisecond)
		answer("HTTP/1.1 200 OK\r\n\r\n")(c)
	})
	cfg := httpcheck.Config{Target: addr, URLs: make([]httpcheck.URL, 5)}
	start := time.Now()
	if r := check(t, cfg, 350*time.Millisecond); r.OK || !strings.Contains(r.Detail, "no complete reply within") {
		t.Errorf("all URLs together take longer than the attempt may: %+v", r)
	}
	if took := time.Since(start); took > 1350*time.Millisecond {
		t.Errorf("took %v", took)
	}
	cfg.Timeout = 50 * time.Millisecond
	if r := check(t, cfg, 10*time.Second); r.OK || !strings.Contains(r.Detail, "within 50ms") {
		t.Errorf("each URL takes longer than it may: %+v", r)
	}
	cfg.Timeout = 5 * time.Second
	if r := check(t, cfg, 10*time.Second); !r.OK {
		t.Errorf("all in time: %+v", r)
	}
}

func TestRequests(t *testing.T) {
	got := make(chan string, 1)
	addr := checktest.Serve(t, nil, func(c net.Conn) {
		got <- readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	})
	tests := []struct {
		name string
		cfg  httpcheck.Config
		want string
	}{
		{"default", httpcheck.Config{URLs: []httpcheck.URL{{}}}, "GET / HTTP/1.0\r\nHost: " + addr.String() + "\r\nUser-Agent: vipd\r\n\r\n"},
		{"1.0C", httpcheck.Config{Protocol: httpcheck.HTTP10Close, VirtualHost: "a.example", URLs: []httpcheck.URL{{Path: "/x?y=z"}}},
			"GET /x?y=z HTTP/1.0\r\nHost: a.example\r\nUser-Agent: vipd\r\nConnection: close\r\n\r\n"},
		{"1.1", httpcheck.Config{Protocol: httpcheck.HTTP11, VirtualHost: "a.example", URLs: []httpcheck.URL{{Path: "/", VirtualHost: "b.example"}}},
			"GET / HTTP/1.1\r\nHost: b.example\r\nUser-Agent: vipd\r\nConnection: close\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Target = addr
			if r := check(t, tt.cfg, time.Second); !r.OK {
				t.Fatalf("got %+v", r)
			}
			if request := <-got; request != tt.want {
				t.Errorf("got  %q\nwant %q", request, tt.want)
			}
		})
	}
}

// TestSNI is the SNI part of O42: a server that refuses a handshake without
// the right name passes with it and fails without.
func TestO42SNI(t *testing.T) {
	cert := checktest.TLSConfig(t, "www.example.org")
	secure := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != "www.example.org" {
			return nil, errors.New("unknown name")
		}
		return &cert.Certificates[0], nil
	}}
	addr := checktest.Serve(t, secure, answer("HTTP/1.1 200 OK\r\n\r\n"))
	cfg := httpcheck.Config{Target: addr, TLS: true, ServerName: "www.example.org", URLs: []httpcheck.URL{{}}}
	if r := check(t, cfg, 5*time.Second); !r.OK {
		t.Errorf("with the name: %+v", r)
	}
	cfg.ServerName = ""
	r := check(t, cfg, 5*time.Second)
	if r.OK || !strings.HasPrefix(r.Detail, "TLS handshake with "+addr.String()+": remote error: tls: ") {
		t.Errorf("without the name: %+v", r)
	}
}

// TestPlainServer: SSL_GET of a port that speaks plain HTTP names the remedy.
func TestPlainServer(t *testing.T) {
	addr := checktest.Serve(t, nil, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	r := check(t, httpcheck.Config{Target: addr, TLS: true, URLs: []httpcheck.URL{{}}}, 5*time.Second)
	if want := `the server does not speak TLS on this port, it begins with "HTTP/": check it with HTTP_GET`; r.OK || !strings.HasSuffix(r.Detail, want) {
		t.Errorf("got %q", r.Detail)
	}
}

func TestOldTLS(t *testing.T) {
	secure := checktest.TLSConfig(t, "www.example.org")
	secure.MinVersion, secure.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	addr := checktest.Serve(t, secure, answer("HTTP/1.1 200 OK\r\n\r\n"))
	if r := check(t, httpcheck.Config{Target: addr, TLS: true, URLs: []httpcheck.URL{{}}}, 5*time.Second); !r.OK {
		t.Errorf("got %+v", r)
	}
}

func TestNewRefuses(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:80")
	urls := []httpcheck.URL{{Path: "/"}}
	tests := []struct {
		cfg  httpcheck.Config
		want string
	}{
		{httpcheck.Config{URLs: urls}, "making HTTP_GET: invalid AddrPort is no address with a port"},
		{httpcheck.Config{Target: target, TLS: true}, "making SSL_GET: it has no url"},
		{httpcheck.Config{Target: target, URLs: urls, Protocol: "2"}, `making HTTP_GET: http_protocol "2" is none of 1.0, 1.0C, 1.1`},
		{httpcheck.Config{Target: target, URLs: urls, VirtualHost: "a\r\nX: y"}, `making HTTP_GET: virtualhost "a\r\nX: y" has blanks or control characters`},
		{httpcheck.Config{Target: target, URLs: []httpcheck.URL{{Path: "/a b"}}}, `making HTTP_GET: url "/a b": the path has blanks or control characters; write them as %20 and the like`},
		{httpcheck.Config{Target: target, URLs: []httpcheck.URL{{Digest: "abc"}}}, `making HTTP_GET: url "/": digest "abc" is not 32 hexadecimal digits`},
		{httpcheck.Config{Target: target, URLs: []httpcheck.URL{{Status: []httpcheck.StatusRange{{200, 600}}}}}, `making HTTP_GET: url "/": status_code 200-600 is no range within 100-599`},
		{httpcheck.Config{Target: target, URLs: []httpcheck.URL{{Status: []httpcheck.StatusRange{{300, 200}}}}}, `making HTTP_GET: url "/": status_code 300-200 is no range within 100-599`},
	}
	for _, tt := range tests {
		if _, err := httpcheck.New(tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	base := httpcheck.Config{Target: netip.MustParseAddrPort("10.0.0.1:80"), URLs: []httpcheck.URL{{Path: "/"}}}
	with := func(change func(*httpcheck.Config)) httpcheck.Config {
		c := base
		c.URLs = []httpcheck.URL{{Path: "/"}}
		change(&c)
		return c
	}
	configs := []httpcheck.Config{base,
		with(func(c *httpcheck.Config) { c.Target = netip.MustParseAddrPort("10.0.0.1:81") }),
		with(func(c *httpcheck.Config) { c.Source.Bind = netip.MustParseAddrPort("10.0.0.9:0") }),
		with(func(c *httpcheck.Config) { c.TLS = true }),
		with(func(c *httpcheck.Config) { c.TLS, c.ServerName = true, "a" }),
		with(func(c *httpcheck.Config) { c.VirtualHost = "a" }),
		with(func(c *httpcheck.Config) { c.Protocol = httpcheck.HTTP11 }),
		with(func(c *httpcheck.Config) { c.URLs[0].Path = "/a" }),
		with(func(c *httpcheck.Config) { c.URLs[0].Digest = digest("a") }),
		with(func(c *httpcheck.Config) { c.URLs[0].Status = []httpcheck.StatusRange{{200, 200}} }),
		with(func(c *httpcheck.Config) { c.URLs = append(c.URLs, httpcheck.URL{Path: "/b"}) }),
		with(func(c *httpcheck.Config) { c.URLs[0].Regex.Pattern = "ok" }),
		with(func(c *httpcheck.Config) { c.URLs[0].Regex = httpcheck.Regex{Pattern: "ok", NoMatch: true} }),
		with(func(c *httpcheck.Config) { c.URLs[0].Regex = httpcheck.Regex{Pattern: "ok", MinOffset: 1} }),
		with(func(c *httpcheck.Config) {
			c.URLs[0].Regex = httpcheck.Regex{Pattern: "ok", Options: httpcheck.RegexOptions{Caseless: true}}
		}),
		with(func(c *httpcheck.Config) { c.URLs[0].Compliant = true }),
		with(func(c *httpcheck.Config) { c.TLS, c.Trust.CA = true, "x" }),
		with(func(c *httpcheck.Config) { c.TLS, c.Trust.Key = true, "x" }),
	}
	seen := map[string]bool{}
	for _, c := range configs {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
	same := with(func(c *httpcheck.Config) {
		c.URLs[0].Status, c.Protocol = []httpcheck.StatusRange{{200, 299}}, httpcheck.HTTP10
	})
	if same.Key() != base.Key() {
		t.Errorf("the defaults in words: %q, without: %q", same.Key(), base.Key())
	}
}
