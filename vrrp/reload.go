package vrrp

import "time"

// reconfigure takes a new configuration of the same virtual router. What did not
// change has no effect, and nothing here changes the state.
func (m *Machine) reconfigure(now time.Time, cfg *Config, weight *int) {
	if !m.cfg.SameRouter(cfg) {
		m.note("configuration of another router: VRID, version, family or interface differ")
		return
	}
	oldInterval, oldPriority, oldDown := m.cfg.AdvertInterval, m.priority(), m.DownInterval()
	m.setConfig(cfg)
	if weight != nil { // so that no advert carries the new priority with the old weights
		m.env.Weight = *weight
	}
	if !m.learned {
		m.masterInterval = m.cfg.AdvertInterval
	}
	switch {
	case m.state == Backup:
		m.shiftTimer(oldDown)
	case m.state == Master && (m.cfg.AdvertInterval != oldInterval || m.priority() < oldPriority):
		// Told at once: others that learned a shorter interval would otherwise
		// take over before the next advert.
		m.send(now, now)
	}
}
