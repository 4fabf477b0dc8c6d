package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vipd/conf/spread"
)

// spread makes the instances of a vip_spread. When its own keys do not fit, it
// makes none, so that no follow-up errors hide the cause.
func (b *builder) spread(v *values) {
	s := Spread{Name: v.name, Interface: get[string](v, "interface"), Scheme: get[string](v, "scheme"), Self: -1}
	for _, d := range get[[]director](v, "directors") {
		s.Directors = append(s.Directors, Director{d.name, d.weight})
	}
	vips, numbers := get[[]vip](v, "virtual_ipaddress"), get[vrids](v, "virtual_router_id")
	groups := numbers.to - numbers.from + 1
	if v.has("groups") {
		groups = v.num("groups")
	}
	if !v.given("interface") {
		b.interfaceMissing(v)
	}
	for _, key := range []string{"directors", "virtual_ipaddress", "virtual_router_id", "groups", "scheme", "interface"} {
		if v.wrong(key) || !v.has(key) && (key == "interface" || v.block.find(key).need) {
			b.unclear = true
			return
		}
	}
	if !b.spreadFits(v, numbers, groups, vips) || !b.self(v, &s) {
		b.unclear = true
		return
	}
	s.Plan = spreadPlan(s, groups)
	dealt := make([][]vip, groups)
	for i, a := range vips {
		g := spread.Group(i, groups)
		dealt[g] = append(dealt[g], a)
	}
	if v.has("nopreempt") && get[bool](v, "nopreempt") || v.has("preempt") && !get[bool](v, "preempt") {
		key := "nopreempt"
		if !v.has(key) {
			key = "preempt"
		}
		b.say(Warning, v, key, "vip_spread.nopreempt/uneven", "a director that comes back does not take its groups again",
			"after the first failure the groups stay where they are, and some directors have nothing to do; take it out unless that is what you want")
	}
	said := len(b.diags)
	for g := range groups {
		in := b.member(v, &s, g, numbers.from+g, dealt[g])
		s.Groups = append(s.Groups, SpreadGroup{Instance: in.Name, VRID: in.VRID, Addresses: addressesOf(in.VIPs)})
		b.config.Instances = append(b.config.Instances, in)
	}
	b.config.Spreads = append(b.config.Spreads, s)
	b.linkLocals(v, said, groups)
}

// linkLocals says once what its instances, of which the diagnostics begin at
// said, say one by one: IPv6 routers want a link-local address first.
func (b *builder) linkLocals(v *values, said, groups int) {
	rest := slices.DeleteFunc(slices.Clone(b.diags[said:]), func(d Diagnostic) bool { return d.Rule == "vrrp_instance.virtual_ipaddress/linklocal" })
	if len(rest) == len(b.diags)-said {
		return
	}
	b.diags = append(b.diags[:said], rest...)
	b.say(Warning, v, "virtual_ipaddress", "vip_spread.virtual_ipaddress/linklocal", "the first IPv6 address of each group should be link-local",
		fmt.Sprintf("RFC 9568 §5.2.9 wants it, and some routers ignore adverts without it; let the list begin with one for each group: \"fe80::5:1-%x\"", groups))
}

// spreadPlan returns the plan; the schema has checked what New refuses.
func spreadPlan(s Spread, groups int) *spread.Plan {
	weights := make([]int, len(s.Directors))
	for i, d := range s.Directors {
		weights[i] = d.Weight
	}
	scheme := spread.Even
	if s.Scheme == "pairs" {
		scheme = spread.Pairs
	}
	plan, err := spread.New(weights, groups, scheme)
	if err != nil {
		panic("conf: " + err.Error()) // the bounds of the schema are those of New
	}
	return plan
}

