package conf

import (
	"net/netip"
	"slices"
	"time"
)

// Units of key.min and key.max of times.
const (
	second = int64(time.Second)
	hour   = int64(time.Hour)
	day    = 24 * hour
)

// The multicast groups of VRRP (RFC 9568 §5.1).
var (
	defaultGroup4 = netip.AddrFrom4([4]byte{224, 0, 0, 18})
	defaultGroup6 = netip.MustParseAddr("ff02::12")
)

// scriptBlock is [vrrp_script.NAME].
var scriptBlock = &block{
	name:   "vrrp_script",
	header: "[vrrp_script.NAME]",
	named:  true,
	doc:    "A program that is run again and again. Exit code 0 means good. Instances name it in track_script.",
	keys: []*key{
		{name: "script", kind: commandKind, need: true, doc: "The command: a string, split into words as a shell would (quotes and backslashes, but no variables, patterns or pipes), or an array of words. A script that does not begin with #! is run by /bin/sh."},
		{name: "interval", kind: timeKind, min: int64(10 * time.Millisecond), max: day, def: time.Second, doc: "Time from one start to the next. A run that is still going on is not started a second time."},
		{name: "timeout", kind: timeKind, min: int64(10 * time.Millisecond), max: day, defText: "interval", doc: "A run that takes longer is killed and counts as failed."},
		{name: "weight", kind: weightKind, min: -253, max: 253, def: weight{}, doc: "Default of the weight in track_script. 0: a failure puts the instance into FAULT; above 0: added to the priority while good; below 0: taken off while bad. \"-20 reverse\" swaps good and bad."},
		{name: "rise", kind: intKind, min: 1, max: 10000, def: 1, doc: "Good runs in a row that make it good."},
		{name: "fall", kind: intKind, min: 1, max: 10000, def: 1, doc: "Bad runs in a row that make it bad."},
		{name: "init_fail", kind: boolKind, def: false, doc: "Count as bad until the first result."},
		{name: "user", kind: userKind, defText: "script_user", doc: "Who it runs as: \"USER [GROUP]\" or { user = \"USER\", group = \"GROUP\" }."},
	},
}

// weightMax bounds the weight of a track file, as in keepalived.
const weightMax = 1<<31 - 1

// trackFileBlock is [vrrp_track_file.NAME].
var trackFileBlock = &block{
	name:   "vrrp_track_file",
	header: "[vrrp_track_file.NAME]",
	named:  true,
	doc:    "A file that holds a number. Instances name it in track_file; a change is seen at once. A file that is missing, empty or holds no whole number counts as 0.",
	keys: []*key{
		{name: "file", kind: fileKind, need: true, doc: "The file, with an absolute path."},
		{name: "weight", kind: weightKind, min: -weightMax, max: weightMax, def: weight{n: 1}, note: "the number in the file is multiplied with it", doc: "The number in the file times this is added to the priority; a product of -254 or less means FAULT. 0: any number but 0 means FAULT. \"1 reverse\" turns the sign (with 0: 0 means FAULT)."},
		{name: "init_file", kind: initFileKind, doc: "Write the file at the start when it does not exist: true or a number (true is 0); \"N overwrite\" or \"overwrite\" even when it does. A reload writes nothing."},
	},
}

// trackProcessBlock is [vrrp_track_process.NAME].
var trackProcessBlock = &block{
	name:   "vrrp_track_process",
	header: "[vrrp_track_process.NAME]",
	named:  true,
	doc:    "Processes that are counted. Instances name it in track_process. The kernel tells of processes that start and end; where it does not (in a container, in another network or process namespace), /proc is read twice a second, and status says so.",
	keys: []*key{
		{name: "process", kind: commandKind, need: true, doc: "The name of the process as in /proc/PID/comm (\"nginx\"). With arguments, full_command or param_match: its command line, the command as it was started."},
		{name: "param_match", kind: choiceKind, words: []string{"initial", "partial"}, defText: "all arguments must be the same", doc: "partial: the first arguments must be those of process; initial: the same, and the last one may go on. Without arguments in process: the command must have none."},
		{name: "full_command", kind: boolKind, def: false, doc: "Compare the command, not the name, though process has no arguments."},
		{name: "weight", kind: weightKind, min: -254, max: 254, def: weight{}, note: "0 means FAULT while the number of processes is wrong", doc: "Default of the weight in track_process; as for vrrp_script."},
		{name: "quorum", kind: intKind, min: 0, max: 65535, defText: "1; with quorum_max = 0 it is 0", doc: "Fewer processes are a failure."},
		{name: "quorum_max", kind: intKind, min: 0, max: 65535, defText: "no bound", doc: "More processes are a failure; 0: it must not run."},
		{name: "fork_delay", kind: timeKind, max: hour, defText: "delay", doc: "How long there must be enough processes before that counts."},
		{name: "terminate_delay", kind: timeKind, max: hour, defText: "delay", doc: "How long there must be too few before that counts: a restart takes its time."},
		{name: "delay", kind: timeKind, max: hour, def: time.Duration(0), doc: "Both delays."},
	},
}

