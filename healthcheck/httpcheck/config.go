package httpcheck

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"vipd/healthcheck"
)

// Protocol is http_protocol: what the request line says.
type Protocol string

// The values of http_protocol.
const (
	HTTP10      Protocol = "1.0"  // no Connection header (the default)
	HTTP10Close Protocol = "1.0C" // HTTP/1.0 with "Connection: close"
	HTTP11      Protocol = "1.1"  // with "Connection: close" and always a Host
)

// Config is what an HTTP_GET or SSL_GET needs.
type Config struct {
	Target      netip.AddrPort // the server
	Source      healthcheck.Source
	TLS         bool          // SSL_GET
	ServerName  string        // SNI of URLs that have none of their own; "" sends none
	Trust       Trust         // SSL_GET: whom to believe, and who we are
	VirtualHost string        // Host header of URLs that have none of their own; "": the target's address
	Protocol    Protocol      // "" is HTTP10
	URLs        []URL         // at least one
	Timeout     time.Duration // of one URL, within the deadline of the attempt; 0: that alone
}

// URL is one thing to get and what to expect of it.
type URL struct {
	Path        string        // "/" when empty
	Digest      string        // MD5 of the body in hex; "" does not look at the body
	Status      []StatusRange // accepted codes; empty: 200-299
	VirtualHost string        // Host header of this URL
	ServerName  string        // SNI of this URL; "": that of all
	Regex       Regex         // of the body
	// Compliant (tls_compliant) wants the end of a body that has no length to be
	// a close_notify and not just the end of the connection. SSL_GET only.
	Compliant bool
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct{ From, To int }

// String gives "200-299", or "200" for a single code.
func (r StatusRange) String() string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	var b strings.Builder
	b.WriteString(c.kind() + " " + c.Target.String() + c.Source.Key())
	if c.TLS {
		fmt.Fprintf(&b, " sni %q%s", c.ServerName, c.Trust.key())
	}
	fmt.Fprintf(&b, " %s", c.protocol())
	for _, u := range c.URLs {
		fmt.Fprintf(&b, " [%q host %q digest %q status %s", u.path(), c.host(u), strings.ToLower(u.Digest), u.wanted())
		if u.Regex != (Regex{}) {
			fmt.Fprintf(&b, " regex %+v", u.Regex)
		}
		if u.ServerName != "" {
			fmt.Fprintf(&b, " sni %q", u.ServerName)
		}
		if u.Compliant {
			b.WriteString(" compliant")
		}
		b.WriteByte(']')
	}
	return b.String()
}

func (c Config) kind() string {
	if c.TLS {
		return "SSL_GET"
	}
	return "HTTP_GET"
}

func (c Config) protocol() Protocol {
	if c.Protocol == "" {
		return HTTP10
	}
	return c.Protocol
}

// host is the value of the Host header for u.
func (c Config) host(u URL) string {
	switch {
	case u.VirtualHost != "":
		return u.VirtualHost
	case c.VirtualHost != "":
		return c.VirtualHost
	}
	port := c.Target.Port()
	if port == 80 && !c.TLS || port == 443 && c.TLS {
		if c.Target.Addr().Is6() {
			return "[" + c.Target.Addr().String() + "]"
		}
		return c.Target.Addr().String()
	}
	return c.Target.String()
}

func (u URL) path() string {
	if u.Path == "" {
		return "/"
	}
	return u.Path
}

// statuses are the accepted codes.
func (u URL) statuses() []StatusRange {
	if len(u.Status) == 0 {
		return []StatusRange{{200, 299}}
	}
	return u.Status
}

func (u URL) wanted() string {
	ranges := u.statuses()
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = r.String()
	}
	return strings.Join(words, ", ")
}
