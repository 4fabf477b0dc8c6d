package connsync

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"vipd/ipvs"
)

// listen keeps an ear on the group and says hello. Called with turn held.
func (m *Manager) listen(now time.Time, d ipvs.Daemon) {
	index := m.network.Index(d.Interface)
	d.Role = ipvs.Role(index) // a port is made anew with its interface
	if m.ports != nil && m.on != d {
		m.closePorts()
	}
	var err error
	if m.ports == nil {
		if err = m.openPorts(d); err == nil {
			m.on, m.hello, m.drops = d, time.Time{}, 0
		}
		m.mu.Lock()
		d.Role = 0
		m.ear.want, m.ear.since, m.ear.openErr, m.ear.sendErr, m.ear.peers, m.ear.ports = d, now, err, nil, nil, len(m.ports)
		m.mu.Unlock()
	}
	if err != nil || now.Sub(m.hello) < HelloPeriod-Period/2 {
		return
	}
	m.hello = now
	drops := uint64(0)
	for _, p := range m.ports {
		err = cmp.Or(err, p.Hello(d.ID))
		drops += p.Drops()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.sendErr = err
	if drops > m.drops {
		m.ear.drops, m.ear.dropped = m.ear.drops+drops-m.drops, now
	}
	m.drops = drops
}

// openPorts listens to every port that the kernel uses. Called with turn held.
func (m *Manager) openPorts(d ipvs.Daemon) error {
	for i := range max(1, m.network.Ports()) {
		p, err := m.network.Open(d, func(from netip.Addr, message ipvs.SyncMessage) { m.heard(i, from, message) })
		if err != nil {
			m.closePorts()
			return err
		}
		m.ports = append(m.ports, p)
		d.Port++
	}
	return nil
}

// heard takes a message from a port.
func (m *Manager) heard(port int, from netip.Addr, message ipvs.SyncMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ear.peers = note(m.ear.peers, time.Now(), port, from, message)
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

// closePorts ends the listening. Called with turn held.
func (m *Manager) closePorts() {
	for _, p := range m.ports {
		_ = p.Close() // nothing is lost with it
	}
	m.ports = nil
}
