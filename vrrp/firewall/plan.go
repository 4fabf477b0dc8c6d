package firewall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// wish is the whole wanted state.
type wish struct {
	options Options
	owner   string
	refused map[Address]bool
	silent  map[string]int
}

// table is the wanted table of a family, nil when there shall be none.
func (w *wish) table(f Family) (*Table, Parts) {
	t := &Table{Family: f, Name: w.options.Table, Owner: w.owner, Refused: map[Address]bool{}, Silent: w.silent}
	for a := range w.refused {
		if a.Family() == f {
			t.Refused[a] = true
		}
	}
	p := Parts{Refusing: len(t.Refused) > 0, Silencing: len(t.Silent) > 0}
	if p == (Parts{}) {
		return nil, p
	}
	t.Form = Form(f, w.options, p)
	return t, p
}

// plan returns the transaction that makes have what is wished. have holds all tables of the wished name and all of
// ours; made names those that this process made, whatever their mark says now.
func (w *wish) plan(have []Table, made map[string]bool) ([]Op, error) {
	var ops []Op
	for _, f := range families {
		want, parts := w.table(f)
		var now *Table
		for i := range have {
			t := &have[i]
			if t.Family != f {
				continue
			}
			ours := t.Owner == w.owner || made[t.ref()]
			switch {
			case t.Name == w.options.Table && !ours && want != nil:
				return nil, fmt.Errorf("table %s %w", t.ref(), foreign(t))
			case t.Name == w.options.Table && ours && want != nil && t.Form == want.Form && t.Owner == w.owner:
				now = t
			case ours:
				ops = append(ops, Op{Kind: OpDelete, Family: f, Table: t.Name})
			}
		}
		if want == nil {
			continue
		}
		if now == nil {
			ops = append(ops, Op{Kind: OpCreate, Family: f, Table: want.Name, Owner: w.owner, Options: w.options, Parts: parts})
			now = &Table{}
		}
		ops = append(ops, elements(now, want)...)
	}
	return ops, nil
}

// foreign explains whose a table is.
func foreign(t *Table) error {
	if t.Owner == "" {
		return ErrForeign
	}
	return fmt.Errorf("belongs to the vipd with the state directory %s and %w", t.Owner, ErrForeign)
}

// elements returns the changes of elements between two tables of one form.
func elements(have, want *Table) []Op {
	add := Op{Kind: OpAdd, Family: want.Family, Table: want.Name}
	del := Op{Kind: OpRemove, Family: want.Family, Table: want.Name}
	for a := range want.Refused {
		if !have.Refused[a] {
			add.Refused = append(add.Refused, a)
		}
	}
	for a := range have.Refused {
		if !want.Refused[a] {
			del.Refused = append(del.Refused, a)
		}
	}
	for name, parent := range want.Silent {
		if have.Silent[name] != parent {
			add.Silent = append(add.Silent, Link{name, parent})
		}
	}
	for name, parent := range have.Silent {
		if want.Silent[name] != parent {
			del.Silent = append(del.Silent, Link{name, parent})
		}
	}
	var ops []Op
	for _, op := range []Op{del, add} { // an element of the map is taken out before it points elsewhere
		slices.SortFunc(op.Refused, func(a, b Address) int {
			return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Interface, b.Interface))
		})
		slices.SortFunc(op.Silent, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
		if len(op.Refused)+len(op.Silent) > 0 {
			ops = append(ops, op)
		}
	}
	return ops
}

// after is have once the transaction is done, without another look at the kernel.
func after(have []Table, ops []Op) []Table {
	for _, op := range ops {
		at := slices.IndexFunc(have, func(t Table) bool { return t.Family == op.Family && t.Name == op.Table })
		switch op.Kind {
		case OpDelete:
			have = slices.Delete(slices.Clone(have), at, at+1)
		case OpCreate:
			have = append(have, Table{Family: op.Family, Name: op.Table, Owner: op.Owner, Form: Form(op.Family, op.Options, op.Parts),
				Refused: map[Address]bool{}, Silent: map[string]int{}})
		case OpAdd, OpRemove:
			apply(&have[at], op)
		}
	}
	return have
}

func apply(t *Table, op Op) {
	t.Refused, t.Silent = maps.Clone(t.Refused), maps.Clone(t.Silent)
	for _, a := range op.Refused {
		if op.Kind == OpAdd {
			t.Refused[a] = true
		} else {
			delete(t.Refused, a)
		}
	}
	for _, l := range op.Silent {
		if op.Kind == OpAdd {
			t.Silent[l.Name] = l.Parent
		} else {
			delete(t.Silent, l.Name)
		}
	}
}
