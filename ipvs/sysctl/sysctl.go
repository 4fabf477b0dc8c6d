// Package sysctl sets kernel settings of IPVS, net.ipv4.vs.NAME, and gives them back: when vipd stops, when a reload no
// longer asks for them, and after a crash when the next vipd stops.
//
// A setting that has the wanted value already is nobody's. One that somebody else has changed since is left as it is.
// What was there before is written to a file before the kernel's value is changed.
package sysctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"vipd/ipvs/internal/record"
)

// Dir is where the settings are.
const Dir = "/proc/sys/net/ipv4/vs"

// held is a setting that was changed.
type held struct {
	Name, Value string
	Old         string // what to give back
}

// Keeper owns the settings. Its methods may be called from any goroutine.
type Keeper struct {
	dir, file string
	in        func(func() error) error

	mu     sync.Mutex // guards all following fields
	want   map[string]string
	held   map[string]held
	errs   map[string]error
	loaded bool
}

// New returns a keeper of the settings in dir that remembers in file what it changed. in runs what reads and writes them in
// the network namespace that is meant; nil: that of the caller.
func New(dir, file string, in func(func() error) error) *Keeper {
	if in == nil {
		in = func(f func() error) error { return f() }
	}
	return &Keeper{dir: dir, file: file, in: in, held: map[string]held{}, errs: map[string]error{}}
}

// Want replaces the wanted settings, by name. The errors of all are joined; the next call tries again.
func (k *Keeper) Want(want map[string]string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.want = maps.Clone(want)
	var errs []error
	if !k.loaded {
		if err := k.load(); err != nil {
			errs = append(errs, err)
		}
		k.loaded = true
	}
	if len(k.want)+len(k.held) == 0 {
		return errors.Join(errs...)
	}
	err := k.in(func() error { return k.apply() })
	return errors.Join(append(errs, err)...)
}

// Release gives everything back.
func (k *Keeper) Release() error { return k.Want(nil) }

// Value returns what the kernel has, "" when it cannot be read: IPVS may not be loaded, or the kernel may not know the setting.
func (k *Keeper) Value(name string) (value string) {
	// Without the namespace there is no value either.
	_ = k.in(func() (err error) { value, err = k.read(name); return err })
	return value
}

// Setting is one wanted setting and what became of it.
type Setting struct {
	Name, Want string
	Value      string // of the kernel; "" when it cannot be read
	Err        error  // why it could not be set
}

// Status returns all wanted settings by name.
func (k *Keeper) Status() []Setting {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Setting
	// What cannot be read is shown so.
	_ = k.in(func() error {
		for _, name := range slices.Sorted(maps.Keys(k.want)) {
			value, _ := k.read(name)
			out = append(out, Setting{name, k.want[name], value, k.errs[name]})
		}
		return nil
	})
	return out
}

func (k *Keeper) apply() error {
	var errs []error
	clear(k.errs)
	for _, name := range slices.Sorted(maps.Keys(k.held)) {
		if _, ok := k.want[name]; ok {
			continue
		}
		if err := k.restore(k.held[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(k.held, name)
		if err := k.save(); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.want)) {
		if err := k.set(name, k.want[name]); err != nil {
			k.errs[name] = err
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// same compares values without regard to blanks: the kernel parts those of sync_threshold by a tabulator.
func same(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }

func (k *Keeper) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		return "", fmt.Errorf("reading net.ipv4.vs.%s: %w", name, err)
	}
	return strings.Join(strings.Fields(string(b)), " "), nil
}

func (k *Keeper) write(name, value string) error {
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting net.ipv4.vs.%s to %q: %w", name, value, err)
	}
	return nil
}

// set gives a setting its value; the value from before the first change is what will be given back.
func (k *Keeper) set(name, value string) error {
	now, err := k.read(name)
	if err != nil {
		return err
	}
	h, ours := k.held[name]
	if same(now, value) && (!ours || same(h.Value, value)) {
		return nil
	}
	before, was := k.held[name]
	if !ours {
		h.Old = now
	}
	h.Name, h.Value = name, value
	k.held[name] = h
	if err = k.save(); err == nil && !same(now, value) {
		err = k.write(name, value)
	}
	if err != nil {
		delete(k.held, name)
		if was {
			k.held[name] = before
		}
		return errors.Join(err, k.save())
	}
	return nil
}

func (k *Keeper) restore(h held) error {
	now, err := k.read(h.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !same(now, h.Value) {
		return err
	}
	return k.write(h.Name, h.Old)
}

// load reads what an earlier vipd changed.
func (k *Keeper) load() error {
	b, err := os.ReadFile(k.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all []held
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return fmt.Errorf("reading which IPVS settings were changed, from %s: %w; what they were before is not known: they stay as they are at the stop", k.file, err)
	}
	for _, h := range all {
		if h.Name == "" || h.Name != filepath.Base(h.Name) {
			return fmt.Errorf("reading which IPVS settings were changed: %q is no setting", h.Name)
		}
		k.held[h.Name] = h
	}
	return nil
}

// save writes what is changed, in one step.
func (k *Keeper) save() error {
	all := slices.SortedFunc(maps.Values(k.held), func(a, b held) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.Marshal(all)
	if err == nil {
		err = record.Write(k.file, b)
	}
	if err != nil {
		return fmt.Errorf("remembering which IPVS settings were changed: %w", err)
	}
	return nil
}
