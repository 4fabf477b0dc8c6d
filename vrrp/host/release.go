package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/host/fib"
)

// sweepReads is how often Sweep tries to read a kernel that changes all the time.
const sweepReads = 10

// Sweep removes what an earlier vipd left behind and returns what it found. Call it once after Configure, before the
// first advert is sent; it returns when the addresses are gone. The error says that the kernel could not be read; an
// unreadable state file is only logged. An address that the kernel would not remove is tried again by Run and shown in
// Status.
func (m *Manager) Sweep() (found []Leftover, paths []fib.Leftover, err error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.take()
	recorded, objects, err := m.file.read()
	if err != nil {
		m.log.Warn("going on without the list of addresses that an earlier vipd added: those that are not configured any more may stay: compare ip addr with the configuration", zap.NamedError("err", err))
	}
	var s State
	for range sweepReads {
		if s, err = m.kernel.State(); err == nil {
			break
		}
		time.Sleep(backoffMin)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking for addresses left behind: %w", err)
	}
	if paths, err = m.sweepPaths(s, objects); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	found = m.book.sweep(time.Now(), s, recorded)
	m.mu.Unlock()
	for {
		m.mu.Lock()
		j, ok := m.book.nextRemoval(time.Now())
		m.mu.Unlock()
		if !ok {
			break
		}
		m.remove(j)
	}
	m.report()
	return found, paths, nil
}

// sweepPaths removes routes and rules that an earlier vipd left behind, before the
// addresses that they may depend on.
func (m *Manager) sweepPaths(s State, recorded []fib.Object) ([]fib.Leftover, error) {
	m.mu.Lock()
	m.book.last, m.book.has = s, nil
	queries := m.book.fib.All(recorded, m.book.env())
	any := m.book.fib.Any()
	m.mu.Unlock()
	if !any && len(recorded) == 0 {
		return nil, nil
	}
	if queries == nil {
		queries = []fib.Query{}
	}
	m.tables.Tables(queries)
	full, err := m.kernel.State()
	for range sweepReads {
		if err == nil && full.fibErr == nil && full.FIB != nil {
			break
		}
		time.Sleep(backoffMin)
		full, err = m.kernel.State()
	}
	if err = errors.Join(err, full.fibErr); err != nil || full.FIB == nil {
		return nil, fmt.Errorf("looking for routes and rules left behind: %w", err)
	}
	m.mu.Lock()
	found := m.book.fib.Sweep(full.FIB, recorded, m.book.env())
	m.mu.Unlock()
	for {
		m.mu.Lock()
		steps := m.book.fib.Urgent(time.Now(), m.book.env(), pathBatch)
		m.mu.Unlock()
		if len(steps) == 0 {
			break
		}
		m.paths(job{steps: steps})
	}
	m.mu.Lock()
	m.query()
	m.mu.Unlock()
	return found, nil
}

// Release gives all addresses up for good: it removes what is ours and waits for that, at most 2 s. Later wishes are
// ignored. The error names what could not be removed.
func (m *Manager) Release() error {
	m.post(note{release: true})
	deadline := time.Now().Add(releaseTime)
	for {
		var wake time.Time
		if !m.running.Load() && m.turn.TryLock() {
			wake = m.work(context.Background())
			m.turn.Unlock()
		}
		left := m.left()
		if len(left) == 0 {
			return nil
		}
		wait := time.Until(deadline)
		if wait <= 0 {
			return fmt.Errorf("giving up the virtual addresses: still there after %v: %s", releaseTime, strings.Join(left, ", "))
		}
		if !wake.IsZero() {
			wait = min(wait, max(time.Until(wake), 0))
		}
		m.await(wait)
	}
}

func (m *Manager) await(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-m.progress:
	case <-t.C:
	}
}

// left names what Release still waits for.
func (m *Manager) left() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.book.closed {
		return []string{"everything: the kernel has not answered the last call"}
	}
	var names []string
	for _, e := range m.book.outstanding() {
		s := fmt.Sprintf("%s on %s", e.prefix, e.dev)
		if e.err != nil {
			s += fmt.Sprintf(" (%v)", e.err)
		}
		names = append(names, s)
	}
	for _, o := range m.book.debts {
		names = append(names, fmt.Sprintf("missing still: %s on %s, which is not ours and went with one of ours", o.prefix, o.dev))
	}
	names = append(names, m.book.fib.Outstanding()...)
	if len(names) == 0 {
		if s := m.book.guard.pending(); s != "" {
			names = append(names, s)
		}
	}
	if len(names) == 0 && (m.book.unlisted || m.book.fib.Changed()) {
		names = append(names, m.file.path)
	}
	return names
}

// Status tells of each configured instance which of its addresses are really in the kernel.
func (m *Manager) Status() []InstanceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]InstanceStatus, 0, len(m.book.order))
	for _, in := range m.book.order {
		st := InstanceStatus{Instance: in.set.Instance, Wanted: in.wanted}
		for _, u := range in.users {
			e := u.entry
			a := AddressStatus{Address: u.address, Dev: e.dev, Present: e.present, Refused: m.book.guard.has[e.refusal()], Fought: e.fought, Err: e.err}
			if in.wanted && !e.present && e.err == nil && !e.fought {
				a.Waits = m.book.why(e)
			}
			st.Addresses = append(st.Addresses, a)
		}
		out = append(out, st)
	}
	return out
}
