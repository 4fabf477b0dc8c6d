package conf

import (
	"errors"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// syntax reports that the TOML library refused a file.
func (l *loader) syntax(src *source, err error) {
	if line := keepalivedLine.FindStringIndex(src.text); line != nil {
		block := src.text[line[0]:line[1]]
		l.foreignFile(src, span{line[1] - len(strings.TrimLeft(block, " \t")), line[1]})
		return
	}
	var parseError toml.ParseError
	if !errors.As(err, &parseError) {
		l.report(src, span{}, Diagnostic{Rule: "file/toml", Message: err.Error(), Detail: "this is a defect in the TOML library; please report it with the file"})
		return
	}
	start := min(max(parseError.Position.Start, 0), len(src.text))
	at := span{start, start + max(parseError.Position.Len, 1)}
	if strings.Contains(parseError.Message, "already") {
		if _, twice := index(src); twice != nil {
			l.report(src, twice.second, Diagnostic{Rule: "file/repeated", Message: `"` + twice.name + `" is already given at ` + src.place(twice.first),
				Detail: "a table or key may be given once; take one of the two out. Several tables of one kind are written [[…]] with two brackets"})
			return
		}
	}
	message, detail := plainWords(parseError.Message)
	if line, _ := src.position(start); src.line(line) != src.rawLine(line) {
		message, _, _ = strings.Cut("the line is malformed; "+message, "TOML: ") // what follows may quote a password
		message = strings.TrimRight(message, " (;")
	}
	l.report(src, at, Diagnostic{Rule: "file/toml", Message: message, Detail: detail})
}

// syntaxAdvice turns what the TOML library says into what to do. The first
// entry whose text is part of the message holds.
var syntaxAdvice = []struct{ part, message, detail string }{
	{"expected value but found", "a value is missing or is written without quotes", `strings need quotes: interface = "eth0"; numbers, true and false go without`},
	{"unexpected EOF; expected value", "the file ends where a value should stand", `write KEY = VALUE`},
	{"expected '.' or '='", "a key must be followed by = and a value", `write KEY = VALUE, for example priority = 100; a keyword alone is written KEY = true`},
	{"expected key separator '='", "a key must be followed by = and a value", `write KEY = VALUE, for example priority = 100; a keyword alone is written KEY = true`},
	{"strings cannot contain newlines", "the closing quote is missing on this line", `close the string before the end of the line`},
	{`unexpected EOF; expected '"`, "the closing quote is missing", `close the string`},
	{`unexpected EOF; expected "'`, "the closing quote is missing", `close the string`},
	{"expected a comma (',') or array terminator", "a comma or ] is missing in the array", `separate the entries with commas: ["10.9.0.100", "10.9.0.101"]`},
	{"expected a comma or an inline table terminator", "a comma or } is missing in the table", `separate the keys with commas: { path = "/", status_code = 200 }`},
	{"but got ']' instead", "there is a ] too many", `write [global_defs] or, for what there can be several of, [[virtual_server]]`},
	{"top-level item to end with a newline", "there is something after the end of the value", `one key a line; strings with blanks need quotes around the whole`},
	{"expected end of table array name", "]] is missing", `write [[virtual_server]]`},
	{"to end table name", "the closing ] is missing", `write [vrrp_instance.NAME]; a name with other characters than letters, digits, _ and - needs quotes: [vrrp_instance."a.b"]`},
	{"table names cannot be empty", "a name is missing between the brackets", `write [vrrp_instance.NAME]`},
	{"key name appears blank", "there is no key before the =", `write KEY = VALUE`},
	{"already been defined", "", "a key may be given once"},
	{"was already created", "", "a name is either a table or a value, and [[…]] and [...] must not be mixed for one name"},
	{"is not a table", "", "a name is either a table or a value"},
	{"invalid escape", "", `in "…" a backslash starts an escape; write \\ for a backslash, or use '…', which keeps everything as it is`},
	{"hexadecimal digits after", "", `in "…" a backslash starts an escape; write \\ for a backslash, or use '…', which keeps everything as it is`},
	{"leading zeroes", "a number cannot start with 0", "leave out the leading zero"},
	{"floats must start with a digit", "a number cannot start with a dot", "write 0.5, not .5"},
	{"must be followed by one or more digits", "a number cannot end with a dot", "write 1.0 or 1"},
	{"out of range for int64", "the number is far too large", ""},
	{"invalid datetime", "this is no number and no date", `strings need quotes, addresses too: "10.9.0.100"`},
	{"Invalid float", "this is no number", `strings need quotes, addresses too: "10.9.0.100"`},
	{"invalid float", "this is no number", `strings need quotes, addresses too: "10.9.0.100"`},
	{"UTF-8", "the file is not plain UTF-8 text", "save it as UTF-8"},
	{"NULL bytes", "the file is not plain UTF-8 text", "save it as UTF-8"},
	{"control characters", "there is a control character in the file", "take it out; in strings write it as an escape"},
}

// plainWords returns message and remedy for a message of the TOML library.
func plainWords(library string) (message, detail string) {
	for _, a := range syntaxAdvice {
		if strings.Contains(library, a.part) {
			if a.message == "" {
				return "TOML: " + library, a.detail
			}
			return a.message + " (TOML: " + library + ")", a.detail
		}
	}
	return "TOML: " + library, ""
}

// keepalivedLine finds the first line that keepalived.conf has and TOML cannot
// have: a block of keepalived that is opened with a brace, on this line or the
// next.
var keepalivedLine = regexp.MustCompile(`(?m)^[ \t]*(?:global_defs|(?:vrrp_instance|vrrp_sync_group|vrrp_script|vrrp_track_process|vrrp_track_file|track_file|virtual_server_group|virtual_server|bfd_instance|garp_group|static_ipaddress|static_routes|static_rules|track_group|linkbeat_interfaces|interface_up_down_delays|SSL)(?:[ \t]+[^\s=\[\]{}"']+)*)[ \t]*(?:[!#].*)?\r?\n?[ \t]*\{`)

// foreignFile reports a keepalived.conf given in place of ours.
func (l *loader) foreignFile(src *source, at span) {
	name := src.name
	if strings.ContainsAny(name, " \t'\"\\$&;()*?[]<>|`") {
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	l.report(src, at, Diagnostic{Rule: "file/keepalived", Message: "this is a keepalived.conf; vipd reads TOML",
		Detail: "convert it, look at the report, and use the result:\n  vipd convert " + name + " -o vipd.toml\n(where this vipd has no convert yet, docs/migrating.md tells how to rewrite it by hand)"})
}
