package hosttest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
)

var _ host.Tables = (*Kernel)(nil)

// AddObject implements host.Tables.
func (k *Kernel) AddObject(o fib.Object) error {
	return k.object(OpAdd, o, func() error {
		if o.Rule != nil {
			if slices.Contains(k.rules, *o.Rule) {
				return unix.EEXIST
			}
			k.rules = append(k.rules, *o.Rule)
			slices.SortStableFunc(k.rules, func(a, b fib.Rule) int { return int(int64(a.Priority) - int64(b.Priority)) })
			return nil
		}
		return k.addRoute(*o.Route)
	})
}

// DelObject implements host.Tables.
func (k *Kernel) DelObject(o fib.Object) error {
	return k.object(OpDel, o, func() error {
		if o.Rule != nil {
			i := slices.Index(k.rules, *o.Rule)
			if i < 0 {
				return unix.ENOENT
			}
			k.rules = slices.Delete(k.rules, i, i+1)
			return nil
		}
		return k.delRoute(*o.Route)
	})
}

func (k *Kernel) object(op Op, o fib.Object, do func() error) error {
	k.mu.Lock()
	err := k.fault(op, netip.Prefix{}, o.String())
	if err == nil {
		err = do()
	}
	entry := fmt.Sprintf("%s %s %s", op, o.Kind(), o)
	if err != nil {
		entry += ": " + err.Error()
		err = fmt.Errorf("%s %s: %w", op, o, err)
	}
	k.writes = append(k.writes, entry)
	changed := k.changed
	k.mu.Unlock()
	if err == nil && changed != nil {
		changed()
	}
	return err
}

// Tables implements host.Tables.
func (k *Kernel) Tables(queries []fib.Query) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queries = queries
}

// readFIB returns what is asked for. Called with mu held.
func (k *Kernel) readFIB() *fib.State {
	if k.queries == nil {
		return nil
	}
	s := &fib.State{At: time.Now(), Queries: k.queries, Rules: slices.Clone(k.rules)}
	for _, r := range k.routes {
		if slices.ContainsFunc(k.queries, func(q fib.Query) bool {
			return q.IPv6 == r.IPv6() && q.Table == r.Table && (q.Protocol == 0 || q.Protocol == r.Protocol)
		}) {
			r.Hops = slices.Clone(r.Hops)
			s.Routes = append(s.Routes, r)
		}
	}
	return s
}

// AddPath adds a route or rule as somebody else; interfaces go by name.
func (k *Kernel) AddPath(o fib.Object) error {
	return k.hand(func() error {
		if o.Rule != nil {
			k.rules = append(k.rules, *o.Rule)
			return nil
		}
		return k.addRoute(*o.Route)
	})
}

// DelPath removes the route or rule that prints like this, as somebody else.
func (k *Kernel) DelPath(line string) error {
	return k.hand(func() error {
		n := len(k.routes) + len(k.rules)
		k.routes = slices.DeleteFunc(k.routes, func(r fib.Route) bool { return r.String() == line })
		k.rules = slices.DeleteFunc(k.rules, func(r fib.Rule) bool { return r.String() == line })
		if len(k.routes)+len(k.rules) == n {
			return unix.ESRCH
		}
		return nil
	})
}

// Paths prints all routes, then all rules, a line each.
func (k *Kernel) Paths() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for _, r := range k.routes {
		b.WriteString("route " + r.String() + "\n")
	}
	for _, r := range k.rules {
		b.WriteString("rule " + r.String() + "\n")
	}
	return b.String()
}

// addRoute does what the kernel does to a new route.
func (k *Kernel) addRoute(r fib.Route) error {
	r.Hops, r.VRF = slices.Clone(r.Hops), ""
	if r.IPv6() && r.Metric == 0 {
		r.Metric = 1024
	}
	for i := range r.Hops {
		if err := k.hop(&r, &r.Hops[i]); err != nil {
			return err
		}
	}
	if r.Src.IsValid() && !k.local(r.Src) {
		return unix.EINVAL
	}
	place := r.Place
	r.Place = 0
	at := len(k.routes)
	for i := range k.routes {
		o := &k.routes[i]
		if o.Dst != r.Dst || o.Table != r.Table || o.Metric != r.Metric || o.TOS != r.TOS {
			continue
		}
		switch {
		case place == fib.Alone:
			return unix.EEXIST
		case r.IPv6() && len(r.Hops) > 0:
			return merge(o, r)
		case o.String() == r.String():
			return unix.EEXIST
		case place == fib.Prepend && i < at:
			at = i
		}
	}
	k.routes = slices.Insert(k.routes, at, r)
	return nil
}

