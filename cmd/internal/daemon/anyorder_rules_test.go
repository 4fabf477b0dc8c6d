package daemon

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"
	"time"

	"vipd/cmd/internal/override"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/ipvs"
	"vipd/ipvs/plan"
)

// calmAfter is how long after trouble or an edit by hand the kernel must be right again.
const calmAfter = 10 * time.Second

// judge compares the kernel with the plan, and the changes of the last event with the rules.
func (w *world) judge(before ipvs.Table) error {
	now := w.plan()
	for _, c := range w.changes {
		if err := w.judgeChange(c, before, now); err != nil {
			return err
		}
	}
	if w.trouble || w.blind {
		w.disturbed = time.Now()
	}
	if time.Since(w.disturbed) >= calmAfter {
		all := now.Clone()
		maps.Copy(all, w.foreign)
		if !w.k.Table().Equal(all) {
			return fmt.Errorf("the kernel's table is not as planned")
		}
	}
	return w.rules(now)
}

// judgeChange says what is wrong with one change.
func (w *world) judgeChange(c kernelChange, before, now ipvs.Table) error {
	k := c.op.Service.Key
	edited := w.edited || w.trouble || w.blind || c.at.Sub(w.disturbed) < calmAfter && !w.disturbed.IsZero()
	switch {
	case isForeign(k):
		return fmt.Errorf("%s touches a service of others", c.op)
	case !edited && !w.asleep && samePlan(before, now, k):
		return fmt.Errorf("%s touches a service whose plan is as before", c.op)
	case c.before.Usable() && now[k].Usable() && before[k].Usable() && !c.after.Usable() && !(w.blind && edited) && !w.edited:
		return fmt.Errorf("%s leaves the pool without a server", c.op)
	case c.op.Kind == ipvs.DelDestination && c.open != (ipvs.Connections{}) && !edited:
		return w.cut(c)
	}
	return nil
}

func samePlan(a, b ipvs.Table, k ipvs.Key) bool {
	p, inA := a[k]
	q, inB := b[k]
	return inA == inB && (!inA || ipvs.Table{k: p}.Equal(ipvs.Table{k: q}))
}

// cut says what is wrong with the removal of a server that has connections.
func (w *world) cut(c kernelChange) error {
	t := c.op.Target()
	for _, s := range w.b.services {
		if keyOf(s.conf) != t.Service {
			continue
		}
		if s.standby {
			return nil
		}
		v := s.conf
		late := func(since time.Time) bool { return v.DrainMax > 0 && c.at.Sub(since) >= v.DrainMax }
		if since, gone := w.gone[t]; gone && late(since) {
			return nil
		}
		if v.Sorry != nil && v.Sorry.Address == t.Destination && (v.Persistence > 0 || v.DrainMax > 0) {
			return nil // since when it leaves, is not known here
		}
		for i, r := range v.RealServers {
			if r.Address != t.Destination {
				continue
			}
			own := s.held == nil && !inheritedOnly(s.keys[i], w.checks.states)
			policy := !r.Inhibit && !r.DrainFailed || v.Protocol == "UDP" || w.leaves(&s, r.Address)
			failed := w.verdict(&s, i) == healthcheck.Down
			if failed && ((own || w.down[t]) && policy || late(w.failedSince(v, r.Address))) {
				return nil
			}
			for _, o := range w.told(v, r.Address) {
				if o.Kind != override.Weight && !o.Until.IsZero() && !c.at.Before(o.Until) {
					return nil
				}
			}
		}
	}
	if _, gone := w.gone[t]; gone {
		if w.down[t] {
			return nil
		}
		for key, failed := range w.sick {
			if failed && strings.Contains(key, " "+t.Destination.Addr().String()+":") {
				return nil // and so it is no server of ours any more
			}
		}
	}
	return fmt.Errorf("%s cuts off %+v", c.op, c.open)
}

