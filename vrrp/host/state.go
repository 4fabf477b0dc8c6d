package host

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// Proto is the IFA_PROTO value that marks an address as a virtual one: 112, the protocol number of VRRP
// (RFC 9568 §5.1.1.4).
const Proto uint8 = 112

// ProtoStatic marks an address that vipd keeps in every state: unlike a virtual one, the
// machine has it for itself.
const ProtoStatic uint8 = 113

// Addr is one address as the kernel has it.
type Addr struct {
	Prefix    netip.Prefix // the local address with its prefix length
	Peer      netip.Addr   // the far end of a point-to-point address; invalid if none
	Broadcast netip.Addr   // invalid if none
	Label     string       // IPv4 only, empty when it is the interface's name
	Scope     uint8        // rtnetlink scope: 0 global, 253 link, 254 host
	Flags     uint32       // IFA_F_*
	Proto     uint8        // IFA_PROTO, 0 on kernels before 5.18

	// ValidLft and PreferredLft are lifetimes in seconds; ^uint32(0) is for ever. They count down and are
	// therefore left out of comparisons.
	ValidLft, PreferredLft uint32

	Tentative, Deprecated, Secondary bool
}

// Link is one network interface with its addresses. Links handed out by this package are shared and must not be
// changed.
type Link struct {
	Name        string
	Index       int
	MAC         [6]byte // zero when the interface has no Ethernet address
	MTU         int
	Flags       uint32 // IFF_*
	Up          bool   // administratively up: IFF_UP
	Running     bool   // has carrier and is operational: IFF_RUNNING and IFF_LOWER_UP
	Loopback    bool
	NoARP       bool
	VRFTable    uint32 // of a VRF: its routing table
	Forwarding6 bool   // forwards IPv6: the Router flag of its neighbour advertisements (RFC 4861 §4.4)
	Addrs       []Addr // in the kernel's order: the primary address of a subnet comes before its secondaries

	Kind    string // "macvlan", "veth", …; empty for hardware
	Parent  int    // index of the link that it is made on; 0: none in this namespace
	Private bool   // a macvlan in private mode
	Alias   string
	Group   uint32
}

// State is one snapshot of all interfaces, by name. It is immutable.
type State struct {
	Links map[string]*Link

	// At is when the reading of the addresses began: every change the kernel had acknowledged before At is in.
	At time.Time

	// FIB is what was asked for of routes and rules; nil: nothing, or it could not be
	// read.
	FIB    *fib.State
	fibErr error

	// Began is when the reading as a whole began, with the interfaces; zero: at At. It is later than At when the addresses are those of an earlier
	// reading because the kernel changed them faster than they could be read.
	Began time.Time

	// writes counts what vipd itself had asked the kernel to change when the addresses were read. When it differs,
	// two snapshots that show the same do not say that nothing happened in between.
	writes uint64
}

// Start is when the reading began: every change the kernel had acknowledged before is in.
func (s State) Start() time.Time {
	if s.Began.IsZero() {
		return s.At
	}
	return s.Began
}

// Link returns the named interface, or nil when it does not exist.
func (s State) Link(name string) *Link { return s.Links[name] }

// Has reports whether the interface has the address with this very prefix length.
func (s State) Has(dev string, p netip.Prefix) bool { return s.find(dev, p) != nil }

func (s State) find(dev string, p netip.Prefix) *Addr {
	l := s.Links[dev]
	if l == nil {
		return nil
	}
	for i := range l.Addrs {
		if l.Addrs[i].Prefix == p {
			return &l.Addrs[i]
		}
	}
	return nil
}

// Equal reports whether two snapshots show the same; the time of reading and running lifetimes do not count.
func (s State) Equal(o State) bool {
	return s.FIB.Equal(o.FIB) && maps.EqualFunc(s.Links, o.Links, func(a, b *Link) bool { return a == b || a.equal(b) })
}

// ByIndex returns the interface with this index, or nil.
func (s State) ByIndex(index int) *Link {
	for _, l := range s.Links {
		if l.Index == index {
			return l
		}
	}
	return nil
}

// Usable reports whether VRRP can work on the interface: it exists, is up and has carrier. l may be nil.
func (l *Link) Usable() bool { return l != nil && l.Up && l.Running }

// Fault returns why the interface cannot be used, in words for the operator, or "" when it can. l may be nil, name
// is the one that was looked for.
func (l *Link) Fault(name string) string {
	switch {
	case l == nil:
		return fmt.Sprintf("interface %s does not exist", name)
	case !l.Up:
		return fmt.Sprintf("interface %s is down", name)
	case !l.Running:
		return fmt.Sprintf("interface %s has no carrier", name)
	}
	return ""
}