// hop checks one next hop and fills in its interface.
func (k *Kernel) hop(r *fib.Route, h *fib.Hop) error {
	var l *link
	for _, c := range k.links {
		if c.Index == h.Index || h.Index == 0 && (c.Name == h.Dev || h.Dev == "" && c.reaches(h.Via)) {
			l = c
		}
	}
	unreachable := unix.ENETUNREACH
	if r.IPv6() {
		unreachable = unix.EHOSTUNREACH
	}
	switch gateway := h.Via.IsValid() && !h.OnLink; {
	case gateway && (l == nil || !l.Up || !l.reaches(h.Via)):
		return unreachable
	case l == nil:
		return unix.ENODEV
	case !l.Up:
		return unix.ENETDOWN
	}
	h.Dev, h.Index = l.Name, l.Index
	return nil
}

// reaches reports whether an address is in a network of the interface.
func (l *link) reaches(via netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(a host.Addr) bool {
		return a.Prefix.Masked().Contains(via) && a.Prefix.Addr() != via
	})
}

func (k *Kernel) local(ip netip.Addr) bool {
	for _, l := range k.links {
		if slices.ContainsFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix.Addr() == ip }) {
			return true
		}
	}
	return false
}

// merge adds next hops to an IPv6 route with the same destination and metric.
func merge(o *fib.Route, r fib.Route) error {
	for _, h := range r.Hops {
		if slices.ContainsFunc(o.Hops, func(x fib.Hop) bool { return x.Via == h.Via && x.Dev == h.Dev }) {
			return unix.EEXIST
		}
	}
	o.Hops = append(o.Hops, r.Hops...)
	return nil
}

// delRoute removes the first route that is as described.
func (k *Kernel) delRoute(r fib.Route) error {
	if r.IPv6() && r.Metric == 0 {
		r.Metric = 1024
	}
	fits := func(a, b fib.Hop) bool { // a of the kernel
		return a.Via == b.Via && (b.Dev == "" || a.Dev == b.Dev)
	}
	for i := range k.routes {
		o := &k.routes[i]
		if o.Dst != r.Dst || o.Table != r.Table || o.Metric != r.Metric || o.TOS != r.TOS || o.Type != r.Type {
			continue
		}
		if r.IPv6() && len(r.Hops) > 0 {
			n := len(o.Hops)
			o.Hops = slices.DeleteFunc(o.Hops, func(x fib.Hop) bool {
				return slices.ContainsFunc(r.Hops, func(h fib.Hop) bool { return fits(x, h) })
			})
			if len(o.Hops) == n {
				continue
			}
			if len(o.Hops) == 0 {
				k.routes = slices.Delete(k.routes, i, i+1)
			}
			return nil
		}
		if o.Protocol == r.Protocol && o.Scope == r.Scope && (!r.Src.IsValid() || o.Src == r.Src) && slices.EqualFunc(o.Hops, r.Hops, fits) {
			k.routes = slices.Delete(k.routes, i, i+1)
			return nil
		}
	}
	return unix.ESRCH
}

// settle drops what cannot be any more after a change of interfaces or addresses. Of a
// route with several next hops those on links that are down stay as long as one lives.
// With an interface goes the whole IPv4 route, of an IPv6 one that next hop.
func (k *Kernel) settle() {
	for i := range k.routes {
		if r := &k.routes[i]; !k.alive(r) {
			r.Type = 0
		}
	}
	k.routes = slices.DeleteFunc(k.routes, func(r fib.Route) bool { return r.Type == 0 })
}

// alive settles one route and reports whether it stays.
func (k *Kernel) alive(r *fib.Route) bool {
	if r.Src.IsValid() && !k.local(r.Src) {
		switch {
		case r.IPv6():
			r.Src = netip.Addr{}
		case r.Table == fib.MainTable:
			return false
		}
	}
	if len(r.Hops) == 0 {
		return true
	}
	if r.IPv6() {
		r.Hops = slices.DeleteFunc(r.Hops, func(h fib.Hop) bool { return k.byIndex(h.Index) == nil })
	}
	up := false
	for i := range r.Hops {
		h := &r.Hops[i]
		l := k.byIndex(h.Index)
		if l == nil {
			return false
		}
		up = up || l.Up && (r.IPv6() || l.has4()) // the last IPv4 address takes the routes with it
	}
	return up
}

func (l *link) has4() bool {
	return slices.ContainsFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix.Addr().Is4() })
}
