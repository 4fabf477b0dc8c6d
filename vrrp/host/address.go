package host

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// Address is one configured virtual address.
type Address struct {
	Prefix        netip.Prefix // with its prefix length; callers use /32 and /128 where none was given
	Dev           string       // the interface to put it on; empty means the instance's
	Label         string       // IPv4 only
	Scope         int          // rtnetlink scope: 0 global, 253 link, 254 host
	Broadcast     netip.Addr   // IPv4 only; invalid: none
	NoPrefixRoute bool         // IFA_F_NOPREFIXROUTE
	NoTrack       bool         // not put back when somebody deletes it
	Deprecated    bool         // preferred lifetime 0, so that it is no source of new connections
	PreferredLft  uint32       // seconds until it is deprecated; 0: for ever
	Peer          netip.Addr   // the far end; the length of Prefix is then that of the peer; invalid: none
	DAD           bool         // IPv6 only: duplicates are looked for before it is used
	Flags         uint32       // further IFA_F_*
	Group         string       // of static addresses: who needs it
}

// Set is one instance's virtual addresses.
type Set struct {
	Instance  string
	Interface string     // the instance's interface: Dev of addresses without one
	IPv6      bool       // the family of the instance
	Addresses []Address  // in the order in which they are to be added: advertised ones, then excluded ones
	NoAccept  bool       // packets to them are refused while they are there (see Shield); not with Owner
	Source    netip.Addr // without Interface: what the addresses are not repaired without
	Owner     bool       // priority 255: the addresses are the machine's own (RFC 9568 §6.1)
	// Static says that all is wanted in every state and belongs to the machine itself.
	Static bool
	// Paths are the routes, then the rules of the set. They are added after the addresses
	// and removed before them.
	Paths []fib.Want
}

// Callbacks tell what became of addresses. They are called on the manager's worker, one at a time, and must not
// block; nil ones are left out.
type Callbacks struct {
	// Present says that the address is in the kernel and may be announced. It is called after the addition, at once
	// for the first ones that were asked for, and again when a lost address was put back. link is the interface as last seen.
	Present func(instance string, a Address, link *Link)
	// Lost says that the address is gone though it is wanted. It comes back, with Present, unless it is not tracked:
	// at once when somebody deleted it, or when its interface can hold it again.
	Lost func(instance string, a Address)
	// Fought says that the address was lost a fourth time within ten seconds. It is not repaired any more until
	// the instance stops wanting it and wants it again.
	Fought func(instance string, a Address)
	// Error says that the kernel refused an address. It is tried again, with growing pauses up to 2 s.
	Error func(instance string, a Address, err error)
	// FoughtPath is Fought for a route or rule of an instance.
	FoughtPath func(instance string, o fib.Object)
	// Missing says which static addresses, routes and rules are not there and cannot be
	// put back. It is called when that changes.
	Missing func(all []Missing)
}

// Missing is a static object that is not there and cannot be put back.
type Missing struct {
	What  string // "route 10.1.0.0/16 via 10.9.0.254"
	Group string // who needs it; "": nobody in particular
	Why   string
}

// Change is one addition or removal of an address on the interface with this index. An addition never changes an
// existing address. A removal is of the address with this very prefix length and peer. As in Linux, removing the primary
// IPv4 address of a subnet takes its secondaries with it unless promote_secondaries is set.
type Change struct {
	Index  int
	Addr   Addr
	Remove bool
}

// Kernel is the part of an operating system's kernel that holds addresses. Errors wrap the kernel's errno:
// ENODEV no such interface, EEXIST address exists already, EADDRNOTAVAIL no such address.
type Kernel interface {
	// Change makes changes in order and returns the error of each, nil when it was made. One that fails does not keep
	// those after it from being made.
	Change(changes []Change) []error
	// State reads all interfaces and addresses.
	State() (State, error)
}

// InstanceStatus is what is really there of one instance.
type InstanceStatus struct {
	Instance  string
	Wanted    bool // its addresses shall be there
	Addresses []AddressStatus
}

// AddressStatus is one virtual address as the kernel has it, or not.
type AddressStatus struct {
	Address Address
	Dev     string // the interface it belongs on
	Present bool   // it is in the kernel, whether wanted or not
	Refused bool   // packets to it are refused (see Shield)
	Fought  bool   // given up: somebody else keeps removing it
	Err     error  // why the kernel refused it last; nil when it did not
	Waits   string // what it waits for while it is wanted and not there; "" for nothing, or for its turn
}

const forever = ^uint32(0)

// record is the address as vipd wants the kernel to have it. IPv6 addresses skip duplicate address detection: the
// node that just took them over must answer at once.
func (a Address) record() Addr {
	r := Addr{Prefix: a.Prefix, Peer: a.Peer, Scope: uint8(a.Scope), Proto: Proto, ValidLft: forever, PreferredLft: forever}
	flags := a.Flags
	if a.NoPrefixRoute {
		flags |= unix.IFA_F_NOPREFIXROUTE
	}
	if a.Prefix.Addr().Is4() {
		r.Label, r.Broadcast = a.Label, a.Broadcast
	} else {
		if !a.DAD {
			flags |= unix.IFA_F_NODAD
		}
	}
	switch {
	case a.Deprecated:
		r.PreferredLft = 0
	case a.PreferredLft > 0:
		r.PreferredLft = a.PreferredLft
	}
	r.setFlags(flags)
	return r
}

// dev is the interface the address belongs on.
func (s *Set) dev(a Address) string {
	if a.Dev != "" {
		return a.Dev
	}
	return s.Interface
}
