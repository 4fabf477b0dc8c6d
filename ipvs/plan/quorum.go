package plan

import (
	"slices"

	"vipd/ipvs"
)

// state returns the state of a service whose live servers have the given weight together.
func (s *Service) state(live int) State {
	need := max(s.Quorum, 1)
	if s.WasUp {
		need = max(need-s.Hysteresis, 1)
	} else {
		need += s.Hysteresis
	}
	switch {
	case live >= need:
		return StateUp
	case s.Sorry != nil:
		return StateSorry
	}
	return StateDown
}

// sorryDrains reports whether the sorry server is a real server, too, that is told to take no connections.
func (s *Service) sorryDrains() bool {
	return s.Sorry != nil && slices.ContainsFunc(s.Servers, func(r Server) bool {
		return r.Drain != nil && slices.ContainsFunc(s.keys(), func(k ipvs.Key) bool { return At(r.Address, k) == At(s.Sorry.Address, k) })
	})
}

// addSorry puts the sorry server into a pool that has all others: with weight 1 while it is needed, else, if it is
// inhibited, with weight 0. Where it is a real server, too, it has that one's entry while it is not needed.
func (s *Service) addSorry(table ipvs.Table, k ipvs.Key, state State) {
	if s.Sorry == nil {
		return
	}
	d := ipvs.Destination{Address: At(s.Sorry.Address, k), Method: s.Sorry.Method, Tunnel: s.Sorry.Tunnel}
	if _, there := table[k].Destinations[d.Address]; !s.Sorry.enters(state, there) {
		return
	}
	if state == StateSorry {
		d.Weight = 1
	}
	table.AddDestination(k, d)
}

// enters reports whether the sorry server gets an entry of its own in a pool; taken: a real server has it.
func (s *Sorry) enters(state State, taken bool) bool {
	return state == StateSorry || s.Inhibit && !taken
}
