package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// SyncRefresh is how often a director tells the others again of a connection that goes on: sync_refresh_period.
	SyncRefresh = 10 * time.Second
	// syncDelay is when a director that returns knows the connections that say something every 25 s: a packet that comes
	// a refresh after the last news makes news again, and the kernel keeps news back for 2 s.
	syncDelay = 3 * SyncRefresh
	// keepaliveTime is when TCP tries first whether an idle peer is there (net.ipv4.tcp_keepalive_time).
	keepaliveTime = 7200 * time.Second
)

// survival settles what becomes of connections when the director changes. Instances and services are settled before.
func (b *builder) survival() {
	g := &b.config.Global
	g.LVSTimeouts = get[Timeouts](b.global, "lvs_timeouts")
	g.Shield = get[time.Duration](b.global, "shield")
	if t := g.LVSTimeouts.TCP; t != 0 && t < keepaliveTime {
		b.say(Warning, b.global, "lvs_timeouts", "global_defs.lvs_timeouts/keepalive", fmt.Sprintf("a TCP connection that is idle for %s is forgotten, and reset when it speaks again", shortTime(t)),
			"TCP's own keepalive begins after 7200 s: write tcp 7200 or more, or lower net.ipv4.tcp_keepalive_time on clients or servers (programs must ask for keepalive)")
	}
	b.syncDaemon()
	if !b.global.has("sync_delay") {
		return
	}
	if g.SyncDaemon == nil {
		b.say(Warning, b.global, "sync_delay", "global_defs.sync_delay/void", "has no effect without lvs_sync_daemon", "take it out, or add lvs_sync_daemon")
	}
}

// syncDaemon settles lvs_sync_daemon and the instances that wait for it.
func (b *builder) syncDaemon() {
	d := get[SyncDaemon](b.global, "lvs_sync_daemon")
	if d.Interface == "" {
		return
	}
	g := &b.config.Global
	g.SyncDaemon, g.SyncDelay = &d, syncDelay
	if b.global.has("sync_delay") {
		g.SyncDelay = get[time.Duration](b.global, "sync_delay")
	}
	if vrid, members, known := b.syncRole(d.Instance); known {
		if d.ID < 0 {
			d.ID = vrid
		}
		b.syncOthers(&d, members)
	} else if !b.unclear {
		names := each(b.config.Instances, func(i Instance) string { return i.Name })
		b.say(Error, b.global, "lvs_sync_daemon", "global_defs.lvs_sync_daemon/unknown", fmt.Sprintf("there is no vrrp_instance and no vrrp_sync_group %q", d.Instance)+didYouMean(d.Instance, names),
			"name the one that the services' addresses are in, or none: then both roles run")
	}
	d.ID = max(d.ID, 0)
	b.syncMixed()
	serving := b.config.Serving()
	for i := range b.config.Instances {
		in := &b.config.Instances[i]
		if in.Priority == 255 && serving[in.Name] {
			b.say(Warning, b.global, "lvs_sync_daemon", "global_defs.lvs_sync_daemon/owner", fmt.Sprintf("vrrp_instance %q has priority 255: when it returns it takes over before it knows the connections", in.Name),
				"the owner of the addresses never waits (RFC 9568 §6.4.1); give it a priority below 255")
		}
	}
}

// Serving names the instances that have an address of a service. Where a service goes by fwmark, and where none is
// configured, each may have.
func (c *Config) Serving() map[string]bool {
	services, each := map[netip.Addr]bool{}, len(c.VirtualServers) == 0
	for i := range c.VirtualServers {
		for _, s := range c.VirtualServers[i].Services() {
			services[s.Address.Addr()] = true
			each = each || s.FWMark != 0
		}
	}
	serves := func(v VIP) bool { return each || services[v.Prefix.Addr()] }
	out := map[string]bool{}
	for i := range c.Instances {
		if in := &c.Instances[i]; each || slices.ContainsFunc(in.VIPs, serves) || slices.ContainsFunc(in.Excluded, serves) {
			out[in.Name] = true
		}
	}
	return out
}

// SyncDelays is how long each instance leaves a MASTER of lower priority alone: sync_delay if it, or another of its sync
// group, which moves with it, has addresses of services.
func (c *Config) SyncDelays() map[string]time.Duration {
	out := map[string]time.Duration{}
	if c.Global.SyncDelay == 0 {
		return out
	}
	groups := map[string]bool{}
	serving := c.Serving()
	for i := range c.Instances {
		if in := &c.Instances[i]; serving[in.Name] && in.SyncGroup != "" {
			groups[in.SyncGroup] = true
		}
	}
	for i := range c.Instances {
		if in := &c.Instances[i]; serving[in.Name] || groups[in.SyncGroup] {
			out[in.Name] = c.Global.SyncDelay
		}
	}
	return out
}

