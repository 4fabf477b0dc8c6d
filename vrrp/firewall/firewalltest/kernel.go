// Package firewalltest has an in-memory nftables for tests of what uses package firewall. It is as strict as Linux: a
// transaction is done as a whole or not at all, creating what exists is EEXIST, deleting what does not is ENOENT.
package firewalltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"vipd/vrrp/firewall"
)

// Kernel implements firewall.Kernel in memory. Its methods may be called from any goroutine.
type Kernel struct {
	mu      sync.Mutex // guards all following fields
	tables  map[string]firewall.Table
	commits [][]string
	fail    error
	failing func(firewall.Op) error
	changed map[int]chan struct{}
	watches int
}

var _ firewall.Kernel = (*Kernel)(nil)

// New returns a kernel without tables.
func New() *Kernel {
	return &Kernel{tables: map[string]firewall.Table{}, changed: map[int]chan struct{}{}}
}

func ref(f firewall.Family, name string) string { return string(f) + " " + name }

// Tables implements firewall.Kernel.
func (k *Kernel) Tables(owner string, names ...string) ([]firewall.Table, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return nil, k.fail
	}
	var out []firewall.Table
	for _, r := range slices.Sorted(maps.Keys(k.tables)) {
		t := clone(k.tables[r])
		if len(names) > 0 && !slices.Contains(names, t.Name) || len(names) == 0 && t.Owner != owner {
			continue
		}
		if t.Owner != owner {
			t.Form, t.Refused, t.Silent = "", map[firewall.Address]bool{}, map[string]int{}
		}
		out = append(out, t)
	}
	return out, nil
}

// Commit implements firewall.Kernel.
func (k *Kernel) Commit(ops []firewall.Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return k.fail
	}
	tables := map[string]firewall.Table{}
	for r, t := range k.tables {
		tables[r] = clone(t)
	}
	var lines []string
	for _, op := range ops {
		var err error
		if k.failing != nil {
			err = k.failing(op)
		}
		if err == nil {
			err = step(tables, op)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", op, err)
		}
		lines = append(lines, op.String())
	}
	k.tables = tables
	k.commits = append(k.commits, lines)
	k.tell()
	return nil
}

func step(tables map[string]firewall.Table, op firewall.Op) error {
	r := ref(op.Family, op.Table)
	t, ok := tables[r]
	if ok == (op.Kind == firewall.OpCreate) {
		return map[bool]error{true: unix.EEXIST, false: unix.ENOENT}[ok]
	}
	switch op.Kind {
	case firewall.OpDelete:
		delete(tables, r)
		return nil
	case firewall.OpCreate:
		t = firewall.Table{Family: op.Family, Name: op.Table, Owner: op.Owner, Form: firewall.Form(op.Family, op.Options, op.Parts),
			Refused: map[firewall.Address]bool{}, Silent: map[string]int{}}
	}
	for _, a := range op.Refused {
		switch {
		case !strings.Contains(t.Form, "no_accept") || a.Family() != op.Family:
			return unix.ENOENT // no such set
		case op.Kind == firewall.OpAdd:
			t.Refused[a] = true
		case !t.Refused[a]:
			return unix.ENOENT
		default:
			delete(t.Refused, a)
		}
	}
	for _, l := range op.Silent {
		parent, ok := t.Silent[l.Name]
		switch {
		case !strings.Contains(t.Form, "virtual-MAC"):
			return unix.ENOENT
		case op.Kind == firewall.OpAdd && ok && parent != l.Parent:
			return unix.EEXIST
		case op.Kind == firewall.OpAdd:
			t.Silent[l.Name] = l.Parent
		case !ok:
			return unix.ENOENT
		default:
			delete(t.Silent, l.Name)
		}
	}
	tables[r] = t
	return nil
}

func clone(t firewall.Table) firewall.Table {
	t.Refused, t.Silent = maps.Clone(t.Refused), maps.Clone(t.Silent)
	return t
}

// Watch implements firewall.Kernel.
func (k *Kernel) Watch(ctx context.Context, changed func()) error {
	k.mu.Lock()
	if k.fail != nil {
		defer k.mu.Unlock()
		return k.fail
	}
	ch, id := make(chan struct{}, 1), k.watches
	k.changed[id] = ch
	k.watches++
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.changed, id)
		k.mu.Unlock()
	}()
	changed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ch:
			changed()
		}
	}
}

// tell wakes the watchers. The caller holds the lock.
func (k *Kernel) tell() {
	for _, ch := range k.changed {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Fail makes every call fail with err; nil ends that.
func (k *Kernel) Fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = err
}

// FailSteps makes transactions fail for the steps for which f returns an error; nil ends that.
func (k *Kernel) FailSteps(f func(firewall.Op) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failing = f
}

// Flush removes all tables, as "nft flush ruleset" does.
func (k *Kernel) Flush() {
	k.hand(func() { k.tables = map[string]firewall.Table{} })
}

// Put makes a table as somebody else, or changes one.
func (k *Kernel) Put(t firewall.Table) {
	k.hand(func() { k.tables[ref(t.Family, t.Name)] = clone(t) })
}

// FlushRules removes the rules of a table but nothing else, as "nft flush table" does.
func (k *Kernel) FlushRules(f firewall.Family, name string) {
	k.hand(func() {
		t := k.tables[ref(f, name)]
		t.Form = "in -1: ; out -1: "
		k.tables[ref(f, name)] = t
	})
}

func (k *Kernel) hand(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	k.tell()
}

// Commits returns the transactions since the last call, step by step.
func (k *Kernel) Commits() [][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.commits
	k.commits = nil
	return c
}

// Refused lists the addresses that are refused now by tables of the owner, sorted.
func (k *Kernel) Refused(owner string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, t := range k.tables {
		if t.Owner != owner || !strings.Contains(t.Form, "no_accept") {
			continue
		}
		for a := range t.Refused {
			out = append(out, a.String())
		}
	}
	slices.Sort(out)
	return out
}

// String prints all tables with their elements, sorted.
func (k *Kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for _, r := range slices.Sorted(maps.Keys(k.tables)) {
		b.WriteString(Text(k.tables[r]))
	}
	return b.String()
}

// Text is a table with its elements, a line each.
func Text(t firewall.Table) string {
	s := fmt.Sprintf("table %s %s of %q { %s }\n", t.Family, t.Name, t.Owner, t.Form)
	var lines []string
	for a := range t.Refused {
		lines = append(lines, "\trefused "+a.String()+"\n")
	}
	for name, parent := range t.Silent {
		lines = append(lines, "\tsilent "+firewall.Link{Name: name, Parent: parent}.String()+"\n")
	}
	slices.Sort(lines)
	return s + strings.Join(lines, "")
}
