package daemon

import (
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
)

// missing takes what is not there of static objects and cannot be put back: instances
// that need it are in FAULT meanwhile.
func (d *Daemon) missing(all []host.Missing) {
	d.lacking.Store(&all)
	d.hinder()
}

// hinder tells the router which instances lack something static.
func (d *Daemon) hinder() {
	d.hindrance.tell(func() map[string][]string {
		cfg, _, _ := d.config.get()
		all := d.lacking.Load()
		if cfg == nil || all == nil {
			return nil
		}
		return hindered(cfg.TrackGroups, *all)
	})
}

// hindrance tells what instances lack. What is missing and the configuration change independently of each other.
type hindrance struct {
	mu     sync.Mutex // held while it is told: what is known last must come last
	hinder func(map[string][]string)
}

// tell tells what lacks now says; nil: nothing is known.
func (h *hindrance) tell(lacks func() map[string][]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reasons := lacks(); reasons != nil {
		h.hinder(reasons)
	}
}

// hindered returns, by instance, why it cannot take part.
func hindered(groups []conf.TrackGroup, all []host.Missing) map[string][]string {
	out := map[string][]string{}
	for _, m := range all {
		i := slices.IndexFunc(groups, func(g conf.TrackGroup) bool { return g.Name == m.Group })
		if i < 0 {
			continue
		}
		for _, instance := range groups[i].Members {
			out[instance] = append(out[instance], fmt.Sprintf("static %s is missing: %s (track_group %s)", m.What, m.Why, m.Group))
		}
	}
	return out
}

// settle makes the kernel settings of the configuration.
func (d *Daemon) settle(cfg *conf.Config) {
	want := settings(cfg)
	if !d.settings.Asked(want) {
		return
	}
	state, err := d.netlink.State()
	if err == nil {
		err = d.settings.Want(want, indexes(state))
	}
	if err != nil {
		d.log.Error("promote_secondaries could not be set everywhere", zap.NamedError("err", err))
	}
}

// releaseSettings gives the kernel settings back.
func (d *Daemon) releaseSettings() error {
	if !d.settings.Asked(nil) {
		return nil
	}
	state, err := d.netlink.State()
	if err == nil {
		err = d.settings.Release(indexes(state))
	}
	if err != nil {
		return fmt.Errorf("giving promote_secondaries back: %w", err)
	}
	return nil
}

// indexes returns the index of every interface of a snapshot.
func indexes(s host.State) map[string]int {
	links := make(map[string]int, len(s.Links))
	for name, l := range s.Links {
		links[name] = l.Index
	}
	return links
}

// paths adds the routes and rules of an instance to its status.
func (d *Daemon) paths(s *status.Status, i *status.Instance) {
	for _, p := range d.manager.PathStatus(i.Name) {
		if p.Route != nil {
			i.Routes = append(i.Routes, pathStatus(p))
		} else {
			i.Rules = append(i.Rules, pathStatus(p))
		}
		if p.Problem != "" {
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %s %s: %s", i.Name, p.Kind(), p.Object, p.Problem))
		}
	}
}

func pathStatus(p fib.Status) status.Path {
	out := status.Path{Present: p.Present, Error: p.Problem, TrackGroup: p.Group}
	if p.Route != nil {
		out.Route = p.Object.String()
	} else {
		out.Rule = p.Object.String()
	}
	return out
}

// statics adds what every state has.
func (d *Daemon) statics(s *status.Status, addresses host.InstanceStatus) {
	for _, a := range addresses.Addresses {
		out := status.Address{Address: a.Address.Prefix.String(), Interface: a.Dev, Present: a.Present}
		if a.Err != nil {
			out.Error = a.Err.Error()
		}
		s.StaticAddresses = append(s.StaticAddresses, out)
	}
	for _, p := range d.manager.PathStatus("") {
		if p.Route != nil {
			s.StaticRoutes = append(s.StaticRoutes, pathStatus(p))
		} else {
			s.StaticRules = append(s.StaticRules, pathStatus(p))
		}
	}
	if all := d.lacking.Load(); all != nil {
		for _, m := range *all {
			s.Alarms = append(s.Alarms, fmt.Sprintf("static %s is missing: %s", m.What, m.Why))
		}
	}
}
