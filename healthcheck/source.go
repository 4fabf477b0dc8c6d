package healthcheck

import (
	"fmt"
	"net/netip"
)

// Source is where the packets of a check come from. The zero value leaves
// everything to the kernel.
type Source struct {
	Bind      netip.AddrPort // bindto and bind_port; address invalid or port 0: the kernel chooses
	Interface string         // bind_if: packets leave by this interface alone (SO_BINDTODEVICE)
	Mark      uint32         // fwmark: of all packets (SO_MARK); 0: none
	// Via is the real server that gets the packets of a TCP connection, whatever
	// address they are sent to (check_path = "vip"); invalid: the routes decide.
	Via netip.Addr
}

// IsZero reports whether the kernel chooses everything.
func (s Source) IsZero() bool {
	return !s.bound() && s.Interface == "" && s.Mark == 0 && !s.Via.IsValid()
}

// bound reports whether an address or a port is given.
func (s Source) bound() bool { return s.Bind.Addr().IsValid() || s.Bind.Port() != 0 }

// Key names the source in the identity of a check: "" for the zero value, else
// words with a blank before them.
func (s Source) Key() string {
	text := ""
	if s.bound() {
		text = fmt.Sprintf(" from %s:%d", s.Bind.Addr(), s.Bind.Port())
	}
	if s.Interface != "" {
		text += " by " + s.Interface
	}
	if s.Mark != 0 {
		text += fmt.Sprintf(" mark %d", s.Mark)
	}
	if s.Via.IsValid() {
		text += " via " + s.Via.String()
	}
	return text
}
