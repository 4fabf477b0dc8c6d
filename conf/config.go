package conf

import (
	"net/netip"
	"time"

	"vipd/conf/spread"
)

// Config is a finished, valid configuration. It is immutable: nobody changes a
// Config after Load returned it, so it may be read from any goroutine.
type Config struct {
	Files           []string        // every file read, in the order read
	Place           Place           // where the daemon lives
	Global          Global          // [global_defs]
	Instances       []Instance      // [vrrp_instance.*], sorted by name
	Scripts         []Script        // [vrrp_script.*], sorted by name
	Spreads         []Spread        // [vip_spread.*], sorted by name; their instances are in Instances
	TrackFiles      []TrackFile     // [vrrp_track_file.*], sorted by name
	TrackProcesses  []TrackProcess  // [vrrp_track_process.*], sorted by name
	IPVSSettings    []IPVSSetting   // [ipvs_sysctl], in the order of the reference
	ServerGroups    []ServerGroup   // [virtual_server_group.*], sorted by name
	VirtualServers  []VirtualServer // [[virtual_server]], in file order
	SyncGroups      []SyncGroup     // [vrrp_sync_group.*], sorted by name
	LinkDelays      []LinkDelay     // interface_up_down_delays, in file order
	GARPGroups      []GARPGroup     // [[garp_group]], in file order
	TrackGroups     []TrackGroup    // [track_group.*], sorted by name
	StaticAddresses []StaticAddress // static_ipaddress, in file order
	StaticRoutes    []Route         // static_routes
	StaticRules     []Rule          // static_rules
	Warnings        []Diagnostic    // traps that are no errors
}

// Global holds what [global_defs] says about the process as a whole. Defaults
// for instances are already applied to the instances.
type Global struct {
	RouterID       string        // router_id; the host name when unset
	StartupDelay   time.Duration // vrrp_startup_delay: instances wait so long after the start
	DelayAfterBoot time.Duration // vrrp_delay_after_boot: ... after the boot of the machine
	StopWait       time.Duration // stop_wait: a MASTER that stops keeps its addresses for its successor at most so long
	ScriptUser     User          // script_user; zero: not set
	ScriptSecurity bool          // enable_script_security
	NotifyFIFO     FIFO          // notify_fifo: all events
	VRRPFIFO       FIFO          // vrrp_notify_fifo: those of instances and groups
	LVSFIFO        FIFO          // lvs_notify_fifo: those of services and servers
	StatesOnReload bool          // fifo_write_vrrp_states_on_reload
	ServersAtStart bool          // rs_init_notifies
	Flush          bool          // lvs_flush
	FlushOnStop    string        // lvs_flush_on_stop: "" (off), FlushAll or "VS"
	ScriptGroups   bool          // set_supplementary_groups
	Mail           Mail          // notification_email, smtp_server and so on
	LogAllFailures bool          // checker_log_all_failures
	MaxProcesses   int           // checker_max_processes: programs of MISC_CHECK at once
	Startup        Hook          // startup_script
	Shutdown       Hook          // shutdown_script
	Firewall       Firewall      // nftables, nftables_priority, nftables_counters
	Priority       Priority
	NoSwap         bool // vrrp_no_swap
	HugePages      bool // huge_pages; read at the start

	VMACPrefix, VMACAddrPrefix string // vmac_prefix, vmac_addr_prefix
	DisableLocalIGMP           bool   // disable_local_igmp

	SyncDaemon  *SyncDaemon   // lvs_sync_daemon; nil: none
	SyncDelay   time.Duration // sync_delay; 0 without SyncDaemon
	Shield      time.Duration // shield: resets are held back for so long after a takeover
	LVSTimeouts Timeouts      // lvs_timeouts
}

// Priority is what [global_defs] says about when and where the process runs.
type Priority struct {
	RTPriority int   // vrrp_rt_priority, 1..99; 0: none
	RTTime     int   // vrrp_rlimit_rttime, microseconds
	Nice       int   // vrrp_priority; 0: that of the process
	CPUs       []int // vrrp_cpu_affinity, sorted; nil: all
}

// Place tells apart the daemons of one machine. A reload cannot change it.
type Place struct {
	Namespace string // net_namespace; "": that of whoever starts vipd
	IPVS      string // net_namespace_ipvs; "": as the rest
	FirstIPVS bool   // net_namespace_ipvs = true: that of whoever starts vipd
	Instance  string // instance
}

// Mail says to whom and how mail is sent. It is the zero value when nobody gets
// mail.
type Mail struct {
	To       []string // notification_email; none: no mail
	From     string   // notification_email_from
	Server   string   // smtp_server, an address or a name; "": no mail
	Port     int      // 25
	Helo     string   // smtp_helo_name
	Timeout  time.Duration
	NoFaults bool // no_email_faults
}

