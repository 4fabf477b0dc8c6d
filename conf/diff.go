package conf

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Change is one object of the configuration that a reload adds, removes or
// changes.
type Change struct {
	Object  string   // "vrrp_instance VI_1", "virtual_server tcp 10.9.0.100:80"
	Kind    string   // "added", "removed" or "changed"
	Details []string // of a change: "priority 100 -> 150", "virtual_ipaddress +203.0.113.11/32"
}

// String returns the change as a line of the log.
func (c Change) String() string {
	if len(c.Details) == 0 {
		return c.Object + " " + c.Kind
	}
	return c.Object + " " + c.Kind + ": " + strings.Join(c.Details, ", ")
}

// Diff returns what a reload from old to new changes, in the order of the
// tables in a file, what is removed last. It is empty when the two do the same,
// even when the files were written differently.
func Diff(old, new *Config) []Change {
	a, b := *old, *new
	a.VirtualServers, b.VirtualServers = unequal(old.VirtualServers, new.VirtualServers)
	return changes(a.sections(), b.sections())
}

// unequal leaves out what is the same, in the same order, in both lists: of thousands of
// servers few are changed at a time, and to write all of them out takes long.
func unequal(old, new []VirtualServer) (a, b []VirtualServer) {
	for len(old) > 0 && len(new) > 0 && reflect.DeepEqual(old[0], new[0]) {
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && reflect.DeepEqual(old[len(old)-1], new[len(new)-1]) {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	if len(old) != len(new) {
		return old, new
	}
	for i := range old {
		if !reflect.DeepEqual(old[i], new[i]) {
			a, b = append(a, old[i]), append(b, new[i])
		}
	}
	return a, b
}

// changes compares two lists of sections.
func changes(old, new []section) []Change {
	before := make(map[string]section, len(old))
	for _, s := range old {
		before[s.object] = s
	}
	var all []Change
	for _, s := range new {
		o, ok := before[s.object]
		if delete(before, s.object); !ok {
			all = append(all, Change{Object: s.object, Kind: "added"})
			continue
		}
		var d details
		d.section(o, s)
		if len(d) > 0 {
			all = append(all, Change{s.object, "changed", d})
		}
	}
	for _, s := range old {
		if _, ok := before[s.object]; ok {
			all = append(all, Change{Object: s.object, Kind: "removed"})
		}
	}
	return all
}

// details gathers the changes of one object.
type details []string

// section compares two sections of one object.
func (d *details) section(a, b section) {
	d.settings("", a.settings, b.settings)
	parts := changes(a.parts, b.parts)
	for _, c := range parts {
		text := c.Object + " " + c.Kind
		if len(c.Details) > 0 {
			text = c.Object + " (" + strings.Join(c.Details, ", ") + ")"
		}
		*d = append(*d, text)
	}
	object := func(s section) string { return s.object }
	if len(parts) == 0 && !slices.Equal(each(a.parts, object), each(b.parts, object)) {
		kind, _, _ := strings.Cut(b.parts[0].object, " ")
		*d = append(*d, kind+" in another order")
	}
}

// settings compares two lists of settings; the prefix is of their keys.
func (d *details) settings(prefix string, a, b []setting) {
	find := func(list []setting, key string) any {
		i := slices.IndexFunc(list, func(s setting) bool { return s.key == key })
		if i < 0 {
			return nil
		}
		return list[i].value
	}
	for _, s := range b {
		d.value(prefix+s.key, find(a, s.key), s.value)
	}
	for _, s := range a {
		if !slices.ContainsFunc(b, func(o setting) bool { return o.key == s.key }) {
			d.value(prefix+s.key, s.value, nil)
		}
	}
}

// value notes that a key no longer has the same value; nil: it is not there.
func (d *details) value(key string, a, b any) {
	a, b = bare(a), bare(b)
	if reflect.DeepEqual(a, b) {
		return
	}
	either := b
	if b == nil {
		either = a
	}
	switch either.(type) {
	case hidden:
		*d = append(*d, key+" changed")
	case list, lines, inlines:
		d.list(key, entriesOf(a), entriesOf(b))
	case inline:
		x, _ := a.(inline)
		y, _ := b.(inline)
		d.settings(key+".", x, y)
	case Command:
		x, _ := a.(Command)
		y, _ := b.(Command)
		d.add(key, x.Argv, y.Argv)
		d.add(key+" user", x.User.String(), y.User.String())
	default:
		d.add(key, a, b)
	}
}

// bare returns the value itself, written or not.
func bare(value any) any {
	if u, ok := value.(unwritten); ok {
		return u.value
	}
	return value
}

// add notes a value that is no longer the same.
func (d *details) add(key string, a, b any) {
	if x, y := detail(a), detail(b); x != y {
		*d = append(*d, key+" "+x+" -> "+y)
	}
}

// detail shows a value.
func detail(value any) string {
	text := ""
	switch v := value.(type) {
	case nil:
	case bool:
		text = "off"
		if v {
			text = "on"
		}
	case time.Duration:
		return shortTime(v)
	case []string:
		if len(v) > 0 {
			text = quoteAll(v)
		}
	case netip.Addr:
		if v.IsValid() {
			text = v.String()
		}
	case netip.AddrPort:
		text = endpointText(v)
	default:
		text = fmt.Sprint(v)
	}
	if text == "" {
		return "none"
	}
	return text
}

// entriesOf returns the entries of a list.
func entriesOf(value any) []string {
	switch v := value.(type) {
	case list:
		return v
	case lines:
		return v
	case inlines:
		return each(v, inline.toml)
	}
	return nil
}

// list notes entries that came and went, or that only the order changed.
func (d *details) list(key string, a, b []string) {
	var parts []string
	for _, x := range b {
		if !slices.Contains(a, x) {
			parts = append(parts, "+"+x)
		}
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			parts = append(parts, "-"+x)
		}
	}
	if len(parts) == 0 && !slices.Equal(a, b) {
		parts = []string{"in another order"}
	}
	if len(parts) > 6 {
		parts = append(parts[:6], fmt.Sprintf("and %d more", len(parts)-6))
	}
	if len(parts) > 0 {
		*d = append(*d, key+" "+strings.Join(parts, " "))
	}
}

// texts returns the String of every entry.
func texts[T fmt.Stringer](list []T) []string { return each(list, T.String) }
