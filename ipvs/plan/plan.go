// Package plan computes the IPVS table that configuration and health ask for. It is pure: the same input always gives
// the same table.
//
// The rules, per virtual service:
//   - A server counts as live unless its health is Down or it is told to drain. One without a result yet is live, as in
//     keepalived without alpha. With MinUp, the servers that failed last count as live while too few others are.
//   - The service is UP while the weights of its live servers add up to the quorum, and to at least 1. With a hysteresis it
//     becomes so at quorum + hysteresis, and is no more below quorum - hysteresis.
//   - UP: live servers are in the table with their weight, or on the way to it after their return (SlowStart).
//   - Below the quorum with a sorry server: the sorry server is in, live servers are out. State SORRY.
//   - Below the quorum without one: live servers stay. State DOWN.
//   - A failed server is removed; with inhibit it is present with weight 0, so that its open connections go on. Under UDP
//     it is removed all the same: clients that keep their port would be sent to it for as long as they send.
//   - What else is out but was in leaves gently: present with weight 0 until the kernel counts no connection of it any
//     more, or its limit has passed, or its check fails (leave.go). So neither a drain nor a quorum that is lost or
//     regained cuts a connection off. The sorry server of a service with persistence goes at once: its clients would be
//     sent to it for as long as they come.
//   - A live server with a configured weight of 0 stays in with weight 0 in every state.
//   - A sorry server with inhibit stays in with weight 0 while it is not needed.
//   - A service on standby is in no table; what it would be is reported all the same.
//   - A sorry server that is also a real server is one table entry: the sorry server's while it is in use, else the real one's.
//     When the real server is told to drain, there is no sorry server.
package plan

import (
	"net/netip"
	"time"

	"vipd/ipvs"
)

// Health is what the checks say of a server.
type Health uint8

// The kinds of health; Unknown, no check has ended yet, counts as Up.
const (
	Unknown Health = iota
	Up
	Down
)

// State is the state of a virtual service.
type State uint8

// The states: enough live servers, sorry server in use, or too few live servers and no sorry server.
const (
	StateUp State = iota
	StateSorry
	StateDown
)

// String returns "UP", "SORRY" or "DOWN".
func (s State) String() string { return [...]string{"UP", "SORRY", "DOWN"}[s] }

// Server is a real server as configured, with its health and what it was told.
type Server struct {
	Address netip.AddrPort // unique in its service; port 0: that of each service
	Method  ipvs.Method
	Tunnel  ipvs.Tunnel // of the method TUN
	Weight  int         // as configured or told
	Upper   uint32      // connection limits, as in ipvs.Destination
	Lower   uint32
	Inhibit bool // failed means weight 0, not removal
	// DrainFailed lets a failed server leave gently instead of being removed; Inhibit goes before it.
	DrainFailed bool
	Health      Health
	Since       time.Time     // when Health became Down; zero: it was never up, and MinUp does not count on it
	SlowStart   time.Duration // time from its return to its full weight; 0: at once
	Drain       *Drain        // set: it is to leave and to stay out
}

// Drain says that a server is to take no new connections.
type Drain struct {
	Until time.Time // when it goes whatever connections it has; zero: never
}

// Sorry is the server that takes over when the quorum is lost.
type Sorry struct {
	Address netip.AddrPort
	Method  ipvs.Method
	Tunnel  ipvs.Tunnel
	Inhibit bool // not needed means weight 0, not removal
}

// Service is a virtual service as configured, with its servers. It may stand for several services of the table, those
// of a virtual_server_group: they are alike in everything, and in one state.
type Service struct {
	ipvs.Service            // its Key is unique in the input
	More         []ipvs.Key // further services of the table, unique in the input as well
	Quorum       int        // below 1 means 1
	Hysteresis   int        // below Quorum
	WasUp        bool       // the state before was UP
	Standby      bool       // not in the table
	Sorry        *Sorry     // nil for none
	Servers      []Server   // in configured order
	MinUp        float64    // share of the servers, 0..1, that failed checks must leave in; 0: none
	// DrainMax bounds the leaving of what nobody can undrain: the sorry server, servers found at the start that are not
	// configured, and those with DrainFailed. 0: no limit.
	DrainMax time.Duration
}

// Input is everything the table depends on.
type Input struct {
	Services []Service
	Now      time.Time
	Before   Memory // of the plan before this one
	// Found is what the kernel had at ReadAt, with the counts of that moment. An empty one tells nothing: whatever leaves
	// then stays for now.
	Found  ipvs.Snapshot
	ReadAt time.Time
}

// ServerState says what became of a server.
type ServerState struct {
	Address netip.AddrPort
	Present bool // in the table under its own name
	Weight  int  // effective; 0 when not present
	Leaving bool // present with weight 0 until its connections have ended
	Kept    bool // failed, and in all the same for MinUp
	Ramping bool // on the way to its weight
}

