package vrrp

import (
	"fmt"
	"net/netip"
	"time"

	"vipd/vrrp/packet"
)

const (
	// answerGap is the least time between two answers to others' adverts, or half
	// an interval when that is shorter.
	answerGap = 10 * time.Millisecond
	// announceGap is the least time between two bursts of announcements that
	// others' adverts lead to: a MASTER that is deaf to us sends one every interval.
	announceGap = 200 * time.Millisecond
)

// inMaster handles an event in MASTER (RFC 9568 §6.4.3).
func (m *Machine) inMaster(now time.Time, ev Event) {
	switch ev.Kind {
	case EventTick:
		m.masterTick(now)
	case EventAdvert:
		m.masterAdvert(now, ev.Advert, ev.From)
	case EventEnv:
		m.masterEnv(now, &ev.Env)
	case EventYield:
		m.resign()
		m.forget()
		m.enterBackup(now, ev.Reason)
	default:
		m.impossible(ev)
	}
}

// masterTick sends the advert that is due. The next one is due one interval after
// this one was due, not after it was sent, so the schedule does not drift. After a
// pause longer than an interval (a frozen process) the missed adverts are not made
// up for, and the schedule goes on as if they had been sent.
func (m *Machine) masterTick(now time.Time) {
	if now.Before(m.deadline) {
		m.note("Tick %v before the deadline", m.deadline.Sub(now))
		return
	}
	if m.overdue(now) {
		return
	}
	if m.owedAdvert {
		m.answered = now
	}
	m.send(now, m.deadline.Add(now.Sub(m.deadline).Truncate(m.cfg.AdvertInterval)))
}

// overdue gives the addresses up when the last advert was so long ago that a router
// of LatePriority has taken over meanwhile (keepalived: timer_expired_backup): with
// NoPreempt it may keep them. It reports whether it did.
func (m *Machine) overdue(now time.Time) bool {
	if m.cfg.LatePriority == 0 || !m.nopreempt() {
		return false
	}
	silent := now.Sub(m.sent)
	if silent <= MasterDownInterval(m.cfg.Version, m.cfg.LatePriority, m.cfg.AdvertInterval, m.cfg.DownTimerAdverts) {
		return false
	}
	m.release()
	m.forget()
	m.enterBackup(now, fmt.Sprintf("no advert was sent for %v, so another router may have taken over", silent.Round(time.Millisecond)))
	return true
}

// send sends an advert, with the announcements owed, and puts the next advert one
// interval after due.
func (m *Machine) send(now, due time.Time) {
	m.do(Action{Kind: SendAdvert, Priority: m.priority()})
	m.owedAdvert, m.sent = false, now
	m.deadline = due.Add(m.cfg.AdvertInterval)
	m.insist(now)
	if m.owedAnnounce {
		m.reassert(now)
	}
}

// insistGaps are the times from one advert to the next while a MASTER with a
// virtual MAC insists.
var insistGaps = [...]time.Duration{10 * time.Millisecond, 40 * time.Millisecond}

// insist brings the next adverts forward. All directors send with one virtual MAC,
// so one that was MASTER may still draw the bridges to itself: while it removes its
// addresses, or dead with its addresses left, it answers our announcements. The
// bridges are drawn back in milliseconds then, not with the next advert.
func (m *Machine) insist(now time.Time) {
	if n := len(insistGaps) - m.insisting; m.insisting > 0 {
		m.insisting--
		m.advance(now.Add(min(insistGaps[n], m.cfg.AdvertInterval/2)))
	}
}

// begin has the adverts that follow insist, if they bear a virtual MAC.
func (m *Machine) begin() {
	if m.cfg.SharedMAC {
		m.insisting = len(insistGaps)
	}
}

// masterAdvert is the receive rule of MASTER.
func (m *Machine) masterAdvert(now time.Time, a *packet.Advert, from netip.Addr) {
	if m.overdue(now) { // others' adverts may be waiting when we go on: no answer to them
		m.backupAdvert(now, a, from)
		return
	}
	m.heard = now
	m.meet(now, a)
	own := m.priority()
	switch {
	case a.Priority == packet.PriorityStop:
		m.answer(now)
	case a.Priority > own:
		m.yield(now, a, from, fmt.Sprintf("%v has the higher priority %d (ours %d)", from, a.Priority, own))
	case a.Priority == own && m.env.Source.Less(from):
		m.yield(now, a, from, fmt.Sprintf("%v has the same priority %d and the higher address (ours %v)", from, own, m.env.Source))
	case a.Priority == own && m.cfg.Owner() && m.outlasted(now, a, from):
		m.demoted = true
		m.yield(now, a, from, fmt.Sprintf("two owners (priority 255): %v does not give way to our higher address %v, so we do until it is gone", from, m.env.Source))
	case m.cfg.LowerPrioNoAdvert:
		m.reassert(now)
	default:
		m.owedAnnounce = true
		m.answer(now)
	}
}

