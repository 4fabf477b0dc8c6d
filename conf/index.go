package conf

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner finds the places of keys and values in TOML text. It checks nothing:
// the TOML library has accepted the text before, or refused it, in which case
// the index is only as good as the text up to the error.
type scanner struct {
	src    *source
	text   string
	pos    int
	keys   []keyPart // of the key that was read last
	repeat *repeat   // the first key or table defined twice

	apart bool   // virtual servers are passed over
	parts []span // where they are
	odd   bool   // there are some that cannot be read by themselves
}

// repeat is a key or table that one file defines twice.
type repeat struct {
	name          string
	first, second span
}

// index returns the root table of the document with the place of every key,
// table and array entry, but without values, and the first repetition, which
// the TOML library refuses too, but without naming both places.
func index(src *source) (*item, *repeat) {
	s := &scanner{src: src, text: src.text}
	return s.index(), s.repeat
}

// index reads the rest of the text.
func (s *scanner) index() *item {
	root := &item{src: s.src, kind: tableItem}
	current := root
	for {
		s.skip(true)
		switch {
		case s.pos >= len(s.text):
			return root
		case s.text[s.pos] == '[':
			n := len(s.parts)
			if current = s.header(root); len(s.parts) > n {
				continue // a part ends before the next header
			}
		default:
			s.assignment(current)
		}
		s.line()
	}
}

// skip passes over blanks and, with newlines, over line ends and comments too.
func (s *scanner) skip(newlines bool) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == ' ' || c == '\t':
			s.pos++
		case newlines && (c == '\n' || c == '\r'):
			s.pos++
		case newlines && c == '#':
			s.line()
		default:
			return
		}
	}
}

// line moves to the end of the line.
func (s *scanner) line() {
	if i := strings.IndexByte(s.text[s.pos:], '\n'); i >= 0 {
		s.pos += i
	} else {
		s.pos = len(s.text)
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// accept passes over c when it comes next.
func (s *scanner) accept(c byte) bool {
	if s.peek() == c && s.pos < len(s.text) {
		s.pos++
		return true
	}
	return false
}

// header reads [a.b] or [[a.b]] and returns the table it opens.
func (s *scanner) header(root *item) *item {
	start := s.pos
	array := s.open()
	parts := s.key()
	s.skip(false)
	s.accept(']')
	if array {
		s.accept(']')
	}
	at := span{start, s.pos}
	if len(parts) == 0 {
		return root
	}
	if s.apart && parts[0].name == partTable {
		if !array || len(parts) > 1 {
			s.odd = true
		}
		s.part(root, at)
		return root
	}
	table := root
	for _, p := range parts[:len(parts)-1] {
		table = s.descend(table, p.name, at)
	}
	name := parts[len(parts)-1].name
	if array {
		list := table.child(name)
		if list == nil || list.kind != arrayItem {
			list = &item{src: s.src, at: at, kind: arrayItem}
			table.replace(name, list)
		}
		entry := &item{src: s.src, at: at, kind: tableItem, header: true}
		list.list = append(list.list, entry)
		return entry
	}
	table = s.descend(table, name, at)
	if table.header {
		s.repeated(name, table.at, at)
	} else {
		table.at, table.header = at, true
	}
	return table
}

// open passes over the brackets that a header begins with, and reports whether there are
// two.
func (s *scanner) open() (array bool) {
	s.accept('[')
	return s.accept('[')
}

// descend returns the table name in parent, made when missing; of an array of
// tables it is the last.
func (s *scanner) descend(parent *item, name string, at span) *item {
	child := parent.child(name)
	if child != nil && child.kind == arrayItem && len(child.list) > 0 {
		child = child.list[len(child.list)-1]
	}
	if child == nil || child.kind != tableItem {
		child = &item{src: s.src, at: at, kind: tableItem}
		parent.replace(name, child)
	}
	return child
}

// assignment reads key = value into table.
func (s *scanner) assignment(table *item) {
	parts := s.key()
	s.skip(false)
	if len(parts) == 0 || !s.accept('=') {
		return
	}
	s.skip(false)
	s.odd = s.odd || s.apart && parts[0].name == partTable
	for _, p := range parts[:len(parts)-1] {
		table = s.descend(table, p.name, p.at)
	}
	last := parts[len(parts)-1]
	value := s.value(last.at)
	if old := table.child(last.name); old != nil {
		s.repeated(last.name, old.at, last.at)
	} else {
		table.set(last.name, value)
	}
}

// repeated notes that name is defined twice.
func (s *scanner) repeated(name string, first, second span) {
	if s.repeat == nil {
		s.repeat = &repeat{name, first, second}
	}
}

// keyPart is one part of a dotted key.
type keyPart struct {
	name string
	at   span
}

// key reads a dotted key. It returns nothing when there is none. The parts are
// valid until the next call.
func (s *scanner) key() []keyPart {
	s.keys = s.keys[:0]
	for {
		s.skip(false)
		start := s.pos
		var name string
		switch s.peek() {
		case '"', '\'':
			name = s.str()
		default:
			for s.pos < len(s.text) && bareKeyByte(s.text[s.pos]) {
				s.pos++
			}
			name = s.text[start:s.pos]
		}
		if s.pos == start {
			return s.keys
		}
		s.keys = append(s.keys, keyPart{name, span{start, s.pos}})
		s.skip(false)
		if !s.accept('.') {
			return s.keys
		}
	}
}

// bareKeyByte reports whether c may stand in a key without quotes.
func bareKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= utf8.RuneSelf
}

// value reads one value and returns its item, which stands at at.
func (s *scanner) value(at span) *item {
	it := &item{src: s.src, at: at}
	switch s.peek() {
	case '"', '\'':
		s.str()
	case '[':
		s.pos++
		it.kind = arrayItem
		for s.pos < len(s.text) {
			s.skip(true)
			if s.accept(']') {
				break
			}
			start := s.pos
			entry := s.value(span{start, start})
			entry.at.end = s.pos
			it.list = append(it.list, entry)
			s.skip(true)
			if !s.accept(',') && s.peek() != ']' && s.pos == start {
				s.pos = min(s.pos+1, len(s.text)) // only in text that is no TOML: go on
			}
		}
	case '{':
		s.pos++
		it.kind = tableItem
		for s.pos < len(s.text) {
			s.skip(true)
			if s.accept('}') {
				break
			}
			start := s.pos
			s.assignment(it)
			s.skip(true)
			if !s.accept(',') && s.peek() != '}' && s.pos == start {
				s.pos = min(s.pos+1, len(s.text))
			}
		}
	default:
		start := s.pos
		for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.text[s.pos])) {
			s.pos++
		}
		s.pos = start + len(strings.TrimRight(s.text[start:s.pos], " \t\r"))
	}
	return it
}

