package firewall

import (
	"errors"
	"fmt"
	"net/netip"
)

// DefaultTable and DefaultPriority are what Options mean when they say nothing.
const (
	DefaultTable    = "vipd"
	DefaultPriority = -1
)

// ErrUnsupported says that the kernel has no nftables for the families ip and ip6.
var ErrUnsupported = errors.New("the kernel has no nftables (modules nf_tables, nft_dup_ipv4, nft_dup_ipv6)")

// Options are what an operator may choose.
type Options struct {
	Table    string // name of the tables; empty: DefaultTable
	Priority int32  // of the base chains; lower is earlier
	Counters bool   // each rule counts what it meets
}

// Address is an address that the machine must not accept.
type Address struct {
	Addr      netip.Addr
	Interface string // of an IPv6 link-local address: where it is one; else empty
}

// String is the address as nft prints the element.
func (a Address) String() string {
	if a.Interface == "" {
		return a.Addr.String()
	}
	return fmt.Sprintf("%v . %q", a.Addr, a.Interface)
}

// On returns the address as an element: the interface counts for link-local ones only.
func On(addr netip.Addr, iface string) Address {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		return Address{addr, iface}
	}
	return Address{Addr: addr}
}

// Link is a link that must not send IGMP and MLD reports or router solicitations.
type Link struct {
	Name string
	// Parent is the index of the link that sends the reports instead; 0: they are dropped.
	Parent int
}
