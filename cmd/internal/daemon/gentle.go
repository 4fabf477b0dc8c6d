package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/override"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/plan"
	"vipd/ipvs/reconcile"
)

const (
	// countEvery is the time between two readings of connection counts while servers leave.
	countEvery = time.Second
	// countShare is how many times longer than a reading the pause after it is at least.
	countShare = 10
)

// gentle is the part of the balancer that lets servers leave and return. It is guarded
// by the balancer's mutex.
type gentle struct {
	memory    plan.Memory
	next      time.Time // when the plan changes by itself; zero: never
	leaving   int
	overrides []override.Record
	file      string // that keeps them; "": none
	problem   string // with what was told before
	wake      chan struct{}
}

func newGentle() gentle {
	return gentle{wake: make(chan struct{}, 1)}
}

// departure is a server on its way out of the configuration.
type departure struct {
	since time.Time
	until time.Time // zero: no limit
}

// going reports whether a server is configured no more and ends its connections.
func (s *balancedService) going(a netip.AddrPort) bool {
	_, ok := s.gone[a]
	return ok
}

// Took tells, before the first Configure, what a predecessor left in the kernel: what is
// not wanted of it leaves gently.
func (b *balancer) Took(t ipvs.Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory = plan.Remember(t)
}

// nudge has Run look at what is to be done when. Called with mu held.
func (b *balancer) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// remember keeps a plan for the next one, and says which failed servers stay in.
// Called with mu held.
func (b *balancer) remember(out plan.Output) {
	b.memory, b.next, b.leaving = out.After, out.Next, out.Leaving
	for i := range out.Services {
		s := &b.services[i]
		for j, r := range out.Services[i].Servers {
			was := s.servers[j].kept
			s.servers[j].kept = r.Kept
			if r.Kept && !was {
				b.log.Error("a failed server stays in: min_up leaves no more out", zap.String("service", s.id.String()), zap.Stringer("dest", r.Address))
			}
			if !r.Kept && was {
				b.log.Info("min_up keeps the server in no more", zap.String("service", s.id.String()), zap.Stringer("dest", r.Address))
			}
		}
	}
}

// failedSince notes when servers failed; those that were never up, for alpha, have a zero time. Called with mu held.
func (b *balancer) failedSince(snapshot map[string]run.Status) {
	for i := range b.services {
		s := &b.services[i]
		for i := range s.servers {
			st := &s.servers[i]
			if st.now != healthcheck.Down {
				st.failed, st.since = false, time.Time{}
				continue
			}
			r := &s.conf.RealServers[i]
			waits := startsDown(r, s.keys[i], snapshot) || s.held != nil && alpha(r)
			if !waits && st.since.IsZero() || !st.failed && st.told == healthcheck.Up {
				st.since = time.Now()
			}
			st.failed = true
		}
	}
}

// withGone returns the servers of a configuration, with those that it no longer has and
// that the kernel still does. Called with mu held.
func (b *balancer) withGone(configured []conf.VirtualServer, was map[serviceID]*balancedService) ([]conf.VirtualServer, []map[netip.AddrPort]departure) {
	servers, gone := slices.Clone(configured), make([]map[netip.AddrPort]departure, len(configured))
	for i := range servers {
		v := &servers[i]
		old := was[identity(v)]
		if old == nil || sameServers(v.RealServers, old.conf.RealServers) {
			continue
		}
		for _, r := range old.conf.RealServers {
			if has(v, r.Address) || v.Sorry != nil && v.Sorry.Address == r.Address || !b.wants(v, r.Address) {
				continue
			}
			d, known := old.gone[r.Address]
			if known && !b.leavesYet(v, r.Address) {
				continue
			}
			if !known {
				d.since = time.Now()
				b.log.Info("a server that is configured no more ends its connections", zap.String("service", old.id.String()),
					zap.Stringer("dest", r.Address), zap.Duration("drain_max", v.DrainMax))
			}
			if d.until = (time.Time{}); v.DrainMax > 0 {
				d.until = d.since.Add(v.DrainMax)
			}
			if gone[i] == nil {
				gone[i] = map[netip.AddrPort]departure{}
			}
			gone[i][r.Address] = d
			v.RealServers = append(slices.Clip(v.RealServers), r)
		}
	}
	return servers, gone
}

