package host

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp/host/fib"
)

// pathBatch is how many routes and rules are changed between two looks at what else is
// asked for: an address must not wait for more.
const pathBatch = 32

// configurePaths hands the routes and rules of all sets to their book.
func (b *book) configurePaths(sets []Set) {
	paths := make([]fib.Set, 0, len(sets))
	for _, s := range sets {
		paths = append(paths, fib.Set{Owner: s.Instance, Static: s.Static, Wants: s.Paths})
	}
	b.fib.Configure(paths)
}

// env is what routes depend on.
func (b *book) env() fib.Env {
	return fib.Env{
		Link: func(dev string) (fib.Link, bool) {
			l := b.last.Links[dev]
			if l == nil {
				return fib.Link{}, false
			}
			return fib.Link{Up: l.Up, VRFTable: l.VRFTable}, true
		},
		Has: b.hasAddress,
	}
}

// hasAddress reports whether some interface has the address, by the newest snapshot or
// because it was added since.
func (b *book) hasAddress(ip netip.Addr) bool {
	if b.has == nil {
		b.has = map[netip.Addr]bool{}
		for _, l := range b.last.Links {
			for i := range l.Addrs {
				b.has[l.Addrs[i].Prefix.Addr()] = true
			}
		}
	}
	if b.has[ip] {
		return true
	}
	for k, e := range b.entries {
		if e.present && k.prefix.Addr() == ip {
			b.has[ip] = true
			return true
		}
	}
	return false
}

// stir tells the routes which interfaces changed since the last snapshot.
func (b *book) stir(now time.Time, s State) {
	if !b.fib.Busy() {
		return
	}
	var less []string
	changed := len(s.Links) != len(b.last.Links)
	for name, old := range b.last.Links {
		l := s.Links[name]
		if old == l || l != nil && old.equal(l) {
			continue
		}
		changed = true
		if l == nil || old.lost(l) {
			less = append(less, name)
		}
	}
	b.fib.Stir(now, less, changed)
}

// lost reports whether the interface has become another one, is no longer up, or has
// fewer addresses: then the kernel drops routes.
func (l *Link) lost(now *Link) bool {
	if l.Index != now.Index || l.Up && !now.Up || l.Running && !now.Running {
		return true
	}
	return slices.ContainsFunc(l.Addrs, func(a Addr) bool {
		return !slices.ContainsFunc(now.Addrs, func(b Addr) bool { return a.Prefix == b.Prefix })
	})
}

// nextPaths takes the next additions of routes and rules.
func (b *book) nextPaths(now time.Time) (job, bool) {
	if b.last.Links == nil {
		return job{}, false
	}
	steps := b.fib.Next(now, b.env(), pathBatch)
	j := job{kind: jobPaths, steps: steps}
	if len(steps) > 0 && b.fib.Changed() {
		j.listing, j.objects = b.list(), b.objects()
	}
	return j, len(steps) > 0
}

// objects returns what the state file has to say of routes and rules, as JSON.
func (b *book) objects() []byte {
	if b.fib.Changed() || b.recorded == nil {
		all := b.fib.Recorded()
		if len(all) == 0 {
			b.recorded = []byte{}
			return b.recorded
		}
		j, err := json.Marshal(all)
		if err != nil { // cannot happen: they are plain values
			j = []byte{}
		}
		b.recorded = j
	}
	return b.recorded
}

// resolve fills in the indexes of interfaces; false: one of them is gone.
func (b *book) resolve(o fib.Object) (fib.Object, bool) {
	if o.Route == nil {
		return o, true
	}
	r := *o.Route
	r.Hops = append([]fib.Hop(nil), r.Hops...)
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Dev == "" || h.Index != 0 {
			continue
		}
		l := b.last.Links[h.Dev]
		if l == nil {
			return o, false
		}
		h.Index = l.Index
	}
	return fib.Object{Route: &r}, true
}

// missing lists the static objects that are not there and cannot be put back.
func (b *book) missing() []Missing {
	var all []Missing
	for _, in := range b.order {
		if !in.set.Static || !in.wanted {
			continue
		}
		for _, u := range in.users {
			if why := b.why(u.entry); !u.entry.present && why != "" {
				all = append(all, Missing{"address " + u.entry.prefix.String() + " dev " + u.entry.dev, u.address.Group, why})
			}
		}
	}
	for _, w := range b.fib.Missing() {
		all = append(all, Missing{w.Object.Kind() + " " + w.Object.String(), w.Group, w.Why})
	}
	return all
}

// why says why a wanted address is not there, "" if it is about to be.
func (b *book) why(e *entry) string {
	switch l := b.last.Links[e.dev]; {
	case e.err != nil:
		return e.err.Error()
	case e.fought:
		return "others remove it again and again: find out who"
	case l == nil && b.last.Links != nil:
		return "waits for interface " + e.dev + ", which does not exist"
	case l != nil && !l.Up:
		return "waits for interface " + e.dev + ", which is down"
	}
	return ""
}