// outlasted reports whether another owner with a lower address, which has to give
// way, goes on for longer than two adverts of ours and 1.2 intervals.
func (m *Machine) outlasted(now time.Time, a *packet.Advert, from netip.Addr) bool {
	interval := max(m.cfg.AdvertInterval, a.Interval)
	if m.rival != from || now.Sub(m.rivalLast) > 2*interval {
		m.rival, m.rivalSince = from, now
	}
	m.rivalLast = now
	return now.Sub(m.rivalSince) >= 2*m.cfg.AdvertInterval+interval+interval/5
}

// answer answers an advert with one at once (RFC 9568 §6.4.3). Answers keep a
// small distance: what comes earlier is answered together, so that neither a queue
// of old adverts after a pause nor a flood makes us flood the network.
func (m *Machine) answer(now time.Time) {
	if next := m.answered.Add(min(answerGap, m.cfg.AdvertInterval/2)); now.Before(next) {
		m.owedAdvert = true
		m.advance(next)
		return
	}
	m.answered = now
	m.begin()
	m.send(now, now)
}

// reassert announces the addresses again because another router may have announced
// them too. What would come too soon after the last time is put off, never dropped:
// the other's last announcement must be followed by one of ours.
func (m *Machine) reassert(now time.Time) {
	next := m.announced.Add(announceGap)
	if m.owedAnnounce = now.Before(next); !m.owedAnnounce {
		m.announced = now
		m.do(Action{Kind: Announce, Burst: BurstLowerPrio})
		return
	}
	if !m.cfg.LowerPrioNoAdvert { // else with the next advert that is due anyway
		m.advance(next)
	}
}

// advance lets the next advert come earlier.
func (m *Machine) advance(to time.Time) {
	if to.Before(m.deadline) {
		m.deadline = to
	}
}

// masterEnv takes a new environment. A priority that fell is told at once: a
// better BACKUP starts to count that much earlier.
func (m *Machine) masterEnv(now time.Time, env *Env) {
	before := m.priority()
	m.setEnv(env)
	if reason := m.fault(); reason != "" {
		m.resign()
		m.enterFault(now, reason)
		return
	}
	if m.priority() < before {
		m.send(now, now)
	}
}

// enterMaster takes the addresses over (RFC 9568 §6.4.1 (115), §6.4.2 (395)):
// advert first, so that another master withdraws as early as possible.
func (m *Machine) enterMaster(now time.Time, reason string) {
	if m.cause != causeBetter {
		m.partner = time.Time{} // the old master fell silent
	}
	m.forget() // the interval learned was the old master's
	m.answered, m.announced, m.owedAdvert, m.owedAnnounce = time.Time{}, time.Time{}, false, false
	m.begin()
	m.send(now, now)
	m.do(Action{Kind: AddAddresses})
	m.do(Action{Kind: Announce, Burst: BurstMaster})
	m.enter(now, Master, reason)
}

// yield leaves the addresses to a better router. One last, losing advert goes out
// after our announcements ended: it makes a winner that never heard us, and so
// never left MASTER, announce itself again. (keepalived: higher_prio_send_advert.)
// With a virtual MAC it would draw the bridges back to us, and that winner's next
// advert draws them to it anyway.
func (m *Machine) yield(now time.Time, a *packet.Advert, from netip.Addr, reason string) {
	m.release()
	if !m.cfg.SharedMAC {
		m.do(Action{Kind: SendAdvert, Priority: m.priority()})
	}
	m.masterInterval = m.cfg.AdvertInterval
	m.learn(a, from)
	m.enterBackup(now, reason)
}

// resign leaves the addresses to whoever is there: priority 0 first, so that the
// others' skew time runs while the addresses are removed.
func (m *Machine) resign() {
	m.do(Action{Kind: SendAdvert, Priority: packet.PriorityStop})
	m.release()
}

// release gives up what a MASTER has.
func (m *Machine) release() {
	m.do(Action{Kind: StopAnnounce})
	m.do(Action{Kind: RemoveAddresses})
}
