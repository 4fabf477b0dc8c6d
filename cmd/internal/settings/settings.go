// Package settings changes kernel settings, files below /proc/sys, and gives back what they were before: also after a
// crash, for what was there is written to a file before the kernel's value is changed.
//
// A setting that has the wanted value already is nobody's. One that somebody else has changed since is not given back.
package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ID names a setting.
type ID struct {
	Dev  string // the interface that it is of; "" where it is of none
	Name string
}

// Held is a setting that was changed.
type Held struct {
	Dev   string `json:",omitempty"`
	Name  string
	Value string // what it was set to
	Index int    `json:",omitempty"` // of the interface
	Old   string // what to give back
}

// Book changes the settings of one directory and knows which it changed. It is not for several goroutines at
// once, but for Value.
type Book struct {
	dir, prefix string
	file        string
	held        map[ID]Held
	unsaved     bool // some were given back since the file was written
}

// NewBook returns a book of the settings in dir: DIR/NAME, and DIR/DEV/NAME where they are of an interface. Errors call
// them PREFIX.NAME and PREFIX.DEV.NAME, as sysctl(8) does. What was changed is remembered in file.
func NewBook(dir, prefix, file string) *Book {
	return &Book{dir: dir, prefix: prefix, file: file, held: map[ID]Held{}}
}

// Load takes over what an earlier process changed, as its file says. No file is nothing.
func (b *Book) Load() error {
	text, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all []Held
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, h := range all {
		if !plain(h.Name) || h.Dev != "" && !plain(h.Dev) {
			err = fmt.Errorf("%q is no setting", filepath.Join(h.Dev, h.Name))
		}
	}
	if err != nil {
		return fmt.Errorf("reading which settings of %s were changed, from %s: %w; what they were before is not known: they stay as they are at the stop", b.prefix, b.file, err)
	}
	for _, h := range all {
		b.held[ID{h.Dev, h.Name}] = h
	}
	return nil
}

// plain reports whether s names a file in a directory.
func plain(s string) bool { return s != "" && s != "." && s != ".." && s == filepath.Base(s) }

// Held lists what is changed, in order.
func (b *Book) Held() []Held {
	return slices.SortedFunc(maps.Values(b.held), func(x, y Held) int {
		return cmp.Or(strings.Compare(x.Dev, y.Dev), strings.Compare(x.Name, y.Name))
	})
}

// Has reports whether a setting is changed to this value.
func (b *Book) Has(id ID, value string) bool {
	h, ok := b.held[id]
	return ok && same(h.Value, value)
}

// Value reads a setting; what it consists of is parted by single blanks.
func (b *Book) Value(id ID) (string, error) {
	text, err := os.ReadFile(b.path(id))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", b.title(id), err)
	}
	return strings.Join(strings.Fields(string(text)), " "), nil
}

// Set gives a setting its value; index is that of its interface, 0 where it has none. What it was before the first change
// is what will be given back.
func (b *Book) Set(id ID, value string, index int) error {
	now, err := b.Value(id)
	if err != nil {
		return err
	}
	before, ours := b.held[id]
	if same(now, value) && (!ours || same(before.Value, value)) {
		return nil
	}
	h := Held{Dev: id.Dev, Name: id.Name, Value: value, Index: index, Old: now}
	if ours {
		h.Old = before.Old
	}
	b.held[id] = h
	if err := b.write(); err != nil {
		b.undo(id, before, ours)
		return err
	}
	if same(now, value) {
		return nil
	}
	if err := b.set(id, value); err != nil {
		b.undo(id, before, ours)
		return errors.Join(err, b.write())
	}
	return nil
}

// undo puts a setting's place in the book back as it was.
func (b *Book) undo(id ID, before Held, was bool) {
	delete(b.held, id)
	if was {
		b.held[id] = before
	}
}

// GiveBack gives a setting the value from before. One that others have changed since, or that is gone, is no longer held
// either. Save tells the file.
func (b *Book) GiveBack(id ID) error {
	h, ok := b.held[id]
	if !ok {
		return nil
	}
	now, err := b.Value(id)
	if err == nil && same(now, h.Value) {
		err = b.set(id, h.Old)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.Forget(id)
	return nil
}

// Forget lets go of a setting as it is.
func (b *Book) Forget(id ID) {
	delete(b.held, id)
	b.unsaved = true
}

// Save writes the file, if settings were given back since.
func (b *Book) Save() error {
	if !b.unsaved {
		return nil
	}
	return b.write()
}

// write writes what is changed, in one step.
func (b *Book) write() error {
	text, err := json.Marshal(b.Held())
	if err == nil {
		err = replace(b.file, text)
	}
	if err != nil {
		return fmt.Errorf("remembering which settings of %s were changed: %w", b.prefix, err)
	}
	b.unsaved = false
	return nil
}

func (b *Book) set(id ID, value string) error {
	if err := os.WriteFile(b.path(id), []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting %s to %q: %w", b.title(id), value, err)
	}
	return nil
}

func (b *Book) path(id ID) string { return filepath.Join(b.dir, id.Dev, id.Name) }

// title is the name of a setting as sysctl(8) has it: there the dots of an interface are slashes.
func (b *Book) title(id ID) string {
	if id.Dev == "" {
		return b.prefix + "." + id.Name
	}
	return b.prefix + "." + strings.ReplaceAll(id.Dev, ".", "/") + "." + id.Name
}

// same compares values without regard to blanks: the kernel parts those of sync_threshold by a tabulator.
func same(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }
