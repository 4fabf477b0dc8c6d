package daemon

import (
	"context"
	"maps"
	"slices"

	"vipd/conf"
	"vipd/ipvs/plan"
	"vipd/ipvs/reconcile"
)

// Ahead puts the services that are new in a configuration into the table, and returns when they are there, at the latest
// after comeWithin: a reload may bring their addresses to a MASTER, and who comes to an address without a service is
// refused. Configure follows, or Stay.
func (b *balancer) Ahead(ctx context.Context, servers []conf.VirtualServer, settled func(context.Context) error) {
	if !b.addAhead(servers) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, comeWithin)
	defer cancel()
	_ = settled(ctx) // the reconciler says what is wrong, and the addresses come all the same
}

// addAhead wants new services beside all others, and reports whether there are some.
func (b *balancer) addAhead(servers []conf.VirtualServer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.wanted == nil {
		return false
	}
	in := plan.Input{}
	for i := range servers {
		v := &servers[i]
		known := func(s balancedService) bool { return s.id == identity(v) }
		if slices.ContainsFunc(b.services, known) || b.places.standby(v) {
			continue
		}
		s := planService(v)
		for j := range s.Servers {
			if alpha(&v.RealServers[j]) {
				s.Servers[j].Health = plan.Down
			}
		}
		in.Services = append(in.Services, s)
	}
	table := plan.Desired(in).Table
	maps.Copy(table, b.wanted) // what is there stays as it is
	if len(table) == len(b.wanted) {
		return false
	}
	b.table.Set(table)
	return true
}

// Stay undoes Ahead.
func (b *balancer) Stay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.apply(b.look(), reconcile.Status{})
	}
}
