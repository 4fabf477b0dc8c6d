package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// nexthop reads the words of one next hop.
func (l *routeLine) nexthop() bool {
	l.Hops = append(l.Hops, Hop{Weight: 1})
	for len(l.words) > 0 && slices.Contains([]string{"via", "gw", "dev", "oif", "weight", "onlink"}, l.words[0]) {
		word := l.words[0]
		l.words = l.words[1:]
		if !l.hop(word, true) {
			return false
		}
	}
	if h := l.Hops[len(l.Hops)-1]; !h.Via.IsValid() && h.Dev == "" {
		l.badAt(l.it, l.path, "hop", "a nexthop leads nowhere", `write nexthop via ADDRESS dev IF weight N`)
		return false
	}
	return true
}

// hop reads an option of the last next hop; several says that its weight counts.
func (l *routeLine) hop(word string, several bool) bool {
	h := &l.Hops[len(l.Hops)-1]
	if word == "onlink" {
		h.OnLink = true
		return true
	}
	v, ok := l.value(word)
	if !ok {
		return false
	}
	switch word {
	case "weight":
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil || n < 1 || n > 256 || !several {
			return l.wrong(word, v, "1..256, after nexthop")
		}
		h.Weight = int(n)
		return true
	case "dev", "oif":
		if !validInterface(v) {
			return l.wrong(word, v, interfaceKind.allowed)
		}
		for i := range l.Hops { // "via A or B dev eth1" is one for both
			if several && i < len(l.Hops)-1 {
				continue
			}
			l.Hops[i].Dev = v
		}
		return true
	}
	if v == "inet" || v == "inet6" {
		if v, ok = l.value(word); !ok {
			return false
		}
	}
	a, ok := address(v)
	if !ok || !unicast(a) {
		return l.wrong(word, v, "the address of a gateway")
	}
	if word == "or" {
		if !h.Via.IsValid() {
			l.bad("option", `"or" needs a "via" before it`)
			return false
		}
		l.Hops = append(l.Hops, Hop{Weight: 1, Dev: h.Dev, OnLink: h.OnLink})
		h = &l.Hops[len(l.Hops)-1]
	}
	h.Via = a
	return true
}

// finish checks how the parts of a route fit together.
func (l *routeLine) finish() bool {
	switch {
	case !l.prefix:
		l.bad("syntax", "there is no destination; write \"default\" for everything")
		return false
	case !l.Prefix.IsValid():
		l.Prefix = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if l.family == 6 || l.family == 0 && l.six() {
			l.Prefix = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	six := l.Prefix.Addr().Is6()
	misfit := func(what string) bool {
		l.badAt(l.it, l.path, "family", fmt.Sprintf("%s does not fit the %s destination %s", what, family(six), l.Prefix), "all addresses of a route are of one family; only via may be IPv6 in an IPv4 route")
		return false
	}
	switch {
	case l.family == 4 && six, l.family == 6 && !six:
		return misfit(map[int]string{4: "inet", 6: "inet6"}[l.family])
	case l.Source.IsValid() && l.Source.Is6() != six:
		return misfit("src " + l.Source.String())
	case l.TOS != 0 && six:
		return misfit("tos")
	}
	gateway := false
	for _, h := range l.Hops {
		if h.Via.IsValid() && six && h.Via.Is4() {
			return misfit("via " + h.Via.String())
		}
		gateway = gateway || h.Via.IsValid()
	}
	switch leads := routeTypes[l.Type]; {
	case leads && len(l.Hops) == 0, leads && !gateway && l.Hops[0].Dev == "":
		l.badAt(l.it, l.path, "hop", "the route leads nowhere", "add via ADDRESS, dev IF, or both")
		return false
	case !leads && len(l.Hops) > 0:
		l.badAt(l.it, l.path, "hop", "a route of type "+l.Type+" has no next hop", "take via, dev and nexthop out, or the type")
		return false
	}
	for i, h := range l.Hops {
		if h.OnLink && (!h.Via.IsValid() || h.Dev == "") {
			l.badAt(l.it, l.path, "hop", "onlink needs via and dev", "onlink says that the gateway is on that interface although no address is in its network")
			return false
		}
		if h.Via.IsLinkLocalUnicast() && h.Via.Is6() && h.Dev == "" {
			l.badAt(l.it, l.path, "hop", "a link-local gateway needs dev", "every link has these addresses for itself; write dev IF")
			return false
		}
		if len(l.Hops) == 1 {
			l.Hops[i].Weight = 1
		}
	}
	l.scope(six, gateway)
	slices.SortFunc(l.Metrics, func(a, b RouteMetric) int { return strings.Compare(a.Name, b.Name) })
	return true
}

// six reports whether an address of the line is IPv6.
func (l *routeLine) six() bool {
	return l.Source.Is6() || slices.ContainsFunc(l.Hops, func(h Hop) bool { return h.Via.Is6() })
}

// scope fills in the scope as "ip route" does. IPv6 has none.
func (l *routeLine) scope(six, gateway bool) {
	if six {
		l.Scope = 0
	} else if !l.scoped {
		l.Scope = defaultScope(l.Type, gateway)
	}
}

// defaultScope is the scope of an IPv4 route that names none.
func defaultScope(kind string, gateway bool) uint8 {
	switch {
	case kind == "local":
		return scopeHost
	case kind == "unicast" && !gateway:
		return scopeLink
	}
	return 0
}
