package conf

import (
	"fmt"
	"slices"
	"time"
)

// switchAgeing is how long most switches remember where a MAC address is.
const switchAgeing = 300 * time.Second

// announce returns the GARP settings of an instance: its own, else the global ones.
func (b *builder) announce(v *values) Announce {
	x := inheritAs("garp_extra_if", v, b.global)
	b.ageing(v)
	return Announce{
		MasterDelay:     b.garpTime(v, "garp_master_delay", "vrrp_garp_master_delay"),
		MasterRepeat:    b.garpCount(v, "garp_master_repeat", "vrrp_garp_master_repeat"),
		Refresh:         b.garpTime(v, "garp_master_refresh", "vrrp_garp_master_refresh"),
		RefreshRepeat:   b.garpCount(v, "garp_master_refresh_repeat", "vrrp_garp_master_refresh_repeat"),
		LowerPrioDelay:  b.garpTime(v, "garp_lower_prio_delay", "vrrp_garp_master_delay"),
		LowerPrioRepeat: b.garpCount(v, "garp_lower_prio_repeat", "vrrp_garp_master_repeat"),
		GARPInterval:    b.garpTime(v, "garp_interval", "vrrp_garp_interval"),
		GNAInterval:     b.garpTime(v, "gna_interval", "vrrp_gna_interval"),
		Extra:           get[extra](x.v, x.key).every,
		ExtraAll:        get[extra](x.v, x.key).all,
	}
}

// keyed is a table and the name that a key has there.
type keyed struct {
	v   *values
	key string
}

// inheritAs returns where the value of a key is: in the instance, else in
// global_defs, where its name begins with vrrp_.
func inheritAs(name string, v, global *values) keyed {
	if v.has(name) {
		return keyed{v, name}
	}
	return keyed{global, "vrrp_" + name}
}

// garpTime returns a time of the announcements: that of the instance, else the
// global one of the same name, else the other global one.
func (b *builder) garpTime(v *values, name, otherwise string) time.Duration {
	if x := inheritAs(name, v, b.global); x.v.has(x.key) {
		return get[time.Duration](x.v, x.key)
	}
	if otherwise == "vrrp_garp_master_delay" && b.fewest(otherwise) {
		return 0
	}
	return get[time.Duration](b.global, otherwise)
}

// garpCount is garpTime for numbers.
func (b *builder) garpCount(v *values, name, otherwise string) int {
	if x := inheritAs(name, v, b.global); x.v.has(x.key) {
		return x.v.num(x.key)
	}
	if otherwise == "vrrp_garp_master_repeat" && b.fewest(otherwise) {
		return 1
	}
	return b.global.num(otherwise)
}

// fewest reports whether vrrp_min_garp decides on a key: it changes defaults, not
// what somebody has written.
func (b *builder) fewest(key string) bool {
	return get[bool](b.global, "vrrp_min_garp") && !b.global.given(key)
}

// ageing warns of announcements that come too seldom for switches to remember.
func (b *builder) ageing(v *values) {
	x := inheritAs("garp_master_refresh", v, b.global)
	every := get[time.Duration](x.v, x.key)
	if !x.v.has(x.key) || every > 0 && every < switchAgeing {
		return
	}
	message := "the addresses are announced at a takeover only"
	if every > 0 {
		message = fmt.Sprintf("the addresses are announced every %s", shortTime(every))
	}
	b.sayOnce(x.v, x.key, x.v.block.name+"."+x.key+"/ageing", message,
		"switches forget where an address is after 300 s without a frame from it, many routers sooner, and one lost announcement is then an outage; write a time below that, 60 for example")
}

// sayOnce warns about a key, once for all instances that a vip_spread hands it to.
func (b *builder) sayOnce(v *values, key, id, message, detail string) {
	it, _ := v.place(key)
	if at := id + " " + it.src.place(it.at); !b.said[at] {
		b.said[at] = true
		b.say(Warning, v, key, id, message, detail)
	}
}

