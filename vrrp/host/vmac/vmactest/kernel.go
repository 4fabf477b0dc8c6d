// Package vmactest has an in-memory kernel for tests of what uses package vmac. It is as strict as Linux: a name that is
// taken is EEXIST, a missing link ENODEV, a MAC that another macvlan of the parent has EADDRINUSE when the second one is
// taken up, a parent takes its macvlans with it, and every link has settings of its own that go with it. It prints itself.
package vmactest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
)

// Kernel implements vmac.Kernel and vmac.Settings in memory. Its methods may be called from any goroutine.
type Kernel struct {
	mu       sync.Mutex // guards all following fields
	links    map[string]*host.Link
	settings map[string]string
	index    int
	writes   []string
	fail     map[string]error // by the first word of a write
}

var (
	_ vmac.Kernel   = (*Kernel)(nil)
	_ vmac.Settings = (*Kernel)(nil)
)

// New returns a kernel with lo and the settings of all interfaces.
func New() *Kernel {
	k := &Kernel{links: map[string]*host.Link{}, settings: map[string]string{}, fail: map[string]error{}}
	k.settings["net/ipv4/conf/all/rp_filter"] = "0"
	k.settings["net/ipv4/igmp_link_local_mcast_reports"] = "1"
	return k
}

// defaults are the settings of a new link, without their directories.
var defaults = map[string]string{
	"ipv4 arp_ignore": "0", "ipv4 arp_announce": "0", "ipv4 arp_filter": "0", "ipv4 arp_notify": "0", "ipv4 accept_local": "0",
	"ipv4 rp_filter": "1", "ipv4 promote_secondaries": "0", "ipv6 disable_ipv6": "0", "ipv6 accept_ra": "1", "ipv6 autoconf": "1",
	"ipv6 router_solicitations": "-1", "ipv6 accept_dad": "1", "ipv6 dad_transmits": "1", "ipv6 ndisc_notify": "0",
}

func paths(name string) map[string]string {
	out := map[string]string{}
	for k, v := range defaults {
		family, setting, _ := strings.Cut(k, " ")
		out["net/"+family+"/conf/"+name+"/"+setting] = v
	}
	return out
}

// Plug adds an interface that is up, as by a driver, and returns its index.
func (k *Kernel) Plug(name string, mac [6]byte) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(host.Link{Name: name, MAC: mac, Up: true, Running: true, MTU: 1500})
}

// Make adds a link of others.
func (k *Kernel) Make(l host.Link) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(l)
}

func (k *Kernel) add(l host.Link) int {
	k.index++
	l.Index = k.index
	k.links[l.Name] = &l
	maps.Copy(k.settings, paths(l.Name))
	return l.Index
}

// Change changes a link by hand.
func (k *Kernel) Change(name string, f func(l *host.Link)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k.links[name])
}

// Unplug removes a link by hand, and the macvlans on it.
func (k *Kernel) Unplug(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(k.links[name])
}

func (k *Kernel) remove(l *host.Link) {
	delete(k.links, l.Name)
	for path := range paths(l.Name) {
		delete(k.settings, path)
	}
	for _, o := range k.links {
		if o.Parent == l.Index && o.Kind == "macvlan" {
			k.remove(o)
		}
	}
}

// Fail makes all writes that begin with word ("add", "adjust", "delete", "set") fail with err; nil: no more.
func (k *Kernel) Fail(word string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail[word] = err
}

// Writes returns what was asked for since the last call.
func (k *Kernel) Writes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.writes
	k.writes = nil
	return w
}

func (k *Kernel) note(word, format string, args ...any) error {
	k.writes = append(k.writes, word+" "+fmt.Sprintf(format, args...))
	return k.fail[word]
}

// State implements vmac.Kernel.
func (k *Kernel) State() (host.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := host.State{Links: map[string]*host.Link{}, At: time.Now()}
	for name, l := range k.links {
		c := *l
		s.Links[name] = &c
	}
	return s, nil
}

// Add implements vmac.Kernel.
func (k *Kernel) Add(l vmac.Link, parent int, alias string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.note("add", "%s", l)
	below := k.byIndex(parent)
	switch {
	case err != nil:
		return 0, err
	case k.links[l.Name] != nil:
		return 0, unix.EEXIST
	case below == nil:
		return 0, unix.ENODEV
	}
	if below.Kind == "macvlan" { // beside it
		parent = below.Parent
	}
	n := host.Link{Name: l.Name, MAC: l.MAC, Kind: "macvlan", Private: true, Parent: parent, Alias: alias, MTU: below.MTU, Group: below.Group}
	if l.Group != vmac.ParentGroup {
		n.Group = uint32(l.Group)
	}
	return k.add(n), nil
}

func (k *Kernel) byIndex(index int) *host.Link {
	for _, l := range k.links {
		if l.Index == index {
			return l
		}
	}
	return nil
}

// Adjust implements vmac.Kernel.
func (k *Kernel) Adjust(index, mtu int, group uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.byIndex(index)
	name := fmt.Sprint(index)
	if l != nil {
		name = l.Name
	}
	if err := k.note("adjust", "%s mtu %d up", name, mtu); err != nil {
		return err
	}
	if l == nil {
		return unix.ENODEV
	}
	below := k.byIndex(l.Parent)
	for _, o := range k.links {
		if o != l && o.Parent == l.Parent && o.Kind == "macvlan" && o.MAC == l.MAC && o.Up {
			return unix.EADDRINUSE
		}
	}
	l.MTU, l.Group, l.Up, l.Running = mtu, group, true, below != nil && below.Up && below.Running
	return nil
}

// Delete implements vmac.Kernel.
func (k *Kernel) Delete(index int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.byIndex(index)
	if l == nil {
		return unix.ENODEV
	}
	if err := k.note("delete", "%s", l.Name); err != nil {
		return err
	}
	k.remove(l)
	return nil
}

// Get implements vmac.Settings.
func (k *Kernel) Get(path string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.settings[path]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return v, nil
}

// Set implements vmac.Settings.
func (k *Kernel) Set(path, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.note("set", "%s %s", path, value); err != nil {
		return err
	}
	if _, ok := k.settings[path]; !ok {
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	k.settings[path] = value
	return nil
}

// String lists the links, and the settings that are not the usual ones, sorted.
func (k *Kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	usual := New().settings
	for _, l := range k.links {
		line := fmt.Sprintf("link %s mtu %d", l.Name, l.MTU)
		if l.Kind != "" {
			parent := "nothing"
			if p := k.byIndex(l.Parent); p != nil {
				parent = p.Name
			}
			line = fmt.Sprintf("link %s on %s %s mac %02x group %d mtu %d", l.Name, parent, l.Kind, l.MAC[3:], l.Group, l.MTU)
		}
		if !l.Up {
			line += " down"
		}
		out = append(out, line)
		maps.Copy(usual, paths(l.Name))
	}
	for path, v := range k.settings {
		if usual[path] != v {
			out = append(out, strings.ReplaceAll(strings.TrimPrefix(path, "net/"), "/conf", "")+" "+v)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
