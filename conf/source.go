package conf

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// span is a stretch of bytes of a source.
type span struct{ start, end int }

// source is the text of one file.
type source struct {
	name  string // as shown to the user
	text  string // without a byte order mark
	lines []int  // offset of the start of each line; nil until asked

	shown struct { // the line that was shown last
		n    int
		text string
	}
}

// newSource prepares text, without a byte order mark, for look-ups of places.
func newSource(name, text string) *source {
	s := &source{name: name, text: text}
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		s.text = strings.TrimPrefix(s.text, mark)
	}
	return s
}

// starts returns the offsets of the starts of all lines.
func (s *source) starts() []int {
	if s.lines == nil {
		s.lines = []int{0}
		for i := range len(s.text) {
			if s.text[i] == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	return s.lines
}

// position returns line and column, both from 1, of a byte offset. Columns
// count characters.
func (s *source) position(offset int) (line, col int) {
	offset = min(max(offset, 0), len(s.text))
	lines := s.starts()
	i, found := slices.BinarySearch(lines, offset)
	if !found {
		i--
	}
	return i + 1, utf8.RuneCountInString(s.text[lines[i]:offset]) + 1
}

// secret finds the value of a key that may be a password, misspelt ones too.
var secret = regexp.MustCompile(`(?i)(pas+[\w-]*["']?\s*=\s*)("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,}]+)`)

// secretKeys find what may be a key of auth_hmac: all after "key =", the digits
// after "hex:", and what follows an id in a string.
var secretKeys = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:^|[^\w-])["']?keys?["']?\s*=\s*)(.+)`),
	regexp.MustCompile(`(?i)(hex:\s*)([^"'\s,\]}]+)`),
	regexp.MustCompile(`(["']\s*\d{1,3}\s+)([^"']{16,})`),
}

// longestLine is the length in bytes of lines that are shown.
const longestLine = 64 << 10

// line returns the text of line n (from 1) without its end and with passwords
// blotted out: it goes to terminals and logs. Of a line that is too long for either it
// returns nothing.
func (s *source) line(n int) string {
	if s.shown.n != n { // all errors may be on one line
		s.shown.n, s.shown.text = n, blotted(s.rawLine(n))
	}
	return s.shown.text
}

func blotted(text string) string {
	if len(text) > longestLine {
		return ""
	}
	if m := secret.FindStringSubmatchIndex(text); m != nil {
		text = text[:m[4]] + strings.Repeat("*", utf8.RuneCountInString(text[m[4]:m[5]])) + text[m[5]:]
	}
	for _, pattern := range secretKeys {
		for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
			text = text[:m[4]] + strings.Repeat("*", m[5]-m[4]) + text[m[5]:]
		}
	}
	return text
}

// blot blots out the string that d points at: a secret that stands on a line of its
// own, where line does not know it.
func (d *Diagnostic) blot() {
	text, from := []rune(d.Source), d.Col-1
	if from < 0 || from >= len(text) || text[from] != '"' && text[from] != '\'' {
		return // d points at a key
	}
	for i := from; i < min(from+d.Width, len(text)); i++ {
		text[i] = '*'
	}
	d.Source = string(text)
}

// locate fills in the place of d from a span.
func (s *source) locate(d *Diagnostic, at span) {
	d.File = s.name
	d.Line, d.Col = s.position(at.start)
	d.Source = s.line(d.Line)
	rest := s.text[min(at.start, len(s.text)):min(max(at.end, at.start), len(s.text))]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	d.Width = max(utf8.RuneCountInString(strings.TrimRight(rest, " \t\r")), 1)
}

// rawLine returns the text of line n (from 1) without its end, as it is.
func (s *source) rawLine(n int) string {
	text := s.text[s.starts()[n-1]:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSuffix(text, "\r")
}

// place returns "FILE:LINE:COL" of a span.
func (s *source) place(at span) string {
	line, col := s.position(at.start)
	return s.name + ":" + itoa(line) + ":" + itoa(col)
}
