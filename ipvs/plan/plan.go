// Package plan computes the IPVS table that configuration and health ask for. It is pure: the same input always gives
// the same table.
//
// The rules, per virtual service:
//   - A server counts as live unless its health is Down. One without a result yet is live, as in keepalived without alpha.
//   - The service is UP while the weights of its live servers add up to the quorum, and to at least 1. With a hysteresis it
//     becomes so at quorum + hysteresis, and is no more below quorum - hysteresis.
//   - UP: live servers are in the table with their weight.
//   - Below the quorum with a sorry server: the sorry server is in, live servers are out. State SORRY.
//   - Below the quorum without one: live servers stay. State DOWN.
//   - Out means removed or, for a server with inhibit, present with weight 0, so that its open connections go on.
//   - A live server with a configured weight of 0 is being drained: it stays in with weight 0 in every state.
//   - A sorry server with inhibit stays in with weight 0 while it is not needed.
//   - A service on standby is in no table; what it would be is reported all the same.
//   - A sorry server that is also a real server is one table entry: the sorry server's while it is in use, else the real one's.
package plan

import (
	"net/netip"

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

// Server is a real server as configured, with its health.
type Server struct {
	Address netip.AddrPort // unique in its service
	Method  ipvs.Method
	Weight  int  // configured, 0..65535
	Inhibit bool // out of service means weight 0, not removal
	Health  Health
}

// Sorry is the server that takes over when the quorum is lost.
type Sorry struct {
	Address netip.AddrPort
	Method  ipvs.Method
	Inhibit bool // not needed means weight 0, not removal
}

// Service is a virtual service as configured, with its servers.
type Service struct {
	ipvs.Service          // its Key is unique in the input
	Quorum       int      // below 1 means 1
	Hysteresis   int      // below Quorum
	WasUp        bool     // the state before was UP
	Standby      bool     // not in the table
	Sorry        *Sorry   // nil for none
	Servers      []Server // in configured order
}

// Input is everything the table depends on.
type Input struct{ Services []Service }

// ServerState says what became of a server.
type ServerState struct {
	Address netip.AddrPort
	Present bool // in the table under its own name
	Weight  int  // effective; 0 when not present
}

// ServiceState says what became of a service.
type ServiceState struct {
	Key        ipvs.Key
	State      State
	LiveWeight int           // sum over live servers
	Servers    []ServerState // in the order of the input
}

// Output is the wanted table and what to show about it, in the order of the input.
type Output struct {
	Table    ipvs.Table
	Services []ServiceState
}

// Desired returns the table for the input.
func Desired(in Input) Output {
	out := Output{Table: make(ipvs.Table, len(in.Services)), Services: make([]ServiceState, 0, len(in.Services))}
	for _, s := range in.Services {
		out.Services = append(out.Services, service(out.Table, s))
	}
	return out
}

func service(table ipvs.Table, s Service) ServiceState {
	st := ServiceState{Key: s.Key, Servers: make([]ServerState, 0, len(s.Servers))}
	for _, r := range s.Servers {
		if r.Health != Down {
			st.LiveWeight += r.Weight
		}
	}
	st.State = s.state(st.LiveWeight)
	if s.Standby {
		table = ipvs.Table{}
	}
	table.AddService(s.Service)
	for _, r := range s.Servers {
		weight, present := effective(r, st.State)
		if present {
			table.AddDestination(s.Key, ipvs.Destination{Address: plain(r.Address), Method: r.Method, Weight: weight})
		}
		st.Servers = append(st.Servers, ServerState{Address: r.Address, Present: present, Weight: weight})
	}
	s.addSorry(table, st.State)
	return st
}

// effective returns the weight of a server, and whether it is in the table, in a service of the given state.
func effective(r Server, state State) (weight int, present bool) {
	switch live := r.Health != Down; {
	case live && state != StateSorry:
		return r.Weight, true
	case live && r.Weight == 0, r.Inhibit:
		return 0, true
	}
	return 0, false
}

// plain drops what makes one address look like two: the IPv4-in-IPv6 form and zones.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