// syncRole returns the VRID and the instances behind a name; none is all of them.
func (b *builder) syncRole(name string) (vrid int, members []string, known bool) {
	if name == "" {
		return 0, nil, true
	}
	for _, g := range b.config.SyncGroups {
		if g.Name == name {
			members = g.Members
		}
	}
	for _, in := range b.config.Instances {
		if in.Name == name {
			members = []string{name}
			if in.SyncGroup != "" {
				members = nil
				for _, o := range b.config.Instances {
					if o.SyncGroup == in.SyncGroup {
						members = append(members, o.Name)
					}
				}
			}
			return int(in.VRID), members, true
		}
	}
	for _, in := range b.config.Instances {
		if len(members) > 0 && in.Name == members[0] {
			return int(in.VRID), members, true
		}
	}
	return 0, nil, false
}

// syncOthers warns of services whose addresses may be MASTER on another director than the named instance.
func (b *builder) syncOthers(d *SyncDaemon, members []string) {
	if d.Instance == "" {
		return
	}
	others := map[netip.Addr]string{}
	for i := range b.config.Instances {
		if in := &b.config.Instances[i]; !slices.Contains(members, in.Name) {
			for _, v := range slices.Concat(in.VIPs, in.Excluded) {
				others[v.Prefix.Addr()] = in.Name
			}
		}
	}
	for i := range b.config.VirtualServers {
		vs := &b.config.VirtualServers[i]
		for _, s := range vs.Services() {
			if other := others[s.Address.Addr()]; other != "" {
				b.say(Warning, b.global, "lvs_sync_daemon", "global_defs.lvs_sync_daemon/others", fmt.Sprintf("the connections of %s are not told to the others while vrrp_instance %q is MASTER here and %q is not", vs.Name, other, d.Instance),
					"leave the instance out: then this director tells of its connections and learns those of the others at once")
				return
			}
		}
	}
}

// syncMixed refuses what the kernel refuses.
func (b *builder) syncMixed() {
	for _, vs := range b.config.VirtualServers {
		servers := each(vs.RealServers, func(rs RealServer) netip.AddrPort { return rs.Address })
		if vs.Sorry != nil {
			servers = append(servers, vs.Sorry.Address)
		}
		for _, a := range servers {
			if a.IsValid() && slices.ContainsFunc(vs.Services(), func(s Service) bool { return s.IPv6 != a.Addr().Is6() }) {
				b.say(Error, b.global, "lvs_sync_daemon", "global_defs.lvs_sync_daemon/mixed", fmt.Sprintf("the kernel runs no sync daemon while %s has the server %s of the other address family", vs.Name, a),
					"the messages cannot describe such a connection; take lvs_sync_daemon out (survive = \"mh\" needs none), or use servers of the service's family")
				return
			}
		}
	}
}

// survive settles what keeps connections of a service without a sync daemon.
func (b *builder) survive(v *values, vs *VirtualServer) {
	if !v.has("survive") {
		return
	}
	vs.Survive = get[string](v, "survive")
	if v.has("lvs_sched") && vs.Scheduler != "mh" {
		b.say(Error, v, "survive", "virtual_server.survive/sched", fmt.Sprintf("lvs_sched = %q would send the connections to other servers on each director", vs.Scheduler),
			"survive = \"mh\" uses the scheduler mh, which chooses by the client's address and port alone: take lvs_sched out")
	}
	vs.Scheduler = "mh"
	if vs.Persistence > 0 {
		b.say(Warning, v, "survive", "virtual_server.survive/persistence", "with persistence_timeout a client stays with the server that one director remembers for it, and another director does not",
			"mh sends a client's connections to different servers, by port; take one of the two out (lvs_sync_daemon keeps both)")
	}
	var removed []string
	for _, rs := range vs.RealServers {
		if !rs.Inhibit && len(rs.Checks) > 0 {
			removed = append(removed, rs.Address.String())
		}
	}
	if len(removed) > 0 {
		b.say(Warning, v, "survive", "virtual_server.survive/inhibit", "a server that fails is removed, and when it is back it may stand in another place on each director: "+strings.Join(removed[:min(len(removed), 3)], ", "),
			"some connections then go to another server after a takeover; write inhibit_on_failure = true, which keeps the order of the servers the same everywhere")
	}
}

// survivalSettings lists what keeps connections.
func (g Global) survivalSettings() []setting {
	var daemon any = unwritten{inline(nil)}
	delay := syncDelay
	if d := g.SyncDaemon; d != nil {
		line := inline{{"interface", d.Interface}, {"instance", d.Instance}, {"id", d.ID}}
		if d.MaxLen != 0 {
			line = append(line, setting{"maxlen", d.MaxLen})
		}
		daemon = append(line, setting{"port", d.Port}, setting{"ttl", d.TTL}, setting{"group", d.Group})
	} else {
		delay = 0
	}
	var timeouts any = unwritten{""}
	if t := g.LVSTimeouts; t != (Timeouts{}) {
		timeouts = fmt.Sprintf("tcp %s tcpfin %s udp %s", seconds(t.TCP), seconds(t.TCPFin), seconds(t.UDP))
	}
	return []setting{
		{"lvs_sync_daemon", daemon},
		{"sync_delay", unless(g.SyncDelay, delay)},
		{"shield", unless(g.Shield, 0)},
		{"lvs_timeouts", timeouts},
	}
}
