// Package status is what a running vipd tells about itself: one value, printed
// as stable JSON or as a table that an operator reads at a glance.
package status

import "time"

// Status is the answer of `vipd status --json`. Its fields are stable: more may
// be added, none is renamed.
type Status struct {
	Version         string           `json:"version"`
	PID             int              `json:"pid"`
	Started         time.Time        `json:"started"`
	ConfigFile      string           `json:"config_file"`
	Name            string           `json:"instance,omitempty"`           // of the daemon, among several
	Namespace       string           `json:"net_namespace,omitempty"`      // that it runs in
	IPVSNamespace   string           `json:"net_namespace_ipvs,omitempty"` // that its table is in; "" as the rest
	ConfigLoaded    time.Time        `json:"config_loaded"`
	Observe         bool             `json:"observe,omitempty"`      // nothing is changed and nothing sent: states are what would be
	ReloadError     string           `json:"reload_error,omitempty"` // why the last reload was refused
	Alarms          []string         `json:"alarms"`                 // what an operator should look at now
	Instances       []Instance       `json:"vrrp_instances"`
	StaticAddresses []Address        `json:"static_addresses"`
	StaticRoutes    []Path           `json:"static_routes"`
	StaticRules     []Path           `json:"static_rules"`
	SyncGroups      []SyncGroup      `json:"sync_groups"`
	Scripts         []Script         `json:"vrrp_scripts"`
	TrackFiles      []TrackFile      `json:"vrrp_track_files"`
	TrackProcesses  []TrackProcess   `json:"vrrp_track_processes"`
	VirtualServers  []VirtualServer  `json:"virtual_servers"`
	IPVS            *IPVS            `json:"ipvs,omitempty"`
	Sync            *ConnectionSync  `json:"connection_sync,omitempty"`
	IPVSSettings    []Setting        `json:"ipvs_sysctl"`
	Advice          []string         `json:"advice,omitempty"` // what the kernel's settings keep from being as promised
	Counters        map[string]int64 `json:"counters"`
}

// IPVS is what the kernel says of IPVS as a whole.
type IPVS struct {
	TimeoutTCP    int `json:"timeout_tcp"` // seconds that an idle connection is remembered
	TimeoutTCPFin int `json:"timeout_tcpfin"`
	TimeoutUDP    int `json:"timeout_udp"`
	Connections   int `json:"connections"`      // of the services here
	Buckets       int `json:"conn_tab_buckets"` // of the table of all connections: 2 to the power of conn_tab_bits
}

// ConnectionSync is what lvs_sync_daemon does.
type ConnectionSync struct {
	Interface    string     `json:"interface"`
	ID           int        `json:"sync_id"`
	Group        string     `json:"group"`
	Port         int        `json:"port"`
	Follows      string     `json:"follows,omitempty"` // the instance or group whose role it has; "": both roles run
	Roles        []string   `json:"roles"`             // of the daemons that run now: master, backup
	Since        time.Time  `json:"learning_since,omitzero"`
	DelaySeconds float64    `json:"sync_delay"`
	Peers        []SyncPeer `json:"peers"`            // other directors that were heard
	Dropped      int64      `json:"messages_dropped"` // of theirs: the kernel had no room for them
	Problems     []string   `json:"problems,omitempty"`
}

// SyncPeer is another director on the sync group.
type SyncPeer struct {
	Address     string    `json:"address"`
	ID          int       `json:"sync_id"`
	LastHeard   time.Time `json:"last_heard"`
	Messages    int64     `json:"messages"` // with connections
	Connections int64     `json:"connections"`
}

// Instance is one VRRP instance.
type Instance struct {
	Name              string           `json:"name"`
	State             string           `json:"state"` // INIT, BACKUP, MASTER, FAULT
	Priority          int              `json:"priority"`
	EffectivePriority int              `json:"effective_priority"`
	VirtualRouterID   int              `json:"virtual_router_id"`
	Version           int              `json:"version"`
	Interface         string           `json:"interface"` // of one without: that which has its source address, "" if none has
	Family            string           `json:"family"`    // ipv4, ipv6
	MasterAddress     string           `json:"master_address"`
	MasterPriority    int              `json:"master_priority"`
	AdvertInterval    float64          `json:"advert_int"` // seconds
	Since             time.Time        `json:"since"`
	Reason            string           `json:"reason"`
	Addresses         []Address        `json:"virtual_addresses"`
	VMACs             []VMAC           `json:"virtual_macs,omitempty"` // the first is the instance's own with use_vmac
	Routes            []Path           `json:"virtual_routes"`
	Rules             []Path           `json:"virtual_rules"`
	Counters          map[string]int64 `json:"counters"`
	Notes             []string         `json:"notes,omitempty"` // conflicts and mismatches that were seen
	Keepalived        *Keepalived      `json:"keepalived,omitempty"`
}

// Keepalived is what an observing vipd sees of the keepalived on this machine.
type Keepalived struct {
	State   string   `json:"state"`  // MASTER, BACKUP (or not running), SILENT (addresses without adverts), UNKNOWN
	Agrees  bool     `json:"agrees"` // with the state that vipd would have
	Text    string   `json:"text"`
	Detail  string   `json:"detail"`            // what state is concluded from
	Differs []string `json:"differs,omitempty"` // how its adverts differ from those of this configuration
}

// Address is one VIP: what the kernel has, not what was asked for.
type Address struct {
	Address   string `json:"address"`
	Interface string `json:"interface"`
	Present   bool   `json:"present"`
	Refused   bool   `json:"refused,omitempty"` // packets to it are dropped (no_accept)
	Error     string `json:"error,omitempty"`
}

