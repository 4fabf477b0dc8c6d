package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/internal/record"
)

// stateFile remembers across a crash which addresses vipd added. It is written before the kernel is, so that it may
// list an address too many but never one too few.
type stateFile struct {
	path string // empty: no file
}

// document is the file's content.
type document struct {
	Version   int          `json:"version"`
	Addresses []item       `json:"addresses"`
	Objects   []fib.Object `json:"objects,omitempty"`
}

const stateVersion = 1

// read returns what the file lists; no file is an empty list.
func (f stateFile) read() (map[key]bool, []fib.Object, error) {
	keys := map[key]bool{}
	if f.path == "" {
		return keys, nil, nil
	}
	b, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil, nil
	}
	if err != nil {
		return keys, nil, fmt.Errorf("reading the list of added addresses: %w", err)
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return keys, nil, fmt.Errorf("reading the list of added addresses in %s: %w", f.path, err)
	}
	if d.Version != stateVersion {
		return keys, nil, fmt.Errorf("reading the list of added addresses in %s: version %d is not known", f.path, d.Version)
	}
	for _, it := range d.Addresses {
		keys[key{it.Interface, it.Address}] = true
	}
	return keys, d.Objects, nil
}

// write replaces the file in one step. It does not sync: after a crash of the machine itself no address is left.
func (f stateFile) write(items []item, objects []byte) error {
	if f.path == "" {
		return nil
	}
	// By hand: encoding/json takes a millisecond for a thousand addresses, during which none is announced.
	b := make([]byte, 0, 64+64*len(items))
	b = fmt.Appendf(b, `{"version":%d,"addresses":[`, stateVersion)
	var dev string
	var quoted []byte
	for i, it := range items {
		if it.Interface != dev || quoted == nil {
			dev, quoted = it.Interface, quote(it.Interface)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n{\"interface\":"...)
		b = append(b, quoted...)
		b = append(b, `,"address":"`...)
		b = it.Address.AppendTo(b)
		b = append(b, `"}`...)
	}
	b = append(b, "\n]"...)
	if len(objects) > 0 {
		b = append(append(b, ",\n\"objects\":"...), objects...)
	}
	b = append(b, "}\n"...)
	if err := record.Write(f.path, b); err != nil {
		return fmt.Errorf("writing the list of added addresses: %w", err)
	}
	return nil
}

// dir names the directory of the file.
func (f stateFile) dir() string { return filepath.Dir(f.path) }

// quote makes s a JSON string. Interface names may hold any byte but '/' and white space.
func quote(s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // cannot happen: a string always marshals
		return []byte(`""`)
	}
	return q
}