// str reads a string of any of the four kinds and returns its value.
func (s *scanner) str() string {
	quote := s.text[s.pos]
	if long := s.text[s.pos:min(s.pos+3, len(s.text))]; tripled(long) {
		s.pos += 3
		s.longStr(quote, long)
		return "" // never a key
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.text) && s.text[s.pos] != quote && s.text[s.pos] != '\n' {
		if quote == '"' && s.text[s.pos] == '\\' {
			s.pos++
		}
		s.pos++
	}
	s.pos = min(s.pos, len(s.text))
	body := s.text[start:s.pos]
	s.accept(quote)
	if quote == '"' {
		return unescape(body)
	}
	return body
}

// longStr passes over the rest of a multi-line string. Up to two quotes may
// stand directly before the closing three.
func (s *scanner) longStr(quote byte, long string) {
	for s.pos < len(s.text) {
		switch {
		case quote == '"' && s.text[s.pos] == '\\':
			s.pos = min(s.pos+2, len(s.text))
		case strings.HasPrefix(s.text[s.pos:], long):
			s.pos += 3
			for range 2 {
				s.accept(quote)
			}
			return
		default:
			s.pos++
		}
	}
}

// unescape resolves the escapes of a basic string.
func unescape(body string) string {
	if !strings.Contains(body, `\`) {
		return body
	}
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' || i+1 == len(body) {
			b.WriteByte(body[i])
			continue
		}
		i++
		digits := 0
		switch body[i] {
		case 'b':
			b.WriteByte('\b')
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'f':
			b.WriteByte('\f')
		case 'r':
			b.WriteByte('\r')
		case 'e':
			b.WriteByte(0x1b)
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			b.WriteByte(body[i])
		}
		if digits > 0 && i+digits < len(body) {
			n, _ := strconv.ParseUint(body[i+1:i+1+digits], 16, 32)
			b.WriteRune(rune(n))
			i += digits
		}
	}
	return b.String()
}

// itoa is strconv.Itoa.
func itoa(n int) string { return strconv.Itoa(n) }
