package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
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

// checkRunner is what the balancer needs of the check scheduler.
type checkRunner interface {
	Configure([]run.Job) error
	Snapshot() map[string]run.Status
}

// tableKeeper is what the balancer needs of the IPVS reconciler.
type tableKeeper interface {
	Set(ipvs.Table)
	Refresh(context.Context) (reconcile.Status, error)
}

// balancer joins configuration and health into the wanted IPVS table: every
// start, reload and change of health is the same call of plan.Desired.
type balancer struct {
	checks checkRunner
	table  tableKeeper
	event  func(line string) // takes a line for the FIFOs; never blocks
	run    commandRunner     // nil: no commands are run
	places *whereabouts      // nil: every service is active and checked
	local  *machine
	log    *zap.Logger

	mu       sync.Mutex // guards all following fields
	servers  []conf.VirtualServer
	services []balancedService
	global   conf.Global              // who runs commands
	found    ipvs.Table               // what the kernel had at the start; nil after the first Configure
	states   map[serviceID]plan.State // as last logged
	wereUp   map[serviceID]bool       // services that a crashed daemon had UP
	told     map[serverID]healthcheck.Verdict
	named    names // the checks that run
	gentle
	ended   bool // Omega was called: nothing is acted on any more
	tellNew bool // a new server is an event, too
	alerts  *alerts
}

// balancedService is one virtual server with the check keys of its servers.
type balancedService struct {
	conf    *conf.VirtualServer
	keys    [][]string // per real server, per check; "" of one that does not run (ha_suspend)
	run     serviceCommands
	standby bool                  // not in the table (active_on)
	held    []healthcheck.Verdict // of the servers while checks do not run (ha_suspend); nil: they do
	// gone are servers that the configuration no longer has and that have connections; they
	// are the last ones of conf's copy.
	gone map[netip.AddrPort]departure
}

// verdict joins the checks of a server.
func (s *balancedService) verdict(i int, snapshot map[string]run.Status) healthcheck.Verdict {
	if s.held != nil {
		return s.held[i]
	}
	return verdict(s.keys[i], snapshot)
}

type serverID struct {
	service serviceID
	address netip.AddrPort
}

func newBalancer(checks checkRunner, table tableKeeper, event func(line string), log *zap.Logger) *balancer {
	return &balancer{checks: checks, table: table, event: event, log: log, local: newMachine(), states: map[serviceID]plan.State{}, wereUp: map[serviceID]bool{}, gentle: newGentle()}
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
	old := b.verdicts(b.checks.Snapshot())
	for i := range servers {
		b.inheritFound(&servers[i], old)
	}
	b.found = nil
	b.places.Watch(servers)
	if err := b.configure(servers, old); err != nil {
		return err
	}
	b.dropOverrides()
	return nil
}

// configure makes the checks of servers, whose verdicts were old, and the table. Called with mu held.
func (b *balancer) configure(configured []conf.VirtualServer, old map[serverID]healthcheck.Verdict) error {
	servers, gone := b.withGone(configured)
	checks := newShared(b.named, b.checks.Snapshot())
	services := make([]balancedService, 0, len(servers))
	ran := b.checkKeys()
	for i := range servers {
		s := balancedService{conf: &servers[i], keys: make([][]string, len(servers[i].RealServers)), run: newServiceCommands(b.global, &servers[i]), gone: gone[i]}
		s.standby = b.places.standby(s.conf)
		if b.places.suspended(s.conf) {
			s.held = make([]healthcheck.Verdict, len(s.keys))
		}
		if err := b.addChecks(&s, checks, old, ran); err != nil {
			return err
		}
		services = append(services, s)
	}
	jobs := checks.all()
	b.local.watch(checks.files())
	switch err := b.checks.Configure(jobs); {
	case errors.Is(err, run.ErrLingering):
		b.log.Warn("a health check does not end; its results are ignored", zap.NamedError("err", err))
	case err != nil:
		return fmt.Errorf("configuring health checks: %w", err)
	}
	left := b.services
	b.servers, b.services, b.named = configured, services, checks.now
	b.tellGone(left)
	b.apply(b.checks.Snapshot(), reconcile.Status{})
	return nil
}

// addChecks asks for the checks of a service, or keeps the verdicts of its servers where none are to run.
func (b *balancer) addChecks(s *balancedService, checks *shared, old map[serverID]healthcheck.Verdict, ran map[serverID][]string) error {
	for j := range s.conf.RealServers {
		r := &s.conf.RealServers[j]
		id := serverID{identity(s.conf), r.Address}
		before, known := old[id]
		if known && before == healthcheck.Unknown && alpha(r) {
			before = healthcheck.Up // it is not new, and takes connections
		}
		s.keys[j] = make([]string, len(r.Checks))
		for k := range r.Checks {
			job, err := b.local.job(id.service, r, &r.Checks[k], before)
			if err != nil {
				return err
			}
			switch {
			case s.held == nil:
				checks.add(&request{job: job, server: before, before: ran[id], file: r.Checks[k].File, name: &s.keys[j][k]})
			case job.Inherit != healthcheck.Unknown:
				s.held[j] = job.Inherit
			}
		}
	}
	return nil
}

