package vmac

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"vipd/vrrp/host/internal/record"
)

// document is what survives a crash: links that were made and values that were changed, each noted before it is done.
type document struct {
	Version  int        `json:"version"`
	Links    []madeLink `json:"links"`
	Settings []changed  `json:"settings"`
	path     string     // "": nowhere
	failing  bool       // the last writing failed
}

const documentVersion = 1

// madeLink is a link that this vipd made. Index is 0 until it is there.
type madeLink struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
}

// changed is a value that this vipd changed.
type changed struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	Value  string `json:"value"` // what it was set to
	Index  int    `json:"index"` // of the interface it belongs to
}

// read loads what an earlier vipd noted; no file is none.
func (d *document) read() error {
	if d.path == "" {
		return nil
	}
	b, err := os.ReadFile(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the list of virtual-MAC links: %w", err)
	}
	var old document
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("reading the list of virtual-MAC links in %s: %w", d.path, err)
	}
	if old.Version != documentVersion {
		return fmt.Errorf("reading the list of virtual-MAC links in %s: version %d is not known", d.path, old.Version)
	}
	d.Links, d.Settings = old.Links, old.Settings
	return nil
}

// write replaces the file in one step.
func (d *document) write() error {
	if d.path == "" {
		return nil
	}
	if len(d.Links)+len(d.Settings) == 0 {
		if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the list of virtual-MAC links: %w", err)
		}
		return nil
	}
	d.Version = documentVersion
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return fmt.Errorf("writing the list of virtual-MAC links: %w", err)
	}
	if err := record.Write(d.path, append(b, '\n')); err != nil {
		return fmt.Errorf("writing the list of virtual-MAC links: %w", err)
	}
	return nil
}