// ServiceState says what became of a service.
type ServiceState struct {
	Key        ipvs.Key
	State      State
	LiveWeight int           // sum over live servers
	Servers    []ServerState // in the order of the input
	Others     []ServerState // what leaves that is no server of the input, by address
}

// Output is the wanted table and what to show about it, in the order of the input.
type Output struct {
	Table    ipvs.Table
	Services []ServiceState
	After    Memory
	Leaving  int       // entries that leave: to be planned again with counts soon
	Next     time.Time // when the same input gives another table; zero: never
}

// Desired returns the table for the input.
func Desired(in Input) Output {
	p := planner{in: &in, out: Output{
		Table: make(ipvs.Table, len(in.Services)), Services: make([]ServiceState, 0, len(in.Services)),
	}}
	for i := range in.Services {
		p.out.Services = append(p.out.Services, p.service(&in.Services[i]))
	}
	p.out.After.table = p.out.Table
	return p.out
}

// planner is one plan in the making.
type planner struct {
	in  *Input
	out Output
}

// wake has the plan made again at t, if it is not to be made earlier anyway.
func (p *planner) wake(t time.Time) {
	if p.out.Next.IsZero() || t.Before(p.out.Next) {
		p.out.Next = t
	}
}

func (p *planner) service(s *Service) ServiceState {
	if s.sorryDrains() {
		without := *s
		without.Sorry, s = nil, &without
	}
	st := ServiceState{Key: s.Key, Servers: make([]ServerState, 0, len(s.Servers))}
	kept := floor(s)
	live := func(i int) bool {
		r := &s.Servers[i]
		return r.Drain == nil && (r.Health != Down || kept != nil && kept[i])
	}
	for i := range s.Servers {
		if live(i) {
			st.LiveWeight += s.Servers[i].Weight
		}
	}
	st.State = s.state(st.LiveWeight)
	table := p.out.Table
	if s.Standby {
		table = ipvs.Table{}
	}
	pool := make([]ipvs.Destination, 0, len(s.Servers))
	for i := range s.Servers {
		r := &s.Servers[i]
		now := ServerState{Address: r.Address, Kept: live(i) && r.Health == Down}
		now.Weight, now.Present = s.effective(r, live(i), st.State)
		if now.Weight > 0 {
			now.Weight, now.Ramping = p.ramp(s, r)
		}
		if now.Present {
			pool = append(pool, ipvs.Destination{Address: r.Address, Method: r.Method, Weight: now.Weight, Upper: r.Upper, Lower: r.Lower, Tunnel: r.Tunnel})
		}
		st.Servers = append(st.Servers, now)
	}
	for _, k := range s.keys() {
		one := s.Service
		one.Key = k
		if before, same := p.asBefore(s, one, pool, st.State); same {
			table[k] = before
			continue
		}
		fill(table, one, pool)
		s.addSorry(table, k, st.State)
		p.leave(s, k, &st)
	}
	return st
}

// keys are all services of the table that s stands for.
func (s *Service) keys() []ipvs.Key { return append([]ipvs.Key{s.Key}, s.More...) }

// asBefore returns the pool of a service in the plan before this one, and whether it is just what is to be in this one:
// of many services few change at a time. A table is not changed when it is made, so they may share it.
func (p *planner) asBefore(s *Service, one ipvs.Service, pool []ipvs.Destination, state State) (ipvs.Pool, bool) {
	before, there := p.in.Before.table[one.Key]
	if !there || before.Service != one.Normal() || len(before.Destinations) != len(pool) {
		return before, false
	}
	for _, d := range pool {
		d.Address = At(d.Address, one.Key)
		if old, ok := before.Destinations[d.Address]; !ok || old != d {
			return before, false
		}
	}
	if s.Sorry == nil {
		return before, true
	}
	_, taken := before.Destinations[At(s.Sorry.Address, one.Key)]
	return before, !s.Sorry.enters(state, taken)
}

// fill adds a service with its servers.
func fill(table ipvs.Table, s ipvs.Service, pool []ipvs.Destination) {
	table.AddService(s)
	for _, d := range pool {
		d.Address = At(d.Address, s.Key)
		table.AddDestination(s.Key, d)
	}
}

// At returns where a server is in the table of a service: at the port of the service unless it has its own.
func At(server netip.AddrPort, k ipvs.Key) netip.AddrPort {
	port := server.Port()
	if port == 0 {
		port = k.Address.Port()
	}
	return plain(netip.AddrPortFrom(server.Addr(), port))
}

// effective returns the full weight of a server, and whether it is in the table, in a service of the given state.
func (s *Service) effective(r *Server, live bool, state State) (weight int, present bool) {
	switch {
	case r.Drain != nil:
		return 0, false
	case live && state != StateSorry:
		return r.Weight, true
	case live && (r.Weight == 0 || r.Inhibit), r.Inhibit && s.Protocol != ipvs.UDP:
		return 0, true
	}
	return 0, false
}

// plain drops what makes one address look like two: the IPv4-in-IPv6 form and zones.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
