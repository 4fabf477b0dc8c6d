package plan

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"vipd/ipvs"
)

// Memory is what a plan knows of the one before it. The zero value knows nothing: then nothing leaves or returns.
type Memory struct {
	table   ipvs.Table                // as wanted
	ramps   map[ipvs.Target]time.Time // servers on the way to their weight, since when
	leaving map[ipvs.Target]time.Time // entries that take no new connections any more, since when
	found   bool                      // the table is one that others left
}

// Remember returns the memory of a plan that begins with this table in the kernel. A server of it that is on the way to
// its weight goes on from there.
func Remember(t ipvs.Table) Memory { return Memory{table: t, found: true} }

// Wants reports whether the plan has the entry in its table.
func (m Memory) Wants(t ipvs.Target) bool {
	_, ok := m.table[t.Service].Destinations[At(t.Destination, t.Service)]
	return ok
}

// Usable reports whether the plan has a server that takes new connections in a service.
func (m Memory) Usable(k ipvs.Key) bool { return m.table[k].Usable() }

// LeavingSince returns since when an entry takes no new connections and waits for the end of those it has; zero: it does not.
func (m Memory) LeavingSince(t ipvs.Target) time.Time {
	return m.leaving[ipvs.Target{Service: t.Service, Destination: At(t.Destination, t.Service)}]
}

// leave keeps in the table, with weight 0, what was in it and is not wanted any more but may have connections.
func (p *planner) leave(s *Service, k ipvs.Key, st *ServiceState) {
	pool := p.out.Table[k].Destinations
	if pool == nil {
		return // the service itself is in no table
	}
	for addr, d := range p.in.Before.table[k].Destinations {
		if _, wanted := pool[addr]; wanted {
			continue
		}
		t := ipvs.Target{Service: k, Destination: addr}
		since, known := p.in.Before.leaving[t]
		if !known {
			since = p.in.Now
		}
		i := slices.IndexFunc(s.Servers, func(r Server) bool { return At(r.Address, k) == addr })
		limit, may := s.mayLeave(k, addr, i, since)
		if !may || !limit.IsZero() && !p.in.Now.Before(limit) || p.empty(t, since) {
			continue
		}
		d.Weight = 0
		pool[addr] = d
		if !limit.IsZero() {
			p.wake(limit)
		}
		if p.out.After.leaving == nil {
			p.out.After.leaving = map[ipvs.Target]time.Time{}
		}
		p.out.After.leaving[t] = since
		p.out.Leaving++
		state := ServerState{Address: addr, Present: true, Leaving: true}
		if i < 0 {
			if !slices.ContainsFunc(st.Others, func(o ServerState) bool { return o.Address == addr }) {
				st.Others = append(st.Others, state)
			}
			continue
		}
		state.Address = s.Servers[i].Address
		st.Servers[i] = state
	}
	slices.SortFunc(st.Others, func(a, b ServerState) int { return a.Address.Compare(b.Address) })
}

// mayLeave says whether an entry leaves gently, and until when at most. i is its place among the servers, or below 0;
// k is the service that it leaves.
func (s *Service) mayLeave(k ipvs.Key, addr netip.AddrPort, i int, since time.Time) (limit time.Time, may bool) {
	bounded := func() time.Time {
		if s.DrainMax <= 0 {
			return time.Time{}
		}
		return since.Add(s.DrainMax)
	}
	if i < 0 {
		if s.Sorry != nil && At(s.Sorry.Address, k) == addr {
			// A client of persistence would go on to it, and keep it here by that.
			return bounded(), s.Persistence == 0
		}
		return bounded(), true
	}
	r := &s.Servers[i]
	switch {
	case r.Health == Down && (r.Drain != nil || !r.DrainFailed || s.Protocol == ipvs.UDP):
		return time.Time{}, false
	case r.Health == Down:
		if r.Since.After(since) { // it left for the quorum before
			since = r.Since
		}
		return bounded(), true
	case r.Drain != nil:
		return r.Drain.Until, true
	}
	return time.Time{}, true // out for the quorum
}

// empty reports whether the kernel, read after the entry began to leave, had it with weight 0 and without a connection,
// or not at all.
func (p *planner) empty(t ipvs.Target, since time.Time) bool {
	if p.in.Found.Table == nil || !since.Before(p.in.ReadAt) {
		return false
	}
	d, there := p.in.Found.Table[t.Service].Destinations[t.Destination]
	c, counted := p.in.Found.Connections[t]
	return !there || counted && d.Weight == 0 && c.Active == 0 && c.Inactive == 0
}

// rampSteps is how many steps a returning server takes to its weight.
const rampSteps = 10

// ramp returns the weight that a server has now, and whether it is still on the way to its full one.
func (p *planner) ramp(s *Service, r *Server) (weight int, ramping bool) {
	if r.SlowStart <= 0 || r.Weight <= 1 {
		return r.Weight, false
	}
	// The services of a group are alike; one of them may be new.
	keys := s.keys()
	i := slices.IndexFunc(keys, func(k ipvs.Key) bool { _, known := p.in.Before.table[k]; return known })
	if i < 0 {
		return r.Weight, false
	}
	t := ipvs.Target{Service: keys[i], Destination: At(r.Address, keys[i])}
	start, ramping := p.in.Before.ramps[t]
	step := r.SlowStart / rampSteps
	switch d := p.in.Before.table[t.Service].Destinations[t.Destination]; {
	case !d.Usable():
		start, ramping = p.in.Now, true
	case p.in.Before.found:
		start, ramping = p.in.Now.Add(-step*time.Duration(stepOf(d.Weight, r.Weight))), true
	}
	done := int(p.in.Now.Sub(start) / max(step, 1))
	if !ramping || done >= rampSteps {
		return r.Weight, false
	}
	if p.out.After.ramps == nil {
		p.out.After.ramps = map[ipvs.Target]time.Time{}
	}
	for _, k := range keys {
		p.out.After.ramps[ipvs.Target{Service: k, Destination: At(r.Address, k)}] = start
	}
	p.wake(start.Add(time.Duration(done+1) * step))
	return max(1, r.Weight*done/rampSteps), true
}

// stepOf is the first step on the way to a full weight that has so much.
func stepOf(weight, full int) int {
	step := 0
	for step < rampSteps && max(1, full*step/rampSteps) < weight {
		step++
	}
	return step
}

// floor returns which failed servers stay in, so that enough are: those that failed last. nil: none.
func floor(s *Service) []bool {
	if s.MinUp <= 0 {
		return nil
	}
	total, up := 0, 0
	var down []int
	for i := range s.Servers {
		switch r := &s.Servers[i]; {
		case r.Drain != nil || r.Weight == 0, r.Health == Down && r.Since.IsZero(): // nobody counts on it
		case r.Health == Down:
			down = append(down, i)
			total++
		default:
			up++
			total++
		}
	}
	lack := int(math.Ceil(s.MinUp*float64(total)-1e-9)) - up
	if lack <= 0 {
		return nil
	}
	slices.SortStableFunc(down, func(a, b int) int { return s.Servers[b].Since.Compare(s.Servers[a].Since) })
	kept := make([]bool, len(s.Servers))
	for _, i := range down[:min(lack, len(down))] {
		kept[i] = true
	}
	return kept
}
