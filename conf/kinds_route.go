package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The kinds of lists of routes and rules.
var (
	routesKind = &kind{"routes", `an array of routes as "ip route" has them ("10.1.0.0/16 via 10.9.0.254 dev eth0 table 100")`, []string{"type", "syntax", "option", "value", "family", "hop", "instead"}, parseRoutes}
	rulesKind  = &kind{"rules", `an array of rules as "ip rule" has them ("from 10.9.0.100 table 100 priority 1000")`, []string{"type", "syntax", "option", "value", "family", "action", "instead"}, parseRules}
)

// routeTypes are the types of routes; true: it leads somewhere.
var routeTypes = map[string]bool{"unicast": true, "local": true, "blackhole": false, "unreachable": false, "prohibit": false, "throw": false}

// routeMetrics are the numbers of a route beside its metric, and their bounds.
var routeMetrics = map[string]uint64{
	"mtu": 1 << 32, "window": 1 << 32, "ssthresh": 1 << 32, "cwnd": 1 << 32, "advmss": 1 << 32, "reordering": 1 << 32, "hoplimit": 1 << 8,
	"initcwnd": 1 << 32, "rto_min": 1 << 32, "initrwnd": 1 << 32, "quickack": 2,
}

// routeFlags are the options of routes and next hops without a value.
var routeFlags = []string{"onlink", "append", "prepend", "add", "no_track", "inet", "inet6", "unicast", "local", "blackhole", "unreachable", "prohibit", "throw"}

// routeOptions are those with one.
var routeOptions = []string{
	"to", "via", "gw", "or", "dev", "oif", "table", "vrf", "metric", "priority", "preference", "src", "tos", "dsfield", "scope", "protocol", "proto", "weight", "nexthop", "track_group",
}

// routeInstead are words of iproute2 that few need.
var routeInstead = []string{"encap", "realms", "realm", "rtt", "rttvar", "features", "congctl", "fastopen_no_cookie", "pref", "expires", "ttl-propagate", "nhid", "as", "from"}

// route is one line of routes.
type route struct {
	Route
	it   *item
	path string
}

// routeLine is one line while it is read.
type routeLine struct {
	field
	Route
	words  []string
	family int  // 4 or 6; 0: not said
	prefix bool // the destination was read
	scoped bool
	seen   map[string]bool
}

// parseRoutes reads virtual_routes or static_routes.
func parseRoutes(f field) (any, bool) { return parseEntries(f, field.route, nil) }

// tableWords returns an entry as the words of a line. In a table each key comes with
// its value; "nexthop" holds lines or tables, and they come last.
func (f field) tableWords(flags []string) ([]string, bool) {
	if s, ok := f.it.value.(string); ok {
		words := strings.Fields(s)
		if len(words) == 0 {
			f.bad("syntax", "is empty")
		}
		return words, len(words) > 0
	}
	if f.it.kind != tableItem {
		f.wrongType("string")
		return nil, false
	}
	var words, last []string
	for _, e := range f.it.keys {
		if e.name == "nexthop" && (e.it.kind == arrayItem || e.it.kind == tableItem) {
			hops, ok := field{f.c, f.b, f.k, e.it, join(f.path, e.name)}.entries()
			for _, h := range hops {
				more, good := h.tableWords(flags)
				last, ok = append(append(last, "nexthop"), more...), ok && good
			}
			if !ok {
				return nil, false
			}
			continue
		}
		switch v := e.it.value.(type) {
		case string:
			words = append(append(words, e.name), strings.Fields(v)...)
			continue
		case int64:
			text := strconv.FormatInt(v, 10)
			if e.name == "tos" || e.name == "dsfield" {
				text = "0x" + strconv.FormatInt(v, 16) // what stands in a line without 0x is hexadecimal, too
			}
			words = append(words, e.name, text)
			continue
		case bool:
			if slices.Contains(flags, e.name) {
				if v {
					words = append(words, e.name)
				}
				continue
			}
		}
		f.badAt(e.it, join(f.path, e.name), "type", shown(e.it)+" does not fit here", f.k.must())
		return nil, false
	}
	if words = append(words, last...); len(words) == 0 {
		f.bad("syntax", "is empty")
	}
	return words, len(words) > 0
}

// route reads one entry.
func (f field) route() (route, bool) {
	words, ok := f.tableWords(routeFlags)
	if !ok {
		return route{}, false
	}
	l := &routeLine{field: f, words: words, seen: map[string]bool{}}
	l.Route = Route{Type: "unicast", Table: mainTable, Protocol: ownProtocol, Placement: "prepend"}
	for len(l.words) > 0 {
		word := l.words[0]
		l.words = l.words[1:]
		if !l.word(word) {
			return route{}, false
		}
	}
	ok = l.finish()
	return route{l.Route, f.it, f.path}, ok
}

// value takes the value of an option off the line.
func (l *routeLine) value(option string) (string, bool) {
	if len(l.words) == 0 {
		l.bad("option", strconv.Quote(option)+" needs a value after it")
		return "", false
	}
	v := l.words[0]
	l.words = l.words[1:]
	return v, true
}

// wrong reports a wrong value of an option.
func (l *routeLine) wrong(option, value, allowed string) bool {
	l.badAt(l.it, l.path, "value", fmt.Sprintf("%s %q is wrong", option, value), option+" must be "+allowed)
	return false
}

