package conf

import "fmt"

// section holds where the daemon lives, at the top of the file.
func (l Place) section() section {
	var table any = l.IPVS
	if l.FirstIPVS {
		table = true
	}
	return section{object: "place", settings: []setting{
		{"net_namespace", l.Namespace}, {"net_namespace_ipvs", table}, {"instance", l.Instance},
	}}
}

// TableNamespace names the namespace of the IPVS table, "" when it is that of the rest.
func (l Place) TableNamespace() string {
	if l.FirstIPVS {
		return "that of the start"
	}
	return l.IPVS
}

// settings lists who gets mail and how: nothing when nobody does.
func (m Mail) settings() []setting {
	all := []setting{
		{"notification_email", list(m.To)},
		{"notification_email_from", m.From},
		{"smtp_server", m.server()},
		{"port of smtp_server", unwritten{m.Port}},
		{"smtp_helo_name", m.Helo},
		{"smtp_connect_timeout", m.Timeout},
		{"no_email_faults", m.NoFaults},
	}
	if len(m.To) > 0 {
		return all
	}
	for i := range all {
		if all[i].written() {
			all[i].value = unwritten{all[i].value}
		}
	}
	return all
}

// server returns the relay and its port, "" without one.
func (m Mail) server() string {
	if m.Server == "" {
		return ""
	}
	return fmt.Sprintf("%s %d", m.Server, m.Port)
}
