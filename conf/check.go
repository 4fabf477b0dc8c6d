package conf

import (
	"fmt"
	"slices"
	"strings"
)

// checker compares a document with the schema.
type checker struct {
	*loader
}

// values is a table of the document after the check: the finished value of
// every key that was given and is good.
type values struct {
	block *block
	it    *item
	path  string
	name  string  // of a named table
	got   []value // every key that was written, in file order
}

// value is the finished value of one key.
type value struct {
	key  string // the name in the schema
	it   *item
	path string
	v    any  // nil when it is wrong; of a list, what is right in it
	bad  bool // it is wrong, or a part of it
}

// field is one key while it is checked.
type field struct {
	c    *checker
	b    *block
	k    *key
	it   *item
	path string
}

// bad reports that the value of the key is wrong and returns what a kind
// returns then.
func (f field) bad(rule, message string) (any, bool) {
	return f.badAt(f.it, f.path, rule, message, f.k.must())
}

// badAt reports an error about a part of the value.
func (f field) badAt(it *item, path, rule, message, detail string) (any, bool) {
	f.c.report(it.src, it.at, Diagnostic{Rule: f.rule(rule), Path: path, Message: message, Detail: detail})
	if f.k.secret && it.kind == scalarItem {
		f.c.diags[len(f.c.diags)-1].blot()
	}
	return nil, false
}

// rule returns the identifier of a rule of this key.
func (f field) rule(suffix string) string { return f.b.name + "." + f.k.name + "/" + suffix }

// check checks one table against its block.
func (c *checker) check(b *block, it *item, path string) *values {
	v := &values{block: b, it: it, path: path, got: make([]value, 0, len(it.keys))}
	var meant []string // keys that a misspelt one stands for: they are not missing too
	for _, entry := range it.keys {
		name, child := entry.name, entry.it
		k := b.find(name)
		if k == nil {
			meant = append(meant, c.foreign(b, it, name, child, path))
			continue
		}
		f := field{c: c, b: b, k: k, it: child, path: join(path, name)}
		if old := v.value(k.name); old != nil {
			f.badAt(child, f.path, "twice", "the same as "+old.path+" at "+child.src.place(old.it.at), "give one of the spellings "+strings.Join(append([]string{k.name}, k.aliases...), ", "))
			continue
		}
		finished, ok := f.parse()
		v.got = append(v.got, value{key: k.name, it: child, path: f.path, v: finished, bad: !ok})
	}
	for _, name := range meant {
		if k := b.find(name); k != nil && !v.given(k.name) {
			v.got = append(v.got, value{key: k.name, it: it, path: path, bad: true})
		}
	}
	if c.broken {
		return v // what is missing may stand in the file that cannot be read
	}
	for _, k := range b.keys {
		if k.need && v.missing(k.name) {
			c.report(it.src, it.at, Diagnostic{Rule: b.name + "." + k.name + "/required", Path: path, Message: k.name + " is missing",
				Detail: "add " + k.name + ": " + lowerFirst(firstSentence(k.doc)) + "\n" + k.must()})
		}
	}
	return v
}

// foreign reports a key that the block does not have and returns the key that
// was probably meant, or "".
func (c *checker) foreign(b *block, table *item, name string, it *item, path string) (meant string) {
	d := Diagnostic{Rule: b.name + "/unknown", Path: path}
	word := fmt.Sprintf("%q", name)
	known := lookupKeyword(b.name, name)
	if known == nil && b.borrows != "" {
		known = lookupKeyword(b.borrows, name)
	}
	switch {
	case known == nil:
		d.Message, d.Detail, meant = c.unknown(b, table, name)
	case known.fate == instead:
		d.Rule = b.name + "/instead"
		d.Message = word + " is a keepalived keyword that vipd does not have"
		if b.borrows != "" && slices.Contains(known.blocks, b.name) {
			d.Message = word + " cannot be given here"
		}
		d.Detail = known.advice
	case known.fate == noEffect:
		d.Rule, d.Severity = b.name+"/noeffect", Warning
		d.Message = word + " has no effect"
		d.Detail = known.advice + "; take it out"
	}
	c.report(it.src, it.at, d)
	return meant
}

