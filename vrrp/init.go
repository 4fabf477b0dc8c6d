package vrrp

import (
	"fmt"
	"time"
)

// inInit handles an event in INIT: the router has not yet had an environment it
// could start in. It starts with the first one that is usable, so the time it
// listens begins when it can hear (RFC 9568 §6.4.1, event Startup).
func (m *Machine) inInit(now time.Time, ev Event) {
	if ev.Kind != EventEnv {
		m.impossible(ev)
		return
	}
	m.setEnv(&ev.Env)
	switch reason := m.fault(); {
	case reason != "":
		m.enterFault(now, reason)
	case m.env.Pending != "": // no transition until the tracker has a result
		m.reason = m.pendingReason()
	default:
		m.startup(now)
	}
}

// ownerReason is why an owner takes over.
const ownerReason = "owner of the addresses (priority 255)"

// startup leaves INIT or FAULT (RFC 9568 §6.4.1): an owner is MASTER at once,
// everybody else listens for a full Master_Down_Interval of its own interval.
func (m *Machine) startup(now time.Time) {
	m.forget()
	if m.cfg.Owner() && m.cfg.Grouped {
		m.enterBackup(now, ownerReason+", waiting for its sync group")
		m.deadline = now
		return
	}
	if m.cfg.Owner() {
		m.enterMaster(now, ownerReason)
		return
	}
	m.enterBackup(now, fmt.Sprintf("listening for a master for %v", m.DownInterval()))
}
