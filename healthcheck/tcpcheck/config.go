package tcpcheck

import (
	"net/netip"

	"vipd/healthcheck"
)

// Config is what a TCP_CHECK needs.
type Config struct {
	Target netip.AddrPort // the server
	Source healthcheck.Source
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string { return "TCP_CHECK " + c.Target.String() + c.Source.Key() }
