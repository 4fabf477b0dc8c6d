// Package host owns what vipd changes on the machine itself: the virtual IP addresses on its interfaces.
//
// A [Watcher] turns netlink events into whole, immutable [State] snapshots. Events are only a reason to read
// again; what counts is always the state, never the edge, so an overflow of the event socket costs one more read
// and nothing else.
//
// A [Manager] owns the wanted addresses. Callers say per instance whether its addresses shall be there
// ([Manager.Want]) and which they are ([Manager.Configure]); one worker makes the kernel agree, removals first,
// then additions, round-robin between instances: one, then a few, then many in one call. It says so after each call
// ([Callbacks]). It repairs what
// others take away and gives up, with a callback, when somebody keeps taking it away.
//
// # Whose address is it
//
// An address is vipd's, and only then ever removed, when vipd added it, when a predecessor with the same state file
// did, or when it equals (address, prefix length, interface) a configured virtual address of an instance that is
// not its owner (priority 255). Addresses that vipd adds carry IFA_PROTO 112 where the kernel keeps it (Linux 5.18).
// The mark alone never makes an address removable, because another vipd with another state directory may share the
// network namespace; it is evidence that an address is virtual and no base address. At start it also counts for a
// configured virtual address that has another prefix length or is on another interface: a predecessor whose state
// file is lost was configured that way. Two exceptions protect the
// machine: the owner's own address is left alone unless this vipd added it, and so is an unmarked address that is
// configured as a virtual one but the only one of its family on its interface, virtual ones not counted: removing it
// could cut the machine off.
//
// An equal address that somebody added by hand is therefore taken over while its instance wants it, and goes when the
// instance gives its addresses up: a virtual address that stays on a node that is not master is an outage.
//
// The state file is written before the kernel is. Where the kernel keeps marks it lists all configured addresses,
// because the mark tells which of them really are vipd's; so no takeover waits for a disk.
package host
