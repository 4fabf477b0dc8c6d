package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/miekg/dns"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
)

// headings are the sections of a manual page, in its order.
var headings = []string{"## Name", "## Synopsis", "## Description", "## Keywords", "## Examples", "## Differences from keepalived"}

// goodServers are what the examples of the manual pages are run against.
var goodServers = map[string]func(*testing.T) netip.AddrPort{
	"TCP_CHECK": func(t *testing.T) netip.AddrPort {
		return checktest.Serve(t, nil, func(c net.Conn) {
			if _, err := c.Read(make([]byte, 4096)); err == nil {
				_, _ = io.WriteString(c, "+PONG\r\n")
			}
			_, _ = io.Copy(io.Discard, c)
		})
	},
	"HTTP_GET": func(t *testing.T) netip.AddrPort { return checktest.Serve(t, nil, hello) },
	"SMTP_CHECK": func(t *testing.T) netip.AddrPort {
		return checktest.Serve(t, nil, func(c net.Conn) {
			_, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n")
			for lines := bufio.NewScanner(c); lines.Scan(); {
				_, _ = io.WriteString(c, "250 fine\r\n")
			}
		})
	},
	"DNS_CHECK":  dnsServer,
	"UDP_CHECK":  func(t *testing.T) netip.AddrPort { return checktest.Echo(t) },
	"GRPC_CHECK": grpcServer,
	"PING_CHECK": nowhere, "MISC_CHECK": nowhere, "FILE_CHECK": nowhere,
	"SSL_GET": func(t *testing.T) netip.AddrPort {
		return checktest.Serve(t, checktest.TLSConfig(t, "www.example.org"), hello)
	},
}

// dnsServer answers over UDP and TCP on one port, with two addresses for an A.
func dnsServer(t *testing.T) netip.AddrPort {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			for _, ip := range []net.IP{{192, 0, 2, 1}, {192, 0, 2, 2}} {
				m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: ip})
			}
		}
		_ = w.WriteMsg(m)
	})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := net.ListenPacket("udp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{Listener: l, Handler: handler}, {PacketConn: p, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return netip.MustParseAddrPort(l.Addr().String())
}

// hello answers every request with the same page.
func hello(c net.Conn) {
	buffer := make([]byte, 4096)
	if _, err := c.Read(buffer); err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	if s, ok := c.(*tls.Conn); ok {
		_ = s.CloseWrite()
	}
}

// TestManualPages: each kind of check has a page in the order of a manual, which
// names every key, and whose examples load and, run against a good server, pass.
func TestManualPages(t *testing.T) {
	pages, err := filepath.Glob("../../../healthcheck/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(filepath.Dir(page)), func(t *testing.T) {
			inOrder(t, string(text))
			for _, kind := range testPage(t, string(text)) {
				seen[kind] = true
			}
		})
	}
	for _, kind := range append(slices.Collect(maps.Keys(localCheckers)), slices.Collect(maps.Keys(checkers))...) {
		if !seen[kind] {
			t.Errorf("no manual page has an example of %s", kind)
		}
	}
}

// inOrder wants all headings, in order.
func inOrder(t *testing.T, text string) {
	t.Helper()
	at := 0
	for _, heading := range headings {
		i := strings.Index(text[at:], heading+"\n")
		if i < 0 {
			t.Errorf("no %q, or not in its place", heading)
			continue
		}
		at += i
	}
}

var example = regexp.MustCompile("(?s)```toml\n(.*?)```")

// testPage loads and runs the examples of a page, and returns the kinds of check in
// them.
func testPage(t *testing.T, text string) (kinds []string) {
	t.Helper()
	blocks := example.FindAllStringSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Errorf("%d examples, want at least 2", len(blocks))
	}
	for _, b := range blocks {
		file := b[1]
		if !strings.Contains(file, "[[virtual_server]]") {
			file = "[[virtual_server]]\naddress = \"203.0.113.10:80\"\n[[virtual_server.real_server]]\naddress = \"10.0.0.21:80\"\n" + file
		}
		cfg, diags := conf.Load(fstest.MapFS{"vipd.toml": {Data: []byte(file)}}, "vipd.toml", conf.Env{Hostname: "d1"})
		if cfg == nil || len(cfg.Warnings) > 0 {
			t.Errorf("the example\n%s\nis not good:\n%s", b[1], diags.Text())
			continue
		}
		for _, v := range cfg.VirtualServers {
			for _, r := range v.RealServers {
				for i := range r.Checks {
					kinds = append(kinds, r.Checks[i].Kind)
					if res := runExample(t, &r.Checks[i]); !res.OK {
						t.Errorf("the example\n%s\nfails on a good server: %s", b[1], res.Detail)
					}
				}
			}
		}
	}
	return kinds
}

// runExample runs a check of an example against a good server on this machine.
func runExample(t *testing.T, c *conf.Check) healthcheck.Result {
	t.Helper()
	serve := goodServers[c.Kind]
	if serve == nil {
		t.Fatalf("there is no good server for %s", c.Kind)
	}
	c.Target, c.Bind, c.BindIf, c.FWMark, c.Via = serve(t), netip.AddrPort{}, "", 0, netip.Addr{}
	_, checker, err := exampleMachine().checker(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return checker.Check(ctx)
}
