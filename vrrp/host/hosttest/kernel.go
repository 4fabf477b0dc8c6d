// Package hosttest has an in-memory kernel for tests of what uses package host. It is as strict as Linux: a second
// addition is EEXIST, a missing address EADDRNOTAVAIL, a missing interface ENODEV, removing a primary IPv4 address
// takes its secondaries along, an interface that goes down loses its IPv6 addresses. It prints itself as sorted
// ip(8) commands.
package hosttest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
)

// Op names a call of the port.
type Op string

// The calls of the port.
const (
	OpAdd   Op = "add"
	OpDel   Op = "del"
	OpState Op = "state"
)

// Kernel implements host.Kernel in memory. Its methods may be called from any goroutine.
type Kernel struct {
	mu      sync.Mutex // guards all following fields
	links   map[string]*link
	index   int
	writes  []string
	faults  []fault
	changed func()
	noMarks bool
	routes  []fib.Route
	rules   []fib.Rule
	queries []fib.Query // what State shows of routes
}

type link struct {
	host.Link
	promote bool
}

// fault is one injected error.
type fault struct {
	op     Op
	prefix netip.Prefix // zero: any
	line   string       // of a route or rule; "": any
	err    error
	left   int
}

var _ host.Kernel = (*Kernel)(nil)

// New returns a kernel without interfaces.
func New() *Kernel { return &Kernel{links: map[string]*link{}} }

// OnChange sets a function that is called after each change, without locks held; nil for none.
func (k *Kernel) OnChange(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = f
}

// Change implements host.Kernel.
func (k *Kernel) Change(changes []host.Change) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		if c.Remove {
			errs[i] = k.DelAddress(c.Index, c.Addr)
		} else {
			errs[i] = k.AddAddress(c.Index, c.Addr)
		}
	}
	return errs
}

// AddAddress adds one address (see Change).
func (k *Kernel) AddAddress(index int, a host.Addr) error {
	return k.call(OpAdd, index, a.Prefix, func(l *link) error { return l.add(a) })
}

// DelAddress removes one address (see Change).
func (k *Kernel) DelAddress(index int, a host.Addr) error {
	return k.call(OpDel, index, a.Prefix, func(l *link) error { return l.del(a.Prefix) })
}

func (k *Kernel) call(op Op, index int, p netip.Prefix, do func(*link) error) error {
	k.mu.Lock()
	name := fmt.Sprintf("interface %d", index)
	l := k.byIndex(index)
	err := k.fault(op, p, "")
	if err == nil {
		if l == nil {
			err = unix.ENODEV
		} else {
			name, err = l.Name, do(l)
			k.unmark(l)
			k.settle()
		}
	}
	entry := fmt.Sprintf("%s %s dev %s", op, p, name)
	if err != nil {
		entry += ": " + err.Error()
		err = fmt.Errorf("%s %s on %s: %w", op, p, name, err)
	}
	k.writes = append(k.writes, entry)
	changed := k.changed
	k.mu.Unlock()
	if err == nil && changed != nil {
		changed()
	}
	return err
}

// State implements host.Kernel.
func (k *Kernel) State() (host.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault(OpState, netip.Prefix{}, ""); err != nil {
		return host.State{}, err
	}
	s := host.State{Links: make(map[string]*host.Link, len(k.links)), At: time.Now()}
	for name, l := range k.links {
		c := l.Link
		c.Addrs = slices.Clone(l.Addrs)
		s.Links[name] = &c
	}
	s.FIB = k.readFIB()
	return s, nil
}

// Fail makes the next n calls of op for the address fail with err; the zero prefix stands for any address.
func (k *Kernel) Fail(op Op, p netip.Prefix, n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, fault{op, p, "", err, n})
}

// FailPath makes the next n calls of op for the route or rule that prints like this fail.
func (k *Kernel) FailPath(op Op, line string, n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, fault{op, netip.Prefix{}, line, err, n})
}

// Heal takes back all injected errors.
func (k *Kernel) Heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = nil
}

func (k *Kernel) fault(op Op, p netip.Prefix, line string) error {
	for i := range k.faults {
		f := &k.faults[i]
		if f.op == op && f.left > 0 && (f.line != "" && f.line == line || f.line == "" && (!f.prefix.IsValid() || f.prefix == p)) {
			f.left--
			return f.err
		}
	}
	return nil
}