// word reads one word and what belongs to it.
func (l *routeLine) word(word string) bool {
	switch {
	case slices.Contains(routeInstead, word):
		l.badAt(l.it, l.path, "instead", strconv.Quote(word)+" is an option of routes that vipd does not have",
			"add such a route with \"ip route\" in a script that notify_master names, and remove it in those of notify_backup, notify_fault and notify_stop")
		return false
	case word == "inet", word == "inet6":
		l.family = map[string]int{"inet": 4, "inet6": 6}[word]
		return true
	case slices.Contains([]string{"append", "prepend", "add"}, word):
		l.Placement = word
		return true
	case word == "no_track" && !l.static():
		l.NoTrack = true
		return true
	case word == "nexthop":
		return l.nexthop()
	case word == "onlink", word == "weight", word == "via", word == "gw", word == "or", word == "dev", word == "oif":
		if len(l.Hops) == 0 {
			l.Hops = []Hop{{Weight: 1}}
		}
		return l.hop(word, false)
	}
	if _, isType := routeTypes[word]; isType && !l.prefix {
		l.Type = word
		return true
	}
	return l.option(word)
}

// option reads an option with a value, or the destination.
func (l *routeLine) option(word string) bool {
	if _, known := routeMetrics[word]; known {
		return l.metric(word)
	}
	known := slices.Contains(routeOptions, word)
	switch {
	case !known && l.prefix, word == "no_track", word == "track_group" && !l.static():
		names := slices.DeleteFunc(slices.Concat(routeOptions, routeFlags, []string{"mtu", "advmss", "initcwnd"}), func(o string) bool { return o == word })
		l.badAt(l.it, l.path, "option", strconv.Quote(word)+" is no option of a route here"+didYouMean(word, names), l.optionText())
		return false
	case !known:
		return l.destination(word)
	case l.seen[canonical(word)]:
		l.bad("option", strconv.Quote(word)+" is given twice")
		return false
	}
	l.seen[canonical(word)] = true
	v, ok := l.value(word)
	if !ok {
		return false
	}
	switch canonical(word) {
	case "to":
		return l.destination(v)
	case "table":
		return l.named(tableFile, word, v, func(n uint32) { l.Table = n })
	case "protocol":
		return l.named(protoFile, word, v, func(n uint32) { l.Protocol = uint8(n) })
	case "scope":
		l.scoped = true
		return l.named(scopeFile, word, v, func(n uint32) { l.Scope = uint8(n) })
	case "tos":
		return l.named(tosFile, word, v, func(n uint32) { l.TOS = uint8(n) })
	case "vrf":
		if !validInterface(v) {
			return l.wrong(word, v, "the name of a VRF")
		}
		l.VRF, l.Table = v, 0
	case "metric":
		n, err := strconv.ParseUint(v, 0, 32)
		if err != nil {
			return l.wrong(word, v, "0..4294967295")
		}
		l.Metric = uint32(n)
	case "src":
		a, ok := address(v)
		if !ok || !unicast(a) {
			return l.wrong(word, v, "an address")
		}
		l.Source = a
	case "track_group":
		if !validName(v) {
			return l.wrong(word, v, "the name of a track_group")
		}
		l.TrackGroup = v
	}
	return true
}

// optionText lists the options of a route.
func (l *routeLine) optionText() string {
	last := "no_track"
	if l.static() {
		last = "track_group"
	}
	return "options are via, or, dev, onlink, nexthop, weight, table, vrf, metric, src, tos, scope, protocol, append, prepend, add, mtu [lock], advmss, window, hoplimit, initcwnd, initrwnd, cwnd, ssthresh, reordering, rto_min, quickack, " + last
}

// canonical is the name of an option that has several.
func canonical(option string) string {
	switch option {
	case "priority", "preference":
		return "metric"
	case "proto":
		return "protocol"
	case "dsfield":
		return "tos"
	}
	return option
}

// named reads a value that may be a name of iproute2.
func (l *routeLine) named(file nameFile, option, v string, set func(uint32)) bool {
	n, ok := l.c.number(file, v)
	if !ok || file.name == tableFile.name && n == 0 {
		l.badAt(l.it, l.path, "value", fmt.Sprintf("%s %q is not known on this machine", option, v), l.c.unknownName(file, v))
		return false
	}
	set(n)
	return true
}

// metric reads one of routeMetrics.
func (l *routeLine) metric(name string) bool {
	if slices.ContainsFunc(l.Metrics, func(m RouteMetric) bool { return m.Name == name }) {
		l.bad("option", strconv.Quote(name)+" is given twice")
		return false
	}
	m := RouteMetric{Name: name}
	v, ok := l.value(name)
	if ok && v == "lock" {
		m.Lock = true
		v, ok = l.value(name)
	}
	if !ok {
		return false
	}
	if name == "rto_min" {
		v = strings.TrimSuffix(v, "ms")
	}
	n, err := strconv.ParseUint(v, 0, 32)
	if limit := routeMetrics[name]; err != nil || n >= limit {
		return l.wrong(name, v, fmt.Sprintf("0..%d", limit-1))
	}
	m.Value = uint32(n)
	l.Metrics = append(l.Metrics, m)
	return true
}

// destination reads the network that the route leads to.
func (l *routeLine) destination(word string) bool {
	if l.prefix {
		l.bad("option", "there are two destinations: "+l.Prefix.String()+" and "+word)
		return false
	}
	l.prefix = true
	if word == "default" || word == "any" || word == "all" {
		l.seen["default"] = true
		return true
	}
	p, ok := network(word)
	if !ok {
		l.bad("syntax", strconv.Quote(word)+" is no destination")
		return false
	}
	l.Prefix = p
	return true
}

// network reads an address with or without length, as the network it is in.
func network(s string) (netip.Prefix, bool) {
	if a, ok := address(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil && !p.Addr().Is4In6()
}
