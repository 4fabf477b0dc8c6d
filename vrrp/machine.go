package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/vrrp/packet"
)

// Machine is one virtual router. It does nothing by itself: Handle turns events
// into the actions its caller carries out, and Deadline says when the caller owes
// it an EventTick. It is not safe for concurrent use.
type Machine struct {
	cfg Config
	own map[netip.Addr]struct{} // cfg.Addresses as a set
	env Env
	ear int // the last Env.Ear that was not 0

	state    State
	since    time.Time
	reason   string
	deadline time.Time // zero: none
	leaving  bool      // MASTER: shut down, and the successor is waited for
	stopped  bool

	masterAddr     netip.Addr
	masterPriority uint8
	masterInterval time.Duration // Master_Adver_Interval: learned in version 3, own otherwise
	learned        bool          // masterInterval came from a master
	heard          time.Time     // last admitted advert
	partner        time.Time     // last one of a router that is there, as far as is known; zero: none is
	mismatch       bool          // it listed other addresses than ours
	cause          cause         // what a takeover would be due to
	lesserSince    time.Time     // BACKUP: first advert of the lower priority that PreemptDelay puts up with

	sent       time.Time  // MASTER: last advert
	rival      netip.Addr // MASTER: another owner, whose address is lower
	rivalSince time.Time
	rivalLast  time.Time
	demoted    bool // an owner that gave way to another one

	answered     time.Time // last time another's advert was answered
	announced    time.Time // last time the addresses were announced because of one
	owedAdvert   bool      // the coming advert is an answer that was put off
	owedAnnounce bool      // announcements were put off
	insisting    int       // adverts that are yet to be brought forward

	marks    []mark            // last sequence of each sender
	signed   uint64            // last sequence sent; 0: none
	unproven packet.DropReason // of the advert admitted last

	actions []Action
}

// cause is why a BACKUP whose timer runs out takes over.
type cause uint8

const (
	causeSilence  cause = iota // nothing heard
	causeResigned              // the master sent priority 0
	causeBetter                // only adverts of a lower priority were heard
)

// New returns a machine in INIT. It leaves INIT with the first usable environment.
func New(cfg Config) *Machine {
	m := &Machine{actions: make([]Action, 0, 8), reason: "waiting for the state of " + cfg.place()}
	m.setConfig(&cfg)
	m.masterInterval = m.cfg.AdvertInterval
	return m
}

// Handle applies one event at time now and returns what is to be done, in order.
// The slice is valid until the next call. An event that makes no sense in the
// current state changes nothing and comes back as a Note.
func (m *Machine) Handle(now time.Time, ev Event) []Action {
	m.actions = m.actions[:0]
	switch {
	case m.stopped:
		m.note("%s after shutdown", ev.Kind)
	case ev.Kind == EventConfig && ev.Config == nil, ev.Kind == EventAdvert && ev.Advert == nil, ev.Kind > EventShutdown:
		m.note("malformed event %s", ev.Kind)
	case m.leaving:
		m.whileLeaving(now, ev)
	case ev.Kind == EventShutdown:
		m.shutdown(now, ev.Wait)
	case ev.Kind == EventConfig:
		m.reconfigure(now, ev.Config, ev.Weight)
	default:
		m.dispatch(now, ev)
	}
	return m.actions
}

// dispatch hands an event to the function of the current state.
func (m *Machine) dispatch(now time.Time, ev Event) {
	switch m.state {
	case Init:
		m.inInit(now, ev)
	case Backup:
		m.inBackup(now, ev)
	case Master:
		m.inMaster(now, ev)
	case Fault:
		m.inFault(now, ev)
	}
}

// Deadline is when the machine wants an EventTick: the next advert in MASTER, the
// end of the listening in BACKUP, false in INIT and FAULT.
func (m *Machine) Deadline() (time.Time, bool) { return m.deadline, !m.deadline.IsZero() }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// AddressMismatch reports whether the last admitted advert listed other addresses
// than ours, though some in common.
func (m *Machine) AddressMismatch() bool { return m.mismatch }

// DownInterval is the current Master_Down_Interval: how long after the last
// advert of a master this router would take over.
func (m *Machine) DownInterval() time.Duration {
	return MasterDownInterval(m.cfg.Version, m.priority(), m.masterInterval, m.cfg.DownTimerAdverts)
}

// Status returns a snapshot.
func (m *Machine) Status() Status {
	st := Status{
		State: m.state, Since: m.since, Reason: m.reason,
		Priority: m.cfg.Priority, EffectivePriority: m.priority(),
		MasterAddress: m.masterAddr, MasterPriority: m.masterPriority, MasterInterval: m.masterInterval,
		Deadline: m.deadline, AddressMismatch: m.mismatch, LastHeard: m.heard,
	}
	if m.state == Master {
		st.MasterAddress, st.MasterPriority = m.env.Source, m.priority()
	}
	if !m.lesserSince.IsZero() {
		st.PreemptAt = m.lesserSince.Add(m.preemptDelay())
	}
	return st
}

