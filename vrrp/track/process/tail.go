package process

import (
	"bytes"
	"os"
	"strings"
	"unicode"
)

// tailMax bounds the output that is kept.
const tailMax = 512

// tail keeps the end of what is written to it, in bounded memory.
type tail struct{ b []byte }

// Write never fails: the program must not be held up by what it prints.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > tailMax {
		p = p[n-tailMax:]
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - tailMax; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return n, nil
}

// lastLine is the last line that is not empty, printable and at most 200 bytes.
func (t *tail) lastLine() string {
	const limit = 200
	b := bytes.TrimSpace(t.b)
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b = b[i+1:]
	}
	if len(b) > limit {
		b = b[:limit]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), ""))
}

// Environment is the minimal environment of such a program: PATH (that of
// this process, or a usual one) and the C locale, so that output is stable.
func Environment() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return []string{"PATH=" + path, "LC_ALL=C"}
}
