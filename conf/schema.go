package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one line of the schema: everything there is to know about one key.
// Checks, suggestions and the reference page all come from it.
type key struct {
	name    string
	aliases []string // keepalived's other spellings
	kind    *kind
	min     int64    // of numbers; of times in nanoseconds
	max     int64    // as min
	words   []string // of a choice
	def     any      // the finished value when the key is not given; nil: none, or defText says what happens
	defText string   // the default in words, where it is not a constant
	need    bool     // must be given
	secret  bool     // the value is never shown
	block   *block   // of tables
	doc     string   // what it does, in one or two sentences
	note    string   // added to what is allowed in an error
	differs string   // how it differs from keepalived
}

// block is a table of the file and the keys it may hold.
type block struct {
	name    string // keepalived's word: vrrp_instance
	header  string // how it is written: [vrrp_instance.NAME]
	doc     string
	keys    []*key
	named   bool   // a table of tables with names of the user's choice
	borrows string // name of the block whose keys it takes beside its own
}

// find returns the key that is called name, by whichever spelling.
func (b *block) find(name string) *key {
	for _, k := range b.keys {
		if k.name == name || slices.Contains(k.aliases, name) {
			return k
		}
	}
	return nil
}

// names returns all spellings of all keys of the block.
func (b *block) names() []string {
	var names []string
	for _, k := range b.keys {
		names = append(append(names, k.name), k.aliases...)
	}
	return names
}

// blocks returns every block of the schema once, in the order of the
// reference.
func blocks() []*block {
	var all []*block
	var walk func(b *block)
	walk = func(b *block) {
		if b == nil || slices.Contains(all, b) {
			return
		}
		all = append(all, b)
		for _, k := range b.keys {
			walk(k.block)
		}
	}
	walk(rootBlock)
	return all
}

// rules returns the identifiers of every check made on a key.
func (k *key) rules(b *block) []string {
	var rules []string
	suffixes := k.kind.rules
	if k.need {
		suffixes = append(slices.Clone(suffixes), "required")
	}
	for _, suffix := range suffixes {
		rules = append(rules, b.name+"."+k.name+"/"+suffix)
	}
	return rules
}

// allowed says what may be written, for errors and the reference.
func (k *key) allowed() string {
	text := k.kind.allowed
	switch k.kind.name {
	case "int":
		text = fmt.Sprintf("%d..%d", k.min, k.max)
		if k.max == k.min+1 {
			text = fmt.Sprintf("%d or %d", k.min, k.max)
		}
	case "weight":
		text = fmt.Sprintf(`%d..%d, or a string with "reverse" ("-20 reverse")`, k.min, k.max)
	case "tracks":
		text = fmt.Sprintf(`an array of "NAME [weight %d..%d] [reverse]" or { name = "NAME", weight = N, reverse = true }`, k.min, k.max)
	case "time":
		text = "a time " + span2(k.min, k.max) + `: a number of seconds or a string with a unit ("250ms", "1m")`
	case "choice":
		quoted := make([]string, len(k.words))
		for i, w := range k.words {
			quoted[i] = `"` + w + `"`
		}
		text = strings.Join(quoted, ", ")
	}
	return text
}

// span2 shows a range of times.
func span2(from, to int64) string {
	return shortTime(time.Duration(from)) + ".." + shortTime(time.Duration(to))
}

// shortTime shows a time without the zero parts that Duration.String adds.
func shortTime(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return d.String()
}

// must returns the sentence that tells what is allowed for a key.
func (k *key) must() string {
	text := "must be " + k.allowed()
	if k.block != nil {
		text = "write it as " + k.block.header
	}
	if k.kind.name == "choice" && len(k.words) > 1 {
		text = "must be one of " + k.allowed()
	}
	if k.note != "" {
		text += "\n" + k.note
	}
	return text
}

