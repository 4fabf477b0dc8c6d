package fib

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Numbers of rtnetlink.
const (
	Protocol    uint8  = 18   // RTPROT_KEEPALIVED: the mark of what vipd adds
	MainTable   uint32 = 254  // RT_TABLE_MAIN
	metric6     uint32 = 1024 // what the kernel makes of an IPv6 route without metric
	Unicast     uint8  = 1    // RTN_UNICAST
	Local       uint8  = 2    // RTN_LOCAL
	Blackhole   uint8  = 6    // RTN_BLACKHOLE
	Unreachable uint8  = 7    // RTN_UNREACHABLE
	Prohibit    uint8  = 8    // RTN_PROHIBIT
	Throw       uint8  = 9    // RTN_THROW
	hopLimit    uint16 = 10   // RTAX_HOPLIMIT
)

// TypeNames are the types of routes by their names.
var TypeNames = map[string]uint8{"unicast": Unicast, "local": Local, "blackhole": Blackhole, "unreachable": Unreachable, "prohibit": Prohibit, "throw": Throw}

// MetricIDs are RTAX_* by name.
var MetricIDs = map[string]uint16{
	"mtu": 2, "window": 3, "ssthresh": 6, "cwnd": 7, "advmss": 8, "reordering": 9, "hoplimit": hopLimit, "initcwnd": 11, "rto_min": 13, "initrwnd": 14, "quickack": 15,
}

// Place says where a route goes beside an equal one of others (IPv4).
type Place uint8

// The places.
const (
	Prepend Place = iota // before it
	Append               // after it
	Alone                // nowhere: an error
)

// Route is one route, as it is wanted or as the kernel has it.
type Route struct {
	Type     uint8        `json:"type"` // RTN_*
	Dst      netip.Prefix `json:"dst"`
	Table    uint32       `json:"table,omitempty"`
	VRF      string       `json:"vrf,omitempty"` // of a wanted one: the table of this VRF in place of Table
	Metric   uint32       `json:"metric,omitempty"`
	TOS      uint8        `json:"tos,omitempty"`
	Scope    uint8        `json:"scope,omitempty"` // IPv4 only
	Protocol uint8        `json:"protocol"`
	Src      netip.Addr   `json:"src,omitzero"`
	Hops     []Hop        `json:"hops,omitempty"`
	Metrics  []Metric     `json:"metrics,omitempty"`
	Place    Place        `json:"place,omitempty"` // of a wanted one
}

// Hop is one next hop.
type Hop struct {
	Via    netip.Addr `json:"via,omitzero"`
	Dev    string     `json:"dev,omitempty"`
	Index  int        `json:"-"` // of Dev, in a reading
	Weight int        `json:"weight,omitempty"`
	OnLink bool       `json:"onlink,omitempty"`
}

// Metric is a number of a route beside its metric.
type Metric struct {
	ID    uint16 `json:"id"` // RTAX_*
	Value uint32 `json:"value"`
	Lock  bool   `json:"lock,omitempty"`
}

// IPv6 reports the family.
func (r *Route) IPv6() bool { return r.Dst.Addr().Is6() }

// leads reports whether the route has next hops.
func (r *Route) leads() bool { return r.Type == Unicast || r.Type == Local }

// devs returns the interfaces that the route names.
func (r *Route) devs() []string {
	var names []string
	for _, h := range r.Hops {
		if h.Dev != "" {
			names = append(names, h.Dev)
		}
	}
	return names
}

// String returns the route as ip(8) writes it. What vipd's own routes have in common is
// left out.
func (r *Route) String() string {
	var w []string
	add := func(words ...string) { w = append(w, words...) }
	number := func(name string, n uint32) {
		if n != 0 {
			add(name, strconv.FormatUint(uint64(n), 10))
		}
	}
	if r.Type != Unicast {
		add(nameOf(TypeNames, r.Type))
	}
	add(r.Dst.String())
	if len(r.Hops) == 1 {
		add(r.Hops[0].words(r.IPv6(), false)...)
	}
	if r.VRF != "" {
		add("vrf", r.VRF)
	} else if r.Table != MainTable {
		number("table", r.Table)
	}
	number("metric", r.Metric)
	if r.TOS != 0 {
		add("tos", fmt.Sprintf("0x%02x", r.TOS))
	}
	if r.Src.IsValid() {
		add("src", r.Src.String())
	}
	if r.Protocol != Protocol {
		number("proto", uint32(r.Protocol))
	}
	if !r.IPv6() && r.Scope != usualScope(r) {
		add("scope", strconv.Itoa(int(r.Scope)))
	}
	for _, m := range r.Metrics {
		add(nameOf(MetricIDs, m.ID))
		if m.Lock {
			add("lock")
		}
		add(strconv.FormatUint(uint64(m.Value), 10))
	}
	if len(r.Hops) > 1 {
		for _, h := range r.Hops {
			add("nexthop")
			add(h.words(r.IPv6(), true)...)
		}
	}
	return strings.Join(w, " ")
}

