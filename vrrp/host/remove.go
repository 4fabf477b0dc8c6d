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

	retryAt time.Time // when owed
	backoff time.Duration
}

// remove makes removals. Unless promote_secondaries is set, the kernel drops all secondary addresses of a subnet with
// its primary one; those that are to stay, ours or not, are put back before anything else is done.
func (m *Manager) remove(j job) {
	var before State
	if slices.ContainsFunc(j.entries, func(e *entry) bool { return narrow(e.prefix) }) {
		var err error
		if before, err = m.kernel.State(); err != nil {
			before = m.last() // good enough, unless somebody added an address this very moment
		}
	}
	m.mu.Lock()
	others := m.book.bystanders(j, before)
	m.mu.Unlock()
	changes := make([]Change, len(j.entries))
	for i, e := range j.entries {
		changes[i] = Change{Index: j.links[i], Addr: Addr{Prefix: e.prefix, Peer: e.rec.Peer}, Remove: true}
	}
	errs := m.kernel.Change(changes)
	m.restore(others)

	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, e := range j.entries {
		m.book.removed(now, e, errs[i])
	}
	for _, o := range others { // a snapshot from before says nothing
		if e := m.book.entries[o.key]; e != nil {
			m.book.wrote(now, e)
		}
	}
}

// narrow reports whether the address may share its subnet with secondaries.
func narrow(p netip.Prefix) bool { return p.Addr().Is4() && p.Bits() < 32 }

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
			if o := b.entries[k]; o != nil && o.ours && o.active() == nil {
				continue // goes anyway
			}
			out = append(out, bystander{key: k, index: l.Index, rec: s})
		}
	}
	return out
}

// last returns the newest snapshot.
func (m *Manager) last() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.last
}

// restore puts back the bystanders that are gone. One that the kernel refuses is owed.
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
		switch e := m.kernel.Change([]Change{{Index: o.index, Addr: o.rec}})[0]; {
		case e == nil:
			restored++
		case !errors.Is(e, unix.EEXIST) && !errors.Is(e, unix.ENODEV):
			if o.backoff == 0 {
				m.log.Error("an address that the kernel removed together with a virtual one cannot be put back yet; trying again; net.ipv4.conf.all.promote_secondaries=1 avoids this",
					zap.Stringer("address", o.prefix), zap.String("iface", o.dev), zap.NamedError("err", e))
			}
			m.mu.Lock()
			m.book.owe(time.Now(), o)
			m.mu.Unlock()
		}
	}
	if restored > 0 {
		m.log.Info("put back secondary addresses that the kernel removed together with a virtual one; net.ipv4.conf.all.promote_secondaries=1 avoids this",
			zap.Int("addresses", restored))
	}
}

// owe notes a bystander that is still to be put back, unless the repair of wanted addresses sees to that.
func (b *book) owe(now time.Time, o bystander) {
	if e := b.entries[o.key]; e != nil && e.active() != nil {
		return
	}
	o.backoff = pause(o.backoff)
	o.retryAt = now.Add(o.backoff)
	b.debts = append(b.debts, o)
}

// nextDebts takes the bystanders whose time has come.
func (b *book) nextDebts(now time.Time) (due []bystander) {
	b.debts = slices.DeleteFunc(b.debts, func(o bystander) bool {
		if o.retryAt.After(now) {
			return false
		}
		due = append(due, o)
		return true
	})
	return due
}
