package smtpcheck

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of one reply. RFC 5321 §4.5.3.1.5 allows 512 bytes a line.
const (
	maxLine  = 4096
	maxLines = 100
)

var (
	errLong  = fmt.Errorf("a line of the reply is longer than %d bytes", maxLine)
	errLines = fmt.Errorf("the reply has more than %d lines", maxLines)
)

// reply is one reply of a server (RFC 5321 §4.2).
type reply struct {
	code int
	text string // of its first line
}

// String gives the first line, shortened.
func (r reply) String() string {
	text := fmt.Sprint(r.code)
	if r.text != "" {
		text += " " + r.text
	}
	return shorten(text)
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// replies reads the replies of a server.
type replies struct{ in *bufio.Reader }

func newReplies(r io.Reader) replies { return replies{bufio.NewReaderSize(r, maxLine)} }

// next reads one reply: lines "250-…" up to one "250 …". It takes bare line feeds
// and a code without text.
func (r replies) next() (reply, error) {
	var out reply
	for n := range maxLines {
		line, err := r.line()
		if err != nil {
			return reply{}, err
		}
		code, text, last, err := split(line)
		switch {
		case err != nil:
			return reply{}, err
		case n == 0:
			out = reply{code, text}
		case code != out.code:
			return reply{}, fmt.Errorf("one reply has the codes %d and %d", out.code, code)
		}
		if last {
			return out, nil
		}
	}
	return reply{}, errLines
}

// line reads one line without its end.
func (r replies) line() (string, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errLong
	case err != nil:
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
}

// split takes one line of a reply apart.
func split(line string) (code int, text string, last bool, err error) {
	bad := fmt.Errorf("no SMTP reply: it begins with %q", shorten(line))
	if len(line) < 3 {
		return 0, "", false, bad
	}
	for _, d := range []byte(line[:3]) {
		if d < '0' || d > '9' {
			return 0, "", false, bad
		}
		code = code*10 + int(d-'0')
	}
	if code < 200 || code > 599 {
		return 0, "", false, bad
	}
	if len(line) == 3 {
		return code, "", true, nil
	}
	if line[3] != ' ' && line[3] != '-' {
		return 0, "", false, bad
	}
	return code, line[4:], line[3] == ' ', nil
}