// SyncGroup is one [vrrp_sync_group.NAME]. What the group or a member tracks is in
// the lists of every member.
type SyncGroup struct {
	Name    string
	Members []string // names of instances, in the order written
	Notify  Notify
	Alert   bool // smtp_alert
}

// LinkDelay is one line of interface_up_down_delays.
type LinkDelay struct {
	Interface string
	Down, Up  time.Duration // 0..255 s
}

// Instance is one [vrrp_instance.NAME], with every default filled in.
type Instance struct {
	Name             string
	Interface        string // interface
	SyncGroup        string // the vrrp_sync_group it is in; "": none
	VRID             uint8  // virtual_router_id, 1..255
	Version          uint8  // 2 or 3
	IPv6             bool   // family of VIPs, source and multicast group
	Priority         uint8  // 1..255, 255 is the address owner
	WantMaster       bool   // state = "MASTER": a start hint only
	AdvertInterval   time.Duration
	DownTimerAdverts int  // missed adverts before takeover, 3
	NoPreempt        bool // cleared by state MASTER or priority 255 (with a warning)
	AuthPass         string
	HMAC             HMAC       // auth_hmac; without keys: none
	ChecksumAsV2     bool       // v3_checksum_as_v2: send without the IPv4 pseudo-header
	Group            netip.Addr // multicast destination: mcast_dst_ip, vrrp_mcast_group4/6
	Source           netip.Addr // mcast_src_ip, unicast_src_ip; invalid: the interface's primary address
	Unicast          bool       // adverts go to Peers, never to Group
	Peers            []Peer     // unicast_peer
	UnicastTTL       uint8      // unicast_ttl, 255; 0 without Unicast
	// CheckUnicastSource drops adverts by unicast that are not from one of Peers
	// (check_unicast_src); always with a bound on the TTL of a peer.
	CheckUnicastSource bool
	SkipCheckAddr      bool          // skip_check_adv_addr
	NoAccept           bool          // no_accept, or accept = false; never with priority 255
	LowerPrioNoAdv     bool          // lower_prio_no_advert
	PreemptDelay       time.Duration // preempt_delay; 0 with nopreempt, state MASTER or priority 255
	LatePriority       uint8         // timer_expired_backup; 0: off, and without nopreempt
	IgnoreAdverts      bool          // owner_ignore_adverts, with priority 255 only
	VIPs               []VIP         // virtual_ipaddress: carried in adverts
	Excluded           []VIP         // virtual_ipaddress_excluded
	Routes             []Route       // virtual_routes
	Rules              []Rule        // virtual_rules
	PromoteSecondaries bool          // promote_secondaries: the sysctl of Interface
	Announce           Announce
	GARPForm           string     // garp_form: "request", "reply", "both"
	TrackInterfaces    []TrackRef // track_interface
	TrackScripts       []TrackRef // track_script
	TrackFiles         []TrackRef // track_file
	TrackProcesses     []TrackRef // track_process
	Notify             Notify
	Alert              bool // smtp_alert

	UseVMAC          *UseVMAC // use_vmac, with the link's name; nil: not used
	UseVMACAddr      bool     // use_vmac_addr
	XmitBase         bool     // vmac_xmit_base
	DontTrackPrimary bool     // dont_track_primary
	// VMACs are all links with a virtual MAC that follow from these settings; the first is the instance's own when
	// UseVMAC is set.
	VMACs []VMAC
}

// HMAC is [vrrp_instance.NAME.auth_hmac].
type HMAC struct {
	Mode      string    // "enforce", "permissive", "receive-only"; "" without auth_hmac
	Keys      []HMACKey // sorted by id
	Active    uint8     // id of the key to sign with
	Monotonic bool      // anti_replay = "monotonic"
	Window    time.Duration
}

// HMACKey is one key of auth_hmac.
type HMACKey struct {
	ID     uint8
	Secret string // 32..64 bytes
}

// Peer is one line of unicast_peer.
type Peer struct {
	Address        netip.Addr
	MinTTL, MaxTTL uint8 // of adverts from it, 0 and 255
}

// Spread is one [vip_spread.NAME]. What follows from it for this machine is in
// the instances that its groups name.
type Spread struct {
	Name      string
	Interface string
	Directors []Director // directors, in the order of the list
	Self      int        // which of them this machine is; -1: none (only with Env.Spectator)
	Scheme    string     // "even" or "pairs"
	Groups    []SpreadGroup
	Plan      *spread.Plan // who owns which group, now and after failures
}

// Director is one entry of directors.
type Director struct {
	Name   string // matched to router_id or the host name
	Weight int    // 1..100
}

// SpreadGroup is one group of a spread.
type SpreadGroup struct {
	Instance  string // name of the instance: NAME-01
	VRID      uint8
	Addresses []netip.Prefix
}

