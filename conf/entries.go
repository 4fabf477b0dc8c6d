package conf

import (
	"slices"
	"strconv"
	"strings"
)

// entries returns the entries of an array, or the one value in its place.
func (f field) entries() ([]field, bool) {
	if f.it.kind != arrayItem {
		if _, ok := f.it.value.(string); !ok && f.it.kind != tableItem {
			f.wrongType("array")
			return nil, false
		}
		return []field{f}, true
	}
	all := make([]field, len(f.it.list))
	for i, e := range f.it.list {
		all[i] = field{f.c, f.b, f.k, e, f.path + "[" + strconv.Itoa(i) + "]"}
	}
	return all, true
}

// parseEntries reads every entry of an array. Each may be listed once, unless name,
// by which they are told apart, is nil.
func parseEntries[T any](f field, read func(field) (T, bool), name func(T) string) ([]T, bool) {
	entries, ok := f.entries()
	var all []T
	seen := map[string]bool{}
	for _, e := range entries {
		entry, good := read(e)
		if good && name != nil {
			id := name(entry)
			if good = !seen[id]; !good {
				e.badAt(e.it, e.path, "twice", id+" is listed twice", "keep one of the two entries")
			}
			seen[id] = true
		}
		if ok = ok && good; good {
			all = append(all, entry)
		}
	}
	return all, ok
}

// words returns the entry as keepalived's line split into words. A table gives
// the value of its main key first, then its other keys, each with its value
// after it; flags are keys that are true or false, and stand alone when true.
// A flag with a no… beside it stands as that when false.
func (f field) words(main string, flags ...string) ([]string, bool) {
	if s, ok := f.it.value.(string); ok {
		return strings.Fields(s), true
	}
	if f.it.kind != tableItem {
		f.wrongType("string")
		return nil, false
	}
	first, words, ok := "", []string(nil), true
	for _, entry := range f.it.keys {
		name, child := entry.name, entry.it
		text := ""
		switch v := child.value.(type) {
		case string:
			text = v
		case int64:
			text = strconv.FormatInt(v, 10)
		case bool:
			if slices.Contains(flags, name) {
				if v {
					words = append(words, name)
				} else if slices.Contains(flags, "no"+name) {
					words = append(words, "no"+name)
				}
				continue
			}
		}
		if text == "" || blank(text) {
			f.badAt(child, join(f.path, name), "type", shown(child)+" does not fit here", f.k.must())
			ok = false
			continue
		}
		if name == main {
			first = text
		} else {
			words = append(words, name, text)
		}
	}
	if first == "" && ok {
		f.badAt(f.it, f.path, "type", main+" is missing", f.k.must())
		ok = false
	}
	return append([]string{first}, words...), ok
}
