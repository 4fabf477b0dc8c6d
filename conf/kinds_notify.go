package conf

import (
	"path"
	"slices"
	"strconv"
)

// The kinds of commands that may name who runs them, and of named pipes.
var (
	runKind     = &kind{"run", commandKind.allowed + ` or { script = "…", user = "USER", group = "GROUP" }`, []string{"type", "syntax", "shell", "user"}, parseRun}
	deletedKind = &kind{"deleted", "true, or a command as for notify", []string{"type", "syntax", "shell", "user"}, parseDeleted}
	fifoKind    = &kind{"fifo", `"PATH [USER [GROUP]]" or { path = "PATH", user = "USER", group = "GROUP" }`, []string{"type", "syntax"}, parseFIFO}
)

// parseRun reads a command, or a table with a command and who runs it.
func parseRun(f field) (any, bool) {
	if f.it.kind != tableItem {
		argv, ok := parseCommand(f)
		if !ok {
			return nil, false
		}
		return Command{Argv: argv.([]string)}, true
	}
	script := f.it.child("script")
	if script == nil {
		return f.bad("type", "script is missing")
	}
	argv, ok := parseCommand(field{f.c, f.b, f.k, script, join(f.path, "script")})
	rest := f.it.without("script")
	if len(rest.keys) == 0 {
		if !ok {
			return nil, false
		}
		return Command{Argv: argv.([]string)}, true
	}
	u, good := f.tableUser(rest)
	if !ok || !good {
		return nil, false
	}
	return Command{Argv: argv.([]string), User: u}, true
}

// tableUser reads user and group from the rest of a table.
func (f field) tableUser(rest *item) (u User, ok bool) {
	for _, entry := range rest.keys {
		text, isText := entry.it.value.(string)
		switch {
		case entry.name != "user" && entry.name != "group":
			f.badAt(entry.it, join(f.path, entry.name), "user", strconv.Quote(entry.name)+" is not known here"+didYouMean(entry.name, []string{"script", "user", "group"}), f.k.must())
			return u, false
		case !isText || !validUser(text):
			f.badAt(entry.it, join(f.path, entry.name), "user", shown(entry.it)+" is no "+entry.name, f.k.must())
			return u, false
		case entry.name == "user":
			u.Name = text
		default:
			u.Group = text
		}
	}
	if u.Name == "" {
		f.badAt(f.it, f.path, "user", "a group without a user", "add user")
		return u, false
	}
	return u, true
}

// deleted is the value of notify_deleted.
type deleted struct {
	on      bool
	command Command
}

// parseDeleted reads notify_deleted.
func parseDeleted(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		return deleted{on: on}, true
	}
	c, ok := parseRun(f)
	if !ok {
		return nil, false
	}
	return deleted{true, c.(Command)}, true
}

// parseFIFO reads a named pipe and whose it is.
func parseFIFO(f field) (any, bool) {
	words, ok := f.words("path")
	if !ok {
		return nil, false
	}
	if f.it.kind == tableItem {
		named := map[string]string{}
		for i := 1; i+1 < len(words); i += 2 {
			if words[i] != "user" && words[i] != "group" {
				return f.bad("syntax", strconv.Quote(words[i])+" is not known here"+didYouMean(words[i], []string{"path", "user", "group"}))
			}
			named[words[i]] = words[i+1]
		}
		if named["group"] != "" && named["user"] == "" {
			return f.bad("syntax", "a group without a user")
		}
		words = slices.DeleteFunc([]string{words[0], named["user"], named["group"]}, func(w string) bool { return w == "" })
	}
	if len(words) == 0 || len(words) > 3 || !path.IsAbs(words[0]) || !printable(words[0]) || slices.ContainsFunc(words[1:], func(w string) bool { return !validUser(w) }) {
		return f.bad("syntax", shown(f.it)+" is no absolute path, with or without a user")
	}
	out := FIFO{Path: path.Clean(words[0])}
	if len(words) > 1 {
		out.User.Name = words[1]
	}
	if len(words) > 2 {
		out.User.Group = words[2]
	}
	return out, true
}
