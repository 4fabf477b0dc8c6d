package conf

import (
	"slices"
	"strings"
)

// fate says what becomes of a keyword of keepalived that is no key.
type fate uint8

const (
	instead  fate = iota // vipd does not have it: an error with what to use instead
	noEffect             // has nothing to do in vipd: a warning
)

// keyword is a group of keywords of keepalived that vipd does not have.
type keyword struct {
	fate   fate
	blocks []string // names of blocks in which they stand
	words  string   // separated by blanks; * stands for any characters
	advice string   // what to use instead, or why it has no effect
}

var (
	inFile     = []string{"file"}
	inGlobal   = []string{"global_defs"}
	inInstance = []string{"vrrp_instance"}
	inSpread   = []string{"vip_spread"}
	inServers  = []string{"virtual_server", "real_server"}
)

// keywords are all words of keepalived 2.4 that are no keys of the schema.
var keywords = []keyword{
	{instead, inFile, "linkbeat_use_polling linkbeat_interfaces", "vipd hears of link changes from the kernel; for a driver that does not tell, watch the link with a vrrp_script that runs ethtool"},
	{instead, inFile, "bfd_instance", "use version = 3 with advert_int = 0.1 or less, which notices a dead director as fast"},
	{instead, inFile, "includer includem includew includeb includea", "use include: a plain name must exist, a pattern may match nothing, and every file is checked"},
	{noEffect, inFile, "namespace_with_ipsets", "vipd uses no ipsets"},
	{noEffect, inFile, "use_pid_dir", "vipd writes its pid into vipd.pid in its state directory, /run/vipd or that of instance and net_namespace"},
	{noEffect, inFile, "child_wait_time", "vipd is one process and has no children to wait for"},

	{instead, inGlobal, "nftables_ipvs nftables_ipvs_priority nftables_ipvs_start_fwmark", "leave it out: of a virtual_server_group each address and port is a service of IPVS, which vipd changes many at a time, and their servers are checked once; where a client must keep its server over several ports, mark the packets by nftables and write fwmark"},
	{instead, inGlobal, "vrrp_iptables vrrp_ipsets", "vipd does not touch iptables; for no_accept it makes nftables rules of its own (nftables)"},
	{instead, inGlobal, "max_auto_priority min_auto_priority_delay", "use vrrp_rt_priority, which holds from the start"},
	{instead, inGlobal, "snmp_socket enable_snmp_keepalived enable_snmp_vrrp enable_snmp_checker enable_snmp_rfc enable_snmp_rfcv2 enable_snmp_rfcv3 enable_traps snmp_vs_stats_update_interval snmp_rs_stats_update_interval", "vipd speaks no SNMP; read \"vipd status --json\""},
	{instead, inGlobal, "enable_dbus dbus_service_name dbus_no_interface_name", "vipd speaks no DBus; use its control socket: \"vipd status --json\", \"vipd reload\""},
	{instead, inGlobal, "umask", "set UMask= in the systemd unit"},
	{instead, inGlobal, "state_dump_file stats_dump_file json_dump_file json_version", "vipd writes no dump files; read \"vipd status --json\""},
	{instead, inGlobal, "reload_time_file reload_repeat reload_file", "run \"vipd reload\" from a systemd timer"},
	{noEffect, inGlobal, "include_check", "a plain name in include must always exist, a pattern may match nothing, and every file is checked"},
	{noEffect, inGlobal, "dynamic_interfaces", "vipd always waits for interfaces that are missing or come back"},
	{noEffect, inGlobal, "nftables_ifindex", "vipd matches interfaces by name, so that the rules hold when one is made anew"},
	{noEffect, inGlobal, "use_symlink_paths", "vipd always runs commands by the path that is written"},
	{noEffect, inGlobal, "reload_check_config", "vipd always checks the whole configuration before it reloads"},
	{noEffect, inGlobal, "log_unknown_vrids", "vipd always counts adverts of unknown virtual routers"},
	{noEffect, inGlobal, "process_names process_name vrrp_process_name checker_process_name bfd_process_name", "vipd is one process"},
	{noEffect, inGlobal, "checker_priority checker_rt_priority checker_rlimit_rttime checker_rlimit_rtime checker_cpu_affinity", "health checks run in the one process there is, and have what vrrp_rt_priority and so on say"},
	{noEffect, inGlobal, "checker_no_swap", "vipd is one process; use vrrp_no_swap"},
	{noEffect, inGlobal, "bfd_priority bfd_rt_priority bfd_rlimit_rttime bfd_rlimit_rtime bfd_cpu_affinity bfd_no_swap", "vipd speaks no BFD"},
	{noEffect, inGlobal, "vrrp_netlink_* lvs_netlink_* process_monitor_rcv_bufs process_monitor_rcv_bufs_force vrrp_rx_bufs_policy vrrp_rx_bufs_multiplier", "vipd sizes its buffers itself and reads everything again after an overflow"},
	{noEffect, inGlobal, "random_seed tmp_config_directory config_save_dir data_use_instance iproute_usr_dir iproute_etc_dir", "vipd does not need it"},
	{noEffect, inGlobal, "lvs_sync_daemon_interface linkbeat_use_polling", "keepalived dropped it"},

	{instead, inInstance, "old_unicast_checksum", "vipd speaks to no keepalived older than 1.3.7 by unicast; update that peer"},
	{instead, inInstance, "vrf", "name the interface inside the VRF with interface"},
	{instead, inInstance, "use_ipvlan", "use_vmac: a link with a virtual MAC; where the network takes only the MAC of the machine (Wi-Fi, many clouds and virtual machines) leave both out, addresses then sit on the interface itself"},
	{instead, inInstance, "track_bfd", "use track_script or track_interface"},
	{noEffect, inInstance, "native_ipv6 debug linkbeat_use_polling lvs_sync_daemon_interface", "keepalived dropped it"},
	{noEffect, inInstance, "kernel_rx_buf_size", "vipd sizes its buffers itself"},

	{instead, inSpread, "priority state", "every director's priority follows from its place in directors and its weight; \"vipd spread\" shows who owns what"},
	{instead, inSpread, "mcast_src_ip unicast_src_ip", "the file is the same on all directors, and each sends from the first address of its interface"},
	{instead, inSpread, "virtual_ipaddress_excluded no_virtual_ipaddress", "a spread deals out the addresses of virtual_ipaddress; write a vrrp_instance for others"},

	{instead, []string{"vrrp_sync_group"}, "track_bfd", "use track_script or track_interface"},
	{noEffect, []string{"vrrp_sync_group"}, "sync_group_tracking_weight", "trackers with weights always count, for all members alike"},
	{noEffect, []string{"vrrp_sync_group"}, "notify_priority_changes", "a group has no priority of its own, and its members have theirs"},
	{noEffect, []string{"vrrp_sync_group"}, "global_tracking", "members of a group always share their trackers"},

	{instead, inServers, "BFD_CHECK", "use TCP_CHECK with a short delay_loop (\"100ms\")"},
	{noEffect, []string{"PING_CHECK"}, "connect_port bind_port", "ICMP has no ports"},
	{noEffect, []string{"FILE_CHECK"}, "alpha retry delay_before_retry warmup delay_loop", "what the file says holds at once"},
	{noEffect, []string{"virtual_server"}, "nat_mask", "keepalived dropped it long ago"},
	{noEffect, []string{"virtual_server"}, "hashed", "the kernel sets this flag itself on every service it has"},
	{noEffect, inServers, "snmp_name", "vipd speaks no SNMP; name of the virtual_server is what status and commands use"},

	{noEffect, []string{"url"}, "regex_stack", "RE2 needs no stack"},
}

// keywordsOf lists the words of a block that are no keys, to suggest one for a
// misspelt word.
func keywordsOf(block string) []string {
	var words []string
	for _, k := range keywords {
		if slices.Contains(k.blocks, block) {
			words = append(words, strings.Fields(k.words)...)
		}
	}
	return slices.DeleteFunc(words, func(w string) bool { return strings.HasSuffix(w, "*") })
}

// lookupKeyword returns the group of a keyword in a block, or nil.
func lookupKeyword(block, word string) *keyword {
	for i := range keywords {
		k := &keywords[i]
		if slices.Contains(k.blocks, block) && slices.ContainsFunc(strings.Fields(k.words), func(w string) bool {
			prefix, wild := strings.CutSuffix(w, "*")
			return w == word || wild && strings.HasPrefix(word, prefix)
		}) {
			return k
		}
	}
	return nil
}
