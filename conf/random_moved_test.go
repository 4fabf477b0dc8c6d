package conf

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"
)

// randomStatics fills in what every state has, and groups that need it.
func randomStatics(r *rapid.T, c *Config) {
	for i := range rapid.IntRange(0, 2).Draw(r, "groups") {
		c.TrackGroups = append(c.TrackGroups, TrackGroup{Name: fmt.Sprintf("%d%s", i, name(r))})
	}
	group := func() string {
		if len(c.TrackGroups) == 0 || coin(r) {
			return ""
		}
		return c.TrackGroups[0].Name
	}
	for i := range number(r, 0, 2) {
		v := randomVIP(r, coin(r), 200, i)
		v.UseVMAC = false
		v.NoTrack = false
		c.StaticAddresses = append(c.StaticAddresses, StaticAddress{v, group()})
		route := randomRoute(r, 200+i)
		route.NoTrack, route.TrackGroup = false, group()
		c.StaticRoutes = append(c.StaticRoutes, route)
		rule := randomRule(r, 200+i)
		rule.NoTrack, rule.TrackGroup = false, group()
		c.StaticRules = append(c.StaticRules, rule)
	}
}

// randomRoute makes the i-th route; its number keeps destinations apart.
func randomRoute(r *rapid.T, i int) Route {
	types := []string{"unicast", "local", "blackhole", "unreachable", "prohibit", "throw"}
	t := Route{
		Type: rapid.SampledFrom(types).Draw(r, "type"), Table: uint32(number(r, 1, 1<<32-1)), Metric: uint32(number(r, 0, 1<<32-1)), Protocol: uint8(number(r, 0, 255)),
		Placement: rapid.SampledFrom([]string{"prepend", "append", "add"}).Draw(r, "placement"), NoTrack: coin(r),
	}
	six := coin(r)
	t.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(i / 256), byte(i), 0}), 24)
	host := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n), 1}) }
	if six {
		t.Prefix = netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i))
		host = func(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fe80::%x", n+1)) } // with dev, always
	} else {
		t.TOS = uint8(number(r, 0, 255))
	}
	if coin(r) {
		t.Table, t.VRF = 0, "blue"
	}
	if coin(r) {
		t.Source = host(77)
	}
	gateway := false
	if routeTypes[t.Type] {
		n := number(r, 1, 3)
		for j := range n {
			h := Hop{Dev: fmt.Sprintf("eth%d", j), Weight: 1}
			if coin(r) {
				h.Via, h.OnLink, gateway = host(j), coin(r), true
			}
			if n > 1 {
				h.Weight = number(r, 1, 256)
			}
			t.Hops = append(t.Hops, h)
		}
	}
	if !six {
		t.Scope = uint8(number(r, 0, 255))
		if coin(r) {
			t.Scope = defaultScope(t.Type, gateway)
		}
	}
	for _, name := range []string{"advmss", "hoplimit", "mtu"} { // in the order of the alphabet
		if coin(r) {
			t.Metrics = append(t.Metrics, RouteMetric{name, uint32(number(r, 0, 255)), coin(r)})
		}
	}
	return t
}

// randomRule makes the i-th rule; its number keeps rules apart.
func randomRule(r *rapid.T, i int) Rule {
	u := Rule{
		IPv6: coin(r), Not: coin(r), Priority: uint32(10 * i), IPProto: uint8(number(r, 0, 255)), TOS: uint8(number(r, 0, 255)), SuppressPrefix: -1,
		Protocol: uint8(number(r, 0, 255)), NoTrack: coin(r), Action: rapid.SampledFrom([]string{"table", "goto", "blackhole", "unreachable", "prohibit"}).Draw(r, "action"),
	}
	switch u.Action {
	case "table":
		u.Table, u.SuppressPrefix = uint32(number(r, 0, 1<<32-1)), number(r, -1, 127)
	case "goto":
		u.Goto = u.Priority + 1
	}
	side := func() netip.Prefix {
		switch {
		case coin(r):
			return netip.Prefix{}
		case u.IPv6:
			return netip.MustParsePrefix("2001:db8::/32")
		}
		return netip.MustParsePrefix("10.0.0.0/8")
	}
	u.From, u.To = side(), side()
	if coin(r) {
		u.IIF, u.OIF = "eth0", "lo"
	}
	if coin(r) {
		u.Mark, u.Mask = uint32(number(r, 0, 1<<32-1)), uint32(number(r, 1, 1<<32-1))
	}
	span := func() [2]uint16 { a := number(r, 1, 60000); return [2]uint16{uint16(a), uint16(number(r, a, 65534))} }
	if coin(r) {
		u.SPort, u.DPort = span(), span()
	}
	if coin(r) {
		u.UID, u.UIDs = true, [2]uint32{uint32(number(r, 0, 9)), uint32(number(r, 9, 1<<32-1))}
	}
	return u
}

// joinGroups puts the first instance into every track group: a group is never empty.
func joinGroups(c *Config) {
	if len(c.Instances) == 0 {
		c.TrackGroups = nil
	}
	for i := range c.TrackGroups {
		c.TrackGroups[i].Members = []string{c.Instances[0].Name}
	}
	known := func(group string) string {
		if slices.ContainsFunc(c.TrackGroups, func(g TrackGroup) bool { return g.Name == group }) {
			return group
		}
		return ""
	}
	for i := range c.StaticRoutes {
		c.StaticRoutes[i].TrackGroup = known(c.StaticRoutes[i].TrackGroup)
		c.StaticRules[i].TrackGroup = known(c.StaticRules[i].TrackGroup)
		c.StaticAddresses[i].TrackGroup = known(c.StaticAddresses[i].TrackGroup)
	}
}
