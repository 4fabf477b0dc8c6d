package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"vipd/vrrp"
)

// group is a sync group: instances that change state together.
//
//   - A member that cannot take part keeps all others from it: its faults are
//     theirs, and none starts before all can (instance.environment).
//   - A member that gives way makes all others give way (Router.groupChanged).
//   - A BACKUP takes over only when every other member is MASTER already or may take
//     over as well (instance.deadline), so all of them do in one turn of the loop.
//
// Nothing of this asks how the members came to be a group: a reload that makes,
// changes or ends one moves nobody.
type group struct {
	name    string
	members []*instance // sorted by name
	state   vrrp.State  // last reported
	known   bool        // at and ok are those of the turn
	at      time.Time   // when the listening of all BACKUPs is over
	ok      bool
	yields  bool // one gave way, and the others are being told
}

// GroupStatus is a snapshot of one sync group.
type GroupStatus struct {
	Name    string
	State   vrrp.State // MASTER when all members are, else that of the one farthest from it; those that join count when they have it
	Members []string   // sorted
}

// regroup brings the groups in line with the instances. A group that goes on with
// other members keeps its state: those that come join it later.
func (r *Router) regroup() {
	before := r.groups
	r.groups = map[string]*group{}
	for _, in := range r.list { // sorted, so the members are too
		was, name := in.group, in.cfg.SyncGroup
		in.group = nil
		if name == "" {
			in.joining = false
			continue
		}
		g := r.groups[name]
		if g == nil {
			g = &group{name: name}
			r.groups[name] = g
		}
		g.members = append(g.members, in)
		in.group = g
		in.joining = in.joining || was == nil || was.name != name
	}
	for name, g := range r.groups {
		if old := before[name]; old != nil {
			g.state = old.state
		} else {
			g.state = g.farthest(func(*instance) bool { return true })
		}
		g.joined()
	}
}

// goesOn reports whether some members are among those that a reload keeps.
func (g *group) goesOn(keep []*instance) bool {
	return g != nil && slices.ContainsFunc(g.members, func(in *instance) bool { return slices.Contains(keep, in) })
}

// joined ends the joining of those that have the state of the group by now.
func (g *group) joined() {
	for _, in := range g.members {
		in.joining = in.joining && in.machine.State() != g.state
	}
}

// distance orders the states by how far they are from MASTER.
var distance = [...]int{vrrp.Master: 0, vrrp.Backup: 1, vrrp.Init: 2, vrrp.Fault: 3}

// farthest is the state of the member that is farthest from MASTER, of those that
// count.
func (g *group) farthest(counts func(*instance) bool) vrrp.State {
	state := vrrp.Master
	for _, in := range g.members {
		if s := in.machine.State(); counts(in) && distance[s] > distance[state] {
			state = s
		}
	}
	return state
}

// groupChanged follows a transition of a member: it makes the others give way and
// reports the state of the group when that has changed. A member that joins counts
// only with its faults.
func (r *Router) groupChanged(in *instance, a vrrp.Action, now time.Time) {
	g := in.group
	if g == nil {
		return
	}
	if g.yields || slices.ContainsFunc(g.members, func(m *instance) bool { return m.machine.Leaving() }) {
		return // the first one that gives way speaks for all, and the last one that leaves
	}
	if a.From == vrrp.Master && a.To == vrrp.Backup {
		g.yields = true
		for _, other := range g.members {
			if other.machine.State() == vrrp.Master {
				r.feed(other, vrrp.Event{Kind: vrrp.EventYield, Reason: fmt.Sprintf("%s of sync group %s gave way: %s", in.cfg.Name, g.name, a.Reason)})
			}
		}
		g.yields = false
	}
	from := g.state
	g.state = g.farthest(func(m *instance) bool { return !m.joining || m.machine.State() == vrrp.Fault })
	g.joined()
	if g.state != from {
		r.ports.Observer.Transition(TransitionEvent{Group: g.name, From: from, To: g.state, Reason: a.Reason, At: now})
	}
}

// reassertGap is the least time between two bursts of announcements that losing
// adverts to others of the group lead to.
const reassertGap = 200 * time.Millisecond

// reassertGroup announces the addresses of all other members too when one of them
// heard a losing advert: whoever sent it had taken those as well. What comes soon
// after the last time is left out, for a burst has a second one.
func (r *Router) reassertGroup(in *instance, now time.Time) {
	in.reasserted = now
	if in.group == nil {
		return
	}
	for _, other := range in.group.members {
		if other.machine.State() == vrrp.Master && now.Sub(other.reasserted) >= reassertGap {
			other.reasserted = now
			r.ports.Announcer.Announce(other.cfg.Name, vrrp.BurstLowerPrio)
		}
	}
}

// deadline is when the machine wants its tick. The listening of a BACKUP in a group
// ends with that of the last member; false while one of them is out.
func (in *instance) deadline() (time.Time, bool) {
	at, ok := in.machine.Deadline()
	if !ok || in.group == nil || in.machine.State() != vrrp.Backup {
		return at, ok
	}
	for _, other := range in.group.members {
		switch other.machine.State() {
		case vrrp.Backup:
			theirs, _ := other.machine.Deadline()
			at = latest(at, theirs)
		case vrrp.Master: // only this one is missing
		default:
			return at, false
		}
	}
	return at, true
}

// deadlineOnce is deadline; while known is set, what one member found holds for all.
func (in *instance) deadlineOnce() (time.Time, bool) {
	g := in.group
	if g == nil || in.machine.State() != vrrp.Backup {
		return in.machine.Deadline()
	}
	if !g.known {
		g.at, g.ok = in.deadline()
		g.known = true
	}
	return g.at, g.ok
}

// waiting tells which member keeps one whose listening is over from taking over.
func (in *instance) waiting(now time.Time) string {
	own, ok := in.machine.Deadline()
	if !ok || in.group == nil || in.machine.State() != vrrp.Backup || now.Before(own) {
		return ""
	}
	for _, other := range in.group.members {
		theirs, ok := other.machine.Deadline()
		if s := other.machine.Status(); s.State != vrrp.Master && (!ok || now.Before(theirs)) {
			return fmt.Sprintf("would take over, but %s of sync group %s is %s: %s", other.cfg.Name, in.group.name, s.State, s.Reason)
		}
	}
	return ""
}

// environment is what the machine has to know: with what keeps other members of its
// group from taking part.
func (in *instance) environment() vrrp.Env {
	env := in.own
	if in.group == nil {
		return env
	}
	env.Faults = slices.Clone(env.Faults)
	told := slices.Clone(env.Faults)
	for _, other := range in.group.members {
		for _, f := range other.own.Faults {
			if !slices.Contains(told, f) {
				told = append(told, f)
				env.Faults = append(env.Faults, fmt.Sprintf("%s of sync group %s: %s", other.cfg.Name, in.group.name, f))
			}
		}
		env.Pending = cmp.Or(env.Pending, other.own.Pending)
	}
	return env
}

// GroupStatus returns a snapshot of all sync groups, sorted by name; nil once Run has
// returned.
func (r *Router) GroupStatus() []GroupStatus {
	var out []GroupStatus
	if err := r.do(context.Background(), func() {
		for _, g := range r.groups {
			s := GroupStatus{Name: g.name, State: g.state}
			for _, in := range g.members {
				s.Members = append(s.Members, in.cfg.Name)
			}
			out = append(out, s)
		}
	}); err != nil {
		return nil
	}
	slices.SortFunc(out, func(a, b GroupStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
