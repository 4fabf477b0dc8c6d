package daemon

import (
	"net/netip"

	"vipd/cmd/internal/override"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/plan"
	"vipd/ipvs/reconcile"
)

// fillGentle adds what a server was told, and how it leaves or returns.
func fillGentle(rs *status.RealServer, b *balancedService, v view, key ipvs.Key, r *conf.RealServer, p plan.ServerState) {
	target := ipvs.Target{Service: key, Destination: r.Address}
	rs.Configured, rs.Leaving, rs.Kept, rs.Ramping = true, p.Leaving, p.Kept, p.Ramping
	rs.Since = v.since.LeavingSince(target)
	if d, gone := b.gone[r.Address]; gone {
		rs.Configured, rs.Until = false, d.until
		if rs.State != "DOWN" {
			rs.State = "DRAINING"
		}
		return
	}
	for _, o := range toldOf(v.told, identity(b.conf), r.Address) {
		shown := status.Override{Kind: string(o.Kind), By: o.By, At: o.At, Until: o.Until}
		if o.Kind == override.Weight {
			shown.Weight = &o.Weight
		}
		rs.Overrides = append(rs.Overrides, shown)
		switch {
		case o.Kind == override.Maintenance:
			rs.State = "MAINTENANCE"
		case o.Kind == override.Drain && rs.State != "MAINTENANCE" && rs.State != "DOWN":
			rs.State = "DRAINING"
		}
		if p.Leaving && !o.Until.IsZero() && (rs.Until.IsZero() || o.Until.Before(rs.Until)) {
			rs.Until = o.Until
		}
	}
}

// otherStatus is a table entry that leaves and is no server of the configuration.
func otherStatus(b *balancedService, v view, keys []ipvs.Key, a netip.AddrPort, table reconcile.Status) status.RealServer {
	rs := status.RealServer{
		Address: a.String(), State: "DRAINING", Leaving: true, Checks: []status.Check{},
	}
	for _, k := range keys {
		if t := v.since.LeavingSince(ipvs.Target{Service: k, Destination: a}); rs.Since.IsZero() || !t.IsZero() && t.Before(rs.Since) {
			rs.Since = t
		}
	}
	if s := b.conf.Sorry; s != nil && s.Address == a {
		rs.Sorry, rs.Configured = true, true
	} else if b.conf.DrainMax > 0 {
		rs.Until = rs.Since.Add(b.conf.DrainMax)
	}
	for _, k := range keys {
		if d, ok := table.Kernel.Table[k].Destinations[a]; ok {
			rs.Method = d.Method.String()
		}
	}
	fillKernel(&rs, a, keys, table)
	return rs
}
