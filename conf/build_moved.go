package conf

import (
	"fmt"
	"slices"
	"strconv"
)

// firstRule is the priority of the first rule that has none, as in keepalived; the
// next ones are below.
const firstRule = 16384

// movers is what the builder knows of routes and rules.
type movers struct {
	priorities map[bool]uint32 // the next priority to give, by family: IPv6 true
	statics    map[string]*item
	rulePaths  map[string]uint32 // priorities given: the instances of a spread share their lines
}

// statics settles the objects that every state has. It comes before the instances.
func (b *builder) statics(top *values) {
	b.moved = movers{priorities: map[bool]uint32{false: firstRule, true: firstRule}, statics: map[string]*item{}, rulePaths: map[string]uint32{}}
	groups := get[[]*values](top, "track_group")
	for _, v := range groups {
		g := TrackGroup{Name: v.name}
		for _, e := range get[[]entry](v, "group") {
			g.Members = append(g.Members, e.name)
		}
		if len(g.Members) == 0 && v.has("group") {
			b.say(Error, v, "group", "track_group.group/none", "the group has no members", "name a vrrp_instance, or take the table out")
		}
		b.config.TrackGroups = append(b.config.TrackGroups, g)
	}
	usable := func(it *item, path, rule, group string) {
		if group == "" || slices.ContainsFunc(groups, func(v *values) bool { return v.name == group }) {
			return
		}
		var names []string
		for _, v := range groups {
			names = append(names, v.name)
		}
		b.sayAt(Error, it, path, rule, fmt.Sprintf("there is no track_group %q", group)+didYouMean(group, names), "define it: ["+join("track_group", group)+"]")
	}
	iface := get[string](b.global, "default_interface")
	for _, a := range get[[]vip](top, "static_ipaddress") {
		if a.Dev == "" {
			a.Dev = iface
		}
		b.take("", a, "a static address")
		usable(a.it, a.path, "file.static_ipaddress/group", a.group)
		b.config.StaticAddresses = append(b.config.StaticAddresses, StaticAddress{a.VIP, a.group})
	}
	for _, r := range get[[]route](top, "static_routes") {
		usable(r.it, r.path, "file.static_routes/group", r.TrackGroup)
		b.once(r.it, r.path, "file.static_routes/twice", r.bare())
		b.config.StaticRoutes = append(b.config.StaticRoutes, r.Route)
	}
	for _, r := range get[[]ruleEntry](top, "static_rules") {
		usable(r.it, r.path, "file.static_rules/group", r.TrackGroup)
		b.number(&r, "file.static_rules/priority")
		b.once(r.it, r.path, "file.static_rules/twice", r.bare())
		b.config.StaticRules = append(b.config.StaticRules, r.Rule)
	}
}

// once reports a static object that is there already.
func (b *builder) once(it *item, path, rule, line string) {
	if first := b.moved.statics[line]; first != nil {
		b.sayAt(Error, it, path, rule, "the same as at "+first.src.place(first.at), "take one of the two out")
		return
	}
	b.moved.statics[line] = it
}

// number gives a rule without priority one. The instances of a spread share theirs.
func (b *builder) number(r *ruleEntry, rule string) {
	if r.prioritised {
		return
	}
	if given, ok := b.moved.rulePaths[r.path]; ok {
		r.Priority = given
		return
	}
	r.Priority = b.moved.priorities[r.IPv6]
	b.moved.priorities[r.IPv6]--
	b.moved.rulePaths[r.path] = r.Priority
	b.sayAt(Warning, r.it, r.path, rule, "the rule has no priority; it gets "+strconv.FormatUint(uint64(r.Priority), 10),
		"rules count in the order of their priorities, and this one changes with the rules before it; write priority N, below 32766 to come before table main")
}

// moves settles the routes and rules of an instance.
func (b *builder) moves(v *values, in *Instance) {
	in.PromoteSecondaries = get[bool](v, "promote_secondaries")
	seen := map[string]*item{}
	check := func(it *item, path, rule, line string) {
		switch first, static := seen[line], b.moved.statics[line]; {
		case first != nil:
			b.sayAt(Error, it, path, rule, "the same as at "+first.src.place(first.at), "take one of the two out")
		case static != nil:
			b.sayAt(Error, it, path, rule, "it is static too, at "+static.src.place(static.at), "a static one is always there and never moves; take one of the two out")
		}
		seen[line] = it
	}
	for _, r := range get[[]route](v, "virtual_routes") {
		check(r.it, r.path, "vrrp_instance.virtual_routes/twice", r.bare())
		in.Routes = append(in.Routes, r.Route)
	}
	for _, r := range get[[]ruleEntry](v, "virtual_rules") {
		b.number(&r, "vrrp_instance.virtual_rules/priority")
		check(r.it, r.path, "vrrp_instance.virtual_rules/twice", r.bare())
		in.Rules = append(in.Rules, r.Rule)
	}
}

// trackGroups checks the members of track groups once all instances are known.
func (b *builder) trackGroups(top *values) {
	for _, v := range get[[]*values](top, "track_group") {
		for _, e := range get[[]entry](v, "group") {
			if !slices.ContainsFunc(b.config.Instances, func(in Instance) bool { return in.Name == e.name }) && !b.unclear {
				b.noInstance(e, "track_group.group/unknown")
			}
		}
	}
}
