package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/override"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/reconcile"
)

// Order implements control.Daemon.
func (d *Daemon) Order(_ context.Context, o control.Order) (string, error) {
	text, err := d.balance.Order(o)
	if err == nil {
		d.log.Info("told about servers", zap.String("by", o.By), zap.String("order", text))
	}
	return text, err
}

// Order implements control.Daemon.
func (o *observation) Order(context.Context, control.Order) (string, error) {
	return "", errors.New("vipd observes and changes nothing: tell keepalived, or run vipd without --observe")
}

// Recall reads what servers were told before, and keeps in the file what they will be.
func (b *balancer) Recall(file string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file = file
	all, err := override.Load(file)
	if err != nil {
		b.problem = err.Error()
		b.log.Error("overrides cannot be read", zap.NamedError("err", err))
	}
	b.overrides = all
}

// toldOf returns what a server was told. Called with mu held.
func (b *balancer) toldOf(id serviceID, a netip.AddrPort) []override.Record {
	return toldOf(b.overrides, id, a)
}

func toldOf(all []override.Record, id serviceID, a netip.AddrPort) (out []override.Record) {
	for _, o := range all {
		if o.Server == a.String() && o.Service == id.String() {
			out = append(out, o)
		}
	}
	return out
}

// told0 reports whether a server has weight 0, or is out, because it was told so.
func (b *balancer) told0(id serviceID, a netip.AddrPort) bool {
	return slices.ContainsFunc(b.toldOf(id, a), func(o override.Record) bool { return o.Kind != override.Weight || o.Weight == 0 })
}

// quiet reports whether nobody is to be told of a server's health. Called with mu held.
func (b *balancer) quiet(id serverID) bool {
	return slices.ContainsFunc(b.toldOf(id.service, id.address), func(o override.Record) bool { return o.Kind == override.Maintenance })
}

// dropOverrides forgets what servers were told that are configured no more. Called with mu held.
func (b *balancer) dropOverrides() {
	rest := slices.DeleteFunc(slices.Clone(b.overrides), func(o override.Record) bool {
		known := slices.ContainsFunc(b.servers, func(v conf.VirtualServer) bool {
			return identity(&v).String() == o.Service && slices.ContainsFunc(v.RealServers, func(r conf.RealServer) bool { return r.Address.String() == o.Server })
		})
		if !known {
			b.log.Warn("what a server was told is forgotten: it is configured no more", zap.String("service", o.Service),
				zap.String("dest", o.Server), zap.String("override", string(o.Kind)), zap.String("by", o.By))
		}
		return !known
	})
	if len(rest) == len(b.overrides) {
		return
	}
	if err := b.keep(rest); err != nil {
		b.log.Error("overrides cannot be kept", zap.NamedError("err", err))
	}
	b.overrides = rest
}

// keep writes the file.
func (b *balancer) keep(all []override.Record) error {
	if b.file == "" {
		return nil
	}
	return override.Save(b.file, all)
}

// chosen is a server in a service that an order is about.
type chosen struct {
	service *conf.VirtualServer
	address netip.AddrPort
}

// Order does what an operator tells, and says what follows from it in a line a server.
func (b *balancer) Order(o control.Order) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return "", errStopped
	}
	servers, err := b.choose(o.Server, o.Service)
	if err != nil {
		return "", err
	}
	all, now := slices.Clone(b.overrides), time.Now()
	var lines []string
	for _, c := range servers {
		var line string
		if all, line, err = change(all, o, c, now); err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s in %s: %s", serverText(c.service, c.address), c.service.Name, line))
	}
	if err := b.keep(all); err != nil {
		return "", fmt.Errorf("%w; nothing was changed", err)
	}
	b.overrides = all
	b.apply(b.look(), reconcile.Status{})
	for i, c := range servers {
		instance, here := b.places.follows(c.service)
		switch {
		case !here:
			lines[i] += fmt.Sprintf("; %s is not MASTER here: tell the director that is, too", instance)
		case !slices.ContainsFunc(serviceKeys(c.service), b.memory.Usable):
			lines[i] += "; NOBODY takes new connections of this service now"
		}
	}
	return strings.Join(lines, "\n"), nil
}

