package conf

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// The kinds of values of trackers and of users that commands run as.
var (
	fileKind     = &kind{"file", `the absolute path of a file ("/run/vipd/weight")`, []string{"type", "syntax"}, parseFilePath}
	initFileKind = &kind{"init", `true, a number, or a string "[NUMBER] [overwrite]"`, []string{"type", "syntax"}, parseInitFile}
	userKind     = &kind{"user", `"USER [GROUP]" or { user = "USER", group = "GROUP" }`, []string{"type", "syntax"}, parseUser}
)

// parseFilePath reads an absolute path.
func parseFilePath(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if !path.IsAbs(s) || !printable(s) || path.Clean(s) == "/" {
		return f.bad("syntax", shown(f.it)+" is no absolute path of a file")
	}
	return path.Clean(s), true
}

// initFile is the value of init_file.
type initFile struct {
	on, overwrite bool
	value         int
}

// parseInitFile reads init_file.
func parseInitFile(f field) (any, bool) {
	switch v := f.it.value.(type) {
	case bool:
		return initFile{on: v}, true
	case int64:
		if v < -weightMax || v > weightMax {
			return f.bad("syntax", shown(f.it)+" is out of range")
		}
		return initFile{on: true, value: int(v)}, true
	case string:
		i := initFile{on: true}
		words := strings.Fields(v)
		if n := len(words); n > 0 && words[n-1] == "overwrite" {
			i.overwrite, words = true, words[:n-1]
		}
		if len(words) == 1 {
			n, err := strconv.ParseInt(words[0], 10, 32)
			if err != nil {
				return f.bad("syntax", shown(f.it)+" cannot be read")
			}
			i.value = int(n)
			return i, true
		}
		if len(words) > 1 || !i.overwrite {
			return f.bad("syntax", shown(f.it)+" cannot be read")
		}
		return i, true
	}
	return f.wrongType("whole number")
}

// parseUser reads who runs a command.
func parseUser(f field) (any, bool) {
	words, ok := f.words("user")
	if !ok {
		return nil, false
	}
	if f.it.kind == tableItem && len(words) == 3 && words[1] == "group" {
		words = []string{words[0], words[2]}
	} else if f.it.kind == tableItem && len(words) > 1 {
		return f.bad("syntax", strconv.Quote(words[1])+" is not known here"+didYouMean(words[1], []string{"user", "group"}))
	}
	if len(words) == 0 || len(words) > 2 || slices.ContainsFunc(words, func(w string) bool { return !validUser(w) }) {
		return f.bad("syntax", shown(f.it)+" is no user")
	}
	u := User{Name: words[0]}
	if len(words) == 2 {
		u.Group = words[1]
	}
	return u, true
}

// validUser reports whether a name may be that of a user or a group.
func validUser(s string) bool {
	return s != "" && printable(s) && !blank(s) && !strings.Contains(s, ":")
}
