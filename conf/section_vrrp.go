package conf

import (
	"slices"
	"strings"
)

// section is [vrrp_sync_group.NAME].
func (g SyncGroup) section() section {
	return table("vrrp_sync_group", g.Name, append(append([]setting{{"group", list(g.Members)}}, g.Notify.states()...), setting{"smtp_alert", unless(g.Alert, false)})...)
}

// section is [vrrp_instance.NAME].
func (in Instance) section() section {
	return table("vrrp_instance", in.Name, slices.Concat(
		in.election(), in.unicastSettings(), in.vmacSettings(), in.addresses(), in.Announce.settings(), []setting{{"garp_form", in.GARPForm}}, in.tracks(), in.Notify.settings(), in.HMAC.settings(),
		[]setting{{"smtp_alert", unless(in.Alert, false)}}, []setting{{"authentication", in.password()}})...)
}

// election lists who the instance is, and what makes it MASTER.
func (in Instance) election() []setting {
	state := "BACKUP"
	if in.WantMaster {
		state = "MASTER"
	}
	return []setting{
		{"vrrp_sync_group", unwritten{in.SyncGroup}},
		{"state", state},
		{"interface", in.Interface},
		{"virtual_router_id", in.VRID},
		{"version", in.Version},
		{"family", unwritten{family(in.IPv6)}},
		{"priority", in.Priority},
		{"advert_int", in.AdvertInterval},
		{"down_timer_adverts", in.DownTimerAdverts},
		{"nopreempt", in.NoPreempt},
		{"preempt_delay", unless(in.PreemptDelay, 0)},
		{"timer_expired_backup", unless(in.LatePriority, 0)},
		{"owner_ignore_adverts", unless(in.IgnoreAdverts, false)},
		{"v3_checksum_as_v2", in.ChecksumAsV2},
		{"mcast_dst_ip", in.Group},
	}
}

// addresses lists where adverts come from, and the virtual addresses.
func (in Instance) addresses() []setting {
	var source any = in.Source
	if in.Unicast {
		source = unwritten{}
	}
	return []setting{
		{"mcast_src_ip", source},
		{"skip_check_adv_addr", in.SkipCheckAddr},
		{"lower_prio_no_advert", in.LowerPrioNoAdv},
		{"no_accept", unless(in.NoAccept, false)},
		{"no_virtual_ipaddress", unless(len(in.VIPs)+len(in.Excluded) == 0, false)},
		{"virtual_ipaddress", some(lines(texts(in.VIPs)))},
		{"virtual_ipaddress_excluded", some(lines(texts(in.Excluded)))},
		{"virtual_routes", some(lines(texts(in.Routes)))},
		{"virtual_rules", some(lines(texts(in.Rules)))},
		{"promote_secondaries", unless(in.PromoteSecondaries, false)},
	}
}

// password is authentication.
func (in Instance) password() any {
	if in.AuthPass == "" {
		return unwritten{}
	}
	return inline{{"auth_type", "PASS"}, {"auth_pass", hidden{in.AuthPass}}}
}

// settings lists what concerns GARP and NA.
func (a Announce) settings() []setting {
	return []setting{
		{"garp_master_delay", a.MasterDelay},
		{"garp_master_repeat", a.MasterRepeat},
		{"garp_master_refresh", a.Refresh},
		{"garp_master_refresh_repeat", a.RefreshRepeat},
		{"garp_lower_prio_delay", a.LowerPrioDelay},
		{"garp_lower_prio_repeat", a.LowerPrioRepeat},
		{"garp_interval", a.GARPInterval},
		{"gna_interval", a.GNAInterval},
		{"garp_extra_if", extra{a.Extra, a.ExtraAll}.value()},
	}
}

// section is [[garp_group]].
func (g GARPGroup) section() section {
	return section{
		header: "[[garp_group]]",
		object: "garp_group " + strings.Join(g.Interfaces, " "),
		settings: []setting{
			{"interfaces", list(g.Interfaces)},
			{"garp_interval", g.GARPInterval},
			{"gna_interval", g.GNAInterval},
		},
	}
}

// value is what garp_extra_if is written as.
func (x extra) value() any {
	if x.all {
		return "all " + seconds(x.every)
	}
	return x.every
}

// tracks lists what moves the priority.
func (in Instance) tracks() []setting {
	return []setting{
		{"track_interface", some(list(texts(in.TrackInterfaces)))},
		{"track_script", some(list(texts(in.TrackScripts)))},
		{"track_file", some(list(texts(in.TrackFiles)))},
		{"track_process", some(list(texts(in.TrackProcesses)))},
	}
}

// settings lists the commands of an instance.
func (n Notify) settings() []setting {
	return append(n.states(),
		setting{"notify_master_rx_lower_pri", n.LowerPri},
		setting{"notify_priority_changes", n.PriorityChanges},
	)
}

// states lists the commands that a sync group can have, too.
func (n Notify) states() []setting {
	var deleted any = n.Deleted
	if len(n.Deleted.Argv) == 0 {
		deleted = unless(n.SayDeleted, false)
	}
	return []setting{
		{"notify", n.Any},
		{"notify_master", n.Master},
		{"notify_backup", n.Backup},
		{"notify_fault", n.Fault},
		{"notify_stop", n.Stop},
		{"DELETED", unwritten{n.SayDeleted}},
		{"notify_deleted", deleted},
	}
}

// String returns the command as one line, with who runs it.
func (c Command) String() string {
	text := strings.Join(c.Argv, " ")
	if c.User.Name != "" {
		text += " (as " + c.User.String() + ")"
	}
	return text
}
