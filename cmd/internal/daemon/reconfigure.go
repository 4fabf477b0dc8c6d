package daemon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs/reconcile"
)

// remaking is a change of the configuration in the making. Of thousands of servers few change at a time: a service that
// is what it was keeps its checks, and only those of all others are made and named anew.
type remaking struct {
	*balancer
	inherited map[serverID]healthcheck.Verdict // of servers that were found in the kernel
	snapshot  map[string]run.Status
	old       map[serviceID]*balancedService
	checks    *shared
	leaving   map[string]bool // names of the checks of services that do not stay
	touched   map[string]bool // what is asked by these, and by the checks that come
}

// configure makes the checks of servers, some of which inherit verdicts, and the table. Called with mu held.
func (b *balancer) configure(configured []conf.VirtualServer, inherited map[serverID]healthcheck.Verdict) error {
	m := remaking{
		balancer: b, inherited: inherited, snapshot: b.look(), old: b.byID(), leaving: map[string]bool{}, touched: map[string]bool{},
	}
	servers, gone := b.withGone(configured, m.old)
	kept := m.keep(servers, gone)
	n := 0
	for i := range servers {
		for j := range servers[i].RealServers {
			if !kept[i] {
				n += len(servers[i].RealServers[j].Checks)
			}
		}
	}
	m.checks = newShared(b.named, m.touched, m.snapshot, n)
	services := make([]balancedService, len(servers))
	for i := range servers {
		v := &servers[i]
		if kept[i] {
			services[i] = *m.old[identity(v)]
			services[i].conf, services[i].standby = v, b.places.standby(v)
			continue
		}
		var err error
		if services[i], err = m.service(v, gone[i]); err != nil {
			return err
		}
	}
	jobs := m.checks.all()
	b.local.watch(m.checks.files())
	switch err := b.checks.Configure(jobs, func(name string) bool { return !m.leaving[name] }); {
	case errors.Is(err, run.ErrLingering):
		b.log.Warn("a health check does not end; its results are ignored", zap.NamedError("err", err))
	case err != nil:
		return fmt.Errorf("configuring health checks: %w", err)
	}
	for name := range m.leaving {
		delete(b.named, name)
	}
	if len(b.named) == 0 {
		b.named = m.checks.now
	} else {
		maps.Copy(b.named, m.checks.now)
	}
	left := b.services
	b.servers, b.services = configured, services
	b.tellGone(left)
	b.apply(b.look(), reconcile.Status{})
	return nil
}

// byID returns the services by what they are known by. Called with mu held.
func (b *balancer) byID() map[serviceID]*balancedService {
	out := make(map[serviceID]*balancedService, len(b.services))
	for i := range b.services {
		out[b.services[i].id] = &b.services[i]
	}
	return out
}

// keep says which services stay as they are. None of their checks asks what one asks that changes, comes or goes: so
// they have no part in how those are shared and named.
func (m *remaking) keep(servers []conf.VirtualServer, gone []map[netip.AddrPort]departure) (kept []bool) {
	kept = make([]bool, len(servers))
	stays := make(map[serviceID]bool, len(servers))
	for i := range servers {
		v := &servers[i]
		old := m.old[identity(v)]
		kept[i] = old != nil && gone[i] == nil && m.simple(old) && reflect.DeepEqual(old.conf, v)
		stays[identity(v)] = kept[i]
		if !kept[i] {
			m.touch(v)
		}
	}
	for id, s := range m.old {
		if !stays[id] {
			m.leave(s)
		}
	}
	for again := true; again; {
		again = false
		for i := range servers {
			if s := m.old[identity(&servers[i])]; kept[i] && s.uses(m.touched) {
				kept[i], again = false, true
				m.leave(s)
			}
		}
	}
	return kept
}

// simple reports whether a service follows from its configuration alone: nothing in it depends on users of this machine,
// on files or on addresses, none of its servers leaves, and none of its checks has a name with a number, which might have
// become another one.
func (m *remaking) simple(s *balancedService) bool {
	if s.gone != nil || s.held != nil || s.conf.HASuspend || s.run.any() {
		return false
	}
	for i, keys := range s.keys {
		for j, name := range keys {
			if localCheckers[s.conf.RealServers[i].Checks[j].Kind] != nil || m.named[name].key != name {
				return false
			}
		}
	}
	return true
}

// leave notes the checks of a service that does not stay as it is.
func (m *remaking) leave(s *balancedService) {
	for _, keys := range s.keys {
		for _, name := range keys {
			if name != "" {
				m.leaving[name], m.touched[m.named[name].key] = true, true
			}
		}
	}
}

// touch notes what the checks of a service ask.
func (m *remaking) touch(v *conf.VirtualServer) {
	if len(m.old) == 0 {
		return // there is nothing to keep
	}
	for i := range v.RealServers {
		checks := v.RealServers[i].Checks
		for j := range checks {
			// What is wrong with a check is said when it is made.
			if key, _, err := m.local.checker(&checks[j]); err == nil {
				m.touched[key] = true
			}
		}
	}
}

// uses reports whether one of the checks of a service is among these.
func (s *balancedService) uses(keys map[string]bool) bool {
	return slices.ContainsFunc(s.keys, func(of []string) bool {
		return slices.ContainsFunc(of, func(key string) bool { return keys[key] })
	})
}

// service makes a service anew, with what is known of its servers.
func (m *remaking) service(v *conf.VirtualServer, gone map[netip.AddrPort]departure) (balancedService, error) {
	s := balancedService{
		conf: v, id: identity(v), keys: make([][]string, len(v.RealServers)), servers: make([]knownServer, len(v.RealServers)),
		run: newServiceCommands(m.global, v), gone: gone, standby: m.places.standby(v),
	}
	if m.places.suspended(v) {
		s.held = make([]healthcheck.Verdict, len(s.keys))
	}
	old, was := m.old[s.id], map[netip.AddrPort]int{}
	if old != nil {
		for i := range old.conf.RealServers {
			was[old.conf.RealServers[i].Address] = i
		}
	}
	text := s.id.String()
	for i := range v.RealServers {
		a := v.RealServers[i].Address
		before, known := m.inherited[serverID{s.id, a}]
		var ran []string
		if o, there := was[a]; there {
			ran, s.servers[i] = old.keys[o], old.servers[o]
			if !known {
				before, known = old.verdict(o, m.snapshot), true
			}
		}
		if known && before == healthcheck.Unknown && alpha(&v.RealServers[i]) {
			before = healthcheck.Up // it is not new, and takes connections
		}
		if err := m.addChecks(&s, text, i, before, ran); err != nil {
			return s, err
		}
	}
	return s, nil
}

// addChecks asks for the checks of a server, or keeps its verdict where none are to run. before and ran are its verdict
// and the names of its checks until now, text is the service.
func (m *remaking) addChecks(s *balancedService, text string, i int, before healthcheck.Verdict, ran []string) error {
	r := &s.conf.RealServers[i]
	s.keys[i] = make([]string, len(r.Checks))
	for j := range r.Checks {
		job, err := m.local.job(text, r, &r.Checks[j], before)
		if err != nil {
			return err
		}
		switch {
		case s.held == nil:
			m.checks.add(job, request{server: before, before: ran, file: r.Checks[j].File, name: &s.keys[i][j]})
		case job.Inherit != healthcheck.Unknown:
			s.held[i] = job.Inherit
		}
	}
	return nil
}