// form returns garp_form.
func (b *builder) form(v *values) string {
	x := inheritAs("garp_form", v, b.global)
	return get[string](x.v, x.key)
}

// garpGroups settles garp_group.
func (b *builder) garpGroups(groups []*values) {
	taken := map[string]entry{}
	for _, v := range groups {
		g := GARPGroup{
			GARPInterval: b.garpTime(v, "garp_interval", "vrrp_garp_interval"),
			GNAInterval:  b.garpTime(v, "gna_interval", "vrrp_gna_interval"),
		}
		members := groupMembers(v)
		switch {
		case v.given("interface") && v.given("interfaces"):
			b.say(Error, v, "interface", "garp_group.interface/both", "interface and interfaces in one group", "write all of them in interfaces")
			continue
		case len(members) == 0 && !v.wrong("interface") && !v.wrong("interfaces"):
			b.say(Error, v, "interfaces", "garp_group.interfaces/none", "the group has no interface", "write interface = \"eth0\", or interfaces = [\"eth0\", \"eth1\"]")
		case g.GARPInterval+g.GNAInterval == 0 && !v.given("garp_interval") && !v.given("gna_interval"):
			b.say(Warning, v, "garp_interval", "garp_group.garp_interval/none", "the group has no gap to share", "write garp_interval and gna_interval, here or as vrrp_garp_interval and vrrp_gna_interval in [global_defs]")
		}
		for _, e := range members {
			if first, ok := taken[e.name]; ok {
				b.sayAt(Error, e.it, e.path, "garp_group.interfaces/taken", fmt.Sprintf("%q is in another garp_group already, at %s", e.name, first.it.src.place(first.it.at)), "an interface has one gap; take it out of one of the two, or make them one group")
				continue
			}
			taken[e.name] = e
			g.Interfaces = append(g.Interfaces, e.name)
		}
		b.config.GARPGroups = append(b.config.GARPGroups, g)
	}
}

// groupMembers lists the interfaces of a garp_group.
func groupMembers(v *values) []entry {
	members := get[[]entry](v, "interfaces")
	if v.has("interface") {
		it, path := v.place("interface")
		members = append([]entry{{get[string](v, "interface"), it, path}}, members...)
	}
	return members
}

// groupedVMACs reports links with a virtual MAC in a garp_group: their announcements
// wait for those of the interface below, so such a group would have no effect.
func (b *builder) groupedVMACs(groups []*values) {
	parents := map[string]string{}
	for i := range b.config.Instances {
		for _, l := range b.config.Instances[i].VMACs {
			parents[l.Name] = l.Parent
		}
	}
	for _, v := range groups {
		for _, e := range groupMembers(v) {
			if parent, ok := parents[e.name]; ok {
				b.sayAt(Error, e.it, e.path, "garp_group.interfaces/vmac", fmt.Sprintf("%q is a link with a virtual MAC on %s", e.name, parent), "what it announces has the gap of "+parent+"; write that")
			}
		}
	}
}

// grouped warns of a gap that an instance sets and that groups override, for all
// its addresses are on their interfaces.
func (b *builder) grouped(v *values, in *Instance) {
	elsewhere := func(dev string) bool {
		return !slices.ContainsFunc(b.config.GARPGroups, func(g GARPGroup) bool { return slices.Contains(g.Interfaces, dev) })
	}
	if elsewhere(in.Interface) || slices.ContainsFunc(slices.Concat(in.VIPs, in.Excluded), func(a VIP) bool { return elsewhere(a.Dev) }) {
		return
	}
	for _, key := range []string{"garp_interval", "gna_interval"} {
		if v.given(key) {
			b.sayOnce(v, key, "vrrp_instance."+key+"/group", "has no effect: the interfaces of this instance are in a garp_group, whose gap counts", "take it out, or change "+key+" of the group")
		}
	}
}
