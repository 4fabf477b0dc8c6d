package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/garp"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/plan"
	"vipd/ipvs/reconcile"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

// tableRead bounds the reading of the kernel's table for a status.
const tableRead = 2 * time.Second

// Status implements control.Daemon. Addresses and table entries are those that
// the kernel has at this moment.
func (d *Daemon) Status(ctx context.Context) (*status.Status, error) {
	cfg, loaded, refused := d.config.get()
	if cfg == nil {
		return nil, fmt.Errorf("vipd is starting")
	}
	s := newStatus(&d.opts, d.started, cfg)
	s.ConfigLoaded, s.ReloadError = loaded, refused
	if text := strayed(cfg.Place); text != "" {
		s.Alarms = append(s.Alarms, text)
	}
	s.Alarms = append(s.Alarms, d.priority.Problems()...)
	d.instances(s)
	d.vmacStatus(s, cfg)
	if _, silencing := d.firewall.Status(); silencing != nil {
		s.Alarms = append(s.Alarms, silencing.Error())
	}
	for _, g := range d.router.GroupStatus() {
		s.SyncGroups = append(s.SyncGroups, status.SyncGroup{Name: g.Name, State: g.State.String(), Members: g.Members})
	}
	d.trackerStates(s)
	ctx, cancel := context.WithTimeout(ctx, tableRead)
	defer cancel()
	table, err := d.table.Refresh(ctx)
	s.Alarms = append(s.Alarms, tableProblems(table, err, len(cfg.VirtualServers) > 0)...)
	d.virtualServers(s, table)
	d.settingStates(s, cfg)
	d.counters(s, table)
	checkTimes(s, d.checks.Stats())
	d.survival.Status(s, cfg, &table)
	d.fifoStates(s)
	d.mailStates(s)
	return s, nil
}

// tableProblems is what is wrong with the table as a whole; err is that of asking for it, which matters where it is used.
func tableProblems(table reconcile.Status, err error, used bool) (out []string) {
	if err == nil {
		err = table.Err
	}
	if err != nil && used {
		out = append(out, "IPVS: "+err.Error())
	}
	if table.RecordErr != nil {
		out = append(out, "IPVS: "+table.RecordErr.Error()+"; after a crash services that are not configured any more would stay")
	}
	return out
}

// newStatus is a status without anything that changes.
func newStatus(opts *Options, started time.Time, cfg *conf.Config) *status.Status {
	return &status.Status{
		Version: opts.Version, PID: os.Getpid(), Started: started, ConfigFile: opts.ConfigFile,
		Name: cfg.Place.Instance, Namespace: cfg.Place.Namespace, IPVSNamespace: cfg.Place.TableNamespace(),
		StaticAddresses: []status.Address{}, StaticRoutes: []status.Path{}, StaticRules: []status.Path{},
		Alarms: []string{}, Instances: []status.Instance{}, SyncGroups: []status.SyncGroup{}, Scripts: []status.Script{},
		TrackFiles: []status.TrackFile{}, TrackProcesses: []status.TrackProcess{},
		VirtualServers: []status.VirtualServer{}, IPVSSettings: []status.Setting{}, Counters: map[string]int64{},
	}
}

func (d *Daemon) instances(s *status.Status) {
	addresses := map[string]host.InstanceStatus{}
	for _, a := range d.manager.Status() {
		addresses[a.Instance] = a
	}
	d.statics(s, addresses[""])
	announced := map[string]garp.InstanceStatus{}
	for _, a := range d.engine.Status() {
		announced[a.Name] = a
	}
	for _, r := range d.router.Status() {
		i := instanceStatus(r)
		if i.Since.IsZero() { // no state yet but INIT
			i.Since = d.started
		}
		if r.Waiting != "" {
			i.Notes = append(i.Notes, r.Waiting)
		}
		if r.Weights != "" {
			i.Notes = append(i.Notes, fmt.Sprintf("priority %d is changed by trackers: %s", i.Priority, r.Weights))
		}
		if twin(&r) {
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: another machine on %s sends adverts from our address %v, too; or the network sends ours back", r.Name, r.Interface, r.Source))
		}
		if r.Unsent != "" {
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: adverts cannot be sent, so another director takes over, too: %s", r.Name, r.Unsent))
		}
		s.Alarms = append(s.Alarms, d.claims.Alarms(r.Name)...)
		i.Notes = append(i.Notes, d.observer.Notes(r.Name)...)
		for _, a := range addresses[r.Name].Addresses {
			out := status.Address{Address: a.Address.Prefix.String(), Interface: a.Dev, Present: a.Present, Refused: a.Refused}
			if a.Err != nil {
				out.Error = a.Err.Error()
				s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %s on %s: %v", r.Name, out.Address, a.Dev, a.Err))
			}
			if a.Waits != "" {
				out.Error = a.Waits
				s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %s %s", r.Name, out.Address, a.Waits))
			}
			i.Addresses = append(i.Addresses, out)
			if now := d.feed.State(); now != nil {
				s.Alarms = append(s.Alarms, strays(now.Links, &r, a.Dev, a.Address.Prefix)...)
			}
		}
		if now := d.feed.State(); now != nil {
			s.Alarms = append(s.Alarms, deaf(now.Links, &r, addresses[r.Name].Addresses)...)
		}
		d.paths(s, &i)
		g := announced[r.Name]
		i.Counters["announcements_sent"] = int64(g.Sent)
		i.Counters["announcements_dropped"] = int64(g.Dropped)
		i.Counters["announcements_pending"] = int64(g.Pending)
		s.Instances = append(s.Instances, i)
	}
}