// unknown says what to do about a key that nobody knows.
func (c *checker) unknown(b *block, table *item, name string) (message, detail, meant string) {
	message = fmt.Sprintf("unknown key %q", name)
	if home := homes(b, name); home != "" {
		return message + "; it belongs in " + home, "", ""
	}
	if s := suggest(name, unused(b, table)); s != "" {
		return message + `; did you mean "` + s + `"?`, "", s
	}
	if s := suggest(name, slices.Concat(b.names(), keywordsOf(b.name), keywordsOf(b.borrows))); s != "" {
		return message + `; did you mean "` + s + `"?`, "", ""
	}
	for _, other := range blocks() {
		if s := suggest(name, other.names()); s != "" && other != b {
			return message + `; did you mean "` + s + `", which belongs in ` + other.title() + "?", "", ""
		}
	}
	return message, "known here: " + wrap(b.names()), ""
}

// title names a block for a message.
func (b *block) title() string {
	if b == rootBlock {
		return "the top of the file, before the first table"
	}
	return b.header
}

// wrap joins words with commas in lines of moderate length.
func wrap(words []string) string {
	var b strings.Builder
	width := 0
	for i, w := range words {
		if i > 0 {
			b.WriteByte(',')
			if width += len(w) + 2; width > 90 {
				b.WriteString("\n  ")
				width = 0
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(w)
	}
	return b.String()
}

// unused returns the spellings of the keys of b that table does not have yet.
func unused(b *block, table *item) []string {
	var names []string
	for _, k := range b.keys {
		spellings := append([]string{k.name}, k.aliases...)
		if !slices.ContainsFunc(spellings, func(s string) bool { return table.child(s) != nil }) {
			names = append(names, spellings...)
		}
	}
	return names
}

// homes returns the headers of the blocks that have a key or keyword, other
// than b.
func homes(b *block, name string) string {
	var found []string
	for _, other := range blocks() {
		if other == b {
			continue
		}
		if k := other.find(name); k != nil && !other.shares(k) || k == nil && other.borrows == "" && lookupKeyword(other.name, name) != nil {
			found = append(found, other.title())
		}
	}
	return strings.Join(found[:min(len(found), 3)], " or ")
}

// given reports whether a key was written, right or wrong.
func (v *values) given(name string) bool { return v.value(name) != nil }

// value returns what was written for a key, or nil.
func (v *values) value(name string) *value {
	for i := range v.got {
		if v.got[i].key == name {
			return &v.got[i]
		}
	}
	return nil
}

// missing reports whether a key was not written, or as an empty array of tables.
func (v *values) missing(name string) bool {
	g := v.value(name)
	if g == nil {
		return true
	}
	tables, ok := g.v.([]*values)
	return ok && len(tables) == 0
}

// has reports whether a key was written and is right.
func (v *values) has(name string) bool { g := v.value(name); return g != nil && g.v != nil }

// wrong reports whether a key was written and is wrong.
func (v *values) wrong(name string) bool { g := v.value(name); return g != nil && g.bad }

// get returns the finished value of a key, its default, or the zero value.
func get[T any](v *values, name string) T {
	if g := v.value(name); g != nil && g.v != nil {
		t, _ := g.v.(T)
		return t
	}
	t, _ := v.block.find(name).def.(T)
	return t
}

// num returns a whole number.
func (v *values) num(name string) int {
	if g := v.value(name); g != nil && g.v != nil {
		n, _ := g.v.(int64)
		return int(n)
	}
	return get[int](v, name)
}

// place returns the item and path to point at for a key: the key itself when it
// was written, else the table.
func (v *values) place(name string) (*item, string) {
	if g := v.value(name); g != nil {
		return g.it, g.path
	}
	return v.it, v.path
}

// inherit returns the first of the tables in which key is given and right, or
// the last one, whose default then holds.
func inherit(name string, tables ...*values) *values {
	for _, t := range tables {
		if t.has(name) {
			return t
		}
	}
	return tables[len(tables)-1]
}

// firstSentence returns text up to the first full stop, without it.
func firstSentence(text string) string {
	s, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(s, ".")
}

// lowerFirst makes the first letter small.
func lowerFirst(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' || strings.HasPrefix(s, "A ") {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}
