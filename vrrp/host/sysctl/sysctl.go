// Package sysctl sets kernel settings of interfaces and gives them back: when vipd
// stops, when a reload no longer asks for them, and at the next start after a crash.
//
// A setting that has the wanted value already is nobody's. One that somebody else has
// changed since is left as it is. What was there before is written to a file before the
// kernel's value is changed.
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
)

// Setting is a value that an interface is to have.
type Setting struct {
	Dev   string
	Name  string // below net/ipv4/conf/DEV
	Value string
}

// held is a setting that was changed.
type held struct {
	Setting
	Index int    // of the interface
	Old   string // what to give back
}

// Keeper owns the settings. Its methods may be called from any goroutine.
type Keeper struct {
	root, file string

	mu     sync.Mutex // guards all following fields
	want   []Setting
	held   map[Setting]held
	loaded bool
}

// New returns a keeper of the settings below root, "/proc/sys", that remembers in file
// what it changed.
func New(root, file string) *Keeper {
	return &Keeper{root: root, file: file, held: map[Setting]held{}}
}

// Asked reports whether Want would have anything to do: before its first call it always
// has, for a predecessor may have left something.
func (k *Keeper) Asked(want []Setting) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.loaded || len(want)+len(k.want)+len(k.held) > 0
}

// Want replaces the wanted settings. links has the index of every interface that there
// is. The errors of all settings are joined; what could not be done is tried again by
// the next call.
func (k *Keeper) Want(want []Setting, links map[string]int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.want = slices.Clone(want)
	return k.apply(links)
}

// Links makes the settings anew on interfaces that are new, or came back.
func (k *Keeper) Links(links map[string]int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.want) == 0 && len(k.held) == 0 {
		return nil
	}
	return k.apply(links)
}

// Release gives everything back.
func (k *Keeper) Release(links map[string]int) error { return k.Want(nil, links) }

func (k *Keeper) apply(links map[string]int) error {
	var errs []error
	if !k.loaded {
		errs = append(errs, k.load())
		k.loaded = true
	}
	before := len(k.held)
	for s, h := range k.held {
		if links[s.Dev] == h.Index && slices.Contains(k.want, s) {
			continue
		}
		if links[s.Dev] == h.Index {
			if err := k.restore(h); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		delete(k.held, s)
	}
	gone := len(k.held) < before
	for _, s := range k.want {
		index := links[s.Dev]
		if _, ok := k.held[s]; ok || index == 0 {
			continue
		}
		if err := k.set(s, index); err != nil {
			errs = append(errs, err)
		}
	}
	if gone {
		errs = append(errs, k.save())
	}
	return errors.Join(errs...)
}

func (k *Keeper) path(s Setting) string {
	return filepath.Join(k.root, "net/ipv4/conf", s.Dev, s.Name)
}

func (k *Keeper) read(s Setting) (string, error) {
	b, err := os.ReadFile(k.path(s))
	if err != nil {
		return "", fmt.Errorf("reading a kernel setting: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (k *Keeper) write(s Setting, value string) error {
	if err := os.WriteFile(k.path(s), []byte(value), 0o644); err != nil {
		return fmt.Errorf("changing a kernel setting: %w", err)
	}
	return nil
}

func (k *Keeper) set(s Setting, index int) error {
	old, err := k.read(s)
	if err != nil || old == s.Value {
		return err
	}
	k.held[s] = held{s, index, old}
	if err = k.save(); err == nil {
		err = k.write(s, s.Value)
	}
	if err != nil {
		delete(k.held, s)
	}
	return err
}

func (k *Keeper) restore(h held) error {
	now, err := k.read(h.Setting)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || now != h.Value {
		return err
	}
	return k.write(h.Setting, h.Old)
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
		return fmt.Errorf("reading which kernel settings were changed: %w", err)
	}
	for _, h := range all {
		k.held[h.Setting] = h
	}
	return nil
}

// save writes what is changed, in one step.
func (k *Keeper) save() error {
	all := slices.SortedFunc(maps.Values(k.held), func(a, b held) int { return strings.Compare(a.Dev+" "+a.Name, b.Dev+" "+b.Name) })
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(k.file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(k.file+".new", k.file)
	}
	if err != nil {
		return fmt.Errorf("remembering which kernel settings were changed: %w", err)
	}
	return nil
}
