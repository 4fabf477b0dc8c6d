package vrrp

import "time"

// inFault handles an event in FAULT: deaf and mute until the environment is usable
// again, then as after a start.
func (m *Machine) inFault(now time.Time, ev Event) {
	if ev.Kind != EventEnv {
		m.impossible(ev)
		return
	}
	m.setEnv(&ev.Env)
	switch reason := m.fault(); {
	case reason != "":
		m.reason = reason
	case m.env.Pending != "":
		m.reason = m.pendingReason()
	default:
		m.startup(now)
	}
}

// enterFault stops taking part. The caller has given up what a MASTER has.
func (m *Machine) enterFault(now time.Time, reason string) {
	m.deadline = time.Time{}
	m.forget()
	m.enter(now, Fault, reason)
}