// spreadFits checks the keys of a spread against each other.
func (b *builder) spreadFits(v *values, numbers vrids, groups int, vips []vip) bool {
	size := numbers.to - numbers.from + 1
	last := memberName(v.name, groups-1, groups)
	version := uint8(b.global.num("vrrp_version"))
	if v.has("version") {
		version = uint8(v.num("version"))
	}
	key := "groups"
	if !v.has(key) {
		key = "virtual_router_id"
	}
	for _, a := range vips {
		if first := vips[0].Prefix.Addr(); a.Prefix.Addr().Is6() != first.Is6() {
			b.sayAt(Error, a.it, a.path, "vip_spread.virtual_ipaddress/family", fmt.Sprintf("%s is %s, but the first address is %s", a.Prefix.Addr(), family(!first.Is6()), family(first.Is6())),
				"an advert carries one family; write a vip_spread of its own for the other")
			return false
		}
	}
	switch {
	case len(vips) == 0:
		b.say(Error, v, "virtual_ipaddress", "vip_spread.virtual_ipaddress/none", "there are no addresses to spread", "write virtual_ipaddress = [\"…\"], at least one for each of the "+itoa(groups)+" groups")
	case groups > size:
		b.say(Error, v, "groups", "vip_spread.groups/vrids", fmt.Sprintf("%d groups need as many VRIDs, and %d-%d are %d", groups, numbers.from, numbers.to, size),
			"make virtual_router_id wider (up to 255), or groups smaller, the same on all directors")
	case groups > len(vips):
		b.say(Error, v, key, "vip_spread.groups/addresses", fmt.Sprintf("%d groups, but only %d addresses", groups, len(vips)),
			fmt.Sprintf("a group needs at least one address; write groups = %d or less, the same on all directors", len(vips)))
	case (len(vips)+groups-1)/groups > advertRoom(version, vips[0].Prefix.Addr().Is6(), v.given("auth_hmac")):
		room := advertRoom(version, vips[0].Prefix.Addr().Is6(), v.given("auth_hmac"))
		b.say(Error, v, key, "vip_spread.groups/room", fmt.Sprintf("%d addresses in %d groups are too many: one advert holds %d", len(vips), groups, room),
			fmt.Sprintf("write groups = %d or more, the same on all directors, and as many VRIDs", (len(vips)+room-1)/room))
	case validName(v.name) && !validName(last):
		b.say(Error, v, "", "file.vip_spread/name", fmt.Sprintf("%q cannot be the name of a vrrp_instance", last), "shorten the name of the vip_spread to 59 bytes")
	default:
		return true
	}
	return false
}

// self finds out which of the directors this machine is: by router_id when that
// is given and in the list, else by host name, with or without its domain.
func (b *builder) self(v *values, s *Spread) bool {
	short, _, _ := strings.Cut(b.env.Hostname, ".")
	names := []string{b.env.Hostname, short}
	if b.global.has("router_id") {
		names = append([]string{b.config.Global.RouterID}, names...)
	}
	for _, name := range names {
		if s.Self = slices.IndexFunc(s.Directors, func(d Director) bool { return d.Name == name }); s.Self >= 0 {
			return true
		}
	}
	if b.env.Spectator {
		return true
	}
	it, path := v.place("directors")
	known := make([]string, len(s.Directors))
	for i, d := range s.Directors {
		known[i] = d.Name
	}
	unknown := fmt.Sprintf("this machine is none of them: its host name is %q", b.env.Hostname)
	if b.global.has("router_id") {
		unknown += fmt.Sprintf(" and its router_id %q", b.config.Global.RouterID)
	}
	b.sayAt(Error, it, path, "vip_spread.directors/unknown", unknown+didYouMean(names[0], known),
		"add it at the end of the list, in the file of every director; or name this machine as in the list, with router_id in [global_defs]\n"+
			"to look at the plan from another machine: vipd spread -c FILE")
	return false
}

// memberName returns the name of the instance of a group.
func memberName(name string, group, groups int) string {
	return fmt.Sprintf("%s-%0*d", name, max(2, len(itoa(groups))), group+1)
}

// member returns the instance of one group: as if someone had written its table.
func (b *builder) member(v *values, s *Spread, group, vrid int, vips []vip) Instance {
	m := &values{block: instanceBlock, it: v.it, path: v.path, name: memberName(v.name, group, s.Plan.Groups())}
	for _, g := range v.got {
		if k := v.block.find(g.key); v.block.shares(k) {
			m.got = append(m.got, g)
		}
	}
	give := func(key, like string, finished any) {
		it, path := v.place(like)
		m.got = append(m.got, value{key: key, it: it, path: path, v: finished})
	}
	give("virtual_router_id", "virtual_router_id", int64(vrid))
	give("virtual_ipaddress", "virtual_ipaddress", vips)
	give("priority", "directors", int64(s.Plan.Priority(group, max(s.Self, 0))))
	return b.instance(m)
}

// addressesOf returns the prefixes of virtual addresses.
func addressesOf(vips []VIP) []netip.Prefix {
	all := make([]netip.Prefix, len(vips))
	for i, v := range vips {
		all[i] = v.Prefix
	}
	return all
}

// distinct checks that no instance of a spread has the name of another instance,
// and sorts all by name.
func (b *builder) distinct(spreads, instances []*values) {
	for _, v := range instances {
		for _, s := range b.config.Spreads {
			if slices.ContainsFunc(s.Groups, func(g SpreadGroup) bool { return g.Instance == v.name }) {
				i := slices.IndexFunc(spreads, func(o *values) bool { return o.name == s.Name })
				b.say(Error, v, "", "vip_spread.groups/taken", fmt.Sprintf("%q is also the name of a group of %s at %s", v.name, spreads[i].path, spreads[i].it.src.place(spreads[i].it.at)),
					"rename one of the two")
			}
		}
	}
	slices.SortStableFunc(b.config.Instances, func(a, b Instance) int { return strings.Compare(a.Name, b.Name) })
}
