package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// loader reads files and gathers what is wrong with them.
type loader struct {
	fsys    fs.FS
	env     Env
	diags   Diagnostics
	files   []string                     // in the order read
	open    []string                     // the files whose includes are being read, outermost first
	ipNames map[string]map[string]uint32 // what names of iproute2 stand for, by file; nil until asked
	broken  bool                         // a file could not be read or parsed: the document has holes
	texts   map[string]string            // of the files: a pipe can be read once
	whole   bool                         // files are read as a whole, not in parts
	rest    []string                     // what the files say beside their parts
	trace   int                          // counts what was said, and what was read of other files
}

// fsName returns the name under which the file system knows a file.
func (l *loader) fsName(name string) string {
	if !path.IsAbs(name) {
		name = path.Join("/", l.env.Dir, name)
	}
	if name = strings.TrimPrefix(path.Clean(name), "/"); name != "" {
		return name
	}
	return "."
}

// report adds a diagnostic about a place in a file.
func (l *loader) report(src *source, at span, d Diagnostic) {
	l.trace++
	src.locate(&d, at)
	l.diags = append(l.diags, d)
}

// read reads a file and everything it includes into root. by and at name the
// include line, or are zero for the first file.
func (l *loader) read(name string, root *item, by *source, at span) {
	text, err := l.text(name)
	if err != nil {
		l.broken = true
		l.unreadable(name, err, by, at)
		return
	}
	l.files = append(l.files, name)
	src := newSource(name, text)
	doc, ok := l.parse(src)
	if !ok {
		l.broken = true
		return
	}
	include := doc.child("include")
	l.merge(root, doc.without("include"), "")
	if include != nil {
		l.open = append(l.open, path.Clean("/"+l.fsName(name)))
		l.include(include, name, root)
		l.open = l.open[:len(l.open)-1]
	}
}

// text returns what is in a file of the configuration, which is read once.
func (l *loader) text(name string) (string, error) {
	if text, known := l.texts[name]; known {
		return text, nil
	}
	text, err := l.content(name)
	if err == nil {
		l.texts[name] = text
	}
	return text, err
}

// unreadable reports a file that cannot be read.
func (l *loader) unreadable(name string, err error, by *source, at span) {
	reason := err.Error()
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		reason = pathError.Err.Error()
	}
	detail, refused := refusals[err]
	if !refused {
		detail = "check that the path is right and that vipd may read the file"
	}
	if errors.Is(err, fs.ErrNotExist) {
		reason = "no such file"
		detail = "check the path"
	}
	if by == nil {
		if errors.Is(err, fs.ErrNotExist) {
			detail = "give the path with -c FILE; a commented example is docs/vipd.example.toml,\nand docs/migrating.md tells how to rewrite a keepalived.conf"
		}
		l.diags = append(l.diags, Diagnostic{Rule: "file/read", File: name, Message: "cannot read the file: " + reason, Detail: detail})
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		detail = "paths are relative to the directory of the including file; a pattern (conf.d/*.toml) may match nothing, a plain name must exist"
	}
	l.report(by, at, Diagnostic{Rule: "file.include/read", Path: "include", Message: fmt.Sprintf("cannot read %q: %s", name, reason), Detail: detail})
}

// include reads the files that the include key of the file called name lists.
func (l *loader) include(include *item, name string, root *item) {
	entries := []*item{include}
	if include.kind == arrayItem {
		entries = include.list
	}
	for _, entry := range entries {
		pattern, ok := entry.value.(string)
		if !ok || pattern == "" {
			l.report(entry.src, entry.at, Diagnostic{Rule: "file.include/type", Path: "include", Message: shown(entry) + " is no file name or pattern",
				Detail: `write include = ["conf.d/*.toml"]: names or patterns, relative to the directory of this file`})
			continue
		}
		files, ok := l.expand(entry, pattern, name)
		if !ok {
			continue
		}
		for _, file := range files {
			full := path.Clean("/" + l.fsName(file))
			if i := slices.Index(l.open, full); i >= 0 {
				if strings.ContainsAny(pattern, "*?[") && i == len(l.open)-1 {
					continue // a pattern that matches the including file itself
				}
				l.report(entry.src, entry.at, Diagnostic{Rule: "file.include/cycle", Path: "include", Message: fmt.Sprintf("%q includes itself", file),
					Detail: "the chain is " + strings.Join(append(slices.Clone(l.open[i:]), full), " -> ") + "; take this include out"})
				continue
			}
			if slices.ContainsFunc(l.files, func(f string) bool { return l.fsName(f) == l.fsName(file) }) {
				continue // matched by two patterns: read once
			}
			l.read(file, root, entry.src, entry.at)
		}
	}
}

