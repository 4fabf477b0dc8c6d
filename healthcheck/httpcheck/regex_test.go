package httpcheck

import (
	"bytes"
	"context"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"time"
)

// TestRegex: what matches, with each option and offset.
func TestRegex(t *testing.T) {
	tests := []struct {
		name  string
		regex Regex
		body  string
		want  string // of the error; "" passes
	}{
		{"found", Regex{Pattern: "sta[t]us"}, "the status is good", ""},
		{"not found", Regex{Pattern: "bad"}, "the status is good", `nothing in the 18 bytes of the body matches "bad"`},
		{"empty body", Regex{Pattern: "x"}, "", `nothing in the 0 bytes of the body matches "x"`},
		{"no_match and found", Regex{Pattern: "error", NoMatch: true}, "an error", `the body matches "error" at byte 3`},
		{"no_match and not found", Regex{Pattern: "error", NoMatch: true}, "fine", ""},
		{"dollar before the last newline", Regex{Pattern: "OK$"}, "OK\n", ""},
		{"dollar at the end", Regex{Pattern: "OK$"}, "OK", ""},
		{"dollar before two newlines", Regex{Pattern: "OK$"}, "OK\n\n", `nothing in the 4 bytes of the body matches "OK$"`},
		{"dollar in a group", Regex{Pattern: "^(OK|fine$)"}, "fine\n", ""},
		{"dollar alone", Regex{Pattern: "$"}, "x\n", ""},
		{"dollar_endonly", Regex{Pattern: "OK$", Options: RegexOptions{DollarEndOnly: true}}, "OK\n", `nothing in the 3 bytes of the body matches "OK$"`},
		{"\\z is not loosened", Regex{Pattern: `OK\z`}, "OK\n", `nothing in the 3 bytes of the body matches "OK\\z"`},
		{"multiline", Regex{Pattern: "^b$", Options: RegexOptions{Multiline: true}}, "a\nb\nc", ""},
		{"not multiline", Regex{Pattern: "^b$"}, "a\nb\nc", `nothing in the 5 bytes of the body matches "^b$"`},
		{"caseless", Regex{Pattern: "ok", Options: RegexOptions{Caseless: true}}, "OK", ""},
		{"dotall", Regex{Pattern: "a.b", Options: RegexOptions{DotAll: true}}, "a\nb", ""},
		{"not dotall", Regex{Pattern: "a.b"}, "a\nb", `nothing in the 3 bytes of the body matches "a.b"`},
		{"ungreedy still finds", Regex{Pattern: "a+b", Options: RegexOptions{Ungreedy: true}}, "aab", ""},
		{"firstline", Regex{Pattern: "b", Options: RegexOptions{FirstLine: true}}, "ab\n", ""},
		{"firstline, in the second", Regex{Pattern: "b", Options: RegexOptions{FirstLine: true}}, "a\nb", `nothing in the 3 bytes of the body matches "b"`},
		{"min_offset passes over", Regex{Pattern: "a", MinOffset: 1}, "abc", `nothing in the 3 bytes of the body matches "a"`},
		{"min_offset", Regex{Pattern: "c", MinOffset: 2}, "abc", ""},
		{"min_offset beyond the body", Regex{Pattern: "c", MinOffset: 9}, "abc", `nothing in the 3 bytes of the body matches "c"`},
		{"max_offset", Regex{Pattern: "c", MaxOffset: 2}, "abc", ""},
		{"max_offset, later", Regex{Pattern: "c", MaxOffset: 1}, "abc", `nothing in the 3 bytes of the body matches "c"`},
		{"max_offset with no_match", Regex{Pattern: "c", MaxOffset: 1, NoMatch: true}, "abc", ""},
		{"no text at all", Regex{Pattern: `\x00`}, "\xff\x00\xfe", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			re, err := tt.regex.compile()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := tt.regex.judge(t.Context(), re, []byte(tt.body)); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRegexRefused(t *testing.T) {
	for _, tt := range []struct {
		regex Regex
		want  string
	}{
		{Regex{Pattern: "a("}, "regex: error parsing regexp: missing closing ): `a(`"},
		{Regex{Pattern: `(a)\1`}, "regex: error parsing regexp: invalid escape sequence: `\\1`"},
		{Regex{Pattern: "a(?=b)"}, "regex: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{Regex{Pattern: strings.Repeat("a", 4097)}, "regex has 4097 bytes, at most 4096 are allowed"},
		{Regex{Pattern: "a", MinOffset: 5, MaxOffset: 4}, "regex_max_offset 4 is below regex_min_offset 5"},
	} {
		if _, err := tt.regex.compile(); err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

// TestRegexIsBounded: an expression that backtracks for ever elsewhere is decided in
// the time that the body takes, and no later than its attempt ends.
func TestRegexIsBounded(t *testing.T) {
	evil := Regex{Pattern: "(x+x+)+y"}
	re, err := evil.compile()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := evil.judge(t.Context(), re, bytes.Repeat([]byte("x"), 10000)); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	heavy := Regex{Pattern: "(?:" + strings.Repeat("(?:x|y|z){0,50}w?", 15) + ")q"}
	if re, err = heavy.compile(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start = time.Now()
	if err := heavy.judge(ctx, re, bytes.Repeat([]byte("xyz"), 1<<20)); err != errSlowRegex {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// FuzzRegexOptions: what a configuration may hold, an expression that RE2 takes with any
// options, can be made, and judging a body with it ends.
func FuzzRegexOptions(f *testing.F) {
	for i, p := range []string{"ok", "^a$", "(a|b$)*", "[^x]+$", "(?i)a", `\bfoo\b`, "a{2,3}$|^$", "(?m)^x$", `\pL+`, "$*", "(?-s).+?(?U:x*)", "(?i:k)ſ"} {
		f.Add(p, "foo ok\n", byte(i))
	}
	f.Fuzz(func(t *testing.T, pattern, text string, on byte) {
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil || len(pattern) > 100 {
			return
		}
		r := Regex{Pattern: pattern, Options: RegexOptions{
			Caseless: on&1 != 0, DollarEndOnly: on&2 != 0, DotAll: on&4 != 0, FirstLine: on&8 != 0, Multiline: on&16 != 0, Ungreedy: on&32 != 0,
		}}
		re, err := r.compile()
		if err != nil {
			t.Fatalf("%q with %+v: %v", pattern, r.Options, err)
		}
		_ = r.judge(t.Context(), re, []byte(text))
	})
}

// FuzzRegex: no pattern that is taken makes trouble, and without options it means
// what package regexp says, but for the dollar.
func FuzzRegex(f *testing.F) {
	for _, p := range []string{"ok", "^a$", "(a|b$)*", "[^x]+$", "(?i)a", `\bfoo\b`, "a{2,3}$|^$", "(?m)^x$", `\pL+`, "$*"} {
		f.Add(p, "foo ok\n", false)
		f.Add(p, "aaa", true)
	}
	f.Fuzz(func(t *testing.T, pattern, text string, strict bool) {
		r := Regex{Pattern: pattern, Options: RegexOptions{DollarEndOnly: strict}}
		re, err := r.compile()
		plain, plainErr := regexp.Compile(pattern)
		if err != nil {
			if plainErr == nil && len(pattern) <= maxPattern {
				t.Fatalf("%q: %v, though it is an expression", pattern, err)
			}
			return
		}
		if plainErr != nil {
			t.Fatalf("%q is taken, though it is none: %v", pattern, plainErr)
		}
		passed := r.judge(t.Context(), re, []byte(text)) == nil
		if want := plain.MatchString(text); strict && passed != want || want && !passed {
			t.Fatalf("%q on %q: %v, want %v", pattern, text, passed, want)
		}
	})
}