// twin reports whether another router sends from the same address now.
func twin(r *router.InstanceStatus) bool {
	return !r.TwinAt.IsZero() && time.Since(r.TwinAt) < twinEvery+twinMost
}

func instanceStatus(r router.InstanceStatus) status.Instance {
	i := status.Instance{
		Name: r.Name, State: r.Status.State.String(), Priority: int(r.Config.Priority),
		EffectivePriority: int(r.Status.EffectivePriority), VirtualRouterID: int(r.Config.VRID),
		Version: int(r.Config.Version), Interface: r.Interface, Family: "ipv4",
		MasterPriority: int(r.Status.MasterPriority), AdvertInterval: r.Status.MasterInterval.Seconds(),
		Since: r.Status.Since, Reason: r.Status.Reason, Addresses: []status.Address{}, Routes: []status.Path{}, Rules: []status.Path{},
		Counters: map[string]int64{
			"adverts_sent": int64(r.Sent), "adverts_failed": int64(r.SendError), "adverts_received": int64(r.Received),
			"became_master": int64(r.Masters),
		},
	}
	if r.Config.IPv6 {
		i.Family = "ipv6"
	}
	if r.Status.MasterAddress.IsValid() {
		i.MasterAddress = r.Status.MasterAddress.String()
	}
	if r.Patched > 0 {
		i.Counters["adverts_patched_checksum"] = int64(r.Patched)
	}
	for reason, n := range r.Unproven {
		i.Counters["adverts_unproven_"+reason.String()] = int64(n)
	}
	for reason, n := range r.Drops {
		i.Counters["adverts_dropped_"+reason.String()] = int64(n)
	}
	return i
}

func (d *Daemon) scriptStates(s *status.Status) {
	for _, t := range d.scripts.Status() {
		out := status.Script{
			Name: t.Name, State: "UNKNOWN", LastRun: t.LastRun,
			DurationMS: float64(t.Duration.Microseconds()) / 1000, Detail: t.LastExit,
		}
		switch {
		case t.Known && t.OK:
			out.State = "OK"
		case t.Known:
			out.State = "FAILED"
		}
		if t.Output != "" {
			out.Detail += ": " + t.Output
		}
		s.Scripts = append(s.Scripts, out)
	}
}

func (d *Daemon) virtualServers(s *status.Status, table reconcile.Status) {
	v := d.balance.View()
	if v.problem != "" {
		s.Alarms = append(s.Alarms, v.problem)
	}
	for i, b := range v.services {
		out := serviceStatus(b, v, i, table)
		for _, r := range out.RealServers {
			if r.Kept {
				s.Alarms = append(s.Alarms, fmt.Sprintf("%s %s: its check fails, and it takes connections all the same: min_up leaves no more servers out", out.Service, r.Address))
			}
			for _, c := range r.Checks {
				if c.Alarm != "" {
					s.Alarms = append(s.Alarms, fmt.Sprintf("%s %s %s: %s", out.Service, r.Address, c.Type, c.Alarm))
				}
			}
		}
		if out.Error != "" {
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %s", out.Service, out.Error))
		}
		s.VirtualServers = append(s.VirtualServers, out)
	}
}

// checkTimes shows whether checks begin when they are due.
func checkTimes(s *status.Status, st run.Stats) {
	if st.Alarm != "" {
		s.Alarms = append(s.Alarms, st.Alarm)
	}
	s.Counters["checks_started"], s.Counters["checks_late"] = int64(st.Started), int64(st.Late)
	s.Counters["checks_worst_late_ms"] = st.MaxLate.Milliseconds()
}

