package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The kinds of tables, and of include, which the loader reads itself.
var (
	tableKind   = &kind{"table", "a table", []string{"type"}, nil}
	tablesKind  = &kind{"tables", "a table or an array of tables", []string{"type"}, nil}
	namedKind   = &kind{"named", "tables with names", []string{"type", "name"}, nil}
	includeKind = &kind{"include", `names or patterns of files (["conf.d/*.toml"])`, []string{"type", "pattern", "read", "cycle", "repeated"}, nil}
)

// parse reads the value of the key. Tables are not parsed through their kind,
// for blocks refer to kinds and would refer to themselves.
func (f field) parse() (any, bool) {
	switch f.k.kind {
	case tableKind:
		return parseTable(f)
	case tablesKind:
		return parseTables(f)
	case namedKind:
		return parseNamed(f)
	case includeKind:
		return true, true // the loader has followed it
	}
	return f.k.kind.parse(f)
}

// parseTable reads one table. Even when keys in it are wrong the rest is
// returned, so that what depends on it can be checked.
func parseTable(f field) (any, bool) {
	if f.it.kind != tableItem {
		return f.wrongType("table")
	}
	return f.c.check(f.k.block, f.it, f.path), true
}

// parseTables reads an array of tables, or one table in its place.
func parseTables(f field) (any, bool) {
	if f.it.kind == tableItem {
		return []*values{f.c.check(f.k.block, f.it, f.path)}, true
	}
	if f.it.kind != arrayItem {
		return f.badAt(f.it, f.path, "type", shown(f.it)+" is no table", "write it as "+f.k.block.header)
	}
	all := make([]*values, 0, len(f.it.list))
	for i, e := range f.it.list {
		path := f.path + "[" + strconv.Itoa(i) + "]"
		if e.kind != tableItem {
			f.badAt(e, path, "type", shown(e)+" is no table", "write it as "+f.k.block.header)
			continue
		}
		if e.unread() != "" {
			all = append(all, &values{block: f.k.block, it: e, path: path})
			continue
		}
		all = append(all, f.c.check(f.k.block, e, path))
	}
	return all, true
}

// parseNamed reads a table of named tables and sorts them by name.
func parseNamed(f field) (any, bool) {
	if f.it.kind != tableItem {
		return f.badAt(f.it, f.path, "type", shown(f.it)+" is no table with a name", "write it as "+f.k.block.header)
	}
	var all []*values
	for _, entry := range f.it.keys {
		name, child := entry.name, entry.it
		path := join(f.path, name)
		if child.kind != tableItem {
			f.badAt(child, path, "type", shown(child)+" is no table", "a "+f.k.name+" needs a name: write it as "+f.k.block.header+" and its keys below")
			continue
		}
		if !validName(name) {
			f.badAt(child, path, "name", fmt.Sprintf("%q cannot be a name", name), "must be 1..63 printable characters without blanks")
		}
		v := f.c.check(f.k.block, child, path)
		v.name = name
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *values) int { return strings.Compare(a.name, b.name) })
	return all, true
}

// validName reports whether a name can be told apart in logs, arguments and
// track lines.
func validName(s string) bool {
	return s != "" && len(s) <= 63 && printable(s) && !blank(s) && !strings.Contains(s, "\"")
}
