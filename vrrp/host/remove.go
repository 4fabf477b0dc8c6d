package host

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// bystander is an address that the kernel may drop together with another one that is removed.
type bystander struct {
	key
	index int
	rec   Addr
}

// remove makes removals. Unless promote_secondaries is set, the kernel drops all secondary addresses of a subnet with
// its primary one; those that are to stay, ours or not, are put back before anything else is done.
func (m *Manager) remove(j job) {
	var before State
	if slices.ContainsFunc(j.entries, func(e *entry) bool { return narrow(e.prefix) }) {
		var err error
		if before, err = m.kernel.State(); err != nil {
			m.log.Warn("cannot see which addresses would go together with a removed one", zap.Error(err))
		}
	}
	order(j, before)
	m.mu.Lock()
	others := m.book.bystanders(j, before)
	keys := make([]key, len(others))
	for i, o := range others {
		keys[i] = o.key
	}
	held := m.book.hold(keys)
	m.mu.Unlock()

	errs := make([]error, len(j.entries))
	for i, e := range j.entries {
		errs[i] = m.kernel.DelAddress(j.links[i], e.prefix)
	}
	m.restore(others)

	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, e := range j.entries {
		m.book.removed(now, e, errs[i])
	}
	m.book.unhold(now, held)
}

// narrow reports whether the address may share its subnet with secondaries.
func narrow(p netip.Prefix) bool { return p.Addr().Is4() && p.Bits() < 32 }

// order puts secondary addresses first, so that as few as possible fall with their primary one.
func order(j job, before State) {
	type pair struct {
		e     *entry
		index int
	}
	var first, last []pair
	for i, e := range j.entries {
		a := before.find(e.dev, e.prefix)
		if narrow(e.prefix) && (a == nil || !a.Secondary) {
			last = append(last, pair{e, j.links[i]})
		} else {
			first = append(first, pair{e, j.links[i]})
		}
	}
	for i, p := range append(first, last...) {
		j.entries[i], j.links[i] = p.e, p.index
	}
}

// bystanders lists the secondary addresses that may fall with the primary ones of the job and are to stay.
func (b *book) bystanders(j job, before State) []bystander {
	var out []bystander
	for i, e := range j.entries {
		l := before.Links[e.dev]
		a := before.find(e.dev, e.prefix)
		if !narrow(e.prefix) || a == nil || a.Secondary || l.Index != j.links[i] {
			continue
		}
		for _, s := range l.Addrs {
			k := key{e.dev, s.Prefix}
			if !s.Secondary || s.Prefix.Bits() != e.prefix.Bits() || !e.prefix.Contains(s.Prefix.Addr()) {
				continue
			}
			if o := b.entries[k]; o != nil && (o.busy || o.ours && o.active() == nil) {
				continue // goes anyway
			}
			out = append(out, bystander{k, l.Index, s})
		}
	}
	return out
}

// restore puts back the bystanders that are gone.
func (m *Manager) restore(others []bystander) {
	if len(others) == 0 {
		return
	}
	after, err := m.kernel.State()
	restored := 0
	for _, o := range others {
		if err == nil && after.Has(o.dev, o.prefix) {
			continue
		}
		switch e := m.kernel.AddAddress(o.index, o.rec); {
		case e == nil:
			restored++
		case !errors.Is(e, unix.EEXIST) && !errors.Is(e, unix.ENODEV):
			m.log.Error("an address that the kernel removed together with a virtual one could not be put back; set net.ipv4.conf.all.promote_secondaries=1 and add it by hand",
				zap.Stringer("address", o.prefix), zap.String("iface", o.dev), zap.Error(e))
		}
	}
	if restored > 0 {
		m.log.Info("put back secondary addresses that the kernel removed together with a virtual one; promote_secondaries=1 avoids this",
			zap.Int("addresses", restored))
	}
}
