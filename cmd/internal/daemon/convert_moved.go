package daemon

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"vipd/cmd/internal/settings/linksysctl"
	"vipd/conf"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
)

// staticSet is what every state has.
func staticSet(cfg *conf.Config) host.Set {
	set := host.Set{Static: true}
	for _, a := range cfg.StaticAddresses {
		address := hostAddress(a.VIP)
		address.Group = a.TrackGroup
		set.Addresses = append(set.Addresses, address)
	}
	set.Paths = hostPaths(cfg.StaticRoutes, cfg.StaticRules)
	return set
}

// hostPaths are routes, then rules.
func hostPaths(routes []conf.Route, rules []conf.Rule) []fib.Want {
	out := make([]fib.Want, 0, len(routes)+len(rules))
	for _, r := range routes {
		out = append(out, fib.Want{Object: fib.Object{Route: hostRoute(r)}, NoTrack: r.NoTrack, Group: r.TrackGroup})
	}
	for _, r := range rules {
		out = append(out, fib.Want{Object: fib.Object{Rule: hostRule(r)}, NoTrack: r.NoTrack, Group: r.TrackGroup})
	}
	return out
}

// places are the words for where a route goes, in conf's spelling.
var places = map[string]fib.Place{"prepend": fib.Prepend, "append": fib.Append, "add": fib.Alone}

func hostRoute(r conf.Route) *fib.Route {
	out := &fib.Route{
		Type: fib.TypeNames[r.Type], Dst: r.Prefix, Table: r.Table, VRF: r.VRF, Metric: r.Metric, TOS: r.TOS, Scope: r.Scope, Protocol: r.Protocol,
		Src: r.Source, Place: places[r.Placement],
	}
	for _, h := range r.Hops {
		out.Hops = append(out.Hops, fib.Hop{Via: h.Via, Dev: h.Dev, Weight: h.Weight, OnLink: h.OnLink})
	}
	for _, m := range r.Metrics {
		out.Metrics = append(out.Metrics, fib.Metric{ID: fib.MetricIDs[m.Name], Value: m.Value, Lock: m.Lock})
	}
	slices.SortFunc(out.Metrics, func(a, b fib.Metric) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// actions are what rules do, in conf's spelling.
var actions = map[string]fib.Action{
	"table": fib.ToTable, "goto": fib.Goto, "blackhole": fib.RuleBlackhole, "unreachable": fib.RuleUnreachable, "prohibit": fib.RuleProhibit,
}

func hostRule(r conf.Rule) *fib.Rule {
	return &fib.Rule{
		IPv6: r.IPv6, Not: r.Not, From: r.From, To: r.To, IIF: r.IIF, OIF: r.OIF, TOS: r.TOS, Mark: r.Mark, Mask: r.Mask, Priority: r.Priority,
		Action: actions[r.Action], Table: r.Table, Goto: r.Goto, IPProto: r.IPProto, SPort: r.SPort, DPort: r.DPort, UIDs: r.UIDs, UID: r.UID,
		SuppressPrefix: r.SuppressPrefix, Protocol: r.Protocol,
	}
}

// addressFlags are IFA_F_* of what `ip address` calls CONFFLAG-LIST.
func addressFlags(v conf.VIP) (flags uint32) {
	for flag, on := range map[uint32]bool{
		unix.IFA_F_HOMEADDRESS: v.Home, unix.IFA_F_MANAGETEMPADDR: v.ManageTemp, unix.IFA_F_MCAUTOJOIN: v.AutoJoin,
	} {
		if on {
			flags |= flag
		}
	}
	return flags
}

// settings are the kernel settings that instances ask for.
func settings(cfg *conf.Config) []linksysctl.Setting {
	var out []linksysctl.Setting
	for _, i := range cfg.Instances {
		s := linksysctl.Setting{Dev: i.Interface, Name: "promote_secondaries", Value: "1"}
		if i.PromoteSecondaries && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