// checkKeys returns the keys of the checks of every server. Called with mu held.
func (b *balancer) checkKeys() map[serverID][]string {
	out := map[serverID][]string{}
	for i := range b.services {
		s := &b.services[i]
		for j := range s.conf.RealServers {
			out[serverID{identity(s.conf), s.conf.RealServers[j].Address}] = s.keys[j]
		}
	}
	return out
}

// inheritFound takes a server for down that the kernel does not have, or has
// with weight 0, in a service that it has with usable servers, and one that it has
// for up where alpha would have it wait.
func (b *balancer) inheritFound(v *conf.VirtualServer, verdicts map[serverID]healthcheck.Verdict) {
	for _, key := range serviceKeys(v) {
		pool, ok := b.found[key]
		if !ok || !pool.Usable() {
			continue
		}
		id := identity(v)
		sorry := v.Sorry != nil && pool.Destinations[plan.At(v.Sorry.Address, key)].Usable()
		b.wereUp[id] = !sorry && v.Sorry != nil
		for i := range v.RealServers {
			r := &v.RealServers[i]
			switch dest, ok := pool.Destinations[plan.At(r.Address, key)]; {
			case r.Weight == 0 || b.told0(id, r.Address):
			case !ok || dest.Weight == 0:
				verdicts[serverID{id, r.Address}] = healthcheck.Down
			case alpha(r): // it had passed
				verdicts[serverID{id, r.Address}] = healthcheck.Up
			}
		}
		return // the services of a group are alike
	}
}

// HealthChanged computes the wanted table anew; the check scheduler calls it.
func (b *balancer) HealthChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.apply(b.checks.Snapshot(), reconcile.Status{})
}

// apply hands the wanted table on and logs every service whose state changed. found
// is the kernel's table with counts, if it was just read. Called with mu held.
func (b *balancer) apply(snapshot map[string]run.Status, found reconcile.Status) {
	verdicts := b.verdicts(snapshot)
	b.failedSince(verdicts, snapshot)
	out := b.plan(snapshot, found)
	b.remember(out)
	b.nudge()
	b.table.Set(out.Table)
	b.tellServers(verdicts, snapshot)
	states := make(map[serviceID]plan.State, len(out.Services))
	for i, s := range out.Services {
		id := identity(b.services[i].conf)
		states[id] = s.State
		before, known := b.states[id]
		if !known {
			before = plan.StateDown
		}
		b.tellService(&b.services[i], s, before, !known)
		if known && before != s.State {
			b.log.Info("virtual server "+before.String()+" -> "+s.State.String(),
				zap.String("service", id.String()), zap.Int("live_weight", s.LiveWeight),
				zap.Int("quorum", b.services[i].conf.Quorum))
		}
	}
	b.states = states
	clear(b.wereUp)
}

// verdicts joins the checks of every server. Called with mu held.
func (b *balancer) verdicts(snapshot map[string]run.Status) map[serverID]healthcheck.Verdict {
	out := map[serverID]healthcheck.Verdict{}
	for _, s := range b.services {
		for i, r := range s.conf.RealServers {
			out[serverID{identity(s.conf), r.Address}] = s.verdict(i, snapshot)
		}
	}
	return out
}

func (b *balancer) plan(snapshot map[string]run.Status, found reconcile.Status) plan.Output {
	in := plan.Input{
		Services: make([]plan.Service, 0, len(b.services)), Now: time.Now(), Before: b.memory,
		Found: found.Kernel, ReadAt: found.LastRead,
	}
	for _, s := range b.services {
		p := planService(s.conf)
		p.Standby = s.standby
		before, known := b.states[identity(s.conf)]
		p.WasUp = known && before == plan.StateUp || b.wereUp[identity(s.conf)]
		for i := range p.Servers {
			r := &p.Servers[i]
			r.Health = health(s.verdict(i, snapshot))
			r.Weight = weight(r.Weight, s.keys[i], snapshot)
			r.Since = b.since[serverID{identity(s.conf), r.Address}]
			r.DrainFailed = r.DrainFailed || inheritedOnly(s.keys[i], snapshot)
			b.tell(&s, identity(s.conf), r)
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
	told     []override.Record
	since    plan.Memory // what leaves, since when
	problem  string      // with what servers were told
}

func (b *balancer) View() view {
	b.mu.Lock()
	defer b.mu.Unlock()
	snapshot := b.checks.Snapshot()
	return view{
		services: slices.Clone(b.services), plan: b.plan(snapshot, reconcile.Status{}), checks: snapshot,
		told: slices.Clone(b.overrides), since: b.memory, problem: b.problem,
	}
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

// weight is what the checks of a server make of its configured weight.
func weight(configured int, keys []string, snapshot map[string]run.Status) int {
	var all []healthcheck.Weighting
	for _, k := range keys {
		all = append(all, snapshot[k].Weighting)
	}
	return healthcheck.Weight(configured, all)
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
