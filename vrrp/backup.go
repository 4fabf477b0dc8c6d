package vrrp

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/vrrp/packet"
)

// inBackup handles an event in BACKUP (RFC 9568 §6.4.2).
func (m *Machine) inBackup(now time.Time, ev Event) {
	switch ev.Kind {
	case EventTick:
		if now.Before(m.deadline) {
			m.note("Tick %v before the deadline", m.deadline.Sub(now))
			return
		}
		m.enterMaster(now, m.takeoverReason())
	case EventAdvert:
		m.backupAdvert(now, ev.Advert, ev.From)
	case EventEnv:
		before := m.DownInterval()
		missed := m.setEnv(&ev.Env)
		if reason := m.fault(); reason != "" {
			m.enterFault(now, reason)
			return
		}
		m.shiftTimer(before)
		if missed {
			m.cause, m.lesserSince = causeSilence, time.Time{}
			m.masterAddr, m.masterPriority = netip.Addr{}, 0 // its interval stays learned
			m.deadline = now.Add(m.DownInterval())
			m.reason = fmt.Sprintf("%s was made anew: listening for a master for %v", m.cfg.place(), m.DownInterval())
		}
	default:
		m.impossible(ev)
	}
}

// backupAdvert is the receive rule of BACKUP. An advert that is not accepted
// leaves the timer alone.
func (m *Machine) backupAdvert(now time.Time, a *packet.Advert, from netip.Addr) {
	m.heard = now
	m.meet(now, a)
	switch {
	case a.Priority == packet.PriorityStop:
		m.masterAddr, m.masterPriority = from, a.Priority
		m.cause = causeResigned
		m.deadline = now.Add(m.SkewTime())
	case a.Priority >= m.priority() || m.nopreempt():
		if from != m.masterAddr || a.Priority != m.masterPriority || !m.lesserSince.IsZero() {
			// No longer what it was at the start of the listening.
			m.reason = fmt.Sprintf("%v is master with priority %d", from, a.Priority)
		}
		m.lesserSince = time.Time{}
		m.accept(now, a, from)
	case m.putUpWith(now, a, from):
		m.accept(now, a, from)
	default: // we are better: let the timer run out and take over
		m.masterAddr, m.masterPriority = from, a.Priority
		m.cause = causeBetter
	}
}

// accept takes another router for the master.
func (m *Machine) accept(now time.Time, a *packet.Advert, from netip.Addr) {
	m.learn(a, from)
	m.cause = causeSilence
	m.deadline = now.Add(m.DownInterval())
}

// putUpWith reports whether a master of lower priority is to be left alone for
// now. The delay begins with its first advert and ends with the first one that is
// not of a lower priority. Silence is no advert: a takeover from nobody is not
// delayed.
func (m *Machine) putUpWith(now time.Time, a *packet.Advert, from netip.Addr) bool {
	delay := m.preemptDelay()
	if delay <= 0 {
		m.lesserSince = time.Time{}
		return false
	}
	if m.lesserSince.IsZero() {
		m.lesserSince = now
		m.reason = fmt.Sprintf("%v is master with the lower priority %d (ours %d): preempting it in %v (%s)", from, a.Priority, m.priority(), delay, m.delayName())
	}
	return now.Sub(m.lesserSince) < delay
}

// enterBackup starts to listen for a full Master_Down_Interval. The caller has
// settled the master's interval and given up what a MASTER has.
func (m *Machine) enterBackup(now time.Time, reason string) {
	m.cause, m.lesserSince = causeSilence, time.Time{}
	m.deadline = now.Add(m.DownInterval())
	m.enter(now, Backup, reason)
}

// shiftTimer moves the running timer by the change of Master_Down_Interval: the
// time already waited counts.
func (m *Machine) shiftTimer(before time.Duration) {
	m.deadline = m.deadline.Add(m.DownInterval() - before)
}

// takeoverReason tells why the timer ran out, in the operator's words.
func (m *Machine) takeoverReason() string {
	switch {
	case m.cfg.Owner() && m.cfg.Grouped && !m.masterAddr.IsValid():
		return ownerReason
	case m.cause == causeResigned:
		return fmt.Sprintf("%v resigned (priority 0)", m.masterAddr)
	case m.cause == causeBetter:
		return fmt.Sprintf("preempting %v: our priority %d is higher than its %d", m.masterAddr, m.priority(), m.masterPriority)
	case m.masterAddr.IsValid():
		return fmt.Sprintf("no advert from %v for %v", m.masterAddr, m.DownInterval())
	default:
		return fmt.Sprintf("no master heard for %v", m.DownInterval())
	}
}