// usualScope is the scope that ip(8) gives an IPv4 route.
func usualScope(r *Route) uint8 {
	switch {
	case r.Type == Local:
		return 254
	case r.Type == Unicast && !slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.Via.IsValid() }):
		return 253
	}
	return 0
}

func nameOf[N comparable](names map[string]N, n N) string {
	for name, v := range names {
		if v == n {
			return name
		}
	}
	return fmt.Sprint(n)
}

func (h Hop) words(ipv6, several bool) []string {
	var w []string
	if h.Via.IsValid() {
		w = append(w, "via")
		if !ipv6 && h.Via.Is6() {
			w = append(w, "inet6")
		}
		w = append(w, h.Via.String())
	}
	if h.Dev != "" {
		w = append(w, "dev", h.Dev)
	}
	if several {
		w = append(w, "weight", strconv.Itoa(h.Weight))
	}
	if h.OnLink {
		w = append(w, "onlink")
	}
	return w
}

// shows says how a route of the kernel relates to a wanted one.
type shows uint8

const (
	showsOther shows = iota // another route
	showsPart               // what is left of it: to be replaced
	showsAll                // it
)

// compare relates a route of the kernel to r, a wanted one with its table settled. others
// says that it may be of any protocol.
func (r *Route) compare(have *Route, others bool) shows {
	metric := r.Metric
	if r.IPv6() && metric == 0 {
		metric = metric6
	}
	merged := r.IPv6() && r.leads() && len(have.Hops) > len(r.Hops) // a next hop of a route that others have
	if r.Type != have.Type || r.Dst != have.Dst || r.Table != have.Table || metric != have.Metric || r.TOS != have.TOS ||
		!others && !merged && r.Protocol != have.Protocol {
		return showsOther
	}
	if r.IPv6() {
		return r.compare6(have, merged)
	}
	if r.Scope != have.Scope || r.Src != have.Src || !slices.Equal(r.Metrics, have.Metrics) {
		return showsOther
	}
	if !r.leads() {
		return showsAll
	}
	if len(r.Hops) != len(have.Hops) {
		return showsOther
	}
	for i, h := range r.Hops {
		if !h.equal(have.Hops[i], len(r.Hops) > 1) {
			return showsOther
		}
	}
	return showsAll
}

// compare6 is compare for IPv6, where the kernel takes next hops, and the source, off a
// route one by one.
func (r *Route) compare6(have *Route, merged bool) shows {
	same := slices.EqualFunc(r.Metrics, slices.DeleteFunc(slices.Clone(have.Metrics), func(m Metric) bool {
		return m.ID == hopLimit && !slices.ContainsFunc(r.Metrics, func(w Metric) bool { return w.ID == hopLimit })
	}), func(a, b Metric) bool { return a == b })
	if !merged && (!same || r.Src.IsValid() && have.Src.IsValid() && r.Src != have.Src) {
		return showsOther
	}
	if !r.leads() {
		return showsAll
	}
	found := 0
	for _, h := range r.Hops {
		if slices.ContainsFunc(have.Hops, func(o Hop) bool { return h.equal(o, len(r.Hops) > 1) }) {
			found++
		}
	}
	switch {
	case found == len(r.Hops) && (merged || r.Src == have.Src): // of a merged one the source is that of its first next hop
		return showsAll
	case found == 0 || merged || r.Protocol != have.Protocol:
		return showsOther
	}
	return showsPart
}

// has reports whether a next hop of the kernel is one of r.
func (r *Route) has(have Hop) bool {
	return slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.equal(have, len(r.Hops) > 1) })
}

// equal compares a wanted next hop with one of the kernel.
func (h Hop) equal(have Hop, weighted bool) bool {
	return h.Via == have.Via && (h.Dev == "" || h.Dev == have.Dev) && (!weighted || h.Weight == have.Weight) && h.OnLink == have.OnLink
}
