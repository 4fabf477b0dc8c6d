package connsync

import (
	"net/netip"
	"slices"
	"time"

	"vipd/ipvs"
)

// listen keeps an ear on the group and says hello. Called with turn held.
func (m *Manager) listen(now time.Time, d ipvs.Daemon) {
	index := m.network.Index(d.Interface)
	d.Role = ipvs.Role(index) // a port is made anew with its interface
	if m.port != nil && m.on != d {
		m.closePort()
	}
	var err error
	if m.port == nil {
		if m.port, err = m.network.Open(d, m.heard); err == nil {
			m.on, m.hello, m.drops = d, time.Time{}, 0
		}
		m.mu.Lock()
		d.Role = 0
		m.ear.want, m.ear.since, m.ear.openErr, m.ear.sendErr, m.ear.peers = d, now, err, nil, nil
		m.mu.Unlock()
	}
	if err != nil {
		m.port = nil
		return
	}
	if now.Sub(m.hello) < HelloPeriod-Period/2 {
		return
	}
	m.hello = now
	err = m.port.Hello(d.ID)
	drops := m.port.Drops()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.sendErr = err
	if drops > m.drops {
		m.ear.drops, m.ear.dropped = m.ear.drops+drops-m.drops, now
	}
	m.drops = drops
}

// heard takes a message from the port.
func (m *Manager) heard(from netip.Addr, message ipvs.SyncMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.peers = note(m.ear.peers, time.Now(), from, message)
}

// tell logs what has become wrong, and what is right again.
func (m *Manager) tell(now time.Time) {
	m.mu.Lock()
	before, problems := m.said, m.problems(now)
	m.said = problems
	m.mu.Unlock()
	for _, p := range problems {
		if !slices.Contains(before, p) {
			m.log.Warn(p)
		}
	}
	if len(before) > 0 && len(problems) == 0 {
		m.log.Info("sync: all is well again")
	}
}

// closePort ends the listening. Called with turn held.
func (m *Manager) closePort() {
	if m.port != nil {
		_ = m.port.Close() // nothing is lost with it
		m.port = nil
	}
}
