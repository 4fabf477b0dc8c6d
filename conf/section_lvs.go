package conf

import (
	"fmt"
	"net/netip"
	"strings"
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
		setting{"lvs_method", vs.Method},
		setting{"persistence_timeout", unless(vs.Persistence, 0)},
		setting{"persistence_granularity", unless(vs.Granularity, whole)},
		setting{"quorum", vs.Quorum},
		setting{"inhibit_on_failure", vs.Inhibit},
		setting{"smtp_alert", unless(vs.Alert, false)},
	)
	if vs.Sorry != nil {
		s.settings = append(s.settings, setting{"sorry_server", vs.Sorry.Address}, setting{"sorry_server_lvs_method", vs.Sorry.Method})
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
			{"inhibit_on_failure", rs.Inhibit},
			{"smtp_alert", unless(rs.Alert, true)},
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

// section is one check of a real server.
func (k Check) section() section {
	return section{
		header: "[[virtual_server.real_server." + k.Kind + "]]",
		object: k.Kind,
		settings: []setting{
			{"connect_ip", k.Target.Addr()},
			{"connect_port", k.Target.Port()},
			{"bindto", k.Bind.Addr()},
			{"bind_port", unless(k.Bind.Port(), 0)},
			{"connect_timeout", k.ConnectTimeout},
			{"delay_loop", k.DelayLoop},
			{"retry", k.Retry},
			{"delay_before_retry", k.DelayBeforeRetry},
			{"warmup", k.Warmup},
			{"http_protocol", k.HTTPProtocol},
			{"virtualhost", k.VirtualHost},
			{"sni_name", k.SNI},
			{"url", some(inlines(each(k.URLs, URL.table)))},
		},
	}
}

// table is one entry of url.
func (u URL) table() inline {
	return inline{{"path", u.Path}, {"status_code", statusText(u.StatusCodes)}, {"digest", u.Digest}, {"virtualhost", u.VirtualHost}}
}

// statusText returns "200-299 301".
func statusText(ranges []StatusRange) string {
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = fmt.Sprint(r.From)
		if r.To != r.From {
			words[i] = fmt.Sprintf("%d-%d", r.From, r.To)
		}
	}
	return strings.Join(words, " ")
}

// endpointText returns "ADDRESS:PORT", or the address alone for port 0.
func endpointText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