// wants reports whether the plan has a server in any of the services of a virtual server. Called with mu held.
func (b *balancer) wants(v *conf.VirtualServer, a netip.AddrPort) bool {
	return slices.ContainsFunc(serviceKeys(v), func(k ipvs.Key) bool { return b.memory.Wants(ipvs.Target{Service: k, Destination: a}) })
}

// leavesYet reports whether a server that is configured no more has connections to end in any of the services: a server
// that took its place at the same address and port does not count. Called with mu held.
func (b *balancer) leavesYet(v *conf.VirtualServer, a netip.AddrPort) bool {
	return !leavingSince(b.memory, serviceKeys(v), a).IsZero()
}

func has(v *conf.VirtualServer, a netip.AddrPort) bool {
	for i := range v.RealServers {
		if v.RealServers[i].Address == a {
			return true
		}
	}
	return false
}

// sameServers reports whether two lists are one and the same, as they are where a reload changed nothing.
func sameServers(a, b []conf.RealServer) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// tell adds to a server what it was told. Called with mu held.
func (b *balancer) tell(s *balancedService, r *plan.Server) {
	if d, gone := s.gone[r.Address]; gone {
		r.Drain = &plan.Drain{Until: d.until}
		return
	}
	for _, o := range b.toldOf(s.id, r.Address) {
		switch {
		case o.Kind == override.Weight:
			r.Weight = o.Weight
		case r.Drain == nil:
			r.Drain = &plan.Drain{Until: o.Until}
		case r.Drain.Until.IsZero() || !o.Until.IsZero() && o.Until.Before(r.Drain.Until):
			r.Drain.Until = o.Until // of drain and maintenance the one that ends first
		}
	}
}

// inheritedOnly reports whether a server is down only because it was before a start or
// a reload: its connections may be good, so it is not cut off before its own check says so.
func inheritedOnly(keys []string, snapshot map[string]run.Status) bool {
	for _, k := range keys {
		if st := snapshot[k]; st.Known && !st.Healthy && !st.Inherited {
			return false
		}
	}
	return true
}

// Run makes the plan again when it changes by itself, and reads connection counts while
// servers leave. It ends with ctx.
func (b *balancer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var counted time.Time // when counts were last read
	var costs [3]time.Duration
	every := countEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		case <-timer.C:
		}
		now := time.Now()
		var found reconcile.Status
		due := b.due(counted.Add(every))
		if !due.IsZero() && !now.Before(due) && b.leaves() {
			// Without an answer nothing has left; the reconciler says why.
			found, _ = b.table.Refresh(ctx)
			counted = time.Now()
			// One that was slow once, on a machine with too much to do, says little.
			costs = [3]time.Duration{costs[1], costs[2], counted.Sub(now)}
			every = max(countEvery, countShare*slices.Min(costs[:]))
		}
		if !due.IsZero() && !now.Before(due) {
			b.again(found)
			due = b.due(counted.Add(every))
		}
		b.forgetGone()
		if due.IsZero() {
			due = now.Add(time.Hour) // a nudge comes first
		}
		timer.Reset(max(time.Until(due), time.Millisecond))
	}
}

func (b *balancer) leaves() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaving > 0
}

// due is when the plan is to be made again; zero: not before something happens.
func (b *balancer) due(count time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaving > 0 && (b.next.IsZero() || count.Before(b.next)) {
		return count
	}
	return b.next
}

// again makes the plan once more.
func (b *balancer) again(found reconcile.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.apply(b.look(), found)
}

// forgetGone ends the checks of servers that are configured no more and have left.
func (b *balancer) forgetGone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	for i := range b.services {
		s := &b.services[i]
		for a := range s.gone {
			if b.leavesYet(s.conf, a) {
				continue
			}
			b.log.Info("a server that is configured no more has gone", zap.String("service", s.id.String()), zap.Stringer("dest", a))
			if err := b.configure(b.servers, nil); err != nil {
				b.log.Error("the checks of a server that has gone go on", zap.NamedError("err", err))
			}
			return // no other that has gone is left either
		}
	}
}

// how says until when something leaves at most.
func how(until time.Time) string {
	if until.IsZero() {
		return "without limit"
	}
	return fmt.Sprintf("at the latest at %s", until.Local().Format("2006-01-02 15:04:05"))
}
