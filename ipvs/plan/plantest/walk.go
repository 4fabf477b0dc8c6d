// Package plantest walks plans through random events against an IPVS table, and checks what plan promises at each step.
package plantest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/plan"
)

// Table is the IPVS table that a walk changes; it must be empty at the start.
type Table interface {
	Read() (ipvs.Snapshot, error)
	Apply(ops []ipvs.Op) []error
}

// Counter sets the counts of destinations; nil for a table whose counts are real.
type Counter func(ipvs.Target, ipvs.Connections)

// Steps is the number of events of one walk.
const Steps = 25

// Walks returns the number of walks to make: few, or many with VIPD_LONG=1.
func Walks(few, many uint64) uint64 {
	if os.Getenv("VIPD_LONG") == "1" {
		return many
	}
	return few
}

// Walk takes the plan through Steps random events: results of checks, overrides, reloads, quorum and sorry server, standby,
// time, connections, edits by hand, restarts. seed decides all of them. The table is empty again afterwards. The error tells what was broken and how it
// came to it.
func Walk(seed uint64, table Table, count Counter) error {
	w := &walker{
		Rand: rand.New(rand.NewPCG(seed, 1)), table: table, count: count, now: time.Unix(1_800_000_000, 0),
		conns: map[ipvs.Target]ipvs.Connections{}, model: ipvs.Table{},
	}
	if err := w.foreign(); err != nil {
		return err
	}
	w.spare = append(w.spare, ipvstest.Services()[:4]...)
	for range Steps {
		what := w.event()
		w.story = append(w.story, what)
		if err := w.step(); err != nil {
			return fmt.Errorf("seed %d: %w\nafter:\n%s\ntable:\n%s", seed, err, strings.Join(w.story, "\n"), w.model)
		}
	}
	return w.clear()
}

type walker struct {
	*rand.Rand
	table Table
	count Counter
	now   time.Time

	services []plan.Service
	spare    []ipvs.Service // not configured now
	memory   plan.Memory
	conns    map[ipvs.Target]ipvs.Connections
	found    ipvs.Snapshot
	readAt   time.Time
	model    ipvs.Table // the whole table as it must be
	handmade bool       // the event was an edit by hand
	story    []string
}

// foreign makes a service that is nobody's business.
func (w *walker) foreign() error {
	s := ipvstest.Services()[6]
	ops := []ipvs.Op{{Kind: ipvs.AddService, Service: s}, {Kind: ipvs.AddDestination, Service: s, Destination: ipvstest.Server(s, 9, ipvs.DR, 3)}}
	return w.apply(ops, func(ipvs.Op) error { return nil })
}

func (w *walker) coin(n int) bool { return w.IntN(n) == 0 }

// event changes something and says what.
func (w *walker) event() string {
	w.found, w.readAt, w.handmade = ipvs.Snapshot{}, time.Time{}, false
	if len(w.services) == 0 || len(w.spare) > 0 && w.coin(20) {
		return w.addService()
	}
	i := w.IntN(len(w.services))
	s := &w.services[i]
	switch w.IntN(15) {
	case 0:
		return w.reload(s)
	case 1:
		if w.coin(4) {
			w.spare = append(w.spare, s.Service)
			w.services = slices.Delete(w.services, i, i+1)
			return "service removed"
		}
		return w.addServer(s)
	case 2:
		dt := time.Duration(w.IntN(30)) * time.Second
		w.now = w.now.Add(dt)
		return "time " + dt.String()
	case 3, 4:
		w.now = w.now.Add(time.Second)
		w.readAt = w.now
		w.found, _ = w.table.Read() // a walk against a table that cannot be read fails in apply
		w.now = w.now.Add(time.Millisecond)
		return "counts read"
	case 5, 6:
		return w.traffic(s)
	case 7:
		return w.rare(s)
	}
	if len(s.Servers) == 0 {
		return w.addServer(s)
	}
	return w.server(s, &s.Servers[w.IntN(len(s.Servers))])
}

func (w *walker) addService() string {
	i := w.IntN(len(w.spare))
	s := plan.Service{Service: w.spare[i]}
	w.spare = slices.Delete(w.spare, i, i+1)
	w.reload(&s)
	for range w.IntN(4) {
		w.addServer(&s)
	}
	w.services = append(w.services, s)
	return "service " + s.Key.String()
}