// Advert fills a with the advert to send now at the given priority, with its
// signature but for the HMAC. Addrs is overwritten in place, so an Advert used
// again needs no allocation.
func (m *Machine) Advert(now time.Time, a *packet.Advert, priority uint8) {
	m.fill(a, priority)
	m.sign(now, a)
}

// fill fills a but for its signature.
func (m *Machine) fill(a *packet.Advert, priority uint8) {
	addrs := append(a.Addrs[:0], m.cfg.Addresses...)
	*a = packet.Advert{
		Version: m.cfg.Version, VRID: m.cfg.VRID, Priority: priority,
		Interval: m.cfg.AdvertInterval, Addrs: addrs, Form: m.cfg.Form,
	}
	if m.cfg.Version == packet.Version2 && !m.cfg.IPv6 {
		a.SetPassword(m.cfg.AuthPass)
	}
}

// Rehearse does what a take-over does before its first advert is in a, but for the
// signature, and changes nothing else.
func (m *Machine) Rehearse(a *packet.Advert) {
	_ = m.takeoverReason()
	m.fill(a, m.priority())
}

// setConfig copies cfg in.
func (m *Machine) setConfig(cfg *Config) {
	m.cfg = *cfg
	m.cfg.Addresses = slices.Clone(cfg.Addresses)
	m.cfg.Peers = slices.Clone(cfg.Peers)
	m.own = make(map[netip.Addr]struct{}, len(cfg.Addresses))
	for _, a := range cfg.Addresses {
		m.own[a] = struct{}{}
	}
}

// setEnv copies env in. It reports whether adverts are heard by something else than
// before: what was sent meanwhile was missed.
func (m *Machine) setEnv(env *Env) (missed bool) {
	missed = m.ear != 0 && env.Ear != 0 && env.Ear != m.ear
	if env.Ear != 0 {
		m.ear = env.Ear
	}
	m.env = *env
	m.env.Faults = slices.Clone(env.Faults)
	return missed
}

// priority is the effective priority: 255 for an owner, 254 for one that has given
// way to another owner.
func (m *Machine) priority() uint8 {
	if m.demoted && m.cfg.Owner() {
		return OwnerPriority - 1
	}
	return EffectivePriority(m.cfg.Priority, m.env.Weight)
}

// SkewTime is the current Skew_Time.
func (m *Machine) SkewTime() time.Duration {
	return SkewTime(m.cfg.Version, m.priority(), m.masterInterval)
}

// nopreempt reports whether a lower priority is accepted in BACKUP.
func (m *Machine) nopreempt() bool {
	return m.cfg.NoPreempt && !m.cfg.WantMaster && !m.cfg.Owner()
}

// preemptDelay is how long a master of lower priority is put up with.
func (m *Machine) preemptDelay() time.Duration {
	switch {
	case m.cfg.Owner(), m.nopreempt():
		return 0
	case m.cfg.WantMaster, m.cfg.NoPreempt:
		return m.cfg.SyncDelay
	}
	return max(m.cfg.PreemptDelay, m.cfg.SyncDelay)
}

// delayName tells which of the two delays counts.
func (m *Machine) delayName() string {
	if m.preemptDelay() == m.cfg.SyncDelay {
		return "sync_delay: its connections are being learned"
	}
	return "preempt_delay"
}

// fault returns why the router cannot take part, "" when it can.
func (m *Machine) fault() string {
	if len(m.env.Faults) > 0 {
		return strings.Join(m.env.Faults, "; ")
	}
	if !m.env.Source.IsValid() {
		return m.cfg.place() + " has no address to send adverts from"
	}
	return ""
}

// pendingReason tells what a router that could start waits for.
func (m *Machine) pendingReason() string { return "waiting for " + m.env.Pending }

// learn notes an accepted advert: who is master, and in version 3 its interval
// (RFC 9568 §6.4.2).
func (m *Machine) learn(a *packet.Advert, from netip.Addr) {
	m.masterAddr, m.masterPriority = from, a.Priority
	if m.cfg.Version == packet.Version3 {
		m.masterInterval, m.learned = a.Interval, true
	}
}

// forget drops what was learned from a master.
func (m *Machine) forget() {
	m.masterAddr, m.masterPriority, m.masterInterval = netip.Addr{}, 0, m.cfg.AdvertInterval
	m.cause, m.learned, m.demoted = causeSilence, false, false
	m.lesserSince, m.rival = time.Time{}, netip.Addr{}
}

// enter changes the state and reports it. Only the enter functions of the states
// call it.
func (m *Machine) enter(now time.Time, to State, reason string) {
	from := m.state
	m.state, m.since, m.reason = to, now, reason
	m.do(Action{Kind: Transition, From: from, To: to, Reason: reason})
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) note(format string, args ...any) {
	m.do(Action{Kind: Note, Reason: fmt.Sprintf(format, args...)})
}

// impossible reports an event that the current state cannot have.
func (m *Machine) impossible(ev Event) { m.note("%s in %s", ev.Kind, m.state) }
