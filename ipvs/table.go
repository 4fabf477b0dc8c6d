package ipvs

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Pool is one service and its destinations by address.
type Pool struct {
	Service      Service
	Destinations map[netip.AddrPort]Destination
}

// Usable reports whether any destination of the pool may be picked.
func (p Pool) Usable() bool {
	for _, d := range p.Destinations {
		if d.Usable() {
			return true
		}
	}
	return false
}

// Table is a set of services, as wanted or as found in a kernel. Write to it with [Table.AddService] and
// [Table.AddDestination], which keep its values in normal form.
type Table map[Key]Pool

// AddService puts a service without destinations into the table, or changes the one that is there.
func (t Table) AddService(s Service) {
	p, ok := t[s.Key]
	if !ok {
		p.Destinations = map[netip.AddrPort]Destination{}
	}
	p.Service = s.Normal()
	t[s.Key] = p
}

// AddDestination puts a destination into a service of the table, replacing one of the same address. It reports whether
// the table has the service.
func (t Table) AddDestination(k Key, d Destination) bool {
	p, ok := t[k]
	if !ok {
		return false
	}
	p.Destinations[d.Address] = d
	return true
}

// Keys returns the services in order.
func (t Table) Keys() []Key { return slices.SortedFunc(maps.Keys(t), Key.Compare) }

// Clone returns a copy that shares nothing with t.
func (t Table) Clone() Table {
	out := make(Table, len(t))
	for k, p := range t {
		out[k] = Pool{Service: p.Service, Destinations: maps.Clone(p.Destinations)}
	}
	return out
}

// Equal reports whether both tables hold the same services and destinations.
func (t Table) Equal(o Table) bool {
	return maps.EqualFunc(t, o, func(a, b Pool) bool {
		return a.Service == b.Service && maps.Equal(a.Destinations, b.Destinations)
	})
}

// Apply records an operation that the kernel has acknowledged. Editing or deleting what is not there changes nothing.
func (t Table) Apply(op Op) {
	k := op.Service.Key
	switch op.Kind {
	case AddService:
		t.AddService(op.Service)
	case EditService:
		if _, ok := t[k]; ok {
			t.AddService(op.Service)
		}
	case DelService:
		delete(t, k)
	case AddDestination:
		t.AddDestination(k, op.Destination)
	case EditDestination:
		if _, ok := t[k].Destinations[op.Destination.Address]; ok {
			t.AddDestination(k, op.Destination)
		}
	case DelDestination:
		delete(t[k].Destinations, op.Destination.Address)
	}
}

// String prints the table as sorted lines of ipvsadm-save.
func (t Table) String() string {
	var b strings.Builder
	for _, k := range t.Keys() {
		p := t[k]
		b.WriteString(Op{Kind: AddService, Service: p.Service}.arguments() + "\n")
		for _, a := range slices.SortedFunc(maps.Keys(p.Destinations), netip.AddrPort.Compare) {
			b.WriteString(Op{Kind: AddDestination, Service: p.Service, Destination: p.Destinations[a]}.arguments() + "\n")
		}
	}
	return b.String()
}

// Target names a service, or with a valid Destination one of its servers.
type Target struct {
	Service     Key
	Destination netip.AddrPort
}

// String returns the service, and the server after " -> ".
func (t Target) String() string {
	if !t.Destination.IsValid() {
		return t.Service.String()
	}
	return t.Service.String() + " -> " + t.Destination.String()
}

// Connections are the kernel's counts for one destination at the moment of reading.
type Connections struct{ Active, Inactive, Persistent uint32 }

// Snapshot is a table read from a kernel, with the connection counts of its destinations.
type Snapshot struct {
	Table       Table
	Connections map[Target]Connections
}

// ErrAbsent says that the kernel has no IPVS, and so no service of anybody.
var ErrAbsent = errors.New("this kernel has no IPVS (module ip_vs): run \"modprobe ip_vs\"; if that fails, install or boot a kernel with CONFIG_IP_VS")