func (w *walker) reload(s *plan.Service) string {
	s.Quorum = 1 + w.IntN(4)
	s.Hysteresis = w.IntN(s.Quorum)
	s.Scheduler = []string{"rr", "wlc"}[w.IntN(2)]
	s.MinUp = []float64{0, 0, 0.34, 0.5, 1}[w.IntN(5)]
	s.DrainMax = []time.Duration{0, 20 * time.Second}[w.IntN(2)]
	s.Sorry = nil
	if w.coin(2) {
		s.Sorry = &plan.Sorry{Address: ipvstest.Server(s.Service, 1+w.IntN(6), ipvs.DR, 1).Address, Method: ipvs.NAT, Inhibit: w.coin(3)}
	}
	for i := range s.Servers {
		if r := &s.Servers[i]; w.coin(4) {
			r.Inhibit, r.DrainFailed, r.Method = w.coin(3), w.coin(3), []ipvs.Method{ipvs.DR, ipvs.NAT, ipvs.TUN}[w.IntN(3)]
		}
	}
	return fmt.Sprintf("reload: quorum %d±%d, min_up %v, sorry %v", s.Quorum, s.Hysteresis, s.MinUp, s.Sorry)
}

// rare does what does not happen every day.
func (w *walker) rare(s *plan.Service) string {
	switch w.IntN(4) {
	case 0:
		s.Standby = !s.Standby
		return fmt.Sprintf("standby %v", s.Standby)
	case 1:
		w.memory = plan.Remember(ours(w.model))
		return "restart"
	case 2:
		return w.move(s)
	}
	op := ipvs.Op{Kind: ipvs.OpKind(w.IntN(6)), Service: s.Service}
	op.Service.Scheduler = "sed"
	op.Destination = ipvstest.Server(s.Service, 1+w.IntN(6), ipvs.TUN, w.IntN(3))
	if _, there := w.model[s.Key]; !there {
		return "nothing" // whoever makes a service that we do not have makes it his own
	}
	if w.table.Apply([]ipvs.Op{op})[0] == nil {
		w.model.Apply(op)
		w.handmade = true
	}
	return "by hand: " + op.String()
}

// move takes a server out of a service, and into another one if it has none of this address.
func (w *walker) move(s *plan.Service) string {
	if len(s.Servers) == 0 {
		return "nothing"
	}
	i := w.IntN(len(s.Servers))
	r := s.Servers[i]
	s.Servers = slices.Delete(s.Servers, i, i+1)
	to := &w.services[w.IntN(len(w.services))]
	if to.IPv6 == s.IPv6 && !slices.ContainsFunc(to.Servers, func(o plan.Server) bool { return o.Address == r.Address }) {
		to.Servers = append(to.Servers, r)
	}
	return fmt.Sprintf("%s moved from %s to %s", r.Address, s.Key, to.Key)
}

func (w *walker) addServer(s *plan.Service) string {
	d := ipvstest.Server(s.Service, 1+w.IntN(5), ipvs.DR, 1+w.IntN(40))
	if slices.ContainsFunc(s.Servers, func(r plan.Server) bool { return r.Address == d.Address }) {
		return "nothing"
	}
	r := plan.Server{Address: d.Address, Method: d.Method, Weight: d.Weight, Inhibit: w.coin(3), DrainFailed: w.coin(3)}
	if w.coin(3) {
		r.SlowStart = 30 * time.Second
	}
	s.Servers = append(s.Servers, r)
	return "server " + d.Address.String() + " added"
}

// server changes one server: a result of its check, or what it was told.
func (w *walker) server(s *plan.Service, r *plan.Server) string {
	name := s.Key.String() + " -> " + r.Address.String()
	switch w.IntN(6) {
	case 0:
		r.Drain = &plan.Drain{}
		if w.coin(2) {
			r.Drain.Until = w.now.Add(15 * time.Second)
		}
		return name + " drained"
	case 1:
		r.Drain = nil
		return name + " undrained"
	case 2:
		r.Weight = []int{0, 1, 7, 50}[w.IntN(4)]
		return fmt.Sprintf("%s weight %d", name, r.Weight)
	case 3:
		r.Health, r.Since = plan.Up, time.Time{}
		return name + " up"
	}
	if r.Health != plan.Down {
		r.Health, r.Since = plan.Down, w.now
	}
	return name + " down"
}

// traffic opens and ends connections where the table has the service.
func (w *walker) traffic(s *plan.Service) string {
	if w.count == nil {
		return "nothing"
	}
	for a, d := range w.model[s.Key].Destinations {
		t := ipvs.Target{Service: s.Key, Destination: a}
		c := w.conns[t]
		if d.Usable() && w.coin(2) {
			c.Active, c.Inactive = uint32(w.IntN(3)), uint32(w.IntN(2))
		} else if w.coin(2) {
			c = ipvs.Connections{}
		}
		w.conns[t] = c
		w.count(t, c)
	}
	return "traffic"
}

