// Package linksysctl sets kernel settings of interfaces and gives them back: when vipd
// stops, when a reload no longer asks for them, and at the next start after a crash.
//
// A setting that has the wanted value already is nobody's. One that somebody else has
// changed since is left as it is. What was there before is written to a file before the
// kernel's value is changed.
package linksysctl

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"vipd/cmd/internal/settings"
)

// Setting is a value that an interface is to have.
type Setting struct {
	Dev   string
	Name  string // below net/ipv4/conf/DEV
	Value string
}

func (s Setting) id() settings.ID { return settings.ID{Dev: s.Dev, Name: s.Name} }

// Keeper owns the settings. Its methods may be called from any goroutine.
type Keeper struct {
	mu     sync.Mutex // guards all following fields
	book   *settings.Book
	want   []Setting
	loaded bool
}

// New returns a keeper of the settings below root, "/proc/sys", that remembers in file
// what it changed.
func New(root, file string) *Keeper {
	return &Keeper{book: settings.NewBook(filepath.Join(root, "net/ipv4/conf"), "net.ipv4.conf", file)}
}

// Asked reports whether Want would have anything to do: before its first call it always
// has, for a predecessor may have left something.
func (k *Keeper) Asked(want []Setting) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.loaded || len(want)+len(k.want)+len(k.book.Held()) > 0
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
	if len(k.want)+len(k.book.Held()) == 0 {
		return nil
	}
	return k.apply(links)
}

// Release gives everything back.
func (k *Keeper) Release(links map[string]int) error { return k.Want(nil, links) }

func (k *Keeper) apply(links map[string]int) error {
	var errs []error
	if !k.loaded {
		errs = append(errs, k.book.Load())
		k.loaded = true
	}
	for _, h := range k.book.Held() {
		id := settings.ID{Dev: h.Dev, Name: h.Name}
		switch wanted := slices.ContainsFunc(k.want, func(s Setting) bool { return s.id() == id }); {
		case links[h.Dev] != h.Index: // with the interface went what was changed
			k.book.Forget(id)
		case !wanted:
			errs = append(errs, k.book.GiveBack(id))
		}
	}
	for _, s := range k.want {
		if index := links[s.Dev]; index != 0 && !k.book.Has(s.id(), s.Value) {
			errs = append(errs, k.book.Set(s.id(), s.Value, index))
		}
	}
	return errors.Join(append(errs, k.book.Save())...)
}
