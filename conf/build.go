package conf

import (
	"net/netip"
	"time"
)

// builder turns checked values into a Config and checks what no single key can
// show: how keys, tables and files fit together.
type builder struct {
	*checker
	config        *Config
	global        *values
	scripts       map[string]*values
	files         map[string]*values     // track files
	processes     map[string]*values     // track processes
	vips          map[netip.Addr]claim   // who has an address; IPv6 link-local ones with their interface as zone
	vrids         map[uint8][]vridUser   // who has a VRID
	groupOf       map[string]*values     // the group of an instance
	tracks        map[*values]trackLists // what a group tracks
	moved         movers                 // routes and rules
	vague         bool                   // the services of this virtual server are not known: its group is wrong
	port          uint16                 // of all services of this virtual server, or 0
	said          map[string]bool        // what need not be said twice
	tables        map[string]*values     // of instances, by name
	serviceGroups map[string]*values     // virtual_server_group, by name
	guessed       bool                   // the family of this instance is not known: its addresses are wrong
	unclear       bool                   // some virtual addresses could not be read
	ssl           Trust                  // of all SSL_GET without a table of their own
	trusts        map[*values]Trust      // of the SSL tables
	last          *memory                // of the configuration before
	remember      map[string]int         // which virtual server follows from a text alone
}

// claim is the first place that took an address.
type claim struct {
	instance string
	it       *item
}

// rule is a check on how keys fit together.
type rule struct{ id, doc string }

