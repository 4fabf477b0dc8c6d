package connsync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

var roles = [...]ipvs.Role{ipvs.SyncMaster, ipvs.SyncBackup}

// wanted returns the daemons of a configuration where have run. One whose role has ended goes on for Config.Linger, also
// the one that a crash left: its last words are still to be said, or heard. Called with mu held.
func (m *Manager) wanted(now time.Time, have []ipvs.Daemon) (out []ipvs.Daemon) {
	for _, r := range roles {
		d := m.cfg.Daemon
		d.Role = r
		switch {
		case m.cfg.Both || (r == ipvs.SyncMaster) == m.lead:
			delete(m.spare, r)
			out = append(out, d)
			continue
		case !slices.ContainsFunc(have, func(h ipvs.Daemon) bool { return h.Does(d) }):
			delete(m.spare, r)
			continue
		case m.spare[r].IsZero():
			m.spare[r] = now
		}
		if now.Before(m.spare[r].Add(m.cfg.Linger)) {
			out = append(out, d)
		}
	}
	return out
}

// pass makes the kernel agree with what is wanted, and listens.
func (m *Manager) pass() {
	m.turn.Lock()
	defer m.turn.Unlock()
	now := time.Now()
	m.mu.Lock()
	cfg, rest := m.cfg, m.released || !m.told
	m.mu.Unlock()
	switch {
	case rest:
	case cfg == nil:
		err := m.withdraw()
		m.mu.Lock()
		if m.stuck = err; err == nil {
			m.said = nil
		}
		m.mu.Unlock()
		m.tell(now)
	default:
		m.agree(now, cfg)
		m.listen(now, cfg.Daemon)
		m.tell(now)
	}
}

// agree starts and stops what differs. Called with turn held.
func (m *Manager) agree(now time.Time, cfg *Config) {
	have, err := m.kernel.Daemons()
	failed := map[ipvs.Role]error{}
	if err == nil {
		m.compare(have)
		known, before := have, m.base
		base := owned{cfg.Daemon.Interface, m.network.Index(cfg.Daemon.Interface)}
		if m.base.Interface == base.Interface && m.base.Index != 0 && m.base.Index != base.Index {
			known = nil // the threads' sockets are bound to an interface that is no more
		}
		if err = m.own(base); err == nil {
			m.mu.Lock()
			want := m.wanted(now, known)
			m.mu.Unlock()
			have = m.change(slices.Clone(have), known, want, failed)
			m.left, m.began = slices.Clone(have), true
			if known == nil && len(failed) > 0 {
				m.base = before // one that could not be stopped is still to go
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stuck = nil
	m.readErr, m.failed, m.status.Running = err, failed, have
	backup := slices.ContainsFunc(have, func(d ipvs.Daemon) bool { return d.Role == ipvs.SyncBackup })
	if !backup {
		m.status.Since = time.Time{}
	} else if m.status.Since.IsZero() {
		m.status.Since = now
	}
}

// compare tells of daemons that others have started or stopped. Called with turn held.
func (m *Manager) compare(have []ipvs.Daemon) {
	if !m.began {
		left, recorded := m.recall()
		if m.base = left; !recorded && len(have) > 0 {
			m.log.Warn("another program has left sync daemons in this kernel, which has one of each role: they are vipd's now", zap.Strings("daemons", names(have)))
		}
		return
	}
	stop, start := ipvs.DaemonChanges(have, m.left)
	if len(stop)+len(start) > 0 {
		m.log.Warn("another program has started or stopped sync daemons of this kernel; that is put right: let one program alone manage them",
			zap.Strings("before", names(m.left)), zap.Strings("now", names(have)))
	}
}

// names are daemons as arguments of ipvsadm.
func names(daemons []ipvs.Daemon) []string {
	out := make([]string, len(daemons))
	for i, d := range daemons {
		out[i] = d.String()
	}
	return out
}

// change returns what runs when have has been made into want; known is what of have may stay.
func (m *Manager) change(have, known, want []ipvs.Daemon, failed map[ipvs.Role]error) []ipvs.Daemon {
	stop, start := ipvs.DaemonChanges(known, want)
	for _, h := range have {
		if len(known) == 0 && !slices.Contains(stop, h.Role) {
			stop = append(stop, h.Role)
		}
	}
	// The other role first: for a moment both run, which loses nothing.
	busy := func(d ipvs.Daemon) bool { return slices.Contains(stop, d.Role) }
	for _, d := range start {
		if !busy(d) {
			have = m.start(d, have, failed)
		}
	}
	for _, r := range stop {
		if err := m.kernel.StopDaemon(r); err != nil && !errors.Is(err, unix.ESRCH) {
			failed[r] = err
			continue
		}
		have = slices.DeleteFunc(have, func(d ipvs.Daemon) bool { return d.Role == r })
		m.log.Info("sync daemon stopped", zap.Stringer("role", r))
	}
	for _, d := range start {
		if busy(d) && failed[d.Role] == nil {
			have = m.start(d, have, failed)
		}
	}
	return have
}

func (m *Manager) start(d ipvs.Daemon, have []ipvs.Daemon, failed map[ipvs.Role]error) []ipvs.Daemon {
	if err := m.kernel.StartDaemon(d); err != nil {
		failed[d.Role] = err
		return have
	}
	m.log.Info("sync daemon started", zap.Stringer("role", d.Role), zap.String("iface", d.Interface), zap.Uint8("id", d.ID))
	return append(have, d)
}

// withdraw stops the daemons if they are vipd's. Called with turn held.
func (m *Manager) withdraw() error {
	m.closePorts()
	if _, err := os.Lstat(m.record); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("looking whether the sync daemons are vipd's: %w", err)
	}
	have, err := m.kernel.Daemons()
	if errors.Is(err, ipvs.ErrAbsent) {
		have, err = nil, nil
	}
	errs := []error{err}
	var stopped []string
	for _, d := range have {
		if err := m.kernel.StopDaemon(d.Role); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
			continue
		}
		stopped = append(stopped, d.Role.String())
	}
	if len(stopped) > 0 {
		m.log.Info("sync daemons stopped: " + strings.Join(stopped, ", "))
	}
	m.base, m.left, m.began = owned{}, nil, false
	m.mu.Lock()
	m.status.Running, m.status.Since = nil, time.Time{}
	clear(m.spare)
	m.mu.Unlock()
	if err = errors.Join(errs...); err == nil {
		err = os.Remove(m.record)
	}
	if err != nil {
		return fmt.Errorf("stopping the sync daemons: %w", err)
	}
	return nil
}
