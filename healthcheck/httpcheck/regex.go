package httpcheck

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// Regex is what a body must match, or must not.
type Regex struct {
	Pattern   string // RE2; "" looks at nothing
	NoMatch   bool   // regex_no_match: a match is a failure
	Options   RegexOptions
	MinOffset int // regex_min_offset: bytes of the body that are passed over
	MaxOffset int // regex_max_offset: the match must begin at this byte or before; 0: anywhere
}

// RegexOptions are those of regex_options that mean something in RE2; the names are
// those of PCRE2.
type RegexOptions struct {
	Caseless, DollarEndOnly, DotAll, FirstLine, Multiline, Ungreedy bool
}

// maxPattern bounds a pattern, and with it what one byte of a body can cost.
const maxPattern = 4096

// compile makes the expression. A "$" without multiline matches before a newline at
// the end, too, as in PCRE: most bodies end with one.
func (r Regex) compile() (*regexp.Regexp, error) {
	if len(r.Pattern) > maxPattern {
		return nil, fmt.Errorf("regex has %d bytes, at most %d are allowed", len(r.Pattern), maxPattern)
	}
	if r.MinOffset < 0 || r.MaxOffset < 0 || r.MaxOffset != 0 && r.MaxOffset < r.MinOffset {
		return nil, fmt.Errorf("regex_max_offset %d is below regex_min_offset %d", r.MaxOffset, r.MinOffset)
	}
	flags := syntax.Perl
	for _, o := range []struct {
		on   bool
		flag syntax.Flags
		set  bool
	}{{r.Options.Caseless, syntax.FoldCase, true}, {r.Options.DotAll, syntax.DotNL, true},
		{r.Options.Multiline, syntax.OneLine, false}, {r.Options.Ungreedy, syntax.NonGreedy, true}} {
		switch {
		case o.on && o.set:
			flags |= o.flag
		case o.on:
			flags &^= o.flag
		}
	}
	tree, err := syntax.Parse(r.Pattern, flags)
	if err != nil {
		return nil, fmt.Errorf("regex: %w", err)
	}
	if !r.Options.DollarEndOnly {
		loosenDollar(tree)
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, fmt.Errorf("regex: %w", err)
	}
	return re, nil
}

// loosenDollar lets every "$" that means the end of the text match before a last
// newline, too.
func loosenDollar(re *syntax.Regexp) {
	for i, sub := range re.Sub {
		if sub.Op == syntax.OpEndText && sub.Flags&syntax.WasDollar != 0 {
			re.Sub[i] = dollar()
			continue
		}
		loosenDollar(sub)
	}
	if re.Op == syntax.OpEndText && re.Flags&syntax.WasDollar != 0 {
		*re = *dollar()
	}
}

// dollar is `\n?\z`.
func dollar() *syntax.Regexp {
	newline := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\n'}}
	optional := &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{newline}}
	end := &syntax.Regexp{Op: syntax.OpEndText}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{optional, end}}
}

var errSlowRegex = errors.New("the regex was not decided in time")

// judge says what is wrong with a body, nil when nothing is. It ends with ctx.
func (r Regex) judge(ctx context.Context, re *regexp.Regexp, body []byte) error {
	from := min(r.MinOffset, len(body))
	in := &runes{ctx: ctx, left: body[from:]}
	at := re.FindReaderIndex(in)
	if in.ended {
		return errSlowRegex
	}
	found := at != nil && r.begins(from+at[0], body[from:], at[0])
	switch {
	case found && r.NoMatch:
		return fmt.Errorf("the body matches %q at byte %d", shorten(r.Pattern), from+at[0])
	case !found && !r.NoMatch:
		return fmt.Errorf("nothing in the %d bytes of the body matches %q", len(body), shorten(r.Pattern))
	}
	return nil
}

// begins reports whether a match may begin where the first one does: a later one
// may not either.
func (r Regex) begins(offset int, subject []byte, at int) bool {
	if r.MaxOffset != 0 && offset > r.MaxOffset {
		return false
	}
	if r.Options.FirstLine {
		for _, b := range subject[:at] {
			if b == '\n' {
				return false
			}
		}
	}
	return true
}

// runes reads text for the expression and ends it when ctx ends.
type runes struct {
	ctx   context.Context
	left  []byte
	n     int
	ended bool
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (rune, int, error) {
	const often = 256 // runes
	if r.n++; r.n%often == 0 && r.ctx.Err() != nil {
		r.ended = true
		return 0, 0, errSlowRegex
	}
	if len(r.left) == 0 {
		return 0, 0, errEnd
	}
	c, size := utf8.DecodeRune(r.left)
	r.left = r.left[size:]
	return c, size, nil
}

// errEnd ends the text for the expression.
var errEnd = errors.New("end")
