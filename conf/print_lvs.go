package conf

import (
	"fmt"
	"strings"
)

// server writes a virtual_server.
func (p *printer) server(vs VirtualServer) {
	p.table("[[virtual_server]]")
	p.text("name", vs.Name)
	if vs.FWMark != 0 {
		p.raw("fwmark", fmt.Sprint(vs.FWMark))
		if vs.IPv6 {
			p.text("ip_family", "inet6")
		} else {
			p.text("ip_family", "inet")
		}
	} else {
		p.text("address", endpointText(vs.Address))
	}
	p.text("protocol", vs.Protocol)
	p.text("lvs_sched", vs.Scheduler)
	p.text("lvs_method", vs.Method)
	if vs.Persistence > 0 {
		p.time("persistence_timeout", vs.Persistence)
	}
	if whole := vs.Granularity == 128 || vs.Granularity == 32 && !vs.IPv6; !whole {
		p.num("persistence_granularity", vs.Granularity)
	}
	p.num("quorum", vs.Quorum)
	p.flag("inhibit_on_failure", vs.Inhibit)
	if vs.Sorry != nil {
		p.text("sorry_server", endpointText(vs.Sorry.Address))
		p.text("sorry_server_lvs_method", vs.Sorry.Method)
	}
	for _, rs := range vs.RealServers {
		p.table("[[virtual_server.real_server]]")
		p.text("address", endpointText(rs.Address))
		p.text("lvs_method", rs.Method)
		p.num("weight", rs.Weight)
		p.flag("inhibit_on_failure", rs.Inhibit)
		for _, k := range rs.Checks {
			p.check(k)
		}
	}
}

// check writes one check of a real server.
func (p *printer) check(k Check) {
	p.table("[[virtual_server.real_server." + k.Kind + "]]")
	p.text("connect_ip", k.Target.Addr().String())
	p.num("connect_port", int(k.Target.Port()))
	if k.Bind.IsValid() {
		p.text("bindto", k.Bind.Addr().String())
		if k.Bind.Port() != 0 {
			p.num("bind_port", int(k.Bind.Port()))
		}
	}
	p.time("connect_timeout", k.ConnectTimeout)
	p.time("delay_loop", k.DelayLoop)
	p.num("retry", k.Retry)
	p.time("delay_before_retry", k.DelayBeforeRetry)
	p.time("warmup", k.Warmup)
	p.text("http_protocol", k.HTTPProtocol)
	p.text("virtualhost", k.VirtualHost)
	p.text("sni_name", k.SNI)
	if len(k.URLs) == 0 {
		return
	}
	p.WriteString("url = [\n")
	for _, u := range k.URLs {
		parts := []string{"path = " + quote(u.Path)}
		if u.StatusCodes != nil {
			parts = append(parts, "status_code = "+quote(statusText(u.StatusCodes)))
		}
		if u.Digest != "" {
			parts = append(parts, "digest = "+quote(u.Digest))
		}
		if u.VirtualHost != "" {
			parts = append(parts, "virtualhost = "+quote(u.VirtualHost))
		}
		p.WriteString("  { " + strings.Join(parts, ", ") + " },\n")
	}
	p.WriteString("]\n")
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
