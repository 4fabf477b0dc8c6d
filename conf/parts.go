package conf

import (
	"slices"
	"strings"
)

// A large file is virtual servers for the most part. Each is read, checked and built by
// itself, so that what only reading needs is in memory for one of them at a time, and
// those that a Loader has built from the same text before are not read at all. This
// takes files in which every virtual server is a [[virtual_server]] with its keys and
// tables below it, a part. Any other file, and one that is no TOML, is read as a whole.

// partTable is the table that a part begins with.
const partTable = "virtual_server"

// unread returns the text of a virtual server that is not read yet, or "".
func (it *item) unread() string {
	if p, ok := it.value.(part); ok {
		return it.src.text[p.text.start:p.text.end]
	}
	return ""
}

// part is the text of a virtual server: what the item of one that is not read yet has
// as its value.
type part struct{ text span }

// part passes over a [[virtual_server]] whose header ends here and all that belongs to
// it, and adds it to the root unread.
func (s *scanner) part(root *item, header span) {
	for s.next() {
		start := s.pos
		s.open()
		parts := s.key()
		s.pos = start
		if len(parts) < 2 || parts[0].name != partTable {
			break
		}
		s.line()
	}
	list := root.child(partTable)
	if list == nil {
		list = &item{src: s.src, at: header, kind: arrayItem}
		root.set(partTable, list)
	}
	text := span{header.start, s.pos}
	list.list = append(list.list, &item{src: s.src, at: header, kind: tableItem, header: true, value: part{text}})
	s.parts = append(s.parts, text)
}

// next moves to the next header, and reports whether there is one.
func (s *scanner) next() bool {
	depth, first := 0, false
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case '\n':
			first = true
		case ' ', '\t', '\r':
		case '#':
			s.line()
			continue
		case '"', '\'':
			first = false
			s.str()
			continue
		case '[', '{':
			if first && depth == 0 && c == '[' {
				return true
			}
			first = false
			depth++
		case ']', '}':
			first = false
			depth--
		default:
			first = false
		}
		s.pos++
	}
	s.pos = len(s.text)
	return false
}

// outside returns what is not in any of the parts.
func outside(text string, parts []span) string {
	if len(parts) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, p := range parts {
		b.WriteString(text[at:p.start])
		at = p.end
	}
	b.WriteString(text[at:])
	return b.String()
}

// memory is what a virtual server is made from beside its own text, and those that were
// made from that and their text alone.
type memory struct {
	env     Env
	files   []string
	rest    []string
	ssl     Trust
	servers map[string]*VirtualServer // by text
}

// memory returns what the next configuration may have in common with this one.
func (b *builder) memory() memory {
	m := memory{b.env, b.config.Files, b.rest, b.ssl, make(map[string]*VirtualServer, len(b.remember))}
	for text, i := range b.remember {
		m.servers[text] = &b.config.VirtualServers[i]
	}
	return m
}

// known returns the virtual servers that are what they were if their texts are.
func (m *memory) known(b *builder) map[string]*VirtualServer {
	if m.env != b.env || m.ssl != b.ssl || !slices.Equal(m.files, b.config.Files) || !slices.Equal(m.rest, b.rest) {
		return nil
	}
	return m.servers
}

// open reads and checks a virtual server that is still unread.
func (c *checker) open(v *values) *values {
	p, unread := v.it.value.(part)
	if !unread {
		return v
	}
	it, ok := c.readPart(v.it.src, p)
	if !ok {
		c.whole = true // the loader begins anew, and says what is wrong
		return v
	}
	return c.check(v.block, it, v.path)
}

// readPart reads one part of a file.
func (l *loader) readPart(src *source, p part) (*item, bool) {
	text := src.text[p.text.start:p.text.end]
	values := map[string]any{}
	if _, err := decode(text, &values); err != nil {
		return nil, false
	}
	tables, _ := values[partTable].([]map[string]any)
	s := scanner{src: src, text: src.text[:p.text.end], pos: p.text.start}
	root := s.index()
	if list := root.child(partTable); len(tables) == 1 && len(values) == 1 && list != nil && len(list.list) == 1 {
		attach(list.list[0], tables[0])
		return list.list[0], true
	}
	return nil, false
}
