// Package vectors reads the files of captured reference frames under
// vrrp/packet/testdata/vectors, for tests.
//
// A file is lines of "# key: value" and "frame NAME: HEX", the hex being a
// whole Ethernet frame. "# NAME.key: value" holds for that frame only, and
// before the file's own value. Format and origin: README.md beside the files.
package vectors

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Frame is one captured Ethernet frame.
type Frame struct {
	Name string
	Data []byte

	own, file map[string]string
}

// Get returns what the file states about the frame under key, or "".
func (f Frame) Get(key string) string {
	if v, ok := f.own[key]; ok {
		return v
	}
	return f.file[key]
}

// List returns the comma-separated value of key.
func (f Frame) List(key string) []string {
	v := f.Get(key)
	if v == "" {
		return nil
	}
	return strings.Split(v, ", ")
}

// Parse reads one file and returns its frames in order.
func Parse(r io.Reader) ([]Frame, error) {
	var frames []Frame
	keys := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case line == "":
		case !ok:
			return nil, fmt.Errorf("reading vectors: line %d: no \": \" in %q", n, line)
		case strings.HasPrefix(name, "# "):
			keys[name[2:]] = value
		case strings.HasPrefix(name, "frame "):
			data, err := hex.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("reading vectors: line %d: %w", n, err)
			}
			frames = append(frames, Frame{Name: name[6:], Data: data})
		default:
			return nil, fmt.Errorf("reading vectors: line %d: neither a key nor a frame: %q", n, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading vectors: %w", err)
	}
	for i := range frames {
		frames[i].own, frames[i].file = split(keys, frames[i].Name)
	}
	return frames, nil
}

// split separates the keys that belong to the frame alone.
func split(keys map[string]string, frame string) (own, file map[string]string) {
	own, file = map[string]string{}, map[string]string{}
	for k, v := range keys {
		if rest, ok := strings.CutPrefix(k, frame+"."); ok {
			own[rest] = v
		} else {
			file[k] = v
		}
	}
	return own, file
}