// Source4 returns the interface's own IPv4 address: the first primary one that is no virtual address. skip says
// which are (nil: none); addresses marked with [Proto] never count. The result is invalid when there is none.
func (l *Link) Source4(skip func(netip.Addr) bool) netip.Addr {
	var second netip.Addr
	for _, a := range l.own(skip) {
		if !a.Is4() {
			continue
		}
		if !a.secondary {
			return a.Addr
		}
		if !second.IsValid() {
			second = a.Addr
		}
	}
	return second // its primary is a virtual address: a secondary one of the machine's own still is a base
}

// Source6 returns the interface's own IPv6 link-local address that is neither tentative nor a virtual address
// (RFC 9568 §5.1.2.2). The result is invalid when there is none.
func (l *Link) Source6(skip func(netip.Addr) bool) netip.Addr {
	for _, a := range l.own(skip) {
		if a.Is6() && a.IsLinkLocalUnicast() {
			return a.Addr
		}
	}
	return netip.Addr{}
}

// DADFailed reports whether another machine was found to have the address.
func (a *Addr) DADFailed() bool { return a.Flags&unix.IFA_F_DADFAILED != 0 }

// Tentative6 returns an own IPv6 link-local address that is not usable, as
// duplicate address detection (RFC 4862 §5.4) still runs or has failed.
func (l *Link) Tentative6(skip func(netip.Addr) bool) (a netip.Addr, failed bool) {
	for i := range l.Addrs {
		a := &l.Addrs[i]
		ip := a.Prefix.Addr()
		if a.Tentative && ip.Is6() && ip.IsLinkLocalUnicast() && a.Proto != Proto && (skip == nil || !skip(ip)) {
			return ip, a.DADFailed()
		}
	}
	return netip.Addr{}, false
}

type ownAddr struct {
	netip.Addr
	secondary bool
}

// own lists the addresses that belong to the machine rather than to a virtual router. l may be nil.
func (l *Link) own(skip func(netip.Addr) bool) []ownAddr {
	if l == nil {
		return nil
	}
	var out []ownAddr
	for i := range l.Addrs {
		a := &l.Addrs[i]
		ip := a.Prefix.Addr()
		if a.Tentative || a.Proto == Proto || (skip != nil && skip(ip)) {
			continue
		}
		out = append(out, ownAddr{ip, a.Secondary})
	}
	return out
}

func (l *Link) equal(o *Link) bool {
	return l.Name == o.Name && l.Index == o.Index && l.MAC == o.MAC && l.MTU == o.MTU && l.Up == o.Up &&
		l.Running == o.Running && l.Loopback == o.Loopback && l.NoARP == o.NoARP &&
		l.Forwarding6 == o.Forwarding6 && l.VRFTable == o.VRFTable && l.Kind == o.Kind && l.Parent == o.Parent && l.Private == o.Private &&
		l.Alias == o.Alias && l.Group == o.Group && slices.EqualFunc(l.Addrs, o.Addrs, Addr.equal)
}

// same reports whether two records ask the kernel for the same.
func (a Addr) same(b Addr) bool {
	asked := uint32(unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN)
	if a.Prefix.Addr().Is6() {
		asked |= unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR
	}
	if a.Prefix != b.Prefix || a.Peer != b.Peer || a.Flags&asked != b.Flags&asked || marked(a.Proto) && marked(b.Proto) && a.Proto != b.Proto {
		return false
	}
	if a.Prefix.Addr().Is6() { // its scope follows from the address
		return a.lifetime() == b.lifetime()
	}
	return a.lifetime() == b.lifetime() && a.Label == b.Label && a.Scope == b.Scope && a.Broadcast == b.Broadcast
}

// marked reports whether an address carries a mark of vipd.
func marked(proto uint8) bool { return proto == Proto || proto == ProtoStatic }

// lifetime says which of the three kinds of preferred lifetime the address has.
func (a Addr) lifetime() int {
	switch a.PreferredLft {
	case 0:
		return 0
	case forever:
		return 2
	}
	return 1
}

func (a Addr) equal(b Addr) bool {
	a.ValidLft, a.PreferredLft, b.ValidLft, b.PreferredLft = 0, 0, 0, 0
	return a == b
}

// setFlags fills what is derived from the flags.
func (a *Addr) setFlags(flags uint32) {
	a.Flags = flags
	a.Tentative = flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
	a.Deprecated = flags&unix.IFA_F_DEPRECATED != 0
	// The bit is IFA_F_TEMPORARY on IPv6.
	a.Secondary = flags&unix.IFA_F_SECONDARY != 0 && a.Prefix.Addr().Is4()
}