// expand returns the files that a pattern in the file called name stands for,
// in name order.
func (l *loader) expand(entry *item, pattern, name string) ([]string, bool) {
	full := pattern
	if !path.IsAbs(pattern) {
		full = path.Join(path.Dir(name), pattern)
	}
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{full}, true
	}
	matches, err := fs.Glob(l.fsys, l.fsName(full))
	if err != nil {
		l.report(entry.src, entry.at, Diagnostic{Rule: "file.include/pattern", Path: "include", Message: fmt.Sprintf("%q is a malformed pattern", pattern),
			Detail: `* stands for any characters, ? for one, [a-z] for one of a range; a "[" needs its "]"`})
		return nil, false
	}
	slices.Sort(matches)
	base := path.Dir(l.fsName(full))
	for i, m := range matches {
		// Show matches as the pattern was written; only the last element of the
		// usual pattern differs.
		if path.Dir(m) == base {
			matches[i] = path.Join(path.Dir(full), path.Base(m))
		} else {
			matches[i] = "/" + m
		}
	}
	return matches, true
}

// parse returns the document of one file with values and places.
func (l *loader) parse(src *source) (doc *item, ok bool) {
	if at, deep := tooDeep(src.text); deep {
		l.report(src, at, Diagnostic{Rule: "file/toml", Message: fmt.Sprintf("brackets in brackets, or a key with dots, more than %d deep", maxDepth),
			Detail: "nothing in a configuration is; look for brackets or quotes that are not closed, and whether this is the right file"})
		return nil, false
	}
	s := &scanner{src: src, text: src.text, apart: !l.whole}
	doc = s.index()
	if s.odd {
		l.whole = true
		return nil, false
	}
	text := outside(src.text, s.parts)
	values := map[string]any{}
	if _, err := decode(text, &values); err != nil {
		if l.whole = l.whole || len(s.parts) > 0; len(s.parts) == 0 {
			l.syntax(src, err)
		}
		return nil, false
	}
	l.rest = append(l.rest, text)
	attach(doc, values)
	return doc, true
}

// decode calls the TOML library and turns its panics, which mean a defect in
// it, into errors: a daemon that reloads must not die of a file.
func decode(text string, values *map[string]any) (meta toml.MetaData, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parsing TOML: %v", r)
		}
	}()
	return toml.Decode(text, values)
}

// attach puts the decoded value of every key on its item.
func attach(it *item, value any) {
	switch v := value.(type) {
	case map[string]any:
		it.kind = tableItem
		for name, child := range v {
			c := it.child(name)
			if c == nil {
				c = &item{src: it.src, at: it.at}
				it.set(name, c)
			}
			attach(c, child)
		}
	case []map[string]any:
		it.kind = arrayItem
		for i, child := range v {
			attach(it.entry(i), child)
		}
	case []any:
		it.kind = arrayItem
		for i, child := range v {
			attach(it.entry(i), child)
		}
	default:
		it.kind, it.value = scalarItem, value
	}
}

// entry returns the i-th entry of an array.
func (it *item) entry(i int) *item {
	for len(it.list) <= i {
		it.list = append(it.list, &item{src: it.src, at: it.at})
	}
	return it.list[i]
}

// merge adds the document of an included file to root. The tables that only
// group (global_defs, vrrp_instance, …) and arrays of tables are joined; what
// has a name may be given once.
func (l *loader) merge(root, doc *item, at string) {
	for _, k := range doc.keys {
		name, child, old := k.name, k.it, root.child(k.name)
		where := join(at, name)
		switch {
		case old == nil:
			root.set(name, child)
		case old.kind == arrayItem && child.kind == arrayItem && tables(old) && tables(child):
			old.list = append(old.list, child.list...)
		case old.kind == tableItem && child.kind == tableItem && at == "":
			joined := old.without() // the first file's item stays as it was
			l.merge(joined, child, where)
			root.replace(name, joined)
		default:
			l.report(child.src, child.at, Diagnostic{Rule: "file.include/repeated", Path: where,
				Message: "already given at " + old.src.place(old.at),
				Detail:  "a table or key may be given once over all files; take one of the two out or rename it"})
		}
	}
}

// tables reports whether every entry of an array is a table.
func tables(it *item) bool {
	return !slices.ContainsFunc(it.list, func(e *item) bool { return e.kind != tableItem })
}

// join adds a key to a path, with quotes where TOML needs them.
func join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r > 127 || !bareKeyByte(byte(r)) }) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
