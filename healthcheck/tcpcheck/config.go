package tcpcheck

import (
	"fmt"
	"net/netip"
)

// Config is what a TCP_CHECK needs.
type Config struct {
	Target netip.AddrPort // the server
	Bind   netip.AddrPort // bindto and bind_port; address invalid or port 0: the kernel chooses
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	if !c.Bind.Addr().IsValid() && c.Bind.Port() == 0 {
		return "TCP_CHECK " + c.Target.String()
	}
	return fmt.Sprintf("TCP_CHECK %s from %s:%d", c.Target, c.Bind.Addr(), c.Bind.Port())
}
