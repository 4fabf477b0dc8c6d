// Package ipvssysctl sets kernel settings of IPVS, net.ipv4.vs.NAME, and gives them back: when vipd stops, when a reload no
// longer asks for them, and after a crash when the next vipd stops.
//
// A setting that has the wanted value already is nobody's. One that somebody else has changed since is left as it is.
// What was there before is written to a file before the kernel's value is changed.
package ipvssysctl

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"vipd/cmd/internal/settings"
)

// Dir is where the settings are.
const Dir = "/proc/sys/net/ipv4/vs"

// Keeper owns the settings. Its methods may be called from any goroutine.
type Keeper struct {
	in func(func() error) error

	mu     sync.Mutex // guards all following fields
	book   *settings.Book
	want   map[string]string
	errs   map[string]error
	loaded bool
}

// New returns a keeper of the settings in dir that remembers in file what it changed. in runs what reads and writes them in
// the network namespace that is meant; nil: that of the caller.
func New(dir, file string, in func(func() error) error) *Keeper {
	if in == nil {
		in = func(f func() error) error { return f() }
	}
	return &Keeper{in: in, book: settings.NewBook(dir, "net.ipv4.vs", file), errs: map[string]error{}}
}

// Want replaces the wanted settings, by name. The errors of all are joined; the next call tries again.
func (k *Keeper) Want(want map[string]string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.want = maps.Clone(want)
	var loading error
	if !k.loaded {
		loading = k.book.Load()
		k.loaded = true
	}
	if len(k.want)+len(k.book.Held()) == 0 {
		return loading
	}
	return errors.Join(loading, k.in(k.apply))
}

// Release gives everything back.
func (k *Keeper) Release() error { return k.Want(nil) }

// Value returns what the kernel has, "" when it cannot be read: IPVS may not be loaded, or the kernel may not know the setting.
func (k *Keeper) Value(name string) (value string) {
	// Without the namespace there is no value either.
	_ = k.in(func() (err error) { value, err = k.book.Value(settings.ID{Name: name}); return err })
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
			value, _ := k.book.Value(settings.ID{Name: name})
			out = append(out, Setting{name, k.want[name], value, k.errs[name]})
		}
		return nil
	})
	return out
}

func (k *Keeper) apply() error {
	var errs []error
	clear(k.errs)
	for _, h := range k.book.Held() {
		if _, ok := k.want[h.Name]; !ok {
			errs = append(errs, k.book.GiveBack(settings.ID{Name: h.Name}))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.want)) {
		if err := k.book.Set(settings.ID{Name: name}, k.want[name], 0); err != nil {
			k.errs[name] = err
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, k.book.Save())...)
}
