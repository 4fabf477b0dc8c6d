package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/plan"
)

// checkRunner is what the balancer needs of the check scheduler.
type checkRunner interface {
	Configure([]run.Job) error
	Snapshot() map[string]run.Status
}

// tableKeeper is what the balancer needs of the IPVS reconciler.
type tableKeeper interface {
	Set(ipvs.Table)
}

// balancer joins configuration and health into the wanted IPVS table: every
// start, reload and change of health is the same call of plan.Desired.
type balancer struct {
	checks checkRunner
	table  tableKeeper
	event  func(line string) // takes a line for the FIFOs; never blocks
	log    *zap.Logger

	mu       sync.Mutex // guards all following fields
	services []balancedService
	found    ipvs.Table              // what the kernel had at the start; nil after the first Configure
	states   map[ipvs.Key]plan.State // as last logged
	told     map[serverID]healthcheck.Verdict
	tellNew  bool // a new server is an event, too
	alerts   *alerts
}

// balancedService is one virtual server with the check keys of its servers.
type balancedService struct {
	conf *conf.VirtualServer
	keys [][]string // per real server, per check
}

type serverID struct {
	service ipvs.Key
	address netip.AddrPort
}

func newBalancer(checks checkRunner, table tableKeeper, event func(line string), log *zap.Logger) *balancer {
	return &balancer{checks: checks, table: table, event: event, log: log, states: map[ipvs.Key]plan.State{}}
}

// Found tells what the kernel has before the first Configure. A daemon that
// crashed had taken dead servers out of it: they stay out until a check passes.
func (b *balancer) Found(t ipvs.Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found = t
}

// Configure takes the virtual servers of a new configuration. A check that did
// not change keeps its state; a new check of a known server starts with that
// server's verdict until its own first result.
func (b *balancer) Configure(servers []conf.VirtualServer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	snapshot := b.checks.Snapshot()
	old := b.verdicts(snapshot)
	for i := range servers {
		b.inheritFound(&servers[i], old)
	}
	b.found = nil
	checks := newShared(snapshot)
	services := make([]balancedService, 0, len(servers))
	for i := range servers {
		s := balancedService{conf: &servers[i], keys: make([][]string, len(servers[i].RealServers))}
		key := serviceKey(s.conf)
		for j := range s.conf.RealServers {
			r := &s.conf.RealServers[j]
			for k := range r.Checks {
				job, err := job(key, r, &r.Checks[k], old[serverID{key, r.Address}])
				if err != nil {
					return err
				}
				s.keys[j] = append(s.keys[j], checks.add(job))
			}
		}
		services = append(services, s)
	}
	switch err := b.checks.Configure(checks.all()); {
	case errors.Is(err, run.ErrLingering):
		b.log.Warn("a health check does not end; its results are ignored", zap.NamedError("err", err))
	case err != nil:
		return fmt.Errorf("configuring health checks: %w", err)
	}
	b.services = services
	b.apply(b.checks.Snapshot())
	return nil
}

// inheritFound takes a server for down that the kernel does not have, or has
// with weight 0, in a service that it has with usable servers.
func (b *balancer) inheritFound(v *conf.VirtualServer, verdicts map[serverID]healthcheck.Verdict) {
	key := serviceKey(v)
	pool, ok := b.found[key]
	if !ok || !pool.Usable() {
		return
	}
	for _, r := range v.RealServers {
		if dest, ok := pool.Destinations[r.Address]; (!ok || dest.Weight == 0) && r.Weight > 0 {
			verdicts[serverID{key, r.Address}] = healthcheck.Down
		}
	}
}

// HealthChanged computes the wanted table anew; the check scheduler calls it.
func (b *balancer) HealthChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apply(b.checks.Snapshot())
}

// apply hands the wanted table on and logs every service whose state changed.
// Called with mu held.
func (b *balancer) apply(snapshot map[string]run.Status) {
	out := b.plan(snapshot)
	b.table.Set(out.Table)
	b.tellServers(b.verdicts(snapshot), snapshot)
	states := make(map[ipvs.Key]plan.State, len(out.Services))
	for i, s := range out.Services {
		states[s.Key] = s.State
		before, known := b.states[s.Key]
		if !known {
			before = plan.StateDown
		}
		b.tellService(b.services[i].conf, s, before, !known)
		if known && before != s.State {
			b.log.Info("virtual server "+before.String()+" -> "+s.State.String(),
				zap.String("service", s.Key.String()), zap.Int("live_weight", s.LiveWeight),
				zap.Int("quorum", b.services[i].conf.Quorum))
		}
	}
	b.states = states
}

// verdicts joins the checks of every server. Called with mu held.
func (b *balancer) verdicts(snapshot map[string]run.Status) map[serverID]healthcheck.Verdict {
	out := map[serverID]healthcheck.Verdict{}
	for _, s := range b.services {
		for i, r := range s.conf.RealServers {
			out[serverID{serviceKey(s.conf), r.Address}] = verdict(s.keys[i], snapshot)
		}
	}
	return out
}

func (b *balancer) plan(snapshot map[string]run.Status) plan.Output {
	in := plan.Input{Services: make([]plan.Service, 0, len(b.services))}
	for _, s := range b.services {
		p := planService(s.conf)
		for i := range p.Servers {
			p.Servers[i].Health = health(verdict(s.keys[i], snapshot))
		}
		in.Services = append(in.Services, p)
	}
	return plan.Desired(in)
}

// view is what status shows of the balancing half: configuration, plan and the
// checks it was made from, all of one moment.
type view struct {
	services []balancedService
	plan     plan.Output
	checks   map[string]run.Status
}

func (b *balancer) View() view {
	b.mu.Lock()
	defer b.mu.Unlock()
	snapshot := b.checks.Snapshot()
	return view{services: slices.Clone(b.services), plan: b.plan(snapshot), checks: snapshot}
}

// verdict joins the checks of one server: it is up only when every check
// passes, and down as soon as one fails. A server without checks is up.
func verdict(keys []string, snapshot map[string]run.Status) healthcheck.Verdict {
	out := healthcheck.Up
	for _, k := range keys {
		switch st := snapshot[k]; {
		case st.Known && !st.Healthy:
			return healthcheck.Down
		case !st.Known:
			out = healthcheck.Unknown
		}
	}
	return out
}

func health(v healthcheck.Verdict) plan.Health {
	switch v {
	case healthcheck.Up:
		return plan.Up
	case healthcheck.Down:
		return plan.Down
	default:
		return plan.Unknown
	}
}
