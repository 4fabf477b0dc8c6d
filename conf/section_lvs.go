package conf

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// section is [[virtual_server]]. What tells services apart is what they are, not
// their names.
func (vs VirtualServer) section() section {
	s := section{header: "[[virtual_server]]", object: "virtual_server " + serviceText(&vs)}
	s.settings = append([]setting{{"name", vs.Name}}, vs.target()...)
	s.settings = append(s.settings, setting{"protocol", vs.Protocol}, setting{"lvs_sched", vs.Scheduler})
	s.settings = append(s.settings, vs.flags()...)
	s.settings = append(s.settings,
		setting{"survive", vs.Survive},
		setting{"lvs_method", methodText(vs.Method, vs.Tunnel)},
		setting{"persistence_timeout", unless(vs.Persistence, 0)},
		setting{"persistence_granularity", unless(vs.Granularity, vs.longest())},
		setting{"persistence_engine", vs.PersistenceEngine},
		setting{"quorum", vs.Quorum},
		setting{"inhibit_on_failure", unlessDrained(vs.DrainFailed, vs.Inhibit)},
		setting{"on_failure", failureText(vs.DrainFailed)},
		setting{"min_up", share(vs.MinUp)},
		setting{"drain_max", unless(vs.DrainMax, 10*time.Minute)},
		setting{"smtp_alert", unless(vs.Alert, false)},
	)
	s.settings = append(s.settings, vs.steering()...)
	if vs.Sorry != nil {
		s.settings = append(s.settings, setting{"sorry_server", vs.Sorry.Address}, setting{"sorry_server_lvs_method", methodText(vs.Sorry.Method, vs.Sorry.Tunnel)}, setting{"sorry_server_inhibit", unless(vs.Sorry.Inhibit, false)})
	}
	s.parts = each(vs.RealServers, RealServer.section)
	return s
}

// target lists the keys that say what the service is.
func (vs *VirtualServer) target() []setting {
	ipFamily := setting{"ip_family", familyWord(vs.IPv6)}
	switch {
	case vs.Group != "":
		return []setting{{"group", vs.Group}, ipFamily}
	case vs.FWMark != 0:
		return []setting{{"fwmark", vs.FWMark}, ipFamily}
	}
	return []setting{{"address", vs.Address}}
}

// familyWord is the word of ip_family.
func familyWord(ipv6 bool) string {
	if ipv6 {
		return "inet6"
	}
	return "inet"
}

// flags lists the flags of the scheduler by the names that it has for them.
func (vs *VirtualServer) flags() []setting {
	fallback, port := "flag-1", "flag-2"
	if vs.Scheduler == "sh" || vs.Scheduler == "mh" {
		fallback, port = vs.Scheduler+"-fallback", vs.Scheduler+"-port"
	}
	return []setting{
		{fallback, unless(vs.Flag1, false)}, {port, unless(vs.Flag2, false)}, {"flag-3", unless(vs.Flag3, false)}, {"ops", unless(vs.OnePacket, false)},
	}
}

// longest is the prefix length of a single client, in the family with the longer addresses if there are both.
func (vs *VirtualServer) longest() int {
	for _, s := range vs.Services() {
		if s.IPv6 {
			return 128
		}
	}
	return 32
}

// methodText is lvs_method as keepalived writes it.
func methodText(method string, t Tunnel) string {
	if text := t.String(); text != "" {
		return method + " type " + text
	}
	return method
}

// String returns "gue port 6080 csum", or "" for IP in IP.
func (t Tunnel) String() string {
	text := t.Type
	if t.Port != 0 {
		text += fmt.Sprintf(" port %d", t.Port)
	}
	if t.Checksum != "" {
		text += " " + t.Checksum
	}
	return text
}

// section is [virtual_server_group.NAME].
func (g ServerGroup) section() section {
	return table("virtual_server_group", g.Name, setting{"address", some(list(texts(g.Addresses)))}, setting{"fwmark", some(list(texts(g.Marks)))})
}

// String returns "10.0.0.1-10.0.0.20 80", without the port when it is every port.
func (r ServiceRange) String() string {
	text := r.First.String()
	if r.Last != r.First {
		text += "-" + r.Last.String()
	}
	if r.Port != 0 {
		text += fmt.Sprintf(" %d", r.Port)
	}
	return text
}

// String returns "7" or "7 inet6".
func (m ServiceMark) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", m.Mark, m.Family))
}

// section is [[virtual_server.real_server]].
func (rs RealServer) section() section {
	s := section{
		header: "[[virtual_server.real_server]]",
		object: "real_server " + endpointText(rs.Address),
		settings: []setting{
			{"address", rs.Address},
			{"lvs_method", methodText(rs.Method, rs.Tunnel)},
			{"weight", rs.Weight},
			{"uthreshold", unless(rs.UpperThreshold, 0)},
			{"lthreshold", unless(rs.LowerThreshold, 0)},
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