// rules are all checks of the builder; each has a file in testdata/bad.
var rules = []rule{
	{"vrrp_instance.priority/owner", "state MASTER without priority means 255 (warning)"},
	{"vrrp_instance.version/ipv6", "version 2 is for IPv4 only"},
	{"vrrp_instance.advert_int/version", "what advert_int may be in each version"},
	{"vrrp_instance.authentication/version", "passwords exist in version 2 only"},
	{"authentication.auth_pass/truncated", "only 8 bytes of a password are sent (warning)"},
	{"vrrp_instance.auth_hmac/password", "auth_hmac and authentication exclude each other"},
	{"auth_hmac.active_key/unknown", "active_key names a key"},
	{"vrrp_instance.v3_checksum_as_v2/version", "v3_checksum_as_v2 is for version 3 over IPv4 (warning)"},
	{"vrrp_instance.mcast_src_ip/family", "the source must be of the family of the addresses"},
	{"vrrp_instance.mcast_dst_ip/family", "the group must be of the family of the addresses"},
	{"vrrp_instance.unicast_src_ip/family", "the source must be of the family of the addresses"},
	{"vrrp_instance.interface/required", "an instance has an interface, or unicast_peer and unicast_src_ip"},
	{"vrrp_instance.interface/linklocal", "a link-local source address belongs to an interface"},
	{"vrrp_instance.use_vmac/interface", "use_vmac needs an interface"},
	{"vrrp_instance.dont_track_primary/interface", "dont_track_primary without interface (warning)"},
	{"vrrp_instance.virtual_ipaddress/dev", "without interface, every virtual address names its dev"},
	{"vrrp_instance.unicast_src_ip/peer", "unicast_src_ip needs unicast_peer"},
	{"vrrp_instance.unicast_src_ip/contradiction", "unicast_src_ip and mcast_src_ip are one setting"},
	{"vrrp_instance.unicast_peer/family", "peers are of the family of the addresses"},
	{"vrrp_instance.unicast_peer/vip", "a peer with a virtual address (warning)"},
	{"vrrp_instance.unicast_peer/scope", "a link-local peer needs a link-local source"},
	{"vrrp_instance.unicast_peer/source", "IPv6 peers that are not link-local, without unicast_src_ip (warning)"},
	{"vrrp_instance.unicast_peer/none", "unicast without a peer (warning)"},
	{"vrrp_instance.unicast_fault_no_peer/always", "there is no fall back to multicast (warning)"},
	{"vrrp_instance.unicast_ttl/unused", "unicast_ttl without unicast_peer (warning)"},
	{"vrrp_instance.check_unicast_src/unused", "check_unicast_src without unicast_peer (warning)"},
	{"vrrp_instance.check_unicast_src/ttl", "check_unicast_src off beside min_ttl or max_ttl (warning)"},
	{"vrrp_instance.use_vmac/taken", "a link with a virtual MAC has a name of its own"},
	{"vrrp_instance.use_vmac/mac", "a virtual MAC is there once on an interface"},
	{"vrrp_instance.use_vmac/parent", "virtual MACs are on interfaces of their own kind, not on lo or on each other"},
	{"vrrp_instance.vmac_xmit_base/unused", "vmac_xmit_base without use_vmac (warning)"},
	{"vrrp_instance.vmac_xmit_base/unicast", "unicast with use_vmac needs vmac_xmit_base (warning)"},
	{"vrrp_instance.virtual_ipaddress/family", "the addresses of one instance are of one family"},
	{"vrrp_instance.virtual_ipaddress/count", "how many addresses an advert can hold"},
	{"vrrp_instance.virtual_ipaddress/none", "an instance without addresses (warning)"},
	{"vrrp_instance.virtual_ipaddress/taken", "an address belongs to one instance, once"},
	{"vrrp_instance.virtual_ipaddress/loopback", "an address on lo: for IPv4 it depends on arp_ignore, for IPv6 it cannot be reached (warning)"},
	{"vrrp_instance.virtual_ipaddress/prefix", "an address with the prefix length of its subnet (warning)"},
	{"vrrp_instance.virtual_ipaddress/untracked", "an address on an interface that is not tracked (warning)"},
	{"vrrp_instance.virtual_ipaddress/linklocal", "the first IPv6 address should be link-local (warning)"},
	{"vrrp_instance.interface/loopback", "adverts on lo reach nobody (warning)"},
	{"vrrp_instance.no_virtual_ipaddress/contradiction", "no_virtual_ipaddress with addresses"},
	{"vrrp_instance.preempt/contradiction", "preempt and nopreempt agree"},
	{"vrrp_instance.nopreempt/state", "nopreempt with state MASTER or priority 255 (warning)"},
	{"vrrp_instance.nopreempt/weight", "weights and nopreempt together may never move the addresses (warning)"},
	{"vrrp_instance.preempt_delay/void", "preempt_delay with nopreempt, state MASTER or priority 255 (warning)"},
	{"vrrp_instance.timer_expired_backup/void", "timer_expired_backup without nopreempt (warning)"},
	{"vrrp_instance.owner_ignore_adverts/void", "owner_ignore_adverts below priority 255 (warning)"},
	{"vrrp_instance.higher_prio_send_advert/always", "the last advert is always sent (warning)"},
	{"global_defs.vrrp_higher_prio_send_advert/always", "the last advert is always sent (warning)"},
	{"vrrp_instance.garp_master_refresh/ageing", "announcements that come later than switches forget, or never (warning)"},
	{"global_defs.vrrp_garp_master_refresh/ageing", "announcements that come later than switches forget, or never (warning)"},
	{"vrrp_instance.garp_interval/group", "a gap that a garp_group overrides (warning)"},
	{"vrrp_instance.gna_interval/group", "a gap that a garp_group overrides (warning)"},
	{"garp_group.interface/both", "interface or interfaces"},
	{"garp_group.interfaces/none", "a group has interfaces"},
	{"garp_group.interfaces/vmac", "interfaces of a group are no links with a virtual MAC, which have the gap of the interface below"},
	{"garp_group.interfaces/taken", "an interface is in one group"},
	{"garp_group.garp_interval/none", "a group without a gap (warning)"},
	{"vrrp_instance.strict_mode/rfc", "what vrrp_strict and strict_mode forbid"},
	{"vrrp_instance.strict_mode/accept", "strict mode without accept or no_accept (warning)"},
	{"vrrp_instance.no_accept/contradiction", "accept and no_accept agree"},
	{"vrrp_instance.no_accept/owner", "no_accept with priority 255 (warning)"},
	{"file.interface_up_down_delays/long", "a down delay that is longer than the other directors wait"},
	{"file.static_ipaddress/taken", "a static address is listed once"},
	{"file.static_ipaddress/group", "track_group names a track_group table"},
	{"file.static_routes/group", "track_group names a track_group table"},
	{"file.static_routes/twice", "a static route is listed once"},
	{"file.static_rules/group", "track_group names a track_group table"},
	{"file.static_rules/twice", "a static rule is listed once"},
	{"file.static_rules/priority", "a rule without a priority (warning)"},
	{"track_group.group/none", "a group needs members"},
	{"track_group.group/unknown", "a group names vrrp_instance tables"},
	{"vrrp_instance.virtual_routes/twice", "a route is listed once, and not as a static one too"},
	{"vrrp_instance.virtual_rules/twice", "a rule is listed once, and not as a static one too"},
	{"vrrp_instance.virtual_rules/priority", "a rule without a priority (warning)"},
	{"vrrp_sync_group.group/none", "a group needs members"},
	{"vrrp_sync_group.group/single", "a group of one (warning)"},
	{"vrrp_sync_group.group/taken", "an instance is in one group"},
	{"vrrp_sync_group.group/unknown", "a group names vrrp_instance tables"},
	{"vrrp_sync_group.group/owner", "all members own their addresses, or none"},
	{"vrrp_sync_group.group/weight", "one tracker has one weight in a group"},
	{"vrrp_sync_group.track_script/unknown", "track_script names a vrrp_script"},
	{"vrrp_sync_group.track_file/unknown", "track_file names a vrrp_track_file"},
	{"vrrp_sync_group.track_process/unknown", "track_process names a vrrp_track_process"},
	{"vrrp_instance.virtual_router_id/taken", "adverts for two virtual routers can be told apart"},
	{"vrrp_instance.track_script/unknown", "track_script names a vrrp_script"},
	{"vip_spread.directors/unknown", "this machine is one of the directors, by router_id or host name"},
	{"vip_spread.groups/vrids", "every group needs a VRID"},
	{"vip_spread.groups/addresses", "every group needs an address"},
	{"vip_spread.groups/room", "an advert must hold the addresses of a group"},
	{"vip_spread.groups/taken", "the instances of a spread have names of their own"},
	{"vip_spread.virtual_ipaddress/family", "the addresses of one spread are of one family"},
	{"vip_spread.virtual_ipaddress/linklocal", "the first IPv6 address of each group should be link-local (warning)"},
	{"vip_spread.virtual_ipaddress/none", "a spread has addresses"},
	{"vip_spread.nopreempt/uneven", "with nopreempt groups do not return to their directors (warning)"},
	{"vrrp_instance.track_file/unknown", "track_file names a vrrp_track_file"},
	{"vrrp_instance.track_process/unknown", "track_process names a vrrp_track_process"},
	{"vrrp_instance.track_src_ip/always", "vipd sends from no address that is not there"},
	{"vrrp_track_process.quorum_max/contradiction", "quorum_max is not below quorum"},
	{"global_defs.notify_fifo_script/fifo", "a script needs its FIFO"},
	{"global_defs.vrrp_notify_fifo_script/fifo", "a script needs its FIFO"},
	{"global_defs.lvs_notify_fifo_script/fifo", "a script needs its FIFO"},
	{"global_defs.vrrp_notify_fifo/taken", "FIFOs have paths of their own"},
	{"global_defs.lvs_notify_fifo/taken", "FIFOs have paths of their own"},
	{"global_defs.notification_email/server", "mail needs a server (warning)"},
	{"global_defs.smtp_alert/nobody", "mail needs somebody who gets it (warning)"},
	{"global_defs.no_checker_emails/always", "single checks are never mailed (warning)"},
	{"global_defs.lvs_sync_daemon/unknown", "lvs_sync_daemon names a vrrp_instance or vrrp_sync_group"},
	{"global_defs.lvs_sync_daemon/others", "services of other instances than that of the sync daemon (warning)"},
	{"global_defs.lvs_sync_daemon/mixed", "no sync daemon beside servers of another family"},
	{"global_defs.lvs_sync_daemon/owner", "priority 255 does not wait for connections (warning)"},
	{"global_defs.sync_delay/void", "sync_delay without lvs_sync_daemon (warning)"},
	{"global_defs.lvs_timeouts/keepalive", "connections that are forgotten before TCP's keepalive (warning)"},
	{"virtual_server.survive/sched", "survive = mh uses the scheduler mh"},
	{"virtual_server.survive/persistence", "survive = mh and persistence (warning)"},
	{"virtual_server.survive/inhibit", "survive = mh and servers that are removed (warning)"},
	{"virtual_server_group.address/none", "a group has services"},
	{"virtual_server_group.address/many", "how many services a group can have"},
	{"virtual_server_group.address/overlap", "a service is in a group once"},
	{"virtual_server.group/unknown", "group names a virtual_server_group table"},
	{"virtual_server.sh-port/scheduler", "sh-port is for the scheduler sh"},
	{"virtual_server.sh-fallback/scheduler", "sh-fallback is for the scheduler sh"},
	{"virtual_server.mh-port/scheduler", "mh-port is for the scheduler mh"},
	{"virtual_server.mh-fallback/scheduler", "mh-fallback is for the scheduler mh"},
	{"virtual_server.flag-1/unused", "a flag of a scheduler that has none (warning)"},
	{"virtual_server.ops/protocol", "one-packet scheduling is for UDP"},
	{"virtual_server.ops/nat", "one-packet scheduling under NAT (warning)"},
	{"virtual_server.persistence_engine/protocol", "the persistence engine reads UDP"},
	{"virtual_server.persistence_engine/unused", "persistence_engine without persistence_timeout (warning)"},
	{"real_server.lthreshold/above", "lthreshold is not above uthreshold"},
	{"virtual_server.address/target", "a service has an address or a fwmark, not both"},
	{"virtual_server.address/port", "a service without a port needs persistence"},
	{"virtual_server.address/taken", "a service is defined once"},
	{"virtual_server.address/no_accept", "a service on an address with no_accept (warning)"},
	{"virtual_server.address/novip", "the service address is nobody's virtual address (warning)"},
	{"virtual_server.name/taken", "names of services are unique"},
	{"virtual_server.ip_family/mismatch", "ip_family fits the address"},
	{"virtual_server.ip_family/unclear", "the family of a fwmark service must be clear"},
	{"virtual_server.protocol/fwmark", "protocol has no meaning for a fwmark (warning)"},
	{"virtual_server.persistence_granularity/family", "the mask fits the family"},
	{"virtual_server.persistence_granularity/unused", "a mask without persistence (warning)"},
	{"virtual_server.quorum/unreachable", "a quorum above the sum of weights (warning)"},
	{"virtual_server.hysteresis/quorum", "hysteresis is below the quorum"},
	{"virtual_server.hysteresis/unreachable", "quorum and hysteresis above the sum of weights (warning)"},
	{"virtual_server.sorry_server_inhibit/unused", "sorry_server_inhibit without sorry_server (warning)"},
	{"virtual_server.ha_suspend/fwmark", "a fwmark has no address that could be away (warning)"},
	{"virtual_server.active_on/instance", "active_on needs an instance"},
	{"virtual_server.active_instance/unknown", "active_instance names a vrrp_instance"},
	{"virtual_server.active_instance/unused", "active_instance without active_on (warning)"},
	{"virtual_server.on_failure/contradiction", "on_failure and inhibit_on_failure agree"},
	{"real_server.on_failure/contradiction", "on_failure and inhibit_on_failure agree"},
	{"virtual_server.on_failure/udp", "a failed server of UDP is always deleted (warning)"},
	{"virtual_server.slow_start/weight", "a weight of 1 has no steps (warning)"},
	{"virtual_server.min_up/sorry", "min_up keeps the sorry server out (warning)"},
	{"virtual_server.sorry_server/port", "the sorry server's port under DR and TUN"},
	{"virtual_server.sorry_server/family", "the sorry server's family under NAT and DR"},
	{"virtual_server.real_server/none", "a service without servers (warning)"},
	{"virtual_server.real_server/unchecked", "servers without a check (warning)"},
	{"real_server.address/port", "the server's port under DR and TUN"},
	{"real_server.address/family", "the server's family under NAT and DR"},
	{"real_server.address/taken", "a server is listed once in a service"},
	{"real_server.address/vip", "a server with the address of the service (warning)"},
	{"real_server.address/checkport", "a check needs a port"},
	{"check.bindto/family", "bindto is of the family of the target"},
	{"check.check_path/method", "check_path = \"vip\" is for DR"},
	{"check.check_path/address", "check_path = \"vip\" needs an address"},
	{"check.fwmark/unused", "check_path = \"vip\" and a fwmark (warning)"},
	{"check.bind_if/linklocal", "a link-local address needs bind_if"},
	{"HTTP_GET.fast_recovery/always", "recovery is always fast (warning)"},
	{"SSL_GET.fast_recovery/always", "recovery is always fast (warning)"},
	{"SSL_GET.enable_sni/name", "enable_sni needs a name"},
	{"SSL.ca/certificate", "ca holds certificates"},
	{"SSL.key/both", "certificate and key go together"},
	{"SSL.key/open", "the key can be opened"},
	{"SSL.certificate/pair", "certificate and key fit"},
	{"url.regex/re2", "regex is one of RE2"},
	{"url.regex/missing", "regex_… without regex (warning)"},
	{"url.regex_max_offset/below", "regex_max_offset is not below regex_min_offset"},
	{"url.tls_compliant/plain", "tls_compliant without TLS (warning)"},
	{"DNS_CHECK.answer/record", "answer holds records of the type"},
	{"UDP_CHECK.min_reply_length/unused", "a length without require_reply (warning)"},
	{"UDP_CHECK.max_reply_length/unused", "a length without require_reply (warning)"},
	{"UDP_CHECK.min_reply_length/contradiction", "min_reply_length is not above max_reply_length"},
	{"GRPC_CHECK.sni_name/unused", "a name without TLS (warning)"},
	{"FILE_CHECK.track_file/unknown", "track_file names a vrrp_track_file"},
	{"FILE_CHECK.weight/unused", "a weight without dynamic (warning)"},
}

