package conf

import (
	"fmt"
	"net/netip"
	"time"
)

// section is [[virtual_server]]. What tells services apart is what they are, not
// their names.
func (vs VirtualServer) section() section {
	s := section{header: "[[virtual_server]]", object: "virtual_server " + serviceText(&vs)}
	s.settings = []setting{{"name", vs.Name}}
	if vs.FWMark != 0 {
		ipFamily := "inet"
		if vs.IPv6 {
			ipFamily = "inet6"
		}
		s.settings = append(s.settings, setting{"fwmark", vs.FWMark}, setting{"ip_family", ipFamily})
	} else {
		s.settings = append(s.settings, setting{"address", vs.Address})
	}
	whole := 32
	if vs.IPv6 {
		whole = 128
	}
	s.settings = append(s.settings,
		setting{"protocol", vs.Protocol},
		setting{"lvs_sched", vs.Scheduler},
		setting{"survive", vs.Survive},
		setting{"lvs_method", vs.Method},
		setting{"persistence_timeout", unless(vs.Persistence, 0)},
		setting{"persistence_granularity", unless(vs.Granularity, whole)},
		setting{"quorum", vs.Quorum},
		setting{"inhibit_on_failure", unlessDrained(vs.DrainFailed, vs.Inhibit)},
		setting{"on_failure", failureText(vs.DrainFailed)},
		setting{"min_up", share(vs.MinUp)},
		setting{"drain_max", unless(vs.DrainMax, 10*time.Minute)},
		setting{"smtp_alert", unless(vs.Alert, false)},
	)
	s.settings = append(s.settings, vs.steering()...)
	if vs.Sorry != nil {
		s.settings = append(s.settings, setting{"sorry_server", vs.Sorry.Address}, setting{"sorry_server_lvs_method", vs.Sorry.Method}, setting{"sorry_server_inhibit", unless(vs.Sorry.Inhibit, false)})
	}
	s.parts = each(vs.RealServers, RealServer.section)
	return s
}

// section is [[virtual_server.real_server]].
func (rs RealServer) section() section {
	s := section{
		header: "[[virtual_server.real_server]]",
		object: "real_server " + endpointText(rs.Address),
		settings: []setting{
			{"address", rs.Address},
			{"lvs_method", rs.Method},
			{"weight", rs.Weight},
			{"inhibit_on_failure", unlessDrained(rs.DrainFailed, rs.Inhibit)},
			{"on_failure", failureText(rs.DrainFailed)},
			{"slow_start", unless(rs.SlowStart, 0)},
			{"smtp_alert", unless(rs.Alert, true)},
			{"notify_up", rs.Up},
			{"notify_down", rs.Down},
		},
	}
	count := map[string]int{}
	for _, k := range rs.Checks {
		part := k.section()
		if count[k.Kind]++; count[k.Kind] > 1 {
			part.object += fmt.Sprintf(" %d", count[k.Kind])
		}
		s.parts = append(s.parts, part)
	}
	return s
}

// endpointText returns "ADDRESS:PORT", or the address alone for port 0.
func endpointText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
