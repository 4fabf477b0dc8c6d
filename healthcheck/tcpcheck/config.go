package tcpcheck

import (
	"fmt"
	"net/netip"

	"vipd/healthcheck"
)

// Config is what a TCP_CHECK needs.
type Config struct {
	Target netip.AddrPort // the server
	Source healthcheck.Source
	Send   string // what is sent; "": nothing
	Expect string // regular expression (RE2) that matches what comes; "": nothing is waited for
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	text := "TCP_CHECK " + c.Target.String() + c.Source.Key()
	if c.Send != "" {
		text += fmt.Sprintf(" send %q", c.Send)
	}
	if c.Expect != "" {
		text += fmt.Sprintf(" expect %q", c.Expect)
	}
	return text
}