func serviceStatus(b balancedService, v view, i int, table reconcile.Status) status.VirtualServer {
	keys, p := serviceKeys(b.conf), v.plan.Services[i]
	out := status.VirtualServer{
		Name: b.conf.Name, Service: identity(b.conf).String(), Scheduler: b.conf.Scheduler, State: p.State.String(),
		Quorum: b.conf.Quorum, Present: true,
		RealServers: []status.RealServer{}, Hysteresis: b.conf.Hysteresis, LiveWeight: p.LiveWeight, Suspended: b.held != nil,
	}
	if b.standby {
		out.Standby = b.conf.ActiveOn + " is not MASTER"
	}
	for _, k := range keys {
		_, present := table.Kernel.Table[k]
		out.Present = out.Present && present
		if out.Error == "" {
			out.Error = failure(table, ipvs.Target{Service: k})
		}
		if b.conf.Group != "" {
			out.Services = append(out.Services, k.String())
		}
	}
	if out.Name == "" {
		out.Name = out.Service
	}
	for j := range b.conf.RealServers {
		r := &b.conf.RealServers[j]
		rs := status.RealServer{
			Address: serverText(b.conf, r.Address), Method: r.Method, Tunnel: r.Tunnel.String(), Weight: r.Weight,
			State: serverState(b.verdict(j, v.checks)), Checks: []status.Check{},
		}
		fillKernel(&rs, r.Address, keys, table)
		fillGentle(&rs, &b, v, keys, r, p.Servers[j])
		for k := range r.Checks {
			rs.Checks = append(rs.Checks, checkStatus(&r.Checks[k], v.checks[b.keys[j][k]]))
		}
		out.RealServers = append(out.RealServers, rs)
	}
	if sorry := b.conf.Sorry; sorry != nil && (p.State == plan.StateSorry || sorryStays(b.conf)) {
		rs := status.RealServer{
			Address: serverText(b.conf, sorry.Address), Method: sorry.Method, Tunnel: sorry.Tunnel.String(), Weight: sorryWeight(p.State), State: "UP", Sorry: true, Configured: true, Checks: []status.Check{},
		}
		fillKernel(&rs, sorry.Address, keys, table)
		out.RealServers = append(out.RealServers, rs)
	}
	for _, o := range p.Others {
		out.RealServers = append(out.RealServers, otherStatus(&b, v, keys, o.Address, table))
	}
	return out
}

// sorryStays reports whether the sorry server is in the table while it is not needed, and not under the name of a real
// server.
func sorryStays(v *conf.VirtualServer) bool {
	return v.Sorry.Inhibit && !slices.ContainsFunc(v.RealServers, func(r conf.RealServer) bool { return r.Address == v.Sorry.Address })
}

// sorryWeight is the weight that the sorry server is to have.
func sorryWeight(s plan.State) int {
	if s == plan.StateSorry {
		return 1
	}
	return 0
}

// serverText shows a server; in a group, one that has the port of each service without any.
func serverText(v *conf.VirtualServer, a netip.AddrPort) string {
	if v.Group != "" && a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

// fillKernel adds what the kernel has of a server: it is there when all services have it, and its connections are those
// of all.
func fillKernel(rs *status.RealServer, a netip.AddrPort, keys []ipvs.Key, table reconcile.Status) {
	missing := false
	for _, key := range keys {
		target := ipvs.Target{Service: key, Destination: plan.At(a, key)}
		dest, ok := table.Kernel.Table[key].Destinations[target.Destination]
		missing = missing || !ok
		rs.EffectiveWeight = dest.Weight
		c := table.Kernel.Connections[target]
		rs.ActiveConnections += int(c.Active)
		rs.InactiveConnections += int(c.Inactive)
		if rs.Error == "" {
			rs.Error = failure(table, target)
		}
	}
	rs.Present = !missing
	if missing {
		rs.EffectiveWeight = 0
	}
}

func failure(table reconcile.Status, t ipvs.Target) string {
	if f, ok := table.Failures[t]; ok {
		return f.Err.Error()
	}
	return ""
}

func serverState(v healthcheck.Verdict) string {
	return strings.ToUpper(map[healthcheck.Verdict]string{
		healthcheck.Up: "up", healthcheck.Down: "down", healthcheck.Unknown: "checking",
	}[v])
}

func checkStatus(c *conf.Check, r run.Status) status.Check {
	return status.Check{
		Type: c.Kind, Target: checkTarget(c), Healthy: r.Healthy, Known: r.Known, LastRun: r.LastRun,
		LatencyMS: float64(r.Latency.Microseconds()) / 1000, Detail: r.Detail, Progress: r.Progress, Alarm: r.Alarm,
	}
}

// checkTarget is what a check looks at: an address, a program, a file.
func checkTarget(c *conf.Check) string {
	switch {
	case c.File != "":
		return "track_file " + c.File
	case len(c.Argv) > 0:
		return c.Argv[0]
	case c.Target.Port() == 0:
		return c.Target.Addr().String()
	case c.Via.IsValid():
		return c.Target.String() + " via " + c.Via.String()
	}
	return c.Target.String()
}

func (d *Daemon) counters(s *status.Status, table reconcile.Status) {
	c := s.Counters
	d.sender.drops.snapshot(c)
	c["packets_dropped_queue_full"] = int64(d.router.Overruns())
	c["packets_for_no_instance"] = int64(d.router.Strays())
	c["ipvs_repairs"] = int64(table.Repairs)
	c["ipvs_pending"] = int64(table.Pending)
	w := d.watcher.Counters()
	c["host_snapshots"], c["host_resubscribed"] = int64(w.Published), int64(w.Resubscribed)
	c["process_goroutines"] = int64(runtime.NumGoroutine())
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		c["process_descriptors"] = int64(len(fds) - 1) // one is that of the list itself
	}
	for _, i := range s.Instances {
		for k, n := range i.Counters {
			c["vrrp_"+k] += n
		}
	}
}