// rootBlock is the file itself.
var rootBlock = &block{
	name:   "file",
	header: "top of the file",
	doc:    "What stands before the first table, and the tables there are.",
	keys: slices.Concat([]*key{
		{name: "include", kind: includeKind,
			doc: "Further files to read: names or patterns, relative to the directory of this file. Matches are read in name order, each file once. A table or key given twice is an error; arrays of tables ([[virtual_server]]) are joined. A pattern may match nothing; a plain name must exist."},
		{name: "net_namespace", kind: placeKind, doc: "Network namespace (as made by ip netns add) that vipd runs in, with its checks, its commands and its mail; also their /sys and the files of /etc/netns/NAME, as ip netns exec does it. It must exist at the start, and takes CAP_SYS_ADMIN to enter. Unless --state-dir and --socket say otherwise vipd then lives in /run/vipd-NAME. A reload cannot change it."},
		{name: "net_namespace_ipvs", kind: placeOrTrueKind, defText: "that of the rest", doc: "Network namespace that the IPVS table is in, apart from everything else; true: the one that vipd was started in before it entered net_namespace. A reload cannot change it."},
		{name: "instance", kind: placeKind, doc: "Name of this daemon among several on one machine: unless --state-dir and --socket say otherwise it lives in /run/vipd-NAME (with net_namespace, /run/vipd-NAMESPACE-NAME), and other commands find it by --instance. Each vipd needs a network namespace or virtual routers of its own. A reload cannot change it."},
		{name: "SSL", kind: tableKind, block: sslBlock, doc: "Certificates of all SSL_GET that have no table of this name themselves."},
		{name: "global_defs", kind: tableKind, block: globalBlock, doc: "Settings for the whole process and defaults of all instances."},
		{name: "interface_up_down_delays", kind: delaysKind, doc: "How long an interface must be down, and up again, before that counts: \"IF DOWN [UP]\", in seconds up to 255; UP is DOWN unless given. DOWN must be below (down_timer_adverts - 1) x advert_int of every instance there; UP covers switches and bonds that swallow packets after the link came up.", differs: "keepalived shortens both silently where they do not fit; here DOWN is an error and UP is not limited."},
		{name: "garp_group", kind: tablesKind, block: garpGroupBlock, doc: "Interfaces that share one gap between announcements."},
	}, staticKeys, []*key{
		{name: "vrrp_script", kind: namedKind, block: scriptBlock, doc: "Programs whose result moves the priority of instances."},
		{name: "vrrp_track_file", aliases: []string{"track_file"}, kind: namedKind, block: trackFileBlock, doc: "Files with a number that moves the priority of instances."},
		{name: "vrrp_track_process", kind: namedKind, block: trackProcessBlock, doc: "Processes that must run, or must not; they move the priority of instances."},
		{name: "vrrp_instance", kind: namedKind, block: instanceBlock, doc: "Virtual routers: who owns which addresses."},
		{name: "vip_spread", kind: namedKind, block: spreadBlock, doc: "Addresses that are spread over several directors by one file for all of them."},
		{name: "vrrp_sync_group", kind: namedKind, block: groupBlock, doc: "Instances that change state together."},
		{name: "virtual_server_group", kind: namedKind, block: serverGroupBlock, doc: "Services that share one pool of real servers and its checks."},
		{name: "ipvs_sysctl", kind: tableKind, block: ipvsSysctlBlock, doc: "Settings of the kernel's IPVS."},
		{name: "virtual_server", kind: tablesKind, block: virtualServerBlock, doc: "Services that IPVS spreads over real servers."},
	}),
}