// leaves reports whether a server was told to leave, or is configured no more.
func (w *world) leaves(s *balancedService, a netip.AddrPort) bool {
	if s.going(a) {
		return true
	}
	for _, o := range w.told(s.conf, a) {
		if o.Kind != override.Weight {
			return true
		}
	}
	return false
}

func (w *world) told(v *conf.VirtualServer, a netip.AddrPort) (out []override.Record) {
	for _, o := range w.b.overrides {
		if o.Service == keyOf(v).String() && o.Server == a.String() {
			out = append(out, o)
		}
	}
	return out
}

// failedSince is when a server failed, as far as vipd knows.
func (w *world) failedSince(v *conf.VirtualServer, a netip.AddrPort) time.Time {
	for _, s := range w.b.services {
		for i, r := range s.conf.RealServers {
			if r.Address == a && s.id.String() == v.Name && s.servers[i].failed {
				return s.servers[i].since
			}
		}
	}
	return time.Now()
}

func (w *world) verdict(s *balancedService, i int) healthcheck.Verdict {
	return s.verdict(i, w.checks.states)
}

// downNow returns the servers that are down.
func (w *world) downNow() map[ipvs.Target]bool {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	down := map[ipvs.Target]bool{}
	for i := range w.b.services {
		s := &w.b.services[i]
		for j, r := range s.conf.RealServers {
			down[ipvs.Target{Service: keyOf(s.conf), Destination: r.Address}] = w.verdict(s, j) == healthcheck.Down
		}
	}
	return down
}

// weightOf is the full weight of a server.
func (w *world) weightOf(s *balancedService, i int) int {
	r := s.conf.RealServers[i]
	n := weight(r.Weight, s.keys[i], w.checks.states)
	for _, o := range w.told(s.conf, r.Address) {
		if o.Kind == override.Weight && !s.going(r.Address) {
			n = o.Weight
		}
	}
	return n
}

// rules compares the plan with the documentation.
func (w *world) rules(now ipvs.Table) error {
	view := w.b.View()
	if len(view.services) != len(w.servers) {
		return fmt.Errorf("%d services, want %d", len(view.services), len(w.servers))
	}
	for i := range view.services {
		s := &view.services[i]
		pool, there := now[keyOf(s.conf)]
		if there == s.standby || s.standby != (s.conf.ActiveOn != "" && !w.master) {
			return fmt.Errorf("%s is there: %v, standby %v, master %v", s.conf.Name, there, s.standby, w.master)
		}
		if err := w.rulesOf(s, view.plan.Services[i], pool); err != nil {
			return fmt.Errorf("%s (%s): %w", s.conf.Name, view.plan.Services[i].State, err)
		}
	}
	return nil
}

func (w *world) rulesOf(s *balancedService, st plan.ServiceState, pool ipvs.Pool) error {
	live, total, up, kept := 0, 0, 0, 0
	in := make([]bool, len(s.conf.RealServers))
	for i, r := range s.conf.RealServers {
		in[i] = !w.leaves(s, r.Address) && (w.verdict(s, i) != healthcheck.Down || st.Servers[i].Kept)
		if in[i] {
			live += w.weightOf(s, i)
		}
		if w.leaves(s, r.Address) || w.weightOf(s, i) == 0 {
			continue
		}
		total++
		if in[i] {
			up++
		}
		if st.Servers[i].Kept {
			kept++
		}
	}
	if floor := int(math.Ceil(s.conf.MinUp*float64(total) - 1e-9)); kept > 0 && up > floor {
		return fmt.Errorf("%d failed servers are kept and %d are in, want %d", kept, up, floor)
	}
	q, h := s.conf.Quorum, s.conf.Hysteresis
	if is := st.State == plan.StateUp; live >= q+h && !is || live < max(q-h, 1) && is {
		return fmt.Errorf("state %s with live weight %d, quorum %d, hysteresis %d", st.State, live, q, h)
	}
	if s.standby {
		return nil
	}
	sorry := st.State == plan.StateSorry
	if sorry && (s.conf.Sorry == nil || pool.Destinations[s.conf.Sorry.Address].Weight != 1) {
		return fmt.Errorf("the sorry server is not in")
	}
	for i, r := range s.conf.RealServers {
		d, there := pool.Destinations[r.Address]
		full := w.weightOf(s, i)
		switch {
		case sorry && s.conf.Sorry.Address == r.Address:
			if w.leaves(s, r.Address) && !s.going(r.Address) {
				return fmt.Errorf("%s takes connections as the sorry server, and was told to take none", r.Address)
			}
		case !in[i] || sorry:
			if d.Weight != 0 {
				return fmt.Errorf("%s has weight %d, want none", r.Address, d.Weight)
			}
		case d.Weight != full && !(r.SlowStart > 0 && d.Weight >= 1 && d.Weight < full), !there:
			return fmt.Errorf("%s has weight %d, want %d", r.Address, d.Weight, full)
		}
	}
	return nil
}

