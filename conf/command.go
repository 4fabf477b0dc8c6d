package conf

import (
	"strconv"
	"strings"
)

// parseCommand reads a command as an argument vector.
func parseCommand(f field) (any, bool) {
	if s, ok := f.it.value.(string); ok {
		argv, shell, ok := splitCommand(s)
		switch {
		case !ok:
			return f.bad("syntax", shown(f.it)+" has a quote that is not closed")
		case shell != "":
			return f.badAt(f.it, f.path, "shell", shown(f.it)+" needs a shell because of "+strconv.Quote(shell),
				"commands run without a shell; if you want one, write ["+`"/bin/sh", "-c", `+strconv.Quote(s)+"]")
		case len(argv) == 0 || argv[0] == "" || strings.Contains(s, "\x00"):
			return f.bad("syntax", shown(f.it)+" is no command")
		}
		return argv, true
	}
	if f.it.kind != arrayItem {
		return f.wrongType("string")
	}
	var argv []string
	for _, e := range f.it.list {
		s, ok := e.value.(string)
		if !ok {
			return f.badAt(e, f.path, "type", shown(e)+" is not a string", f.k.must())
		}
		argv = append(argv, s)
	}
	if len(argv) == 0 || argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
		return f.bad("syntax", "there is no command in it")
	}
	return argv, true
}

// splitCommand splits a command into words as a shell does: blanks separate,
// '…' keeps everything, "…" and a backslash keep one. shell is a part that only
// a shell could honour; ok is false when a quote stays open.
func splitCommand(s string) (argv []string, shell string, ok bool) {
	var word strings.Builder
	in, quote := false, byte(0)
	end := func() {
		if in {
			argv = append(argv, word.String())
			word.Reset()
			in = false
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(s) && (quote == 0 || strings.IndexByte("\"\\$`", s[i+1]) >= 0):
			i++
			word.WriteByte(s[i])
			in = true
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end()
		default:
			if shell == "" {
				shell = shellPart(s[i:], in)
			}
			word.WriteByte(c)
			in = true
		}
	}
	end()
	return argv, shell, quote == 0
}

// shellPart returns the operator of a shell that rest starts with: a pipe, a
// list or a redirection at the start of a word, a substitution anywhere.
func shellPart(rest string, inWord bool) string {
	for _, operator := range []string{"$(", "`"} {
		if strings.HasPrefix(rest, operator) {
			return operator
		}
	}
	if inWord {
		return ""
	}
	for _, operator := range []string{"||", "&&", "2>", ">>", ">", "<", "|", ";", "&"} {
		if strings.HasPrefix(rest, operator) {
			return operator
		}
	}
	return ""
}
