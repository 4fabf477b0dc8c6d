package vrrp

import (
	"fmt"
	"time"

	"vipd/vrrp/packet"
)

const (
	// leaveMargin is what a successor may need beside its skew time until its advert is heard.
	leaveMargin = 100 * time.Millisecond
	// leaveUnheard bounds the wait for a successor when nobody is known to be there: what is left of a second is
	// for the removal.
	leaveUnheard = 850 * time.Millisecond
	// leaveLately is how long a router that was heard once is believed to be there: a BACKUP is silent.
	leaveLately = 10 * time.Minute
)

// Leaving reports whether a MASTER that was shut down still keeps the addresses for its successor.
func (m *Machine) Leaving() bool { return m.leaving }

// Stopped reports whether the router has given everything up for good.
func (m *Machine) Stopped() bool { return m.stopped }

// shutdown gives everything up (RFC 9568 §6.4.2, §6.4.3, event Shutdown). Priority 0 comes first: the others' skew
// time runs from it. A MASTER keeps the addresses until the successor announces itself, at most wait, so that
// clients have an answer meanwhile; but it advertises and announces nothing more.
func (m *Machine) shutdown(now time.Time, wait time.Duration) {
	switch {
	case m.state == Master && wait > 0:
		wait = m.leaveTime(now, wait)
		m.do(Action{Kind: SendAdvert, Priority: packet.PriorityStop})
		m.do(Action{Kind: StopAnnounce})
		m.leaving, m.deadline = true, now.Add(wait)
		m.reason = fmt.Sprintf("shutting down: the addresses stay until another router has taken over, at most %v", wait)
	case m.state == Master:
		m.resign()
		fallthrough
	default:
		m.end(now, "shut down")
	}
}

// leaveTime is how long a successor is waited for: in full when there is one, as far as is known; else as long as
// the longest skew time, of priority 1, and never so long that the whole end takes a second.
func (m *Machine) leaveTime(now time.Time, most time.Duration) time.Duration {
	if !m.partner.IsZero() && now.Sub(m.partner) <= leaveLately {
		return most
	}
	return min(most, SkewTime(m.cfg.Version, 1, m.cfg.AdvertInterval)+leaveMargin, leaveUnheard)
}

// whileLeaving handles an event between priority 0 and the end.
func (m *Machine) whileLeaving(now time.Time, ev Event) {
	switch ev.Kind {
	case EventTick:
		if now.Before(m.deadline) {
			m.note("Tick %v before the deadline", m.deadline.Sub(now))
			return
		}
		m.left(now, "shut down: no other router has taken over")
	case EventAdvert:
		m.heard = now
		if ev.Advert.Priority != packet.PriorityStop { // others may leave, too
			m.left(now, fmt.Sprintf("shut down: %v has taken over", ev.From))
		}
	case EventEnv:
		m.setEnv(&ev.Env)
		if reason := m.fault(); reason != "" {
			m.left(now, "shut down: "+reason)
		}
	case EventShutdown:
		m.left(now, "shut down at once")
	default:
		m.note("%s while shutting down", ev.Kind)
	}
}

// left ends the leaving.
func (m *Machine) left(now time.Time, reason string) {
	m.leaving = false
	m.do(Action{Kind: RemoveAddresses})
	m.end(now, reason)
}

// end ends the router's life.
func (m *Machine) end(now time.Time, reason string) {
	m.stopped, m.deadline = true, time.Time{}
	if m.state != Init {
		m.enter(now, Init, reason)
	}
}

// meet notes whether another router is there, from an advert that was admitted. One that resigns is not.
func (m *Machine) meet(now time.Time, a *packet.Advert) {
	m.partner = now
	if a.Priority == packet.PriorityStop {
		m.partner = time.Time{}
	}
}
