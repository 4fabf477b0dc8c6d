package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"vipd/vrrp"
)

// Apply makes the given instances those that run, and waits until they do. An
// instance of the same name, VRID, version, family and interface as before keeps
// its state and hears only what changed; one that is the same in everything hears
// nothing. Any other one is given up (priority 0) and started anew. When two
// instances exclude each other nothing is changed and an error returned.
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
		k := key{in.Interface, in.IPv6, in.VRID}
		if other, ok := keys[k]; ok {
			return fmt.Errorf("applying instances: %q and %q both use VRID %d on %s", other, in.Name, in.VRID, in.Interface)
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
	scripts := r.tracked()
	keep := r.giveUp(instances)
	r.list = r.list[:0:0]
	clear(r.byName)
	clear(r.byKey)
	var altered []*instance
	for _, cfg := range instances {
		in, ok := keep[cfg.Name]
		switch {
		case !ok:
			in = newInstance(cfg)
		case !in.cfg.Config.Equal(&cfg.Config):
			altered = append(altered, in)
		}
		in.cfg = cfg
		r.list = append(r.list, in)
		r.byName[cfg.Name] = in
		r.byKey[in.key()] = in
	}
	for _, in := range altered {
		r.feed(in, vrrp.Event{Kind: vrrp.EventConfig, Config: &in.cfg.Config})
	}
	r.forgetScripts(scripts)
	r.refresh()
	r.rearm()
}

// giveUp shuts down the instances that go or are replaced and returns the others
// by name. The sockets are still open, so priority 0 gets out.
func (r *Router) giveUp(instances []Instance) map[string]*instance {
	keep := map[string]*instance{}
	for i := range instances {
		if in, ok := r.byName[instances[i].Name]; ok && in.cfg.SameRouter(&instances[i].Config) {
			keep[in.cfg.Name] = in
		}
	}
	for _, in := range r.list {
		if keep[in.cfg.Name] == nil {
			r.feed(in, vrrp.Event{Kind: vrrp.EventShutdown})
		}
	}
	return keep
}

// tracked returns the names of the scripts that instances track.
func (r *Router) tracked() map[string]bool {
	names := map[string]bool{}
	for _, in := range r.list {
		for _, t := range in.cfg.TrackScripts {
			names[t.Name] = true
		}
	}
	return names
}

// forgetScripts drops the results of scripts that were tracked and are no more: a
// later script of that name starts without one.
func (r *Router) forgetScripts(before map[string]bool) {
	now := r.tracked()
	for name := range before {
		if !now[name] {
			delete(r.scripts, name)
		}
	}
}
