package daemon

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"vipd/cmd/internal/notify"
	"vipd/cmd/internal/script"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/plan"
)

// command adds to a command who runs it.
func command(g conf.Global, c conf.Command) notify.Command {
	if len(c.Argv) == 0 {
		return notify.Command{}
	}
	out := notify.Command{Argv: c.Argv, Secure: g.ScriptSecurity}
	var err error
	if out.User, err = script.User(g, c.User); err != nil {
		out.UserErr = err.Error()
	}
	return out
}

func notifyCommands(g conf.Global, n conf.Notify) notify.Commands {
	return notify.Commands{
		Any: command(g, n.Any), Master: command(g, n.Master), Backup: command(g, n.Backup), Fault: command(g, n.Fault),
		Stop: command(g, n.Stop), Deleted: command(g, n.Deleted), LowerPri: command(g, n.LowerPri),
	}
}

// fifoConfigs are the named pipes of a configuration.
func fifoConfigs(g conf.Global, log *zap.Logger) []notify.FIFOConfig {
	var out []notify.FIFOConfig
	for _, f := range []struct {
		fifo    conf.FIFO
		classes notify.Class
	}{{g.NotifyFIFO, notify.VRRP | notify.LVS}, {g.VRRPFIFO, notify.VRRP}, {g.LVSFIFO, notify.LVS}} {
		if f.fifo.Path == "" {
			continue
		}
		c := notify.FIFOConfig{Path: f.fifo.Path, Classes: f.classes, Script: command(g, f.fifo.Script)}
		owner, err := script.User(g, f.fifo.User)
		if err != nil {
			log.Error("the notify FIFO stays that of the user of vipd", zap.String("fifo", f.fifo.Path), zap.NamedError("err", err))
		}
		c.Owner = owner
		out = append(out, c)
	}
	return out
}

// hook runs startup_script or shutdown_script. A failure is logged and stops nothing.
func hook(ctx context.Context, what string, g conf.Global, h conf.Hook, log *zap.Logger) {
	if len(h.Argv) == 0 {
		return
	}
	if err := notify.Once(ctx, command(g, h.Command), h.Timeout); err != nil {
		log.Error(what+" failed", zap.NamedError("err", err))
		return
	}
	log.Info(what + " has run")
}

// shutdownHook runs shutdown_script; when hurry is closed it no longer waits.
func (d *Daemon) shutdownHook(hurry <-chan struct{}) {
	cfg, _, _ := d.config.get()
	if cfg == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	hook(ctx, "shutdown_script", cfg.Global, cfg.Global.Shutdown, d.log)
	cancel()
	<-done
}

// writeStates writes the state of every instance and sync group to the FIFOs, after a reload that
// asks for it.
func (d *Daemon) writeStates() {
	for _, i := range d.router.Status() {
		d.fifos.Write(notify.VRRP, fmt.Sprintf("%s %q %s %d", kindInstance, i.Name, i.Status.State, i.Status.EffectivePriority))
	}
	for _, g := range d.router.GroupStatus() {
		d.fifos.Write(notify.VRRP, fmt.Sprintf("%s %q %s 0", kindGroup, g.Name, g.State))
	}
}

// fifoStates adds what status tells of notifications.
func (d *Daemon) fifoStates(s *status.Status) {
	for _, f := range d.fifos.Status() {
		s.Counters["notify_fifo_lines"] += int64(f.Written)
		s.Counters["notify_fifo_waiting"] += int64(f.Waiting)
		s.Counters["notify_fifo_dropped"] += int64(f.Dropped)
		switch {
		case f.Problem != "":
			s.Alarms = append(s.Alarms, fmt.Sprintf("notify FIFO %s: %s (%d events wait)", f.Path, f.Problem, f.Waiting))
		case f.Dropped > 0 && f.Waiting > 0:
			s.Alarms = append(s.Alarms, fmt.Sprintf("notify FIFO %s: its reader is too slow or not there; %d events wait, %d were dropped", f.Path, f.Waiting, f.Dropped))
		}
	}
	for _, n := range d.notify.Status() {
		s.Counters["notify_done"] += int64(n.Done)
		s.Counters["notify_failed"] += int64(n.Failed)
		s.Counters["notify_waiting"] += int64(n.Queued)
		s.Counters["notify_dropped"] += int64(n.Dropped)
	}
}

// serviceWords names a service in lines of FIFOs, in keepalived's form.
func serviceWords(k serviceID) string {
	switch {
	case k.group != "":
		return fmt.Sprintf("[%s]:0", k.group)
	case k.FWMark != 0:
		return fmt.Sprintf("FWM %d", k.FWMark)
	}
	return fmt.Sprintf("[%s]:%s:%d", k.Address.Addr(), k.Protocol, k.Address.Port())
}

// serverWords names a real server, in keepalived's form.
func serverWords(id serverID) string {
	return fmt.Sprintf("[%s]:%s:%d", id.address.Addr(), protocolWord(id.service.Key), id.address.Port())
}

// protocolWord names the protocol of a service; that of a firewall mark is not known.
func protocolWord(k ipvs.Key) string {
	if k.Protocol == 0 {
		return "none"
	}
	return k.Protocol.String()
}

// upDown is keepalived's word.
func upDown(up bool) string {
	if up {
		return "UP"
	}
	return "DOWN"
}

// Tell says whether a server that is new is an event, too (rs_init_notifies).
func (b *balancer) Tell(newServers bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tellNew = newServers
}

// alpha reports whether a new server is down until a check passes.
func alpha(r *conf.RealServer) bool {
	for i := range r.Checks {
		if r.Checks[i].Alpha {
			return true
		}
	}
	return false
}

// startsDown reports whether a new server is down only because of alpha.
func startsDown(r *conf.RealServer, keys []string, snapshot map[string]run.Status) bool {
	for i, k := range keys {
		if st := snapshot[k]; r.Checks[i].Alpha && st.Inherited && !st.Healthy {
			return true
		}
	}
	return false
}

// tellServers reports servers whose verdict has changed. One without a result is
// as it was; at first up, as in the table, and with alpha down. Called with mu held.
func (b *balancer) tellServers(snapshot map[string]run.Status) {
	for i := range b.services {
		s := &b.services[i]
		for i := range s.conf.RealServers {
			r := &s.conf.RealServers[i]
			id := serverID{s.id, r.Address}
			before := s.servers[i].told
			known := before != healthcheck.Unknown
			if !known {
				before = healthcheck.Up
				if startsDown(r, s.keys[i], snapshot) || s.held != nil && alpha(r) {
					before = healthcheck.Down
				}
			}
			now := s.servers[i].now
			if now == healthcheck.Unknown || s.going(r.Address) || b.quiet(id) {
				now = before
			}
			s.servers[i].told = now
			if now != before || !known && b.tellNew {
				b.tellServer(s, i, now == healthcheck.Up)
			}
			if now != before && b.alerts != nil {
				checks := make([]run.Status, len(s.keys[i]))
				for j, k := range s.keys[i] {
					checks[j] = snapshot[k]
				}
				b.alerts.Server(r, id, now == healthcheck.Up, checks)
			}
		}
	}
}

// tellService reports a service whose quorum was reached or lost, a new one too when
// it is there from the start.
func (b *balancer) tellService(v *balancedService, s plan.ServiceState, before plan.State, start bool) {
	if (before == plan.StateUp) == (s.State == plan.StateUp) {
		return
	}
	b.tellQuorum(v, s.State == plan.StateUp)
	if b.alerts != nil {
		b.alerts.Service(v.conf, s, start)
	}
}
