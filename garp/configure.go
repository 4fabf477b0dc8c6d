package garp

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// group is a Group and the name of its queues.
type group struct {
	Group
	name string
}

// Configure sets the wanted instances, and the interfaces that share a gap. An
// instance that is as before sees no change; one that is missing is stopped and
// forgotten. Addresses keep their state, those that are new are announced when
// they are Present.
func (p *Planner) Configure(now time.Time, instances []Instance, groups []Group) {
	wanted := make(map[string]bool, len(instances))
	changed := p.regroup(groups)
	for _, cfg := range instances {
		wanted[cfg.Name] = true
		in := p.instance(cfg.Name)
		if equal(in.cfg, cfg) && len(in.order) == len(cfg.Targets) {
			continue
		}
		changed = true
		old := in.cfg
		in.cfg = cfg
		in.cfg.Targets = slices.Clone(cfg.Targets)
		p.retarget(in)
		p.retime(now, in, old.Timing)
	}
	for name := range p.instances {
		if !wanted[name] {
			changed = true
			p.Stop(name)
			delete(p.instances, name)
		}
	}
	if changed {
		p.relist()
	}
}

// regroup takes the groups of a new configuration and reports whether they differ.
func (p *Planner) regroup(groups []Group) bool {
	before := p.groups
	p.groups = map[string]*group{}
	for _, g := range groups {
		g.Interfaces = slices.Clone(g.Interfaces)
		for _, name := range g.Interfaces {
			p.groups[name] = &group{g, strings.Join(g.Interfaces, " ")}
		}
	}
	return !maps.EqualFunc(before, p.groups, func(a, b *group) bool {
		return a.name == b.name && a.GARPInterval == b.GARPInterval && a.GNAInterval == b.GNAInterval
	})
}

func equal(a, b Instance) bool {
	return a.Name == b.Name && a.Interface == b.Interface && a.Adverts == b.Adverts && a.Form == b.Form &&
		a.Timing == b.Timing && slices.Equal(a.Targets, b.Targets)
}

// retarget makes the configured targets those of the instance.
func (p *Planner) retarget(in *instance) {
	old := in.targets
	in.targets, in.order = map[netip.Addr]*target{}, nil
	for _, c := range in.cfg.Targets {
		c.Instance, c.Address = in.cfg.Name, c.Address.Unmap()
		if in.targets[c.Address] != nil {
			continue
		}
		if c.Interface == "" {
			c.Interface = in.cfg.Interface
		}
		t := old[c.Address]
		if t == nil {
			t = &target{inst: in}
		}
		t.Target = c
		in.targets[c.Address] = t
		in.order = append(in.order, t)
	}
	in.present = 0
	for addr, t := range old {
		if in.targets[addr] == nil {
			p.cancel(t)
		}
	}
	for _, t := range in.order {
		if t.present {
			in.present++
		}
	}
	if in.present == len(in.order) {
		p.release(in)
	}
}

// retime applies a changed timing to the deadlines of an active instance.
func (p *Planner) retime(now time.Time, in *instance, old Timing) {
	tm := in.cfg.Timing
	if !in.active || tm == old {
		return
	}
	in.refresh = p.moved(now, in.refresh, old.Refresh, tm.Refresh)
	in.extra = p.moved(now, in.extra, old.Extra, tm.Extra)
	if tm.LowerPrioDelay <= 0 || tm.LowerPrioRepeat <= 0 {
		in.lowerSecond = time.Time{}
	}
	if tm.MasterDelay <= 0 {
		for _, t := range in.order {
			t.second = time.Time{}
		}
	}
}

// moved is when something is due that is done every so often, when that changes:
// counted from the last time.
func (p *Planner) moved(now, at time.Time, old, every time.Duration) time.Time {
	switch {
	case every <= 0 || at.IsZero():
		return p.after(now, every, 0)
	case every != old:
		if at = at.Add(every - old); at.Before(now) {
			at = now.Add(every)
		}
	}
	p.arm(at)
	return at
}

// sorted lists the instances by name: an order that does not change.
func (p *Planner) sorted() []*instance {
	all := make([]*instance, 0, len(p.instances))
	for _, name := range slices.Sorted(maps.Keys(p.instances)) {
		all = append(all, p.instances[name])
	}
	return all
}

// Status tells of each instance what was sent and what is planned, by name.
func (p *Planner) Status() []InstanceStatus {
	out := make([]InstanceStatus, 0, len(p.instances))
	for _, in := range p.sorted() {
		s := in.stats
		s.Name, s.Active = in.cfg.Name, in.active
		s.Targets, s.Present, s.NextRefresh = len(in.order), in.present, in.refresh
		for _, t := range in.order {
			s.Pending += t.pending
		}
		out = append(out, s)
	}
	return out
}
