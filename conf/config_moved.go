package conf

import "net/netip"

// Route is one line of virtual_routes or static_routes. Names of tables and
// protocols are numbers already.
type Route struct {
	Type       string       // "unicast", "local", "blackhole", "unreachable", "prohibit", "throw"
	Prefix     netip.Prefix // masked
	Table      uint32       // 254: main; 0 with VRF
	VRF        string       // vrf: its table
	Metric     uint32       // 0: the kernel's default (IPv6: 1024)
	TOS        uint8        // IPv4 only
	Scope      uint8        // rtnetlink scope, IPv4 only: 253 (link) without a gateway, 254 (host) for "local"
	Protocol   uint8        // 18: keepalived
	Source     netip.Addr   // src; invalid: the kernel's choice
	Hops       []Hop        // none for types that go nowhere
	Metrics    []RouteMetric
	Placement  string // "prepend", "append", "add": beside an equal route of others
	NoTrack    bool
	TrackGroup string // of static routes
}

// Hop is one next hop of a route.
type Hop struct {
	Via    netip.Addr // invalid: the destination is on the link
	Dev    string     // "": whichever leads to Via
	Weight int        // 1..256
	OnLink bool
}

// RouteMetric is one of the numbers that `ip route` knows beside the metric.
type RouteMetric struct {
	Name  string // "mtu", "advmss", …: routeMetrics
	Value uint32
	Lock  bool
}

// Rule is one line of virtual_rules or static_rules.
type Rule struct {
	IPv6           bool
	Not            bool
	From, To       netip.Prefix // invalid: any
	IIF, OIF       string
	TOS            uint8
	Mark, Mask     uint32 // fwmark; Mask 0: none
	Priority       uint32
	Action         string // "table", "goto", "blackhole", "unreachable", "prohibit"
	Table          uint32 // of "table"; 0: that of the interface's VRF (l3mdev)
	Goto           uint32
	IPProto        uint8 // 0: any
	SPort, DPort   [2]uint16
	UIDs           [2]uint32 // with UID only
	UID            bool
	SuppressPrefix int // suppress_prefixlength; -1: off
	Protocol       uint8
	NoTrack        bool
	TrackGroup     string // of static rules
}

// StaticAddress is one line of static_ipaddress.
type StaticAddress struct {
	VIP
	TrackGroup string
}

// TrackGroup is one [track_group.NAME]: instances that are in FAULT while a static
// object that names it cannot be put back.
type TrackGroup struct {
	Name    string
	Members []string // names of instances, in the order written
}