// VMAC is a link with a virtual MAC: what the kernel has.
type VMAC struct {
	Link    string `json:"link"`
	Parent  string `json:"parent"`
	MAC     string `json:"mac"`
	Present bool   `json:"present"` // it is there, is vipd's and is up
	Error   string `json:"error,omitempty"`
}

// Path is one route or rule: what the kernel has, not what was asked for.
type Path struct {
	Route      string `json:"route,omitempty"` // as ip route writes it
	Rule       string `json:"rule,omitempty"`  // as ip rule writes it
	Present    bool   `json:"present"`
	TrackGroup string `json:"track_group,omitempty"` // of a static one
	Error      string `json:"error,omitempty"`       // why it is not as it should be
}

// SyncGroup is a set of instances that change state together.
type SyncGroup struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Members []string `json:"members"`
}

// Script is one vrrp_script.
type Script struct {
	Name       string    `json:"name"`
	State      string    `json:"state"`             // UNKNOWN, OK, FAILED
	LastRun    time.Time `json:"last_run,omitzero"` // absent until the first run has ended
	DurationMS float64   `json:"duration_ms"`
	Detail     string    `json:"detail"`
}

// TrackFile is one vrrp_track_file.
type TrackFile struct {
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Value   int       `json:"value"`            // before any weight
	Known   bool      `json:"known"`            // false until it was read
	Watched bool      `json:"watched"`          // changes are seen at once; else within a second
	Changed time.Time `json:"changed,omitzero"` // absent: never
	Detail  string    `json:"detail"`           // why the value is 0 although the file does not say so
}

// TrackProcess is one vrrp_track_process.
type TrackProcess struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // UNKNOWN, OK, FAILED
	Processes int       `json:"processes"`
	Changed   time.Time `json:"changed,omitzero"`
	Source    string    `json:"source"` // "kernel events", "polling /proc: …" and why
	Detail    string    `json:"detail"`
}

// VirtualServer is one IPVS service and its pool.
type VirtualServer struct {
	Name        string       `json:"name"`
	Service     string       `json:"service"`            // "tcp 10.9.0.100:80", "fwmark 7 inet6", "group web tcp"
	Services    []string     `json:"services,omitempty"` // those of a group; the figures below are of all of them
	Scheduler   string       `json:"scheduler"`
	State       string       `json:"state"` // UP, SORRY, DOWN
	Quorum      int          `json:"quorum"`
	Hysteresis  int          `json:"hysteresis,omitempty"`
	LiveWeight  int          `json:"live_weight"`                // of the servers that are up, together
	Standby     string       `json:"standby,omitempty"`          // why the kernel is not to have it now (active_on)
	Suspended   bool         `json:"checks_suspended,omitempty"` // its address is not on this host (ha_suspend)
	Present     bool         `json:"present"`                    // the kernel has the service
	Error       string       `json:"error,omitempty"`
	RealServers []RealServer `json:"real_servers"`
}

// RealServer is one destination of a service.
type RealServer struct {
	Address             string  `json:"address"`
	Method              string  `json:"method"`           // DR, NAT, TUN
	Tunnel              string  `json:"tunnel,omitempty"` // of TUN, when it is no plain one: "gue port 6080 csum"
	State               string  `json:"state"`            // UP, DOWN, DRAINING, MAINTENANCE, CHECKING
	Weight              int     `json:"weight"`
	EffectiveWeight     int     `json:"effective_weight"` // in the kernel; 0 when it is not there
	Present             bool    `json:"present"`          // the kernel has the destination
	Sorry               bool    `json:"sorry,omitempty"`  // this is the sorry_server
	ActiveConnections   int     `json:"active_connections"`
	InactiveConnections int     `json:"inactive_connections"`
	Error               string  `json:"error,omitempty"`
	Checks              []Check `json:"checks"`

	Configured bool       `json:"configured"`             // false: it is only on its way out
	Leaving    bool       `json:"leaving,omitempty"`      // weight 0 until its connections have ended
	Since      time.Time  `json:"leaving_since,omitzero"` // of that
	Until      time.Time  `json:"leaving_until,omitzero"` // it goes then at the latest; absent: no limit
	Kept       bool       `json:"kept,omitempty"`         // failed, and in all the same for min_up
	Ramping    bool       `json:"ramping,omitempty"`      // on the way to its weight (slow_start)
	Overrides  []Override `json:"overrides,omitempty"`
}

// Setting is one kernel setting that the configuration asks for.
type Setting struct {
	Name  string `json:"name"`
	Want  string `json:"want"`
	Value string `json:"value"` // what the kernel has; "" when it cannot be read
	Error string `json:"error,omitempty"`
}

// Override is what an operator told about a server.
type Override struct {
	Kind   string    `json:"kind"`             // drain, maintenance, weight
	Weight *int      `json:"weight,omitempty"` // of kind weight
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // it goes then at the latest; absent: no limit
}

// Check is the last result of one checker.
type Check struct {
	Type      string    `json:"type"` // TCP_CHECK, HTTP_GET, SSL_GET, SMTP_CHECK, DNS_CHECK
	Target    string    `json:"target"`
	Healthy   bool      `json:"healthy"`
	Known     bool      `json:"known"`             // false until the first result
	LastRun   time.Time `json:"last_run,omitzero"` // absent until the first run has ended
	LatencyMS float64   `json:"latency_ms"`
	Detail    string    `json:"detail"`
	Progress  string    `json:"progress,omitempty"` // towards another verdict, with rise or fall: "passed 1 of 3 times in a row"
	Alarm     string    `json:"alarm,omitempty"`    // local trouble: the result says nothing about the server
}
