package daemon

import (
	"net/netip"
	"slices"
	"time"

	"vipd/cmd/internal/override"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/plan"
	"vipd/ipvs/reconcile"
)

// fillGentle adds what a server was told, and how it leaves or returns.
func fillGentle(rs *status.RealServer, b *balancedService, v view, keys []ipvs.Key, r *conf.RealServer, p plan.ServerState) {
	rs.Configured, rs.Leaving, rs.Kept, rs.Ramping = true, p.Leaving, p.Kept, p.Ramping
	rs.Since = leavingSince(v.since, keys, r.Address)
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

// leavingSince is when a server began to leave the first of some services that it has not left yet.
func leavingSince(m plan.Memory, keys []ipvs.Key, a netip.AddrPort) (since time.Time) {
	for _, k := range keys {
		if t := m.LeavingSince(ipvs.Target{Service: k, Destination: a}); since.IsZero() || !t.IsZero() && t.Before(since) {
			since = t
		}
	}
	return since
}

// otherStatus is a table entry that leaves and is no server of the configuration. In a group it leaves the services that
// have it.
func otherStatus(b *balancedService, v view, keys []ipvs.Key, a netip.AddrPort, table reconcile.Status) status.RealServer {
	rs := status.RealServer{
		Address: a.String(), State: "DRAINING", Leaving: true, Checks: []status.Check{},
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(k ipvs.Key) bool {
		return v.since.LeavingSince(ipvs.Target{Service: k, Destination: a}).IsZero()
	})
	rs.Since = leavingSince(v.since, keys, a)
	if s := b.conf.Sorry; s != nil && slices.ContainsFunc(keys, func(k ipvs.Key) bool { return plan.At(s.Address, k) == a }) {
		rs.Sorry, rs.Configured = true, true
	}
	if b.conf.DrainMax > 0 {
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