// Writes returns what was asked through the port since the last call, failures included.
func (k *Kernel) Writes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.writes
	k.writes = nil
	return w
}

// WithoutMarks makes it a kernel before 5.18, which does not keep IFA_PROTO.
func (k *Kernel) WithoutMarks() {
	_ = k.hand(func() error {
		k.noMarks = true
		for _, l := range k.links {
			k.unmark(l)
		}
		return nil
	})
}

func (k *Kernel) unmark(l *link) {
	for i := range l.Addrs {
		if k.noMarks {
			l.Addrs[i].Proto = 0
		}
	}
}

// NewLink makes an interface that is up, with carrier, without addresses but an IPv6 link-local one, and returns its
// index. An index is never used twice.
func (k *Kernel) NewLink(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.links[name] != nil {
		panic("hosttest: interface " + name + " exists")
	}
	k.index++
	l := &link{Link: host.Link{Name: name, Index: k.index, MTU: 1500, MAC: [6]byte{2, 0, 0, 0, byte(k.index >> 8), byte(k.index)}}}
	k.links[name] = l
	l.set(true, true)
	k.unmark(l)
	return k.index
}

// RemoveLink removes an interface with its addresses.
func (k *Kernel) RemoveLink(name string) {
	_ = k.hand(func() error { delete(k.links, name); return nil })
}

// RenameLink gives an interface another name; it keeps its index and addresses.
func (k *Kernel) RenameLink(name, to string) error {
	return k.onLink(name, func(l *link) error {
		if k.links[to] != nil {
			return unix.EEXIST
		}
		delete(k.links, name)
		k.links[to], l.Name = l, to
		return nil
	})
}

// SetLink changes an interface's administrative state and carrier.
func (k *Kernel) SetLink(name string, up, running bool) error {
	return k.onLink(name, func(l *link) error { l.set(up, running); return nil })
}

// SetPromote sets promote_secondaries of the interface.
func (k *Kernel) SetPromote(name string, on bool) error {
	return k.onLink(name, func(l *link) error { l.promote = on; return nil })
}

// Add adds an address as somebody else, by ip(8) say.
func (k *Kernel) Add(name string, a host.Addr) error {
	return k.onLink(name, func(l *link) error { return l.add(a) })
}

// Del removes an address as somebody else.
func (k *Kernel) Del(name string, p netip.Prefix) error {
	return k.onLink(name, func(l *link) error { return l.del(p) })
}

// Has reports whether the interface has the address.
func (k *Kernel) Has(name string, p netip.Prefix) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.links[name]
	return l != nil && l.find(p) >= 0
}

func (k *Kernel) onLink(name string, f func(*link) error) error {
	return k.hand(func() error {
		l := k.links[name]
		if l == nil {
			return unix.ENODEV
		}
		defer k.unmark(l)
		return f(l)
	})
}

func (k *Kernel) hand(f func() error) error {
	k.mu.Lock()
	err := f()
	k.settle()
	changed := k.changed
	k.mu.Unlock()
	if changed != nil {
		changed()
	}
	return err
}

func (k *Kernel) byIndex(index int) *link {
	for _, l := range k.links {
		if l.Index == index {
			return l
		}
	}
	return nil
}

// String prints all addresses as sorted ip(8) commands.
func (k *Kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(k.links)) {
		for _, a := range k.links[name].Addrs {
			lines = append(lines, Line(name, a))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Line is an address as an ip(8) command, with a new line.
func Line(dev string, a host.Addr) string {
	s := fmt.Sprintf("ip addr add %s dev %s", a.Prefix, dev)
	if a.Broadcast.IsValid() {
		s += fmt.Sprintf(" brd %s", a.Broadcast)
	}
	if a.Label != "" {
		s += " label " + a.Label
	}
	if a.Scope != 0 {
		s += fmt.Sprintf(" scope %d", a.Scope)
	}
	if a.PreferredLft == 0 {
		s += " preferred_lft 0"
	}
	if a.Flags&unix.IFA_F_NODAD != 0 {
		s += " nodad"
	}
	if a.Flags&unix.IFA_F_NOPREFIXROUTE != 0 {
		s += " noprefixroute"
	}
	if a.Proto != 0 {
		s += fmt.Sprintf(" proto %d", a.Proto)
	}
	return s + "\n"
}