// choose finds the servers that an order is about.
func (b *balancer) choose(server, service string) ([]chosen, error) {
	match, err := serverMatch(server)
	if err != nil {
		return nil, err
	}
	var out []chosen
	var known, open []string // open: those that have no port of their own
	found := service == ""
	for i := range b.servers {
		v := &b.servers[i]
		if service != "" && service != v.Name && service != identity(v).String() && service != v.Address.String() && service != v.Group {
			continue
		}
		found = true
		for _, r := range v.RealServers {
			if match(r.Address) {
				out = append(out, chosen{v, r.Address})
			}
			known = append(known, serverText(v, r.Address))
			if r.Address.Port() == 0 && match(netip.AddrPortFrom(r.Address.Addr(), portOf(server))) {
				open = append(open, serverText(v, r.Address)+" in "+identity(v).String())
			}
		}
	}
	if !found {
		if v := b.member(service); v != nil {
			return nil, fmt.Errorf("%s is one of the services of %s, which have their servers in common: say --service %q", service, identity(v), v.Name)
		}
		var names []string
		for i := range b.servers {
			names = append(names, b.servers[i].Name)
		}
		return nil, fmt.Errorf("there is no virtual_server %q; there are: %s", service, some(names))
	}
	if out == nil && open != nil {
		return nil, fmt.Errorf("%s has no port of its own, it is at that of each service: leave the port out", some(open))
	}
	if out == nil {
		slices.Sort(known)
		return nil, fmt.Errorf("no virtual_server has the real server %s; there are: %s", server, some(slices.Compact(known)))
	}
	return out, nil
}

// member finds the virtual server of a group that has a service. Called with mu held.
func (b *balancer) member(service string) *conf.VirtualServer {
	for i := range b.servers {
		v := &b.servers[i]
		if v.Group != "" && slices.ContainsFunc(serviceKeys(v), func(k ipvs.Key) bool {
			return k.String() == service || k.FWMark == 0 && k.Address.String() == service
		}) {
			return v
		}
	}
	return nil
}

// some lists a few of many names.
func some(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// portOf is the port in an order, 0 where it has none.
func portOf(server string) uint16 {
	a, _ := netip.ParseAddrPort(server) // one without is none
	return a.Port()
}

func serverMatch(server string) (func(netip.AddrPort) bool, error) {
	if a, err := netip.ParseAddrPort(server); err == nil {
		return func(r netip.AddrPort) bool { return r == a }, nil
	}
	a, err := netip.ParseAddr(strings.Trim(server, "[]"))
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a server: write 10.0.0.21, 10.0.0.21:80 or [2001:db8::21]:80", server)
	}
	return func(r netip.AddrPort) bool { return r.Addr() == a }, nil
}

// change returns the overrides after an order about one server, and what it does.
func change(all []override.Record, o control.Order, c chosen, now time.Time) ([]override.Record, string, error) {
	r := override.Record{Service: identity(c.service).String(), Server: c.address.String(), By: o.By, At: now.UTC().Truncate(time.Second)}
	drop := func(kind override.Kind) (was bool) {
		r.Kind = kind
		n := len(all)
		all = slices.DeleteFunc(all, r.Same)
		return len(all) < n
	}
	limit := func() time.Time {
		most := c.service.DrainMax
		if o.Max != nil {
			most = *o.Max
		}
		if most <= 0 {
			return time.Time{}
		}
		return now.UTC().Add(most)
	}
	const leaves = "takes no new connections and goes when it has none, "
	switch {
	case o.Action == control.Drain:
		drop(override.Drain)
		r.Until = limit()
		return append(all, r), leaves + how(r.Until), nil
	case o.Action == control.Maintenance && o.On:
		drop(override.Maintenance)
		r.Until = limit()
		return append(all, r), "maintenance: " + leaves + how(r.Until), nil
	case o.Action == control.Undrain:
		was := drop(override.Drain)
		return ended(all, r, was, "drained")
	case o.Action == control.Maintenance:
		was := drop(override.Maintenance)
		return ended(all, r, was, "in maintenance")
	case o.Action == control.Weight && o.Weight != nil && (*o.Weight < 0 || *o.Weight > override.MaxWeight):
		return nil, "", fmt.Errorf("weight %d is not in 0..%d", *o.Weight, override.MaxWeight)
	case o.Action == control.Weight && o.Weight != nil:
		drop(override.Weight)
		r.Weight = *o.Weight
		return append(all, r), fmt.Sprintf("weight %d", r.Weight), nil
	case o.Action == control.Weight:
		drop(override.Weight)
		i := slices.IndexFunc(c.service.RealServers, func(s conf.RealServer) bool { return s.Address == c.address })
		return all, fmt.Sprintf("weight %d, as configured", c.service.RealServers[i].Weight), nil
	}
	return nil, "", fmt.Errorf("unknown order %q: are vipd and the command of one version?", o.Action)
}

// ended says what became of a server that may take connections again.
func ended(all []override.Record, r override.Record, was bool, what string) ([]override.Record, string, error) {
	for _, o := range all {
		if o.Service == r.Service && o.Server == r.Server && o.Kind != override.Weight {
			return all, fmt.Sprintf("stays out: it has %s since %s by %s", map[override.Kind]string{
				override.Drain: "a drain", override.Maintenance: "maintenance"}[o.Kind], o.At.Local().Format("2006-01-02 15:04:05"), o.By), nil
		}
	}
	if !was {
		return all, "was not " + what, nil
	}
	return all, "takes connections again if its checks pass", nil
}