// step plans, changes the table and checks both.
func (w *walker) step() error {
	in := plan.Input{Services: w.services, Now: w.now, Before: w.memory, Found: w.found, ReadAt: w.readAt}
	out := plan.Desired(in)
	w.memory = out.After
	have := ours(w.model)
	ops := ipvs.Diff(have, out.Table, func(ipvs.Key) bool { return true })
	before := have.Clone()
	if err := w.apply(ops, func(op ipvs.Op) error { return w.judge(op, before, out.Table) }); err != nil {
		return err
	}
	if now := ours(w.model); !now.Equal(out.Table) {
		return fmt.Errorf("the table is not as planned:\n%s", out.Table)
	}
	for i := range w.services {
		s := &w.services[i]
		s.WasUp = out.Services[i].State == plan.StateUp
		if _, there := out.Table[s.Key]; there == s.Standby {
			return fmt.Errorf("standby %v, and the service is planned: %v", s.Standby, there)
		}
		if s.Standby {
			continue
		}
		if err := w.servers(s, &out.Services[i], out.Table); err != nil {
			return err
		}
	}
	return nil
}

// ours is the table without what is another's.
func ours(t ipvs.Table) ipvs.Table {
	t = t.Clone()
	delete(t, ipvstest.Services()[6].Key)
	return t
}

// judge says what is wrong with one change, which the model has seen already.
func (w *walker) judge(op ipvs.Op, before, want ipvs.Table) error {
	k := op.Service.Key
	if _, planned := want[k]; !planned && op.Kind != ipvs.DelService {
		return fmt.Errorf("%s touches a service that is not planned", op)
	}
	if have, there := before[k]; there && have.Service == want[k].Service && mapsEqual(have, want[k]) {
		return fmt.Errorf("%s touches a service that stays as it is", op)
	}
	if before[k].Usable() && want[k].Usable() && !w.model[k].Usable() {
		return fmt.Errorf("%s leaves the pool without a server", op)
	}
	if op.Kind == ipvs.DelDestination {
		return w.cut(op)
	}
	return nil
}

func mapsEqual(a, b ipvs.Pool) bool {
	return ipvs.Table{a.Service.Key: a}.Equal(ipvs.Table{b.Service.Key: b})
}

// cut says what is wrong with the removal of a server that has connections.
func (w *walker) cut(op ipvs.Op) error {
	t := op.Target()
	c := w.conns[t]
	delete(w.conns, t)
	if w.count != nil {
		w.count(t, ipvs.Connections{})
	}
	if c.Active+c.Inactive == 0 || w.handmade {
		return nil
	}
	for i := range w.services {
		s := &w.services[i]
		if s.Key != t.Service {
			continue
		}
		for _, r := range s.Servers {
			if r.Address != t.Destination {
				continue
			}
			failed := r.Health == plan.Down && (r.Drain != nil || !r.DrainFailed || s.Protocol == ipvs.UDP)
			late := r.Drain != nil && !r.Drain.Until.IsZero() && !w.now.Before(r.Drain.Until) || r.Health == plan.Down && s.DrainMax > 0
			if failed || late {
				return nil
			}
			return fmt.Errorf("%s cuts off %d+%d connections", op, c.Active, c.Inactive)
		}
		if s.DrainMax == 0 {
			return fmt.Errorf("%s cuts off %d+%d connections of the sorry server", op, c.Active, c.Inactive)
		}
	}
	return nil
}

// servers checks the weights of one service (O51).
func (w *walker) servers(s *plan.Service, st *plan.ServiceState, table ipvs.Table) error {
	pool := table[s.Key].Destinations
	for i, r := range s.Servers {
		now, d := st.Servers[i], pool[r.Address]
		sorry := st.State == plan.StateSorry
		switch {
		case sorry && s.Sorry.Address == r.Address:
			if d.Weight != 1 || r.Drain != nil {
				return fmt.Errorf("the sorry server %v has weight %d", r.Address, d.Weight)
			}
		case r.Drain != nil || sorry || r.Health == plan.Down && !now.Kept:
			if d.Weight != 0 {
				return fmt.Errorf("%v has weight %d and should take nothing", r.Address, d.Weight)
			}
		case now.Ramping:
			if d.Weight < 1 || d.Weight >= r.Weight {
				return fmt.Errorf("%v has weight %d on its way to %d", r.Address, d.Weight, r.Weight)
			}
		case d.Weight != r.Weight || !now.Present:
			return fmt.Errorf("%v has weight %d, want %d", r.Address, d.Weight, r.Weight)
		}
	}
	return nil
}

// apply makes the changes; seen looks at each when the model has it.
func (w *walker) apply(ops []ipvs.Op, seen func(ipvs.Op) error) error {
	errs := w.table.Apply(ops)
	for i, op := range ops {
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", op, errs[i])
		}
		w.model.Apply(op)
		if err := seen(op); err != nil {
			return err
		}
	}
	got, err := w.table.Read()
	if err != nil {
		return err
	}
	if !got.Table.Equal(w.model) {
		return fmt.Errorf("the kernel's table is not what it was told:\n%s", got.Table)
	}
	return nil
}

// clear empties the table.
func (w *walker) clear() error {
	return w.apply(ipvs.Diff(w.model.Clone(), ipvs.Table{}, func(ipvs.Key) bool { return true }), func(ipvs.Op) error { return nil })
}
