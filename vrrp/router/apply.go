package router

import (
	"cmp"
	"context"
	"slices"

	"vipd/vrrp"
)

// Apply makes the given instances those that run, and waits until they do. An
// instance of the same VRID, version, family and interface as before keeps its
// state, whatever it is called now, and hears only what changed; one that is the
// same in everything hears nothing. Where several share all that, their groups and
// peers say which is which, then their names. Any other one is given up (priority 0)
// and started anew. When two instances exclude each other nothing is changed and an
// error returned.
func (r *Router) Apply(ctx context.Context, instances []Instance) error {
	sorted := slices.Clone(instances)
	slices.SortFunc(sorted, func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) })
	if err := check(sorted); err != nil {
		return err
	}
	return r.do(ctx, func() {
		r.apply(sorted)
		r.forgetResults()
	})
}

// Leave gives up those that Apply of the given instances would give up, and changes nothing else: what they send their
// last advert by is about to go. Apply must follow.
func (r *Router) Leave(ctx context.Context, instances []Instance) error {
	return r.do(ctx, func() {
		keep := successors(r.list, instances)
		var stay []Instance
		for _, in := range r.list {
			if slices.Contains(keep, in) {
				stay = append(stay, in.cfg)
			}
		}
		r.apply(stay)
	})
}

// apply replaces the set of instances.
func (r *Router) apply(instances []Instance) {
	if r.stopped {
		return
	}
	keep := r.giveUp(instances)
	masters := r.masters()
	r.list = r.list[:0:0]
	clear(r.byName)
	clear(r.byKey)
	clear(r.watched)
	clear(r.recent[:])
	var altered, renamed []*instance
	for i, cfg := range instances {
		in := keep[i]
		switch {
		case in == nil:
			in = newInstance(cfg)
			renamed = append(renamed, in) // an old one may have had the name
		case in.cfg.Name != cfg.Name:
			renamed = append(renamed, in)
			fallthrough
		case !in.cfg.Config.Equal(&cfg.Config):
			altered = append(altered, in)
		}
		in.cfg = cfg
		r.list = append(r.list, in)
		r.byName[cfg.Name] = in
		if k := cfg.wireKey(); !cfg.Unicast {
			r.byKey[k] = in
		} else if cfg.Interface != "" {
			r.watched[k] = append(r.watched[k], in)
		}
	}
	r.regroup()
	r.syncSockets() // they are found by name
	for _, in := range renamed {
		r.rename(in, masters[in.cfg.Name])
	}
	for _, in := range altered {
		ev := vrrp.Event{Kind: vrrp.EventConfig, Config: &in.cfg.Config}
		if r.links != nil {
			weight := r.ownEnvironment(in).Weight
			ev.Weight = &weight
		}
		r.feed(in, ev)
	}
	r.refresh()
	r.rearm()
}

// giveUp shuts down the instances that go or are replaced and returns, for each new
// one, that which it continues. The sockets are still open, so priority 0 gets out.
func (r *Router) giveUp(instances []Instance) []*instance {
	keep := successors(r.list, instances)
	for _, in := range r.list {
		if !slices.Contains(keep, in) {
			if in.group.goesOn(keep) {
				in.group = nil // what becomes of it is no news of the group
			}
			r.feed(in, vrrp.Event{Kind: vrrp.EventShutdown})
		}
	}
	return keep
}

// masters returns the names of the instances that are MASTER.
func (r *Router) masters() map[string]bool {
	names := map[string]bool{}
	for _, in := range r.list {
		names[in.cfg.Name] = in.machine.State() == vrrp.Master
	}
	return names
}

// rename tells the ports, which know instances by name, what is wanted of the one that
// has a name now; master is what was wanted of the one that had it before.
func (r *Router) rename(in *instance, master bool) {
	name := in.cfg.Name
	switch is := in.machine.State() == vrrp.Master; {
	case is && !master:
		r.ports.Addresses.Want(name, true)
		r.ports.Announcer.Announce(name, vrrp.BurstMaster)
	case !is && master:
		r.ports.Announcer.Stop(name)
		r.ports.Addresses.Want(name, false)
	}
}
