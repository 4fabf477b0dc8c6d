package httpcheck

import (
	"errors"
	"fmt"
	"strings"
)

// request is what is sent for u.
func (c Config) request(u URL) string {
	var b strings.Builder
	version := "1.0"
	if c.protocol() == HTTP11 {
		version = "1.1"
	}
	fmt.Fprintf(&b, "GET %s HTTP/%s\r\nHost: %s\r\nUser-Agent: vipd\r\n", u.path(), version, c.host(u))
	if c.protocol() != HTTP10 {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

func (c Config) validate() error {
	switch c.protocol() {
	case HTTP10, HTTP10Close, HTTP11:
	default:
		return fmt.Errorf("http_protocol %q is none of 1.0, 1.0C, 1.1", c.Protocol)
	}
	if !c.Target.IsValid() || c.Target.Port() == 0 {
		return fmt.Errorf("%v is no address with a port", c.Target)
	}
	if len(c.URLs) == 0 {
		return errors.New("it has no url")
	}
	if !c.TLS && c.Trust != (Trust{}) {
		return errors.New("certificates are for SSL_GET")
	}
	for _, u := range c.URLs {
		if err := u.validate(); err != nil {
			return fmt.Errorf("url %q: %w", u.path(), err)
		}
		if host := c.host(u); !visible(host) {
			return fmt.Errorf("virtualhost %q has blanks or control characters", host)
		}
	}
	return nil
}

func (u URL) validate() error {
	if !visible(u.path()) {
		return errors.New("the path has blanks or control characters; write them as %20 and the like")
	}
	if u.Digest != "" && (len(u.Digest) != 32 || strings.Trim(strings.ToLower(u.Digest), "0123456789abcdef") != "") {
		return fmt.Errorf("digest %q is not 32 hexadecimal digits", u.Digest)
	}
	for _, r := range u.Status {
		if r.From < 100 || r.To > 599 || r.From > r.To {
			return fmt.Errorf("status_code %s is no range within 100-599", r)
		}
	}
	return nil
}

// visible says that s can stand in a request line or a header.
func visible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}
