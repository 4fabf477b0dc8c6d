package conf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// The bounds of one file. 100,000 addresses take 2 MB, and nothing here is nested
// deeper than five levels; what is beyond would take the memory of a daemon that
// reloads, or all of its stack.
const (
	maxFile  = 16 << 20 // bytes
	maxDepth = 64       // brackets in brackets, or parts of a dotted key
)

// errNoFile and errTooLarge say why content does not read a file.
var (
	errNoFile   = errors.New("it is a pipe, socket or device, not a file")
	errTooLarge = fmt.Errorf("it is larger than %d MB", maxFile>>20)
)

// refusals are what to do about them.
var refusals = map[error]string{
	errNoFile:   "every reload reads it again, so it must be a file that stays",
	errTooLarge: "this is hardly a configuration; check the path, or split the file and name the parts with include",
}

// content reads a file. It opens nothing that could make it wait: the open of a
// named pipe lasts until somebody writes to it.
func (l *loader) content(name string) (string, error) {
	at := l.fsName(name)
	info, err := fs.Stat(l.fsys, at)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() && !info.IsDir() && !l.env.Pipes {
		return "", errNoFile
	}
	f, err := l.fsys.Open(at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	l.trace++
	var text strings.Builder
	text.Grow(int(min(info.Size(), maxFile)))
	_, err = io.Copy(&text, io.LimitReader(f, maxFile+1))
	if err == nil && text.Len() > maxFile {
		return "", errTooLarge
	}
	return text.String(), err
}

// tooDeep returns the place where a text is nested deeper than maxDepth, in
// brackets or in the dots of a key. The TOML library would go down with it.
func tooDeep(text string) (span, bool) {
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '#':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return span{}, false
			}
			i, dots = i+end, 0
		case '"', '\'':
			i = stringEnd(text, i)
		case '[', '{':
			depth++
			dots = 0
		case ']', '}':
			depth = max(depth-1, 0)
			dots = 0
		case '.':
			dots++
		case '\n', '=', ',':
			dots = 0
		}
		if depth > maxDepth || dots >= maxDepth {
			return span{i, i + 1}, true
		}
	}
	return span{}, false
}

// stringEnd returns where the string that begins at i ends: at its last byte,
// which for one that is not closed is the end of the line or of the text.
func stringEnd(text string, i int) int {
	quote := text[i : i+1]
	long := tripled(text[i:])
	if long {
		quote = text[i : i+3]
		i += 2
	}
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote[0] == '"':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote) - 1
		case text[i] == '\n' && !long:
			return i
		}
	}
	return len(text)
}

// tripled reports whether a text that begins with a quote begins with three of them.
func tripled(text string) bool { return len(text) >= 3 && text[1] == text[0] && text[2] == text[0] }
