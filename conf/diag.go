package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a Diagnostic keeps the configuration from being used.
type Severity uint8

// The severities.
const (
	Error   Severity = iota // the configuration is refused
	Warning                 // the configuration works, but probably not as meant
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Diagnostic is one thing wrong with a configuration file, written for the
// person who has to repair it.
type Diagnostic struct {
	Severity Severity
	Rule     string // the rule of the schema that was broken, for tests and tools: "vrrp_instance.priority/range"
	File     string // as given to Load, or as found by include; never empty
	Line     int    // from 1; 0 when the file as a whole is meant
	Col      int    // from 1, in characters
	Width    int    // characters to underline, at least 1
	Source   string // the text of that line, without its end
	Path     string // path of the key: virtual_server[0].real_server[2].weight; may be empty
	Message  string // what is wrong, with the value: "300 is out of range"
	Detail   string // what is allowed and what to do, one or more lines; may be empty
}

// Text returns the diagnostic with the line it is about, a mark under the
// place, and what is allowed. It ends in a newline.
func (d Diagnostic) Text() string {
	var b strings.Builder
	b.WriteString(d.Error())
	b.WriteByte('\n')
	if d.Line > 0 && d.Source != "" {
		number := fmt.Sprint(d.Line)
		source, before, width := clip(d.Source, d.Col-1, max(d.Width, 1))
		fmt.Fprintf(&b, "  %s | %s\n", number, source)
		fmt.Fprintf(&b, "  %s | %s%s\n", strings.Repeat(" ", len(number)), indent(source, before), strings.Repeat("^", width))
	}
	if d.Detail != "" {
		for line := range strings.SplitSeq(d.Detail, "\n") {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	return b.String()
}

// Error returns the one-line form, "FILE:LINE:COL: error: PATH: MESSAGE", and
// makes a Diagnostic an error.
func (d Diagnostic) Error() string {
	var b strings.Builder
	b.WriteString(d.File)
	if d.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", d.Line, d.Col)
	}
	fmt.Fprintf(&b, ": %s: ", d.Severity)
	if d.Path != "" {
		b.WriteString(d.Path + ": ")
	}
	b.WriteString(d.Message)
	return b.String()
}

// The part of a long line that is shown: enough to find the place, not so much
// that the mark is lost.
const (
	shownLine   = 160 // characters
	shownBefore = 60  // of them before the place
)

// clip cuts a long line around the place that starts after before characters,
// and returns it with the place's new position and width.
func clip(line string, before, width int) (string, int, int) {
	runes := []rune(line)
	if len(runes) <= shownLine {
		return line, before, width
	}
	start := max(0, min(before-shownBefore, len(runes)-shownLine))
	end := min(start+shownLine, len(runes))
	width = max(1, min(width, end-before))
	text, before := string(runes[start:end]), before-start
	if start > 0 {
		text, before = "… "+text, before+2
	}
	if end < len(runes) {
		text += " …"
	}
	return text, before, width
}

// indent returns blanks as wide as the first n characters of line; tabs stay
// tabs, so that the mark stands under its place whatever the tab width.
func indent(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n <= 0 {
			break
		}
		n--
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// Diagnostics is everything found in one run over all files, in order of file
// and line.
type Diagnostics []Diagnostic

// HasErrors reports whether one of them is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Count returns the number of errors and of warnings.
func (ds Diagnostics) Count() (errors, warnings int) {
	for _, d := range ds {
		if d.Severity == Error {
			errors++
		} else {
			warnings++
		}
	}
	return errors, warnings
}

// Error returns the first error and the number of the others, in one line.
func (ds Diagnostics) Error() string {
	errors, _ := ds.Count()
	i := slices.IndexFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
	switch {
	case i < 0:
		return "no errors"
	case errors == 1:
		return ds[i].Error()
	}
	return fmt.Sprintf("%s (and %d more)", ds[i].Error(), errors-1)
}

// Text returns all diagnostics in full and, when there are errors, a last line
// that counts them.
func (ds Diagnostics) Text() string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.Text())
	}
	errors, warnings := ds.Count()
	if errors > 0 {
		b.WriteString(plural(errors, "error"))
		if warnings > 0 {
			b.WriteString(", " + plural(warnings, "warning"))
		}
		b.WriteString("; configuration not applied\n")
	}
	return b.String()
}

// plural returns "1 error", "2 errors".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sorted orders the diagnostics by the order in which the files were read,
// then by place, and drops exact repetitions.
func (ds Diagnostics) sorted(files []string) Diagnostics {
	rank := make(map[string]int, len(files))
	for i, f := range files {
		rank[f] = i
	}
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(rank[a.File], rank[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Severity, b.Severity),
		)
	})
	return slices.CompactFunc(ds, func(a, b Diagnostic) bool { return a == b })
}
