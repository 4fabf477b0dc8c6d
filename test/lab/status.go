package lab

import "time"

// Status is the promised part of vipd status --json, in the test's own words.
type Status struct {
	SyncGroups     []SyncGroup      `json:"sync_groups"`
	Version        string           `json:"version"`
	PID            int              `json:"pid"`
	Started        time.Time        `json:"started"`
	ConfigFile     string           `json:"config_file"`
	ConfigLoaded   time.Time        `json:"config_loaded"`
	Instances      []InstanceStatus `json:"vrrp_instances"`
	VirtualServers []ServiceStatus  `json:"virtual_servers"`
	Alarms         []string         `json:"alarms"`
	StaticRoutes   []PathStatus     `json:"static_routes"`
	Counters       map[string]any   `json:"counters"`
}

// InstanceStatus is one VRRP instance.
type InstanceStatus struct {
	Name              string    `json:"name"`
	State             string    `json:"state"`
	Priority          int       `json:"priority"`
	EffectivePriority int       `json:"effective_priority"`
	VRID              int       `json:"virtual_router_id"`
	Version           int       `json:"version"`
	Interface         string    `json:"interface"`
	Family            string    `json:"family"`
	MasterAddress     string    `json:"master_address"`
	Since             time.Time `json:"since"`
	Reason            string    `json:"reason"`
	Addresses         []struct {
		Address   string `json:"address"`
		Interface string `json:"interface"`
		Present   bool   `json:"present"`
	} `json:"virtual_addresses"`
	Routes   []PathStatus     `json:"virtual_routes"`
	Rules    []PathStatus     `json:"virtual_rules"`
	Counters map[string]int64 `json:"counters"`
	Notes    []string         `json:"notes"`
}

// PathStatus is one route or rule.
type PathStatus struct {
	Route   string `json:"route"`
	Rule    string `json:"rule"`
	Present bool   `json:"present"`
	Error   string `json:"error"`
}

// ServiceStatus is one virtual server.
type ServiceStatus struct {
	Name        string             `json:"name"`
	Service     string             `json:"service"`
	Scheduler   string             `json:"scheduler"`
	State       string             `json:"state"`
	Quorum      int                `json:"quorum"`
	RealServers []RealServerStatus `json:"real_servers"`
}

// RealServerStatus is one real server of a virtual server.
type RealServerStatus struct {
	Address             string `json:"address"`
	Method              string `json:"method"`
	State               string `json:"state"`
	Weight              int    `json:"weight"`
	EffectiveWeight     int    `json:"effective_weight"`
	ActiveConnections   int    `json:"active_connections"`
	InactiveConnections int    `json:"inactive_connections"`
	Configured          bool   `json:"configured"`
	Checks              []struct {
		Type      string    `json:"type"`
		Healthy   bool      `json:"healthy"`
		LastRun   time.Time `json:"last_run"`
		LatencyMS float64   `json:"latency_ms"`
		Detail    string    `json:"detail"`
	} `json:"checks"`
}

// Instance returns one instance by name, the zero value when there is none.
func (s Status) Instance(name string) InstanceStatus {
	for _, i := range s.Instances {
		if i.Name == name {
			return i
		}
	}
	return InstanceStatus{}
}

// Service returns one virtual server by its service text ("tcp
// 10.9.0.100:80"), the zero value when there is none.
func (s Status) Service(service string) ServiceStatus {
	for _, v := range s.VirtualServers {
		if v.Service == service {
			return v
		}
	}
	return ServiceStatus{}
}

// RealServer returns one real server by address, the zero value when there is none.
func (s ServiceStatus) RealServer(address string) RealServerStatus {
	for _, r := range s.RealServers {
		if r.Address == address {
			return r
		}
	}
	return RealServerStatus{}
}

// SyncGroup is what status says about a sync group.
type SyncGroup struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Members []string `json:"members"`
}
