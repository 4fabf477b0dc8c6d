package healthcheck

import "testing"

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain “text”, 3 €":       "plain “text”, 3 €",
		"two\r\nlines\tand":       "two..lines.and",
		"\x1b[31mred\x7f":         ".[31mred.",
		"one byte \x9b31m":        "one byte .31m", // CSI of eight bits
		"and as text \u009b31m":   "and as text .31m",
		"\u202eturned round":      ".turned round",
		"\xff\xfe broken, \u2028": ". broken, .",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
