package plan_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"vipd/ipvs"
	"vipd/ipvs/plan"
)

// orders is one service through which events go in any order, with the table that the operations of each step leave.
type orders struct {
	s     plan.Service
	table ipvs.Table
}

func server51(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(i)}), 80)
}

// event changes the service in one way.
func (o *orders) event(t *rapid.T) {
	r := &o.s.Servers[rapid.IntRange(0, len(o.s.Servers)-1).Draw(t, "server")]
	switch rapid.SampledFrom([]string{"health", "health", "health", "weight", "inhibit", "sorry", "quorum", "standby"}).Draw(t, "event") {
	case "health":
		r.Health = rapid.SampledFrom([]plan.Health{plan.Up, plan.Down}).Draw(t, "health")
	case "weight":
		r.Weight = rapid.IntRange(0, 3).Draw(t, "weight")
	case "inhibit":
		r.Inhibit = !r.Inhibit
	case "sorry":
		o.s.Sorry = nil
		if n := rapid.IntRange(-1, len(o.s.Servers)).Draw(t, "sorry is"); n >= 0 { // the last one is no real server
			o.s.Sorry = &plan.Sorry{Address: server51(n), Inhibit: rapid.Bool().Draw(t, "sorry inhibit")}
		}
	case "quorum":
		o.s.Quorum = rapid.IntRange(1, 5).Draw(t, "quorum")
		o.s.Hysteresis = rapid.IntRange(0, o.s.Quorum-1).Draw(t, "hysteresis")
	case "standby":
		o.s.Standby = !o.s.Standby
	}
}

// step applies the operations of the new plan one by one and looks at the pool between them.
func (o *orders) step(t *rapid.T) plan.ServiceState {
	out := plan.Desired(plan.Input{Services: []plan.Service{o.s}})
	both := o.table[o.s.Key].Usable() && out.Table[o.s.Key].Usable()
	for _, op := range ipvs.Diff(o.table, out.Table, func(ipvs.Key) bool { return true }) {
		o.table.Apply(op)
		if both && !o.table[o.s.Key].Usable() {
			t.Fatalf("after %s the pool is empty, and it was usable before and will be", op)
		}
	}
	if !o.table.Equal(out.Table) {
		t.Fatalf("the kernel has\n%swant\n%s", o.table, out.Table)
	}
	o.s.WasUp = out.Services[0].State == plan.StateUp
	return out.Services[0]
}

// live is the weight of the live servers, as the documentation has it.
func (o *orders) live() (sum int) {
	for _, r := range o.s.Servers {
		if r.Health != plan.Down {
			sum += r.Weight
		}
	}
	return sum
}

// state is the state that follows from the one before, as the documentation has it.
func (o *orders) state(live int) plan.State {
	up := live > 0 && live >= o.s.Quorum+o.s.Hysteresis
	if o.s.WasUp {
		up = live > 0 && live >= o.s.Quorum-o.s.Hysteresis
	}
	switch {
	case up:
		return plan.StateUp
	case o.s.Sorry != nil:
		return plan.StateSorry
	}
	return plan.StateDown
}

// TestO51EveryOrder is case O51: after any order of results, edits of weights, inhibit, quorum and sorry server (a real
// server, too), standby and its end, a server that is healthy and not replaced has its configured weight, one that
// failed is absent or has weight 0, the sorry server has what its part is, and no step empties a pool that need not be.
func TestO51EveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := orders{table: ipvs.Table{}}
		o.s = plan.Service{Service: ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"}, Quorum: 1}
		for i := range rapid.IntRange(1, 3).Draw(t, "servers") {
			o.s.Servers = append(o.s.Servers, plan.Server{Address: server51(i), Method: ipvs.DR, Weight: 1})
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			o.event(t)
			live := o.live()
			want := o.state(live)
			if st := o.step(t); st.State != want || st.LiveWeight != live {
				t.Fatalf("%s, live weight %d; want %s, %d", st.State, st.LiveWeight, want, live)
			}
			o.check(t, want)
		}
	})
}

// check compares the pool with the rules.
func (o *orders) check(t *rapid.T, state plan.State) {
	pool, there := o.table[o.s.Key]
	if there == o.s.Standby {
		t.Fatalf("standby %v, and the service is there: %v", o.s.Standby, there)
	}
	if !there {
		return
	}
	entries := 0
	for _, r := range o.s.Servers {
		d, in := pool.Destinations[r.Address]
		if in {
			entries++
		}
		isSorry := o.s.Sorry != nil && o.s.Sorry.Address == r.Address
		want, must := 0, false
		switch {
		case isSorry && state == plan.StateSorry:
			want, must = 1, true
		case r.Health != plan.Down && state != plan.StateSorry:
			want, must = r.Weight, true
		case r.Inhibit, r.Health != plan.Down && r.Weight == 0, isSorry && o.s.Sorry.Inhibit:
			must = true
		}
		if in != must || d.Weight != want {
			t.Fatalf("%s: %+v: in the table %v with weight %d, want %v with %d", state, r, in, d.Weight, must, want)
		}
	}
	if o.s.Sorry != nil && o.s.Sorry.Address == server51(len(o.s.Servers)) {
		d, in := pool.Destinations[o.s.Sorry.Address]
		want := map[bool]int{true: 1}[state == plan.StateSorry]
		if in != (state == plan.StateSorry || o.s.Sorry.Inhibit) || d.Weight != want {
			t.Fatalf("%s: the sorry server is in the table %v with weight %d", state, in, d.Weight)
		}
		if in {
			entries++
		}
	}
	if len(pool.Destinations) != entries {
		t.Fatalf("uninvited servers: %v", pool.Destinations)
	}
}
