package conf

import (
	"net/netip"
	"time"
)

// ServerGroup is one [virtual_server_group.NAME].
type ServerGroup struct {
	Name      string
	Addresses []ServiceRange // address, in file order; no service is in two of them
	Marks     []ServiceMark  // fwmark
}

// ServiceRange is one entry of address: a service at each address from First to Last.
type ServiceRange struct {
	First, Last netip.Addr // of one family
	Port        uint16     // 0: every port
}

// ServiceMark is one entry of fwmark.
type ServiceMark struct {
	Mark   uint32
	Family string // "inet", "inet6"; "": that of the virtual server
}

// Service is one service that a virtual server has in the kernel.
type Service struct {
	Address netip.AddrPort // invalid for a firewall mark
	FWMark  uint32
	IPv6    bool
}

// VirtualServer is one [[virtual_server]].
type VirtualServer struct {
	Name        string         // name, or the text of the service ("tcp 10.9.0.100:80")
	Address     netip.AddrPort // invalid when FWMark or Group is set
	FWMark      uint32
	Group       string    // the virtual_server_group; "": none
	Members     []Service // the services of the group
	IPv6        bool      // family; for a fwmark and in a group: ip_family, else that of the addresses or real servers
	Protocol    string    // "TCP", "UDP", "SCTP"; "" for a fwmark
	Scheduler   string    // lvs_sched, "wlc"
	Method      string    // lvs_method: "NAT", "DR", "TUN"
	Tunnel      Tunnel    // of the method TUN
	OnePacket   bool      // ops
	Flag1       bool      // flag-1, sh-fallback, mh-fallback
	Flag2       bool      // flag-2, sh-port, mh-port
	Flag3       bool      // flag-3
	Persistence time.Duration
	Granularity int // prefix length; 32 or 128 when unset
	// PersistenceEngine is persistence_engine, "sip"; "": clients are told apart by their addresses.
	PersistenceEngine string
	Quorum            int           // 1
	Inhibit           bool          // inhibit_on_failure, on_failure = "inhibit"
	DrainFailed       bool          // on_failure = "drain"
	MinUp             float64       // min_up, 0..1
	DrainMax          time.Duration // drain_max, 10 min; 0: no limit
	Alert             bool          // smtp_alert
	Survive           string        // survive: "mh", or ""
	Sorry             *Sorry
	RealServers       []RealServer

	Hysteresis int     // 0..Quorum-1
	Up, Down   Command // quorum_up, quorum_down
	Omega      bool
	HASuspend  bool   // never for a fwmark
	ActiveOn   string // active_on = "master": the vrrp_instance that must be MASTER; "": always
}

// Services returns all services that the virtual server has in the kernel, at least one.
func (vs *VirtualServer) Services() []Service {
	if vs.Group != "" {
		return vs.Members
	}
	return []Service{{Address: vs.Address, FWMark: vs.FWMark, IPv6: vs.IPv6}}
}

// Tunnel is how packets are wrapped under TUN; the zero value is IP in IP.
type Tunnel struct {
	Type     string // "gue", "gre"; "" is IP in IP
	Port     uint16 // the UDP port of gue
	Checksum string // "csum", "remcsum"; "" is none
}

// Sorry is the sorry_server.
type Sorry struct {
	Address netip.AddrPort
	Method  string
	Tunnel  Tunnel
	Inhibit bool // sorry_server_inhibit
}

// RealServer is one [[virtual_server.real_server]], with the service's defaults applied.
type RealServer struct {
	Address netip.AddrPort // port 0: that of each service
	Method  string
	Tunnel  Tunnel
	Weight  int // 0..2147483647
	// With UpperThreshold connections it gets no more until it has fewer than LowerThreshold. 0: no limit; three quarters
	// of the upper one.
	UpperThreshold, LowerThreshold uint32
	Inhibit                        bool
	Alert                          bool // smtp_alert

	Up, Down    Command       // notify_up, notify_down
	DrainFailed bool          // on_failure = "drain"
	SlowStart   time.Duration // slow_start
	Checks      []Check
}
