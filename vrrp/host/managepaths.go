package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// paths changes routes and rules.
func (m *Manager) paths(j job) {
	outcomes := make([]fib.Outcome, len(j.steps))
	errs := make([]error, len(j.steps))
	for i, s := range j.steps {
		m.mu.Lock()
		o, ok := m.book.resolve(s.Object)
		m.mu.Unlock()
		switch {
		case !ok && s.Add:
			errs[i] = errors.New("its interface has just gone")
		case !ok:
			outcomes[i] = fib.Gone
		case s.Add:
			errs[i] = m.tables.AddObject(o)
		default:
			errs[i] = m.tables.DelObject(o)
		}
		if errs[i] != nil {
			outcomes[i] = outcome(errs[i], s.Add)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, s := range j.steps {
		m.book.fib.Done(now, s, outcomes[i], errs[i])
	}
	m.book.lastOp = now
	m.query()
}

// outcome classifies the kernel's error.
func outcome(err error, add bool) fib.Outcome {
	switch {
	case add && errors.Is(err, unix.EEXIST):
		return fib.Exists
	case !add && (errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)):
		return fib.Gone
	}
	return fib.Failed
}

// query says what snapshots shall show of routes and rules. Called with mu held.
func (m *Manager) query() {
	busy := m.book.fib.Busy()
	if !busy && !m.queried {
		return
	}
	m.queried = busy
	if !busy {
		m.tables.Tables(nil)
		return
	}
	queries := m.book.fib.Queries(m.book.env())
	if queries == nil {
		queries = []fib.Query{} // the rules alone
	}
	m.tables.Tables(queries)
}

// fibError logs that routes and rules cannot be read, once until they can.
func (m *Manager) fibError(err error) {
	if err != nil && !m.fibFailed {
		m.log.Error("cannot read routes and rules; those that others remove are not put back meanwhile", zap.NamedError("err", err))
	}
	m.fibFailed = err != nil
}

// pathTexts say to the operator what became of a route or rule.
var pathTexts = map[fib.EventKind]string{
	fib.EventLost:   "a %s is gone though it is wanted; it is put back unless it is not tracked, as soon as it can be there",
	fib.EventBack:   "a %s is there again",
	fib.EventFought: "a %s is removed again and again; not putting it back any more: find out who removes it (network manager, script)",
	fib.EventError:  "the kernel refused a %s; trying again",
}

// reportPaths logs what became of routes and rules, and tells instances what they must
// know.
func (m *Manager) reportPaths(events []fib.Event) {
	for _, ev := range events {
		if ev.Kind == fib.EventFought && !ev.Static && m.cb.FoughtPath != nil {
			m.cb.FoughtPath(ev.Owner, ev.Object)
		}
		k, now := logKey{pathEvents + eventKind(ev.Kind), ev.Owner}, time.Now()
		if at, ok := m.logged[k]; ok && now.Sub(at) < quiet {
			continue
		}
		m.logged[k] = now
		kind := ev.Object.Kind()
		f := []zap.Field{zap.Stringer(kind, ev.Object)}
		if !ev.Static {
			f = append(f, zap.String("instance", ev.Owner))
		}
		line := m.log.Warn
		switch ev.Kind {
		case fib.EventBack:
			line = m.log.Info
		case fib.EventFought, fib.EventError:
			line = m.log.Error
		}
		if ev.Err != nil {
			f = append(f, zap.NamedError("err", ev.Err))
		}
		line(fmt.Sprintf(pathTexts[ev.Kind], kind), f...)
	}
}

// reportMissing tells of static objects that cannot be put back, when that changed.
func (m *Manager) reportMissing() {
	m.mu.Lock()
	all := m.book.missing()
	m.mu.Unlock()
	if slices.Equal(all, m.missing) {
		return
	}
	m.missing = all
	if m.cb.Missing != nil {
		m.cb.Missing(all)
	}
}

// PathStatus tells of the routes and rules of an instance, "" for static ones, which of
// them are really in the kernel.
func (m *Manager) PathStatus(instance string) []fib.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.fib.Status(instance)
}