// end lets all connections end and all that waits happen; then nothing may be left over.
func (w *world) end() error {
	w.heal()
	w.story = append(w.story, "quiet")
	for range 3 {
		w.silence()
		time.Sleep(15 * time.Second)
	}
	w.mu.Lock()
	w.edited, w.changes = false, nil
	w.mu.Unlock()
	if err := w.judge(w.plan()); err != nil {
		return err
	}
	if err := w.leftovers(); err != nil {
		return err
	}
	if err := w.r.Release(w.t.Context()); err != nil {
		return err
	}
	w.stop()
	if got := w.k.Table(); !got.Equal(w.foreign) {
		return fmt.Errorf("after the stop others' services are not as before")
	}
	return nil
}

// silence ends all connections.
func (w *world) silence() {
	w.mu.Lock()
	clear(w.conns)
	w.mu.Unlock()
	for k, pool := range w.k.Table() {
		for a := range pool.Destinations {
			w.k.SetConnections(ipvs.Target{Service: k, Destination: a}, ipvs.Connections{})
		}
	}
}

// leftovers says what there is that nobody wants any more.
func (w *world) leftovers() error {
	checks := map[string]bool{}
	for i := range w.b.services {
		s := &w.b.services[i]
		if len(s.gone) > 0 {
			return fmt.Errorf("%s still has servers that are configured no more: %v", s.conf.Name, s.gone)
		}
		if s.held == nil {
			for _, keys := range s.keys {
				for _, k := range keys {
					checks[k] = true
				}
			}
		}
		if s.standby {
			continue
		}
		st := w.b.View().plan.Services[i]
		pool := w.k.Table()[keyOf(s.conf)]
		for a, d := range pool.Destinations {
			if d.Weight == 0 && !w.stays(s, st, a) {
				return fmt.Errorf("%s: %s stays with weight 0 and without a connection", s.conf.Name, a)
			}
		}
		for i, r := range s.conf.RealServers {
			if d := pool.Destinations[r.Address]; st.State != plan.StateSorry && w.verdict(s, i) != healthcheck.Down && !w.leaves(s, r.Address) && d.Weight != w.weightOf(s, i) {
				return fmt.Errorf("%s: %s has weight %d at the end, want %d", s.conf.Name, r.Address, d.Weight, w.weightOf(s, i))
			}
		}
	}
	if len(checks) != len(w.checks.states) {
		return fmt.Errorf("the checks %v run; want %v", w.checks.keys(), checks)
	}
	return nil
}

// stays reports whether an entry is to be there with weight 0 though it has no connection.
func (w *world) stays(s *balancedService, st plan.ServiceState, a netip.AddrPort) bool {
	if s.conf.Sorry != nil && s.conf.Sorry.Address == a && s.conf.Sorry.Inhibit {
		return true
	}
	for i, r := range s.conf.RealServers {
		if r.Address == a && !w.leaves(s, a) {
			down := w.verdict(s, i) == healthcheck.Down && !st.Servers[i].Kept
			return r.Inhibit && (!down || s.conf.Protocol != "UDP") || !down && w.weightOf(s, i) == 0
		}
	}
	return false
}
