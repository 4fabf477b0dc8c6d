package daemon

import (
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"

	"vipd/cmd/internal/daemon/observe"
	"vipd/cmd/internal/mail"
	"vipd/cmd/internal/notify"
	"vipd/conf"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/router"
)

// told tells of transitions as what would be, and of the rest as ever.
type told struct {
	*observer
	reporter *observe.Reporter
	unrun    *unrun
	config   *configState
}

// Transition implements router.Observer.
func (t told) Transition(e router.TransitionEvent) {
	if e.To == vrrp.Init { // a stop is not told
		t.reporter.Transition(e)
		return
	}
	event := notify.Event{Kind: kindInstance, Name: e.Instance, State: e.To.String(), Priority: int(e.Priority)}
	if e.Group != "" {
		event.Kind, event.Name, event.Priority = kindGroup, e.Group, 0
	}
	more := t.unrun.would(event)
	if cfg, _, _ := t.config.get(); cfg != nil {
		more = append(syncRoles(cfg, e), more...)
	}
	t.alerts.State(event.Kind, event.Name, event.State, e.Reason)
	t.reporter.Transition(e, append(more, t.unrun.mails()...)...)
}

// unrun keeps what would be run and mailed. It is the notifier of an observer that
// observes.
type unrun struct {
	log *zap.Logger

	mu       sync.Mutex // guards all following fields
	commands map[string]map[string]notify.Commands
	fifos    []string
	to       []string
	posted   []mail.Message
}

// Configure implements notifier.
func (u *unrun) Configure(kind string, commands map[string]notify.Commands) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.commands == nil {
		u.commands = map[string]map[string]notify.Commands{}
	}
	u.commands[kind] = commands
}

// settle takes where events and mail go.
func (u *unrun) settle(cfg *conf.Config) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.to, u.fifos = nil, nil
	if cfg.Global.Mail.Server != "" {
		u.to = cfg.Global.Mail.To
	}
	for _, f := range []conf.FIFO{cfg.Global.NotifyFIFO, cfg.Global.VRRPFIFO} {
		if f.Path != "" {
			u.fifos = append(u.fifos, f.Path)
		}
	}
}

// Notify implements notifier: it is for events that are no transitions.
func (u *unrun) Notify(e notify.Event) {
	if steps := u.would(e); len(steps) > 0 {
		u.log.Info("would "+strings.Join(steps, ", "), zap.String("instance", e.Name))
	}
}

// would is what an event would set off, in order.
func (u *unrun) would(e notify.Event) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, line := range u.commands[e.Kind][e.Name].Lines(e) {
		out = append(out, "run "+line)
	}
	for _, path := range u.fifos {
		out = append(out, "write to "+path)
	}
	return out
}

// post takes a mail that would be sent.
func (u *unrun) post(m mail.Message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.posted = append(u.posted, m)
}

// mails are those since the last call, in words.
func (u *unrun) mails() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, m := range u.posted {
		if len(u.to) > 0 {
			out = append(out, `mail "`+m.Subject+`" to `+strings.Join(u.to, ", "))
		}
	}
	u.posted = nil
	return out
}

// stand tells what would be made at the start.
func (o *observation) stand(cfg *conf.Config) error {
	sets := hostSets(cfg)
	now, paths, err := o.paths.Configure(sets)
	if err != nil {
		return err
	}
	options, _ := firewallOptions(cfg)
	s := &observe.Standing{
		Links: vmacLinks(cfg), Quiet: cfg.Global.DisableLocalIGMP, Table: options.Table,
		Settings: settings(cfg), Static: sets[0],
	}
	there := o.look(cfg, os.DirFS("/"))
	s.IPVS = survivalSteps(cfg, &there)
	if argv := cfg.Global.Startup.Argv; len(argv) > 0 {
		s.Hooks = append(s.Hooks, "run "+strings.Join(argv, " ")+" (startup_script)")
	}
	for _, f := range fifoConfigs(cfg.Global, o.log) {
		s.Hooks = append(s.Hooks, "make the FIFO "+f.Path+" if it is not there, and write its events to it")
	}
	o.reporter.Stand(s, now, paths, vmac.Sysctl{})
	return nil
}

// observed are the instances of a configuration as the reporter takes them: their
// addresses are on the links where they would be.
func observed(cfg *conf.Config) []observe.Instance {
	sets := map[string]host.Set{}
	for _, s := range hostSets(cfg) {
		if !s.Static {
			sets[s.Instance] = s
		}
	}
	announced := garpInstances(cfg)
	links := vmacLinks(cfg)
	out := make([]observe.Instance, len(cfg.Instances))
	for i := range cfg.Instances {
		c := &cfg.Instances[i]
		in := routerInstance(c)
		out[i] = observe.Instance{Config: in.Config, Group: in.Group, Source: in.Source, Set: sets[c.Name], Announce: announced[i], Links: links}
		for _, t := range c.TrackScripts {
			out[i].Assumed = append(out[i].Assumed, "vrrp_script "+t.Name)
		}
	}
	return out
}