// authBlock is [vrrp_instance.NAME.authentication].
var authBlock = &block{
	name:   "authentication",
	header: "[vrrp_instance.NAME.authentication]",
	doc:    "The plain-text password of VRRP version 2. It is readable on the wire and keeps out misconfigured neighbours, nobody else.",
	keys: []*key{
		{name: "auth_type", kind: choiceKind, words: []string{"PASS"}, need: true, doc: "PASS."},
		{name: "auth_pass", kind: textKind, min: 1, max: 255, need: true, secret: true, doc: "The password. Only the first 8 bytes are sent."},
	},
}

// instanceBlock is [vrrp_instance.NAME].
var instanceBlock = &block{
	name:   "vrrp_instance",
	header: "[vrrp_instance.NAME]",
	named:  true,
	doc:    "One virtual router: a set of addresses that one of several directors owns at a time.",
	keys: slices.Concat([]*key{
		{name: "interface", kind: interfaceKind, defText: "must be given, except by unicast with unicast_src_ip", doc: "Where adverts are sent and heard, and where addresses go that name no other device. With unicast_peer and unicast_src_ip it may be left out: then the instance lives wherever that address is, on whichever interface; every virtual address names its dev, and no link but those in track_interface matters. status shows the interface that has the address."},
		{name: "virtual_router_id", kind: intKind, min: 1, max: 255, need: true, doc: "The VRID: the same on all directors of this virtual router, and used by no other on this network. Two on one interface may share one when adverts tell them apart: by another mcast_dst_ip, by other unicast_peer or unicast_src_ip, or when one of the two goes by multicast and the other by unicast."},
		{name: "state", kind: choiceKind, words: []string{"MASTER", "BACKUP"}, defText: "MASTER when priority is 255, else BACKUP", doc: "A hint for the start only. Who is master is decided by priority."},
		{name: "priority", kind: intKind, min: 1, max: 255, defText: "100; with state MASTER 255", doc: "The highest wins. 255 means that this machine owns the addresses by right; trackers do not move it."},
		{name: "advert_int", kind: timeKind, min: int64(10 * time.Millisecond), max: 255 * second, def: time.Second, note: "version 2: whole seconds, 1..255; version 3: 0.01..40.95 s in steps of 10 ms", doc: "Time between adverts. Version 2: whole seconds, 1..255. Version 3: 0.01..40.95 s in steps of 10 ms. Shorter means a faster takeover."},
		{name: "version", kind: intKind, min: 2, max: 3, defText: "vrrp_version of global_defs for IPv4; 3 for IPv6", doc: "VRRP version."},
		{name: "virtual_ipaddress", kind: vipsKind, doc: "The addresses of this virtual router, one family, carried in adverts: " + addressLine + " [no_track] [use_vmac]\", or an inline table { address = \"…\", dev = \"…\", … }."},
		{name: "virtual_ipaddress_excluded", kind: vipsKind, doc: "Addresses that move along but are not in adverts: more than an advert can hold, or those of the other family. Same form."},
		{name: "no_virtual_ipaddress", kind: boolKind, def: false, doc: "The instance has no addresses on purpose (a script or a cloud API moves them)."},
	}, movedKeys, []*key{
		{name: "nopreempt", kind: boolKind, def: false, doc: "Do not take over from a working master of lower priority. Has no effect with state MASTER or priority 255."},
		{name: "preempt", kind: boolKind, defText: "true", doc: "The opposite of nopreempt; give one of the two."},
		{name: "preempt_delay", kind: timeKind, max: 1000 * second, def: time.Duration(0), doc: "Put up with a master of lower priority for so long, counted from its first advert; 0: take over at once. Where there is no master nothing is delayed. Has no effect with nopreempt, state MASTER or priority 255."},
		{name: "timer_expired_backup", aliases: []string{"thread_timer_expired"}, kind: lateKind, def: int64(0), defText: "false", doc: "With nopreempt: a master that was frozen (a paused machine) for so long that another director of this priority (true: 254) must have taken over goes to BACKUP and listens, instead of taking the addresses back."},
		{name: "higher_prio_send_advert", kind: boolKind, def: true, doc: "As vrrp_higher_prio_send_advert in global_defs."},
		{name: "owner_ignore_adverts", kind: boolKind, defText: "vrrp_owner_ignore_adverts", doc: "As in global_defs, for this instance."},
		{name: "strict_mode", kind: boolKind, defText: "vrrp_strict", doc: "As vrrp_strict in global_defs, for this instance."},
		{name: "authentication", kind: tableKind, block: authBlock, doc: "Password of version 2 adverts."},
		{name: "auth_hmac", kind: tableKind, block: hmacBlock, doc: "Signed adverts, for both versions and families."},
		{name: "v3_checksum_as_v2", kind: boolKind, defText: "as in global_defs", doc: "As in global_defs, for this instance."},
		{name: "mcast_src_ip", kind: addressKind, defText: "the first address of the interface", doc: "Source address of adverts."},
		{name: "mcast_dst_ip", kind: groupKind, defText: "vrrp_mcast_group4, vrrp_mcast_group6", doc: "Multicast group of adverts."},
		{name: "use_vmac", kind: vmacKind, defText: "false", doc: "Adverts and addresses have the virtual MAC of the virtual router, 00:00:5e:00:01:VRID (IPv6: 00:00:5e:00:02:VRID), on a link of their own (a macvlan in private mode on the interface). So no neighbour has to learn another MAC at a takeover. true, or \"[[name] LINK] [MAC] [group N] [netlink_notify_msg]\", or a table { name = \"LINK\", mac = \"MAC\", group = N, netlink_notify_msg = true }. The link is called vrrp.VRID unless named (vrrp6.VRID or vrrp1.VRID when that is taken). A MAC of 5 octets has the VRID added. group is the interface group of the link, otherwise that of the interface."},
		{name: "vmac_xmit_base", kind: boolKind, def: false, doc: "With use_vmac: adverts leave and arrive by the interface itself, with its own MAC. Always so with unicast_peer."},
		{name: "use_vmac_addr", kind: boolKind, def: false, doc: "Each address on another interface, or of the other family, gets a link with a virtual MAC, too. use_vmac in the line of an address asks for it for that one alone."},
		{name: "dont_track_primary", kind: boolKind, def: false, doc: "The state of the instance's interface, and of its link with the virtual MAC, is no reason for FAULT. Without carrier nothing is heard, so this director then becomes master as well."},
		{name: "unicast_peer", kind: peersKind, doc: "The other directors, when adverts go to each of them instead of a multicast group: \"ADDRESS [min_ttl N] [max_ttl N]\" or a table. The routing table decides on the way, over routers too. One file may list all directors: a director does not speak to itself. The bounds are those of the TTL of adverts from that peer."},
		{name: "unicast_src_ip", kind: addressKind, defText: "the first address of the interface, for IPv6 the link-local one", doc: "Source address of adverts by unicast, on whichever interface. The instance is in FAULT while it is missing."},
		{name: "unicast_ttl", kind: intKind, min: 1, max: 255, def: 255, doc: "TTL or hop limit of adverts by unicast.", differs: "for IPv6, keepalived leaves it to the kernel (64)."},
		{name: "unicast_fault_no_peer", kind: boolKind, def: true, doc: "Stay in FAULT while unicast_peer is empty. It is always so.", differs: "keepalived falls back to multicast unless this is given."},
		{name: "check_unicast_src", kind: boolKind, defText: "vrrp_check_unicast_src", doc: "As in global_defs, for this instance."},
		{name: "skip_check_adv_addr", kind: boolKind, defText: "vrrp_skip_check_adv_addr", doc: "As in global_defs, for this instance."},
		{name: "lower_prio_no_advert", kind: boolKind, defText: "vrrp_lower_prio_no_advert", doc: "As in global_defs, for this instance."},
		{name: "accept", kind: boolKind, defText: "true", doc: "The opposite of no_accept; give one of the two."},
		{name: "no_accept", kind: boolKind, def: false, doc: "While MASTER, drop packets that are addressed to the addresses of this instance, or sent from them, by nftables: what they route for others goes on, ARP, neighbour discovery and VRRP too. Services of IPVS on them are cut off, see nftables_priority. Has no effect with priority 255. FAULT where the kernel has no nftables.", differs: "keepalived also drops router advertisements and ICMP errors sent from them."},
		{name: "down_timer_adverts", kind: intKind, min: 1, max: 100, defText: "vrrp_down_timer_adverts", doc: "As in global_defs, for this instance."},
		{name: "garp_master_delay", kind: timeKind, max: hour, defText: "vrrp_garp_master_delay", doc: "As in global_defs, for this instance."},
		{name: "garp_master_repeat", kind: intKind, min: 1, max: 255, defText: "vrrp_garp_master_repeat", doc: "As in global_defs, for this instance."},
		{name: "garp_master_refresh", kind: timeKind, max: day, defText: "vrrp_garp_master_refresh", doc: "As in global_defs, for this instance."},
		{name: "garp_master_refresh_repeat", kind: intKind, min: 1, max: 255, defText: "vrrp_garp_master_refresh_repeat", doc: "As in global_defs, for this instance."},
		{name: "garp_lower_prio_delay", kind: timeKind, max: hour, defText: "vrrp_garp_lower_prio_delay", doc: "As in global_defs, for this instance. Unset, it does not follow the instance's garp_master_delay."},
		{name: "garp_lower_prio_repeat", kind: intKind, min: 0, max: 255, defText: "vrrp_garp_lower_prio_repeat", doc: "As in global_defs, for this instance. Unset, it does not follow the instance's garp_master_repeat."},
		{name: "garp_interval", kind: timeKind, max: 10 * second, defText: "vrrp_garp_interval", doc: "As in global_defs, for this instance."},
		{name: "gna_interval", kind: timeKind, max: 10 * second, defText: "vrrp_gna_interval", doc: "As in global_defs, for this instance."},
		{name: "garp_extra_if", kind: extraKind, defText: "vrrp_garp_extra_if", doc: "As in global_defs, for this instance."},
		{name: "garp_form", kind: choiceKind, words: garpForms, defText: "vrrp_garp_form", doc: "As in global_defs, for this instance."},
		{name: "track_interface", kind: tracksKind, min: -253, max: 253, doc: "Interfaces whose state moves the priority: \"IF [weight N] [reverse]\" or { name = \"IF\", weight = N, reverse = true }. Without a weight, a lost link means FAULT."},
		{name: "track_script", kind: tracksKind, min: -253, max: 253, doc: "Scripts whose result moves the priority: \"NAME [weight N] [reverse]\" or a table. What is not given is as in the vrrp_script; noreverse undoes its reverse."},
		{name: "track_file", kind: tracksKind, min: -254, max: 254, doc: "Files whose number moves the priority: \"NAME [weight N] [reverse]\" or a table. What is not given is as in the vrrp_track_file; noreverse undoes its reverse."},
		{name: "track_process", kind: tracksKind, min: -254, max: 254, doc: "Processes whose number moves the priority: \"NAME [weight N] [reverse]\" or a table. What is not given is as in the vrrp_track_process; noreverse undoes its reverse."},
		{name: "track_src_ip", kind: boolKind, def: true, doc: "FAULT while the source address of adverts is on no interface. vipd has nothing else to offer: false is an error.", differs: "keepalived sends from the missing address unless this is set."},
		{name: "notify", kind: runKind, doc: "Command to run at every change of state, after the one for that state. It gets four more arguments: INSTANCE, the name, MASTER, BACKUP, FAULT, STOP or DELETED, and the effective priority. This and the following may name who runs it: { script = \"…\", user = \"USER\", group = \"GROUP\" }."},
		{name: "notify_master", kind: runKind, doc: "Command to run on becoming MASTER."},
		{name: "notify_backup", kind: runKind, doc: "Command to run on becoming BACKUP."},
		{name: "notify_fault", kind: runKind, doc: "Command to run on entering FAULT."},
		{name: "notify_stop", kind: runKind, doc: "Command to run when vipd stops. All commands of the stop together get one second."},
		{name: "notify_deleted", kind: deletedKind, doc: "Command to run when a reload removes the instance; notify and the FIFOs then say DELETED. true: they do, without a command. Otherwise the removal counts as FAULT."},
		{name: "notify_master_rx_lower_pri", kind: runKind, doc: "Command to run when a MASTER hears an advert of a lower priority, at most five times a second. In a cloud it takes the address back."},
		{name: "notify_priority_changes", kind: boolKind, defText: "vrrp_notify_priority_changes", doc: "As in global_defs, for this instance."},
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_vrrp, else smtp_alert of global_defs, else false", doc: "Mail every change of state to notification_email of global_defs."},
	}),
}