// say reports something about a key of a table, or about the table when the key
// is not given.
func (b *builder) say(severity Severity, v *values, key, id, message, detail string) {
	it, path := v.place(key)
	b.sayAt(severity, it, path, id, message, detail)
}

// sayAt reports something about an item. When a file could not be read, nothing
// is reported that the missing part may explain.
func (b *builder) sayAt(severity Severity, it *item, path, id, message, detail string) {
	if !b.broken {
		b.report(it.src, it.at, Diagnostic{Severity: severity, Rule: id, Path: path, Message: message, Detail: detail})
	}
}

// build fills in the Config.
func (b *builder) build(top *values) {
	b.global = get[*values](top, "global_defs")
	if b.global == nil {
		b.global = &values{block: globalBlock, it: top.it}
	}
	b.config.Global.RouterID = b.env.Hostname
	if b.global.has("router_id") {
		b.config.Global.RouterID = get[string](b.global, "router_id")
	}
	b.config.Global.StartupDelay = get[time.Duration](b.global, "vrrp_startup_delay")
	b.config.Global.DelayAfterBoot = get[time.Duration](b.global, "vrrp_delay_after_boot")
	b.config.Global.HugePages = get[bool](b.global, "huge_pages")
	b.config.Global.StopWait = get[time.Duration](b.global, "stop_wait")
	b.scheduling()
	b.said, b.tables = map[string]bool{}, map[string]*values{}
	b.config.Global.ScriptUser = get[User](b.global, "script_user")
	b.config.Global.ScriptSecurity = get[bool](b.global, "enable_script_security")
	b.events()
	b.firewall()
	b.mail(top)
	b.place(top)
	b.trusts = map[*values]Trust{}
	b.ssl = b.trust(get[*values](top, "SSL"))
	b.vmacGlobals()
	b.scripts = map[string]*values{}
	for _, v := range get[[]*values](top, "vrrp_script") {
		b.scripts[v.name] = v
		b.config.Scripts = append(b.config.Scripts, buildScript(v))
	}
	b.files, b.processes = map[string]*values{}, map[string]*values{}
	for _, v := range get[[]*values](top, "vrrp_track_file") {
		b.files[v.name] = v
		b.config.TrackFiles = append(b.config.TrackFiles, buildTrackFile(v))
	}
	for _, v := range get[[]*values](top, "vrrp_track_process") {
		b.processes[v.name] = v
		b.config.TrackProcesses = append(b.config.TrackProcesses, b.trackProcess(v))
	}
	b.garpGroups(get[[]*values](top, "garp_group"))
	groups := get[[]*values](top, "vrrp_sync_group")
	b.membership(groups)
	b.vips, b.vrids = map[netip.Addr]claim{}, map[uint8][]vridUser{}
	b.statics(top)
	for _, v := range get[[]*values](top, "vrrp_instance") {
		b.config.Instances = append(b.config.Instances, b.instance(v))
	}
	spreads := get[[]*values](top, "vip_spread")
	for _, v := range spreads {
		b.spread(v)
	}
	b.distinct(spreads, get[[]*values](top, "vrrp_instance"))
	b.vmacLinks()
	b.groupedVMACs(get[[]*values](top, "garp_group"))
	b.syncGroups(groups)
	b.trackGroups(top)
	b.delays(top)
	b.ipvsSettings(top)
	b.serverGroups(get[[]*values](top, "virtual_server_group"))
	b.servers(get[[]*values](top, "virtual_server"))
	b.survival()
}

// buildScript returns a vrrp_script.
func buildScript(v *values) Script {
	w := get[weight](v, "weight")
	s := Script{
		Name:     v.name,
		Argv:     get[[]string](v, "script"),
		Interval: get[time.Duration](v, "interval"),
		Weight:   w.n,
		Reverse:  w.reverse,
		Rise:     v.num("rise"),
		Fall:     v.num("fall"),
		InitFail: get[bool](v, "init_fail"),
		User:     get[User](v, "user"),
	}
	s.Timeout = s.Interval
	if v.has("timeout") {
		s.Timeout = get[time.Duration](v, "timeout")
	}
	return s
}

// family names an address family.
func family(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}
