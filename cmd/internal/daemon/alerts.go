package daemon

import (
	"fmt"
	"slices"
	"sync"

	"vipd/cmd/internal/mail"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/healthcheck/run"
	"vipd/ipvs/plan"
	"vipd/vrrp"
)

// mailConfig is what mail needs of a configuration.
func mailConfig(m conf.Mail) mail.Config {
	return mail.Config{To: m.To, From: m.From, Server: m.Server, Port: m.Port, Helo: m.Helo, Timeout: m.Timeout}
}

// alerts decides which events are mailed. Nothing in it blocks.
type alerts struct {
	post func(mail.Message)

	mu        sync.Mutex // guards all following fields
	router    string
	noFaults  bool
	instances map[string]bool
	groups    map[string]bool
}

// Configure takes a new configuration, and the instances and sync groups that are
// leaving and may still have something to say.
func (a *alerts) Configure(cfg *conf.Config, leaving []conf.Instance, groups []conf.SyncGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.router, a.noFaults = cfg.Global.RouterID, cfg.Global.Mail.NoFaults
	a.instances, a.groups = map[string]bool{}, map[string]bool{}
	for _, i := range append(slices.Clone(leaving), cfg.Instances...) {
		a.instances[i.Name] = i.Alert
	}
	for _, g := range append(slices.Clone(groups), cfg.SyncGroups...) {
		a.groups[g.Name] = g.Alert
	}
}

// State mails the new state of an instance or a sync group, if it is to be mailed.
func (a *alerts) State(kind, name, state, reason string) {
	a.mu.Lock()
	group := kind == kindGroup
	wanted := a.instances[name]
	if group {
		wanted = a.groups[name]
	}
	wanted = wanted && !(a.noFaults && state == vrrp.Fault.String())
	router := a.router
	a.mu.Unlock()
	if !wanted {
		return
	}
	if m, ok := mail.Instance(router, group, name, state, reason); ok {
		a.post(m)
	}
}

// Server mails that a real server went or came; checks are the last results of
// its checks, in the order of its configuration.
func (a *alerts) Server(r *conf.RealServer, id serverID, up bool, checks []run.Status) {
	if !r.Alert {
		return
	}
	kind, detail := deciding(r, up, checks)
	a.post(mail.Server(a.routerID(), serverWords(id), serviceWords(id.service), up, kind, detail))
}

// deciding is the check that made a server go or come: the first one that fails, or
// the last one that passed.
func deciding(r *conf.RealServer, up bool, checks []run.Status) (kind, detail string) {
	last := -1
	for i, c := range checks {
		switch {
		case !c.Known || c.Healthy != up:
		case last < 0, up && c.LastRun.After(checks[last].LastRun):
			last = i
		}
	}
	if last < 0 {
		return "", ""
	}
	return r.Checks[last].Kind, checks[last].Detail
}

// Service mails that the quorum of a service was reached or lost.
func (a *alerts) Service(v *conf.VirtualServer, s plan.ServiceState, start bool) {
	if v.Alert {
		a.post(mail.Service(a.routerID(), serviceWords(identity(v)), s.State == plan.StateUp, start, v.Quorum, s.LiveWeight))
	}
}

func (a *alerts) routerID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.router
}

// mailStates adds what status tells of mail.
func (d *Daemon) mailStates(s *status.Status) {
	m := d.mail.Status()
	s.Counters["mail_waiting"], s.Counters["mail_sent"] = int64(m.Waiting), int64(m.Sent)
	s.Counters["mail_failed"], s.Counters["mail_rejected"], s.Counters["mail_dropped"] = int64(m.Failed), int64(m.Rejected), int64(m.Dropped)
	if m.Problem != "" {
		s.Alarms = append(s.Alarms, fmt.Sprintf("mail: %d wait: %s", m.Waiting, m.Problem))
	}
}