// globalBlock is [global_defs].
var globalBlock = &block{
	name:   "global_defs",
	header: "[global_defs]",
	doc:    "Settings for the whole process, and defaults for every vrrp_instance: what an instance sets itself wins.",
	keys: slices.Concat(flushKeys, []*key{
		{name: "router_id", kind: textKind, min: 1, max: 255, defText: "the host name", doc: "Name of this director in status and logs."},
		{name: "vrrp_version", kind: intKind, min: 2, max: 3, def: 2, doc: "VRRP version of IPv4 instances. IPv6 instances speak version 3."},
		{name: "vrrp_mcast_group4", kind: group4Kind, def: defaultGroup4, doc: "Multicast group of IPv4 adverts."},
		{name: "vrrp_mcast_group6", kind: group6Kind, def: defaultGroup6, doc: "Multicast group of IPv6 adverts, of link-local scope."},
		{name: "vrrp_garp_master_delay", kind: timeKind, max: hour, def: 5 * time.Second, doc: "Time from becoming MASTER to the second burst of announcements; 0: no second burst."},
		{name: "vrrp_garp_master_repeat", kind: intKind, min: 1, max: 255, def: 5, doc: "Announcements per address and burst."},
		{name: "vrrp_garp_master_refresh", kind: timeKind, max: day, def: time.Minute, doc: "Time between bursts while MASTER; 0: none. Keep it below the ageing time of the switches, which forget after 300 s mostly: with 60, four bursts in a row may be lost.", differs: "keepalived announces only at a takeover (0)."},
		{name: "vrrp_garp_master_refresh_repeat", kind: intKind, min: 1, max: 255, def: 1, doc: "Announcements per address in each of those bursts."},
		{name: "vrrp_garp_lower_prio_delay", kind: timeKind, max: hour, defText: "vrrp_garp_master_delay", doc: "Time to the second burst after another master with a lower priority was heard; 0: no second burst."},
		{name: "vrrp_garp_lower_prio_repeat", kind: intKind, min: 0, max: 255, defText: "vrrp_garp_master_repeat", doc: "Announcements per address in the burst sent when another master with a lower priority is heard; 0: none."},
		{name: "vrrp_garp_interval", kind: timeKind, max: 10 * second, def: time.Duration(0), doc: "Least time between two ARP announcements on one interface; 0: as fast as possible."},
		{name: "vrrp_gna_interval", kind: timeKind, max: 10 * second, def: time.Duration(0), doc: "The same for IPv6 neighbour advertisements."},
		{name: "vrrp_min_garp", kind: boolKind, def: false, doc: "One announcement per address and burst, and no second burst: the defaults of vrrp_garp_master_repeat and vrrp_garp_master_delay become 1 and 0.", differs: "what the file sets stays as it is, wherever it stands; the refresh stays on."},
		{name: "vrrp_garp_extra_if", kind: extraKind, def: extra{}, defText: "`0`", doc: "While MASTER, announce so often the first address on each interface of the instance that adverts do not leave by, so that switches there do not forget its MAC; 0: never. Without \"all\" on interfaces with a virtual MAC alone."},
		{name: "vrrp_garp_form", aliases: []string{"garp_form"}, kind: choiceKind, words: garpForms, def: "request", doc: "Gratuitous ARP as a request, as a reply, or each announcement as both, for equipment that learns from one of them only. There is one form of neighbour advertisement.", differs: "keepalived sends requests."},
		{name: "vrrp_down_timer_adverts", kind: intKind, min: 1, max: 100, def: 3, doc: "Adverts that must be missing before a BACKUP takes over."},
		{name: "vrrp_lower_prio_no_advert", kind: boolKind, def: false, doc: "Do not answer the advert of a lesser master at once (RFC 5798 and before)."},
		{name: "vrrp_higher_prio_send_advert", kind: boolKind, def: true, doc: "Send a last advert before giving way to a better master, so that it announces its addresses again.", differs: "always done; false is accepted and warns."},
		{name: "vrrp_owner_ignore_adverts", kind: boolKind, def: false, doc: "An owner of the addresses (priority 255) ignores what others send. Two owners then stay masters both."},
		{name: "vrrp_startup_delay", kind: timeKind, max: day, def: time.Duration(0), doc: "All instances wait so long after the start of vipd, silently in INIT, before they begin to listen."},
		{name: "vrrp_delay_after_boot", kind: timeKind, max: day, def: time.Duration(0), doc: "All instances wait until the machine has been up for so long. The longer of the two delays counts."},
		{name: "stop_wait", kind: timeKind, max: 60 * second, def: 5 * time.Second, doc: "When vipd stops, each MASTER sends priority 0 and keeps its addresses, silently, until its successor announces itself; at most so long. When no other director is known to be there it is less than a second. 0: the addresses go at once.", differs: "keepalived removes them at once, and nobody answers for the skew time of the successor."},
		{name: "default_interface", kind: interfaceKind, def: "eth0", doc: "The interface of static_ipaddress entries without dev."},
		{name: "vrrp_strict", kind: boolKind, def: false, doc: "Report as errors what the RFC does not allow.", differs: "a check only: keepalived changes values silently and, unless accept is given, drops packets to the virtual addresses, as no_accept does."},
		{name: "vrrp_check_unicast_src", kind: boolKind, def: true, doc: "Drop adverts by unicast that come from none of the peers: a forged one could depose the master.", differs: "keepalived accepts them (off)."},
		{name: "vrrp_skip_check_adv_addr", kind: boolKind, def: false, doc: "Do not compare the addresses in the adverts of a master whose last advert matched."},
		{name: "script_user", kind: userKind, defText: "keepalived_script if there is such a user, else the user of vipd", doc: "Who vrrp_script, notify and other commands run as, unless they name a user of their own: \"USER [GROUP]\" or { user = \"USER\", group = \"GROUP\" }. Other users than vipd's own need CAP_SETUID, CAP_SETGID and CAP_KILL in the systemd unit."},
		{name: "enable_script_security", kind: boolKind, def: true, doc: "Do not run a command that others than root and the user it runs as could change: the program, what links lead to, and all directories above. A vrrp_script then counts as failed, and status says why.", differs: "keepalived leaves it off, and then looks at commands of root alone."},
		{name: "set_supplementary_groups", kind: boolKind, def: false, doc: "Give commands all groups of the user they run as, not the main one alone."},
		{name: "notify_fifo", kind: fifoKind, doc: "Named pipe to which every event is written, a line each, in order: \"PATH [USER [GROUP]]\" or { path = \"PATH\", user = \"USER\", group = \"GROUP\" }. Instances: INSTANCE \"NAME\" STATE PRIORITY; services: VS [ADDRESS]:tcp:PORT UP or DOWN; servers: RS [ADDRESS]:tcp:PORT [SERVICE ADDRESS]:tcp:PORT UP or DOWN. It is made when it does not exist. When nobody reads, the pipe and 10000 more lines are kept, then the oldest are dropped, counted and logged."},
		{name: "notify_fifo_script", kind: runKind, doc: "Command that reads it; the path is added as its last argument. It is started with vipd, and again when it ends."},
		{name: "vrrp_notify_fifo", kind: fifoKind, doc: "The same for events of instances alone."},
		{name: "vrrp_notify_fifo_script", kind: runKind, doc: "Command that reads it."},
		{name: "lvs_notify_fifo", kind: fifoKind, doc: "The same for events of services and servers alone."},
		{name: "lvs_notify_fifo_script", kind: runKind, doc: "Command that reads it."},
		{name: "vrrp_notify_priority_changes", kind: boolKind, def: false, doc: "Write changes of the effective priority to the FIFOs, too: MASTER_PRIORITY or BACKUP_PRIORITY in place of the state."},
		{name: "fifo_write_vrrp_states_on_reload", kind: boolKind, def: false, doc: "Write the state of every instance to the FIFOs after each reload."},
		{name: "rs_init_notifies", kind: boolKind, def: false, doc: "Write a line to the FIFOs for every real server that is new, at the start too, not only for those that change."},
		{name: "startup_script", kind: runKind, doc: "Command to run, and wait for, before anything else is done. Its failure is logged, and vipd goes on."},
		{name: "startup_script_timeout", kind: timeKind, min: second, max: 1000 * second, def: 10 * time.Second, doc: "It is killed when it takes longer."},
		{name: "shutdown_script", kind: runKind, doc: "Command to run, and wait for, when everything was given up."},
		{name: "shutdown_script_timeout", kind: timeKind, min: second, max: 1000 * second, def: 10 * time.Second, doc: "It is killed when it takes longer."},
		{name: "nftables", kind: nftTableKind, def: defaultTable, doc: "Name of vipd's tables of nftables, in the families ip and ip6, which are there while an address with no_accept is. Each vipd in a network namespace needs a name of its own.", differs: "the default is vipd; keepalived's is keepalived."},
		{name: "nftables_priority", kind: intKind, min: -1 << 31, max: 1<<31 - 1, def: defaultPriority, doc: "Priority of their chains: lower is earlier. From 100 on IPVS takes the packets of its services before no_accept drops the rest."},
		{name: "nftables_counters", kind: boolKind, def: false, doc: "Count what each rule meets: nft list table ip vipd."},
		{name: "vrrp_rt_priority", kind: intKind, min: 1, max: 99, defText: "none", doc: "Real-time priority (SCHED_RR) of vipd, which then waits behind no other program. Needs CAP_SYS_NICE, or LimitRTPRIO= in the systemd unit; refused, it is an alarm, and vipd runs on without. Commands and scripts do not inherit it.", differs: "there is one process, so health checks have it, too."},
		{name: "vrrp_rlimit_rttime", aliases: []string{"vrrp_rlimit_rtime"}, kind: intKind, min: 2, max: 10_000_000, def: 1_000_000, doc: "Microseconds that a thread may then compute without waiting once. When one takes longer, vipd loses its real-time priority until the next reload, and an alarm says so.", differs: "keepalived's default is 10000; reading a large configuration takes longer."},
		{name: "vrrp_priority", kind: intKind, min: -20, max: 19, defText: "that of vipd", doc: "Nice value of vipd, where vrrp_rt_priority is not used. A lower one than at the start needs CAP_SYS_NICE.", differs: "as vrrp_rt_priority."},
		{name: "vrrp_cpu_affinity", kind: cpusKind, defText: "all", doc: "Processors on which vipd may run.", differs: "as vrrp_rt_priority."},
		{name: "vrrp_no_swap", kind: boolKind, def: false, doc: "Keep the memory that vipd uses from being swapped out. Needs CAP_IPC_LOCK.", differs: "as vrrp_rt_priority."},
		{name: "huge_pages", kind: boolKind, def: true, doc: "Move the code and the heap of vipd to huge pages at the start, some 10 MB of memory that is always there: what runs after a sleep is faster, a takeover too. Where the kernel or a security module forbids it, the log says so and nothing else changes. Read at the start, not at a reload.", differs: "keepalived has no such thing."},
		{name: "notification_email", kind: mailboxesKind, doc: "Who gets mail of changes that smtp_alert asks for: an address, or an array of them."},
		{name: "notification_email_from", kind: mailboxKind, defText: "keepalived@ and the host name", doc: "Sender of that mail."},
		{name: "smtp_server", kind: relayKind, doc: "Relay that takes the mail, by plain SMTP: \"ADDRESS|NAME [PORT]\" or { address = \"…\", port = N }; the port is 25 unless given. Mail that it does not take is kept and tried again for an hour. Without it no mail is sent."},
		{name: "smtp_helo_name", kind: hostKind, defText: "the host name", doc: "Name that vipd says to the relay."},
		{name: "smtp_connect_timeout", kind: timeKind, min: second, max: hour, def: 30 * time.Second, doc: "How long the relay may take to accept a connection, and for each answer."},
		{name: "smtp_alert", kind: boolKind, defText: "false; for real servers true", doc: "Default of smtp_alert in vrrp_instance, vrrp_sync_group, virtual_server and real_server: mail a change of state."},
		{name: "smtp_alert_vrrp", kind: boolKind, defText: "smtp_alert", doc: "The same for instances and sync groups alone."},
		{name: "smtp_alert_checker", kind: boolKind, defText: "smtp_alert", doc: "The same for services and real servers alone."},
		{name: "no_email_faults", kind: boolKind, def: false, doc: "No mail on entering FAULT."},
		{name: "no_checker_emails", kind: boolKind, def: true, doc: "One mail when a real server goes or comes, not one for each of its checks. It is always so; false is accepted and warns.", differs: "keepalived mails the result of every check (off)."},
		{name: "checker_log_all_failures", kind: boolKind, def: false, doc: "Log every attempt of a check that fails, not only the last one before the server counts as down."},
		{name: "lvs_sync_daemon", kind: syncKind, doc: "The kernel tells other directors of its connections, and takes theirs, on this interface: \"INTERFACE [[inst] INSTANCE] [id N] [maxlen N] [port N] [ttl N] [group ADDRESS]\". INSTANCE is a vrrp_instance or vrrp_sync_group: this director tells while it is MASTER and listens otherwise. Without it both roles run, which is right where directors are MASTER of different groups. All directors need the same id: unless given, the instance's VRID or 0. While it runs net.ipv4.vs.sync_threshold is \"3 0\" and sync_refresh_period 10, so that idle connections are told of, too; both are put back at the stop.", differs: "keepalived leaves the two settings alone: connections that say little are then lost when a director returns. A master that gives way goes on telling for 3 s."},
		{name: "sync_delay", kind: timeKind, max: hour, defText: "30 with lvs_sync_daemon", doc: "An instance that has addresses of services, and those of its sync group, leave a MASTER of lower priority alone for so long, until this director has learned the connections; with state = \"MASTER\", too. It is told of a connection when that says something, so those that are silent for longer than this, less 5 s, are lost when it takes over: make it longer, use nopreempt, or survive = \"mh\". A takeover from nobody is not delayed.", differs: "keepalived takes over at once, with an empty table."},
		{name: "shield", kind: shieldKind, min: 0, max: 30 * second, defText: "false", doc: "For so long after a takeover this machine sends no TCP resets from the addresses of the instance: a packet of a connection that it will be told of in a moment would be answered with one. It is done with nftables, in a table of its own (the name of nftables, then _shield)."},
		{name: "lvs_timeouts", kind: timeoutsKind, doc: "How long IPVS remembers an idle connection, in seconds: \"[tcp N] [tcpfin N] [udp N]\". 0, or left out, keeps what the kernel has, which is tcp 900, tcpfin 120 and udp 300 unless somebody changed it. Set at the start and at each reload, and put right when others change it; they stay when vipd stops, as with keepalived."},
		{name: "checker_max_processes", kind: intKind, min: 1, max: 10000, def: usualProcesses, doc: "How many programs of MISC_CHECK may run at once, in all. A check that waits in vain for its turn is an alarm and no failure of the server.", differs: "keepalived has no limit."},
		{name: "vmac_prefix", kind: prefixKind, def: "vrrp", doc: "How the names of links with a virtual MAC begin that use_vmac does not name."},
		{name: "vmac_addr_prefix", kind: prefixKind, defText: "vmac_prefix", doc: "The same for the links of addresses (use_vmac in their line, use_vmac_addr)."},
		{name: "disable_local_igmp", kind: boolKind, def: false, doc: "Send no IGMP reports for the groups 224.0.0.x, by any interface, while vipd runs (net.ipv4.igmp_link_local_mcast_reports = 0). Switches forward these groups anyway (RFC 4541 §2.1.2).", differs: "keepalived does it for the links with a virtual MAC; those of vipd send no reports of their own."},
		{name: "v3_checksum_as_v2", kind: boolKind, def: false, doc: "Compute the checksum of version 3 IPv4 adverts without the pseudo-header, as RFC 9568 and much router hardware do."},
	}),
}
