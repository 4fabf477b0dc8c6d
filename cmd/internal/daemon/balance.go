package daemon

import (
	"context"
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
	Configure(jobs []run.Job, stays func(key string) bool) error
	Look(all map[string]run.Status) map[string]run.Status
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
	seen     map[string]run.Status    // of the checks, when they were last looked at
	named    names                    // the checks that run
	wanted   ipvs.Table               // as last handed on; nil before the first Configure
	gentle
	ended   bool // Omega was called: nothing is acted on any more
	tellNew bool // a new server is an event, too
	alerts  *alerts
}

// balancedService is one virtual server with the check keys of its servers.
type balancedService struct {
	conf    *conf.VirtualServer
	id      serviceID
	servers []knownServer // per real server
	keys    [][]string    // per real server, per check; "" of one that does not run (ha_suspend)
	run     serviceCommands
	standby bool                  // not in the table (active_on)
	held    []healthcheck.Verdict // of the servers while checks do not run (ha_suspend); nil: they do
	// gone are servers that the configuration no longer has and that have connections; they
	// are the last ones of conf's copy.
	gone map[netip.AddrPort]departure
}

// knownServer is what was found out about a server, and told of it.
type knownServer struct {
	now    healthcheck.Verdict // what its checks say
	told   healthcheck.Verdict // as last reported; Unknown: it was not yet
	failed bool                // it is Down
	kept   bool                // it failed and stays in, as last logged
	since  time.Time           // when it failed; zero: it did not, or was never up, for alpha
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
	return &balancer{checks: checks, table: table, event: event, log: log, local: newMachine(), states: map[serviceID]plan.State{}, wereUp: map[serviceID]bool{}, named: names{}, gentle: newGentle()}
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
	inherited := map[serverID]healthcheck.Verdict{}
	if b.found != nil {
		for i := range servers {
			b.inheritFound(&servers[i], inherited)
		}
		b.found = nil
	}
	b.places.Watch(servers)
	if err := b.configure(servers, inherited); err != nil {
		return err
	}
	b.dropOverrides()
	return nil
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
	b.apply(b.look(), reconcile.Status{})
}

// look returns what the checks say now, until it is called again. Called with mu held.
func (b *balancer) look() map[string]run.Status {
	b.seen = b.checks.Look(b.seen)
	return b.seen
}

// apply hands the wanted table on and logs every service whose state changed. found
// is the kernel's table with counts, if it was just read. Called with mu held.
func (b *balancer) apply(snapshot map[string]run.Status, found reconcile.Status) {
	for i := range b.services {
		s := &b.services[i]
		for j := range s.servers {
			s.servers[j].now = s.verdict(j, snapshot)
		}
	}
	b.failedSince(snapshot)
	out := b.plan(snapshot, found)
	b.remember(out)
	b.nudge()
	b.wanted = out.Table
	b.table.Set(out.Table)
	b.tellServers(snapshot)
	states := make(map[serviceID]plan.State, len(out.Services))
	for i, s := range out.Services {
		id := b.services[i].id
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

func (b *balancer) plan(snapshot map[string]run.Status, found reconcile.Status) plan.Output {
	in := plan.Input{
		Services: make([]plan.Service, 0, len(b.services)), Now: time.Now(), Before: b.memory,
		Found: found.Kernel, ReadAt: found.LastRead,
	}
	for i := range b.services {
		s := &b.services[i]
		p := planService(s.conf)
		p.Standby = s.standby
		before, known := b.states[s.id]
		p.WasUp = known && before == plan.StateUp || b.wereUp[s.id]
		for i := range p.Servers {
			r := &p.Servers[i]
			r.Health = health(s.verdict(i, snapshot))
			r.Weight = weight(r.Weight, s.keys[i], snapshot)
			r.Since = s.servers[i].since
			r.DrainFailed = r.DrainFailed || inheritedOnly(s.keys[i], snapshot)
			b.tell(s, r)
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
	snapshot := b.checks.Look(nil)
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
	all := make([]healthcheck.Weighting, 0, 4) // mostly one, and on the stack
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
