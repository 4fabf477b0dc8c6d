package conf

import "time"

// mail settles who gets mail and how.
func (b *builder) mail(top *values) {
	g, m := b.global, &b.config.Global.Mail
	name := b.env.Hostname
	if !validHost(name) {
		name = "localhost"
	}
	*m = Mail{
		To: get[[]string](g, "notification_email"), From: mailDefault + "@" + name, Port: relayPort, Helo: name,
		Timeout: get[time.Duration](g, "smtp_connect_timeout"), NoFaults: get[bool](g, "no_email_faults"),
	}
	if r := get[relay](g, "smtp_server"); r.host != "" {
		m.Server, m.Port = r.host, r.port
	}
	if g.has("notification_email_from") {
		m.From = get[string](g, "notification_email_from")
	}
	if g.has("smtp_helo_name") {
		m.Helo = get[string](g, "smtp_helo_name")
	}
	if len(m.To) == 0 {
		*m = Mail{} // nobody asks how
	}
	b.config.Global.LogAllFailures = get[bool](g, "checker_log_all_failures")
	b.config.Global.MaxProcesses = g.num("checker_max_processes")
	if g.has("no_checker_emails") && !get[bool](g, "no_checker_emails") {
		b.say(Warning, g, "no_checker_emails", "global_defs.no_checker_emails/always", "has no effect: there is one mail for each change of a real server, and none for single checks",
			"\"vipd status\" shows the last result of every check, checker_log_all_failures logs the failed ones; take the line out")
	}
	if len(m.To) > 0 && !g.given("smtp_server") {
		b.say(Warning, g, "notification_email", "global_defs.notification_email/server", "no mail is sent without smtp_server", "add smtp_server, or take notification_email out")
	}
	b.nobody(b.global)
	for _, key := range []string{"vrrp_instance", "vrrp_sync_group", "vip_spread"} {
		b.nobody(get[[]*values](top, key)...)
	}
}

// nobody warns, once, of a smtp_alert that mails to nobody.
func (b *builder) nobody(tables ...*values) {
	if b.global.given("notification_email") {
		return
	}
	const id = "global_defs.smtp_alert/nobody"
	for _, v := range tables {
		for _, key := range []string{"smtp_alert", "smtp_alert_vrrp", "smtp_alert_checker"} {
			if !v.has(key) || !get[bool](v, key) {
				continue
			}
			b.trace++
			if !b.said[id] {
				b.said[id] = true
				b.say(Warning, v, key, id, "asks for mail to nobody", "add notification_email and smtp_server to [global_defs], or take it out")
			}
		}
	}
}

// alert says whether the changes of a table are mailed: its own smtp_alert, that
// of its half of global_defs, that for all, or def.
func (b *builder) alert(v *values, half string, def bool) bool {
	for _, at := range []struct {
		v   *values
		key string
	}{{v, "smtp_alert"}, {b.global, half}, {b.global, "smtp_alert"}} {
		if at.v.has(at.key) {
			return get[bool](at.v, at.key)
		}
	}
	return def
}

// The halves of alert.
const (
	alertVRRP    = "smtp_alert_vrrp"
	alertChecker = "smtp_alert_checker"
)

// place settles where the daemon lives.
func (b *builder) place(top *values) {
	b.config.Place = Place{Namespace: get[string](top, "net_namespace"), IPVS: get[string](top, "net_namespace_ipvs"), Instance: get[string](top, "instance")}
	b.config.Place.FirstIPVS = get[bool](top, "net_namespace_ipvs")
}
