package httpcheck_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/httpcheck"
)

// pages is a server that fails the paths it is told to, and notes what was asked.
type pages struct {
	mu    sync.Mutex
	bad   string
	asked []string
}

func (p *pages) serve(c net.Conn) {
	_, path, _ := strings.Cut(readRequest(c), " ")
	path, _, _ = strings.Cut(path, " ")
	p.mu.Lock()
	p.asked = append(p.asked, path)
	status := "200 OK"
	if path == p.bad {
		status = "500 No"
	}
	p.mu.Unlock()
	_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\n\r\n")
}

// told changes what fails and gives what was asked since the last time.
func (p *pages) told(bad string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := strings.Join(p.asked, "")
	p.bad, p.asked = bad, nil
	return asked
}

// TestURLsInTurn: one URL an attempt while all is well; all of them at first and
// after a failure, from the one that failed on.
func TestURLsInTurn(t *testing.T) {
	p := &pages{}
	addr := checktest.Serve(t, nil, p.serve)
	c := newChecker(t, httpcheck.Config{Target: addr, URLs: []httpcheck.URL{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}}})
	for i, step := range []struct {
		bad    string
		ok     bool
		asked  string
		detail string
	}{
		{"", true, "/a/b/c", "all 3 URLs as wanted"},
		{"", true, "/a", "GET /a: status 200"},
		{"", true, "/b", "GET /b: status 200"},
		{"/c", false, "/c", "GET /c: status 500, wanted 200-299"},
		{"/c", false, "/c", "GET /c: status 500, wanted 200-299"},
		{"/b", false, "/c/a/b", "GET /b: status 500, wanted 200-299"},
		{"", true, "/b/c/a", "all 3 URLs as wanted"},
		{"/a", true, "/b", "GET /b: status 200"},
		{"/a", true, "/c", "GET /c: status 200"},
		{"/a", false, "/a", "GET /a: status 500, wanted 200-299"},
	} {
		p.told(step.bad)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r := c.Check(ctx)
		cancel()
		if asked := p.told(""); r.OK != step.ok || r.Detail != step.detail || asked != step.asked {
			t.Errorf("attempt %d: %+v after %s; want %v %q after %s", i, r, asked, step.ok, step.detail, step.asked)
		}
	}
}

// TestSameChecker: a reload that changes nothing leaves a check its place among the URLs; with another setting that decides
// the result it is another.
func TestSameChecker(t *testing.T) {
	cfg := httpcheck.Config{Target: netip.MustParseAddrPort("10.0.0.1:80"), URLs: []httpcheck.URL{{Path: "/a"}, {Path: "/b"}}, Timeout: time.Second}
	c := newChecker(t, cfg)
	var _ healthcheck.Keeper = c
	if !c.Same(newChecker(t, cfg)) {
		t.Error("a checker of the same settings is another")
	}
	longer, turned := cfg, cfg
	longer.Timeout++
	turned.URLs = []httpcheck.URL{{Path: "/b"}, {Path: "/a"}}
	for what, o := range map[string]healthcheck.Checker{"with another time-out": newChecker(t, longer), "with its URLs turned": newChecker(t, turned), "of another kind": nil} {
		if c.Same(o) {
			t.Errorf("a checker %s is the same", what)
		}
	}
}
