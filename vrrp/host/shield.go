package host

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/firewall"
)

// Shield keeps the machine from accepting packets to addresses that it holds ([Set].NoAccept).
type Shield interface {
	// Refuse replaces the refused addresses and returns when that is in force.
	Refuse(addresses []firewall.Address) error
}

var errNoShield = errors.New("there is nothing that could refuse packets")

// SetShield says who refuses packets to the addresses of sets with NoAccept. Call it before anything else. Without
// one such addresses are never added.
func (m *Manager) SetShield(s Shield) { m.shield = s }

// protect has the shield refuse what the job says.
func (m *Manager) protect(j job) {
	err := errNoShield
	if m.shield != nil {
		err = m.shield.Refuse(j.refused)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if err != nil && m.book.guard.err == nil {
		m.log.Error("packets to addresses with no_accept cannot be refused: addresses that are not refused yet are not added; trying again", zap.NamedError("err", err))
	}
	m.book.refused(now, j.refused, err)
}

// guard is what the book knows of the shield.
type guard struct {
	used    bool                      // some set asks for it
	dirty   bool                      // something changed that may concern it
	has     map[firewall.Address]bool // what it refuses, as acknowledged last
	err     error                     // why it refused no more; nil when it did
	at      time.Time                 // when it is tried again
	backoff time.Duration
}

// refusal is the entry's address as the shield takes it.
func (e *entry) refusal() firewall.Address { return firewall.On(e.prefix.Addr(), e.dev) }

// nextRefusal returns what is to be refused now, when that has changed: the addresses that are wanted and those that
// are still there. It comes after the removals and before the additions, so that an address is refused before it is
// there and until it is gone.
func (b *book) nextRefusal(now time.Time) (job, bool) {
	g := &b.guard
	if !g.dirty || now.Before(g.at) {
		return job{}, false
	}
	g.dirty = false
	if !g.used && len(g.has) == 0 {
		return job{}, false
	}
	want := map[firewall.Address]bool{}
	for _, e := range b.entries {
		if b.shielded(e) {
			want[e.refusal()] = true
		}
	}
	same := len(want) == len(g.has) && g.err == nil
	j := job{kind: jobRefuse}
	for a := range want {
		same = same && g.has[a]
		j.refused = append(j.refused, a)
	}
	return j, !same
}

// shielded reports whether packets to the entry's address are to be refused.
func (b *book) shielded(e *entry) bool {
	there := e.present && e.ours
	for _, u := range e.users {
		if u.inst.set.NoAccept && (u.inst.wanted || there) {
			return true
		}
	}
	// One that is not configured any more is refused until it is gone.
	return len(e.users) == 0 && there && b.guard.has[e.refusal()]
}

// exposed reports whether the address would be accepted if it were added now, although it must not be.
func (b *book) exposed(e *entry, u *user) bool {
	return u.inst.set.NoAccept && !b.guard.has[e.refusal()]
}

// next is when the shield may have been asked again.
func (g *guard) next(now time.Time) time.Time {
	g.dirty = true
	if g.at.After(now) {
		return g.at
	}
	return now.Add(backoffMin)
}

// refused notes the outcome of a refusal.
func (b *book) refused(now time.Time, addresses []firewall.Address, err error) {
	g := &b.guard
	if err != nil && len(addresses)+len(g.has) == 0 {
		err = nil // there is nothing left that could be accepted
	}
	if g.err = err; err != nil {
		g.backoff = pause(g.backoff)
		g.at, g.dirty = now.Add(g.backoff), true
		return
	}
	g.backoff, g.at = 0, time.Time{}
	g.has = make(map[firewall.Address]bool, len(addresses))
	for _, a := range addresses {
		g.has[a] = true
	}
}

// pending says what Release still waits for of the shield, "" when for nothing.
func (g *guard) pending() string {
	switch {
	case g.err != nil:
		return fmt.Sprintf("nftables rules (%v)", g.err)
	case len(g.has) > 0:
		return "nftables rules"
	}
	return ""
}
