package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// DefaultTable and DefaultPriority are what Options are when an operator says nothing.
const (
	DefaultTable    = "vipd"
	DefaultPriority = -1
)

// ErrUnsupported says that the kernel has no nftables for the families ip and ip6.
var ErrUnsupported = errors.New("the kernel has no nftables (module nf_tables)")

// ErrForeign says that a table of our name is somebody else's.
var ErrForeign = errors.New("is not of this vipd: give this one a name of its own (nftables in global_defs), or remove the table if nobody needs it")

// Options are what an operator may choose.
type Options struct {
	Table    string // name of the tables; empty: DefaultTable
	Priority int32  // of the base chains; lower is earlier
	Counters bool   // each rule counts what it meets
}

// Family is one of the two families of tables; its text is nft's.
type Family string

// The families.
const (
	IPv4 Family = "ip"
	IPv6 Family = "ip6"
)

// families in the order in which things are done.
var families = []Family{IPv4, IPv6}

// Address is an address that the machine must not accept.
type Address struct {
	Addr      netip.Addr
	Interface string // of an IPv6 link-local address: where it is one; else empty
}

// On returns an address as it is matched: the interface counts for link-local ones only.
func On(addr netip.Addr, iface string) Address {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		return Address{addr, iface}
	}
	return Address{Addr: addr}
}

// Family is the family of the address.
func (a Address) Family() Family {
	if a.Addr.Is4() {
		return IPv4
	}
	return IPv6
}

// String is the address as nft prints the element.
func (a Address) String() string {
	if a.Interface == "" {
		return a.Addr.String()
	}
	return fmt.Sprintf("%v . %q", a.Addr, a.Interface)
}

// Link is a link that must not send IGMP and MLD reports or router solicitations.
type Link struct {
	Name   string
	Parent int // index of the link that sends the reports instead; never 0
}

// String is the link as nft prints the element.
func (l Link) String() string { return fmt.Sprintf("%q : %d", l.Name, l.Parent) }

// Parts are the rules that a table has.
type Parts struct{ Refusing, Silencing bool }

// Table is one table as the kernel has it or shall have it.
type Table struct {
	Family  Family
	Name    string
	Owner   string // state directory of the vipd whose it is; "": not marked
	Form    string // what rules it has, as [Form] writes them
	Refused map[Address]bool
	Silent  map[string]int // name of the link to index of the parent
}

// ref names a table.
func (t *Table) ref() string { return string(t.Family) + " " + t.Name }

// OpKind is what an Op does.
type OpKind uint8

// The kinds of Op.
const (
	OpCreate OpKind = iota // a table with its sets, chains and rules, and Owner's mark; it must not exist
	OpDelete               // a table with all that is in it; it must exist
	OpAdd                  // elements; the table must exist, the elements may
	OpRemove               // elements that must exist
)

// Op is one step of a transaction.
type Op struct {
	Kind    OpKind
	Family  Family
	Table   string
	Owner   string    // of OpCreate
	Options Options   // of OpCreate
	Parts   Parts     // of OpCreate
	Refused []Address // elements of OpAdd and OpRemove
	Silent  []Link
}

// String is the step in the manner of nft commands.
func (o Op) String() string {
	verb := map[OpKind]string{OpCreate: "create table", OpDelete: "delete table", OpAdd: "add element", OpRemove: "delete element"}[o.Kind]
	s := fmt.Sprintf("%s %s %s", verb, o.Family, o.Table)
	switch o.Kind {
	case OpCreate:
		s += " { " + Form(o.Family, o.Options, o.Parts) + " }"
	case OpAdd, OpRemove:
		for _, a := range o.Refused {
			s += " " + a.String()
		}
		for _, l := range o.Silent {
			s += " " + l.String()
		}
	}
	return s
}

// Kernel is nftables. Errors wrap the kernel's errno: ENOENT nothing of that name, EEXIST it exists already; they are
// [ErrUnsupported] where there is no nftables at all.
type Kernel interface {
	// Tables reads the tables of these names, whose ever they are; without names all that are marked with the owner.
	// Of a table that is marked otherwise only the mark is read.
	Tables(owner string, names ...string) ([]Table, error)
	// Commit does all steps in one transaction, or none.
	Commit(ops []Op) error
	// Watch calls changed after each change of the ruleset, by whomever, until ctx ends (then it returns nil) or it
	// cannot hear of them any more. It calls changed once when it begins to hear.
	Watch(ctx context.Context, changed func()) error
}