// VIP is one line of virtual_ipaddress.
type VIP struct {
	Prefix        netip.Prefix // as written; /32 or /128 when no length was given; with Peer the length is that of the peer
	Peer          netip.Addr   // peer; invalid: none
	Dev           string       // dev; the instance's interface when unset
	Label         string       // label, at most 15 bytes
	Scope         string       // "global" (default), "link", "host", "site", or a number 0..255
	Broadcast     netip.Addr   // brd; invalid: none ("+" and "-" are resolved)
	NoPrefixRoute bool         // noprefixroute
	NoTrack       bool         // no_track: not repaired when it disappears
	Deprecated    bool         // preferred_lft 0; the default of an IPv6 /128, as in keepalived
	UseVMAC       bool         // use_vmac: on a link of its own with a virtual MAC, on Dev
	Link          string       // the link with a virtual MAC that it sits on; "": Dev itself
	PreferredLft  uint32       // preferred_lft in seconds from when it is added; 0: for ever, or Deprecated
	Home          bool         // home, IPv6 only
	DAD           bool         // -nodad, IPv6 only: detect duplicates before it is used
	ManageTemp    bool         // mngtmpaddr, IPv6 only
	AutoJoin      bool         // autojoin, of multicast addresses only
}

// Announce holds the GARP/NA settings of an instance (garp_* keywords).
type Announce struct {
	MasterDelay     time.Duration // garp_master_delay, second burst; 0: none
	MasterRepeat    int           // garp_master_repeat, frames per VIP and burst, at least 1
	Refresh         time.Duration // garp_master_refresh; 0: none
	RefreshRepeat   int           // garp_master_refresh_repeat, at least 1
	LowerPrioDelay  time.Duration // garp_lower_prio_delay; 0: none
	LowerPrioRepeat int           // garp_lower_prio_repeat; 0: none
	GARPInterval    time.Duration // garp_interval, gap between ARP frames of one interface; 0: none
	GNAInterval     time.Duration // gna_interval, the same for neighbour advertisements
	Extra           time.Duration // garp_extra_if, time between single frames on other interfaces; 0: none
	ExtraAll        bool          // garp_extra_if all: on any interface, else on those with a virtual MAC
}

// GARPGroup is one [[garp_group]]: interfaces that share one gap between frames.
type GARPGroup struct {
	Interfaces   []string
	GARPInterval time.Duration // 0: none
	GNAInterval  time.Duration // 0: none
}

// TrackRef is one line of track_interface, track_script, track_file or
// track_process.
type TrackRef struct {
	Name    string
	Weight  int  // 0: bad means FAULT; of a file: what its number is multiplied with
	Reverse bool // reverse: the weight's sign is turned; with weight 0 FAULT while good

	Straight bool // noreverse: not Reverse, though the object it names is
}

// Command is a program with its arguments, and who runs it.
type Command struct {
	Argv []string // empty: none
	User User     // zero: script_user
}

// Notify holds the commands of an instance.
type Notify struct {
	Any, Master, Backup, Fault, Stop, Deleted, LowerPri Command
	// SayDeleted reports an instance that a reload removes as DELETED, not FAULT.
	SayDeleted bool
	// PriorityChanges writes changes of the effective priority to the FIFOs.
	PriorityChanges bool
}

// FIFO is a named pipe that events are written to.
type FIFO struct {
	Path   string // "": none
	User   User   // whose it is; zero: script_user
	Script Command
}

// Hook is a command that is run once and waited for.
type Hook struct {
	Command
	Timeout time.Duration
}

// Script is one [vrrp_script.NAME].
type Script struct {
	Name     string
	Argv     []string
	Interval time.Duration // 1 s
	Timeout  time.Duration // = Interval when unset
	Weight   int           // -253..253
	Reverse  bool
	Rise     int // 1
	Fall     int // 1
	InitFail bool
	User     User // user; zero: script_user
}

// User is who a command runs as. The zero value names nobody.
type User struct {
	Name  string
	Group string // "": that of the user
}

// TrackFile is one [vrrp_track_file.NAME].
type TrackFile struct {
	Name      string
	Path      string
	Weight    int // 1; the number in the file is multiplied with it; 0: any number but 0 means FAULT
	Reverse   bool
	Init      bool // init_file: the file is written when it does not exist
	InitValue int
	Overwrite bool // even when it exists
}

// TrackProcess is one [vrrp_track_process.NAME].
type TrackProcess struct {
	Name           string
	Argv           []string // process: the command, then arguments
	Match          string   // "name": the process's name alone, "exact", "partial", "initial": its command line
	Weight         int      // -254..254
	Reverse        bool
	Quorum         int // 1
	QuorumMax      int // -1: no bound
	ForkDelay      time.Duration
	TerminateDelay time.Duration
}
