package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"vipd/vrrp"
)

// Apply makes the given instances those that run, and waits until they do. An
// instance of the same VRID, version, family and interface as before keeps its
// state, whatever it is called now, and hears only what changed; one that is the
// same in everything hears nothing. Any other one is given up (priority 0) and
// started anew. When two instances exclude each other nothing is changed and an
// error returned.
func (r *Router) Apply(ctx context.Context, instances []Instance) error {
	sorted := slices.Clone(instances)
	slices.SortFunc(sorted, func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) })
	if err := check(sorted); err != nil {
		return err
	}
	return r.do(ctx, func() { r.apply(sorted) })
}

// check finds instances that exclude each other.
func check(instances []Instance) error {
	names, keys := map[string]bool{}, map[key]string{}
	for i := range instances {
		in := &instances[i]
		if names[in.Name] {
			return fmt.Errorf("applying instances: the name %q is used twice", in.Name)
		}
		names[in.Name] = true
		k := in.key()
		if other, ok := keys[k]; ok {
			return fmt.Errorf("applying instances: %q and %q both use VRID %d on %s", other, in.Name, in.VRID, in.place())
		}
		keys[k] = in.Name
	}
	return nil
}

// apply replaces the set of instances.
func (r *Router) apply(instances []Instance) {
	if r.stopped {
		return
	}
	before := r.tracked()
	keep := r.giveUp(instances)
	masters := r.masters()
	r.list = r.list[:0:0]
	clear(r.byName)
	clear(r.byKey)
	clear(r.recent[:])
	var altered, renamed []*instance
	for _, cfg := range instances {
		in := keep[cfg.key()]
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
		r.byKey[cfg.wireKey()] = in
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
	r.forgetResults(before)
	r.refresh()
	r.rearm()
}

// giveUp shuts down the instances that go or are replaced and returns the others.
// The sockets are still open, so priority 0 gets out.
func (r *Router) giveUp(instances []Instance) map[key]*instance {
	keep, all := map[key]*instance{}, map[key]*instance{}
	for _, in := range r.list {
		all[in.cfg.key()] = in
	}
	for i := range instances {
		k := instances[i].key()
		if in, ok := all[k]; ok && in.cfg.SameRouter(&instances[i].Config) {
			keep[k] = in
		}
	}
	for _, in := range r.list {
		if keep[in.cfg.key()] == nil {
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
