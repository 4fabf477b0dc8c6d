package fib

import (
	"net/netip"
	"slices"
	"time"
)

// Object is one route or one rule.
type Object struct {
	Route *Route `json:"route,omitempty"` // one of the two
	Rule  *Rule  `json:"rule,omitempty"`
}

// String returns the object as a line of ip(8), without "ip route add".
func (o Object) String() string {
	if o.Route != nil {
		return o.Route.String()
	}
	return o.Rule.String()
}

// Kind is "route" or "rule".
func (o Object) Kind() string {
	if o.Route != nil {
		return "route"
	}
	return "rule"
}

// key tells objects apart.
func (o Object) key() string { return o.Kind() + " " + o.String() }

// marked reports whether the object carries the mark of vipd.
func (o Object) marked() bool {
	if o.Route != nil {
		return o.Route.Protocol == Protocol
	}
	return o.Rule.Protocol == Protocol
}

// Query names a table to read. Rules are always read as a whole.
type Query struct {
	IPv6     bool
	Table    uint32
	Protocol uint8 // 0: any
}

// covers reports whether a reading by q shows what one by o would.
func (q Query) covers(o Query) bool {
	return q.IPv6 == o.IPv6 && q.Table == o.Table && (q.Protocol == 0 || q.Protocol == o.Protocol)
}

// State is one reading of routes and rules. It is immutable.
type State struct {
	At      time.Time // when the reading began
	Queries []Query   // what was read
	Routes  []Route
	Rules   []Rule
}

// Equal reports whether two readings show the same. Either may be nil.
func (s *State) Equal(o *State) bool {
	if s == nil || o == nil {
		return s == o
	}
	return slices.Equal(s.Queries, o.Queries) && slices.Equal(s.Rules, o.Rules) &&
		slices.EqualFunc(s.Routes, o.Routes, func(a, b Route) bool {
			return a.Type == b.Type && a.Dst == b.Dst && a.Table == b.Table && a.Metric == b.Metric && a.TOS == b.TOS && a.Scope == b.Scope &&
				a.Protocol == b.Protocol && a.Src == b.Src && slices.Equal(a.Hops, b.Hops) && slices.Equal(a.Metrics, b.Metrics)
		})
}

// covers reports whether the reading shows the tables of a query.
func (s *State) covers(q Query) bool {
	return slices.ContainsFunc(s.Queries, func(o Query) bool { return o.covers(q) })
}

// found is what a reading has of an object.
type found struct {
	all   bool
	parts []Route // what is left of it
}

// finder looks objects up in a reading.
type finder struct {
	state  *State
	routes map[destination][]int
}

type destination struct {
	dst   netip.Prefix
	table uint32
}

func (s *State) finder() *finder {
	f := &finder{state: s, routes: make(map[destination][]int, len(s.Routes))}
	for i := range s.Routes {
		d := destination{s.Routes[i].Dst, s.Routes[i].Table}
		f.routes[d] = append(f.routes[d], i)
	}
	return f
}

// find looks for an object whose table is settled.
func (f *finder) find(o Object, others bool) (got found) {
	if o.Rule != nil {
		got.all = slices.ContainsFunc(f.state.Rules, func(r Rule) bool { return o.Rule.same(&r, others) })
		return got
	}
	for _, i := range f.routes[destination{o.Route.Dst, o.Route.Table}] {
		switch have := &f.state.Routes[i]; o.Route.compare(have, others) {
		case showsAll:
			got.all = true
		case showsPart:
			part := *have
			part.Hops = slices.DeleteFunc(slices.Clone(have.Hops), func(h Hop) bool { return !o.Route.has(h) })
			got.parts = append(got.parts, part)
		}
	}
	return got
}
