package vmac

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
)

// settle makes the settings of a link of ours, once for each index.
func (m *Manager) settle(l Link, index int) error {
	if m.settled[l.Name] == index {
		return nil
	}
	all, err := m.settings.Get(allRPFilter)
	if err != nil {
		return fmt.Errorf("reading %s: %w", allRPFilter, err)
	}
	for _, w := range onLink(l, index, all != "0") {
		have, err := m.settings.Get(w.path)
		if err == nil && !w.satisfied(have) {
			err = m.settings.Set(w.path, strconv.Itoa(w.value))
		}
		if errors.Is(err, fs.ErrNotExist) && w.ipv6Missing() && !l.IPv6 {
			continue
		}
		if err != nil {
			return fmt.Errorf("setting %s to %d: %w", w.path, w.value, err)
		}
	}
	m.settled[l.Name] = index
	return nil
}

// adopt makes the settings of parents and of the machine that are wanted, and takes back those that no longer are.
func (m *Manager) adopt(wanted []setting) {
	news := false
	m.doc.Settings = slices.DeleteFunc(m.doc.Settings, func(c changed) bool {
		i := slices.IndexFunc(wanted, func(w setting) bool { return w.path == c.Path })
		switch {
		case i >= 0 && wanted[i].index == c.Index:
			return false
		case i < 0:
			m.putBack(c)
		} // else another interface of that name: with it went what was changed
		news = true
		return true
	})
	for _, w := range wanted {
		have, err := m.settings.Get(w.path)
		if err != nil || w.satisfied(have) {
			continue // or it has gone meanwhile
		}
		value := strconv.Itoa(w.value)
		if !slices.ContainsFunc(m.doc.Settings, func(c changed) bool { return c.Path == w.path }) {
			m.doc.Settings = append(m.doc.Settings, changed{w.path, have, value, w.index})
		}
		m.save()
		news = false
		if err := m.settings.Set(w.path, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.retry = true
			m.complain("state", fmt.Sprintf("cannot set %s to %s, which virtual MACs need: %v", w.path, value, err))
		}
	}
	if news {
		m.save()
	}
}

// putBack takes a change back, unless somebody else changed the value since.
func (m *Manager) putBack(c changed) {
	have, err := m.settings.Get(c.Path)
	if err == nil && have == c.Value {
		err = m.settings.Set(c.Path, c.Before)
	} else if err == nil && have != c.Before {
		m.log.Warn("a setting that virtual MACs needed was changed by others since, and stays", zap.String("setting", c.Path), zap.String("value", have), zap.String("before", c.Before))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Error("cannot put a setting back as it was", zap.String("setting", c.Path), zap.String("before", c.Before), zap.NamedError("err", err))
	}
}

// Sweep removes what an earlier vipd left: its links, with the addresses on them, and its settings. Call it once,
// before the addresses are looked at. It returns what was removed, in words.
func (m *Manager) Sweep() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.doc.read(); err != nil {
		m.log.Warn("going on without the list of virtual-MAC links that an earlier vipd made; settings that it changed stay", zap.NamedError("err", err))
	}
	s, err := m.kernel.State()
	if err != nil {
		return nil, fmt.Errorf("looking for virtual-MAC links left behind: %w", err)
	}
	var found []string
	for _, l := range m.ours(s) {
		if err := m.delete(l.Name, l.Index); err != nil {
			return found, fmt.Errorf("%s, which an earlier vipd left: %w", l.Name, err)
		}
		found = append(found, fmt.Sprintf("removed the virtual-MAC link %s, with its addresses: an earlier vipd made it", l.Name))
	}
	for _, c := range m.doc.Settings {
		if indexOf(s, c.Path) != c.Index {
			continue // of an interface that has gone
		}
		m.putBack(c)
		found = append(found, fmt.Sprintf("put %s back to %s: an earlier vipd set it to %s", c.Path, c.Before, c.Value))
	}
	m.doc.Links, m.doc.Settings = nil, nil
	m.save()
	return found, nil
}

// indexOf returns the index of the interface that a setting is of, 0 when of none.
func indexOf(s host.State, path string) int {
	if parts := strings.Split(path, "/"); len(parts) == 5 && parts[2] == "conf" {
		if l := s.Link(parts[3]); l != nil {
			return l.Index
		}
		return -1
	}
	return 0
}

// ours lists the links of this vipd.
func (m *Manager) ours(s host.State) []*host.Link {
	var out []*host.Link
	for _, l := range s.Links {
		if l.Kind == "macvlan" && m.mine(l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *host.Link) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Prune removes the links that are no longer wanted. Their addresses go with them.
func (m *Manager) Prune() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prune()
}

// Release removes all links and puts all settings back, for good.
func (m *Manager) Release() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.retry, m.quiet, m.wanted = true, false, false, nil
	err := m.prune()
	m.adopt(nil)
	if err == nil && m.silence != nil && len(m.silent) > 0 { // else what stays is silent still
		err = m.silence(nil)
		m.silent = nil
	}
	return err
}

func (m *Manager) prune() error {
	if len(m.doc.Links) == 0 {
		return nil
	}
	s, err := m.kernel.State()
	if err != nil {
		return fmt.Errorf("removing virtual-MAC links: %w", err)
	}
	s.Links = maps.Clone(s.Links)
	var errs []error
	for _, l := range m.ours(s) {
		if slices.ContainsFunc(m.wanted, func(w Link) bool { return w.Name == l.Name }) {
			continue
		}
		if err := m.delete(l.Name, l.Index); err != nil {
			errs = append(errs, fmt.Errorf("the virtual-MAC link %s: %w", l.Name, err))
			continue
		}
		delete(s.Links, l.Name)
	}
	m.hush(s)
	return errors.Join(errs...)
}

// delete removes a link; one that is gone is no error.
func (m *Manager) delete(name string, index int) error {
	m.lastOp = time.Now()
	err := m.kernel.Delete(index)
	m.lastOp = time.Now()
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	delete(m.settled, name)
	m.doc.Links = slices.DeleteFunc(m.doc.Links, func(k madeLink) bool { return k.Name == name })
	m.save()
	return nil
}

// record notes a link that is about to be made, or was.
func (m *Manager) record(name string, index int) {
	m.doc.Links = slices.DeleteFunc(m.doc.Links, func(k madeLink) bool { return k.Name == name })
	m.doc.Links = append(m.doc.Links, madeLink{name, index})
	m.save()
}

// save writes the state file. A failure must not stop the links: it is logged once until it works again.
func (m *Manager) save() {
	err := m.doc.write()
	if err != nil && !m.doc.failing {
		m.log.Error("cannot remember which virtual-MAC links were made: after a crash, changed settings would stay; check space and rights", zap.NamedError("err", err))
	}
	m.doc.failing = err != nil
}
