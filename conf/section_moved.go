package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// section is [track_group.NAME].
func (g TrackGroup) section() section {
	return table("track_group", g.Name, setting{"group", list(g.Members)})
}

// String returns the address as a line of virtual_ipaddress, with every option
// that matters.
func (v VIP) String() string {
	line := v.Prefix.String()
	if v.Peer.IsValid() {
		line = v.Prefix.Addr().String() + " peer " + netip.PrefixFrom(v.Peer, v.Prefix.Bits()).String()
	}
	if v.Dev != "" {
		line += " dev " + v.Dev
	}
	if v.Label != "" {
		line += " label " + v.Label
	}
	if v.Scope != "global" {
		line += " scope " + v.Scope
	}
	if v.Broadcast.IsValid() {
		line += " brd " + v.Broadcast.String()
	}
	for _, o := range []struct {
		on   bool
		word string
	}{{v.NoPrefixRoute, "noprefixroute"}, {v.Home, "home"}, {v.DAD, "-nodad"}, {v.ManageTemp, "mngtmpaddr"}, {v.AutoJoin, "autojoin"}, {v.NoTrack, "no_track"}, {v.UseVMAC, "use_vmac"}} {
		if o.on {
			line += " " + o.word
		}
	}
	host6 := v.Prefix.Addr().Is6() && v.Prefix.Bits() == 128
	switch {
	case v.PreferredLft > 0:
		line += " preferred_lft " + strconv.FormatUint(uint64(v.PreferredLft), 10)
	case v.Deprecated && !host6:
		line += " preferred_lft 0"
	case !v.Deprecated && host6:
		line += " preferred_lft forever"
	}
	return line
}

// bare is the route as a line without what vipd alone knows.
func (r Route) bare() string {
	r.NoTrack, r.TrackGroup, r.Placement = false, "", "prepend"
	return r.String()
}

// bare is the rule as a line without what vipd alone knows.
func (r Rule) bare() string {
	r.NoTrack, r.TrackGroup = false, ""
	return r.String()
}

// String returns the route as a line of virtual_routes.
func (r Route) String() string {
	var w []string
	add := func(words ...string) { w = append(w, words...) }
	number := func(name string, n, otherwise uint32) {
		if n != otherwise {
			add(name, strconv.FormatUint(uint64(n), 10))
		}
	}
	if r.Type != "unicast" {
		add(r.Type)
	}
	add(r.Prefix.String())
	gateway := slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.Via.IsValid() })
	if len(r.Hops) == 1 {
		add(r.Hops[0].words(r.Prefix.Addr().Is4(), false)...)
	}
	if r.VRF != "" {
		add("vrf", r.VRF)
	} else {
		number("table", r.Table, mainTable)
	}
	number("metric", r.Metric, 0)
	if r.Source.IsValid() {
		add("src", r.Source.String())
	}
	if r.TOS != 0 {
		add("tos", fmt.Sprintf("0x%02x", r.TOS))
	}
	if r.Prefix.Addr().Is4() {
		number("scope", uint32(r.Scope), uint32(defaultScope(r.Type, gateway)))
	}
	number("protocol", uint32(r.Protocol), ownProtocol)
	for _, m := range r.Metrics {
		add(m.Name)
		if m.Lock {
			add("lock")
		}
		add(strconv.FormatUint(uint64(m.Value), 10))
	}
	if r.Placement != "prepend" {
		add(r.Placement)
	}
	if len(r.Hops) > 1 {
		for _, h := range r.Hops {
			add("nexthop")
			add(h.words(r.Prefix.Addr().Is4(), true)...)
		}
	}
	if r.NoTrack {
		add("no_track")
	}
	if r.TrackGroup != "" {
		add("track_group", r.TrackGroup)
	}
	return strings.Join(w, " ")
}

// words are the next hop as words of a line.
func (h Hop) words(ipv4, weighted bool) []string {
	var w []string
	if h.Via.IsValid() {
		w = append(w, "via")
		if ipv4 && h.Via.Is6() {
			w = append(w, "inet6")
		}
		w = append(w, h.Via.String())
	}
	if h.Dev != "" {
		w = append(w, "dev", h.Dev)
	}
	if weighted {
		w = append(w, "weight", strconv.Itoa(h.Weight))
	}
	if h.OnLink {
		w = append(w, "onlink")
	}
	return w
}

// String returns the rule as a line of virtual_rules.
func (r Rule) String() string {
	w := append(r.selectors(), r.actions()...)
	if r.SuppressPrefix >= 0 {
		w = append(w, "suppress_prefixlength", strconv.Itoa(r.SuppressPrefix))
	}
	w = append(w, "priority", strconv.FormatUint(uint64(r.Priority), 10))
	if r.Protocol != ownProtocol {
		w = append(w, "protocol", strconv.Itoa(int(r.Protocol)))
	}
	if r.NoTrack {
		w = append(w, "no_track")
	}
	if r.TrackGroup != "" {
		w = append(w, "track_group", r.TrackGroup)
	}
	return strings.Join(w, " ")
}

// selectors say for which packets a rule is.
func (r Rule) selectors() (w []string) {
	add := func(words ...string) { w = append(w, words...) }
	if r.Not {
		add("not")
	}
	switch {
	case r.From.IsValid():
		add("from", r.From.String())
	case r.IPv6 && !r.To.IsValid():
		add("inet6", "from", "all")
	default:
		add("from", "all")
	}
	if r.To.IsValid() {
		add("to", r.To.String())
	}
	if r.IIF != "" {
		add("iif", r.IIF)
	}
	if r.OIF != "" {
		add("oif", r.OIF)
	}
	if r.TOS != 0 {
		add("tos", fmt.Sprintf("0x%02x", r.TOS))
	}
	if r.Mask != 0 {
		add("fwmark", fmt.Sprintf("0x%x/0x%x", r.Mark, r.Mask))
	}
	if r.IPProto != 0 {
		add("ipproto", strconv.Itoa(int(r.IPProto)))
	}
	for _, p := range []struct {
		name string
		span [2]uint16
	}{{"sport", r.SPort}, {"dport", r.DPort}} {
		if p.span[1] != 0 {
			add(p.name, fmt.Sprintf("%d-%d", p.span[0], p.span[1]))
		}
	}
	if r.UID {
		add("uidrange", fmt.Sprintf("%d-%d", r.UIDs[0], r.UIDs[1]))
	}
	return w
}

// actions say what a rule does.
func (r Rule) actions() []string {
	switch {
	case r.Action == "table" && r.Table == 0:
		return []string{"l3mdev"}
	case r.Action == "table":
		return []string{"table", strconv.FormatUint(uint64(r.Table), 10)}
	case r.Action == "goto":
		return []string{"goto", strconv.FormatUint(uint64(r.Goto), 10)}
	}
	return []string{r.Action}
}

// String returns the address as a line of static_ipaddress.
func (a StaticAddress) String() string {
	line := a.VIP.String()
	if a.TrackGroup != "" {
		line += " track_group " + a.TrackGroup
	}
	return line
}
