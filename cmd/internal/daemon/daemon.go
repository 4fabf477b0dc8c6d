// Package daemon is the composition root of vipd: it builds every part, joins
// them, and owns start, reload and stop.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/hugepages"
	"vipd/cmd/internal/mail"
	"vipd/cmd/internal/notify"
	"vipd/cmd/internal/settings/linksysctl"
	"vipd/conf"
	"vipd/garp"
	"vipd/garp/engine"
	"vipd/healthcheck/run"
	ipvsnl "vipd/ipvs/netlink"
	"vipd/ipvs/reconcile"
	"vipd/vrrp/firewall"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
	"vipd/vrrp/track"
)

// Options are the flags of `vipd run`.
type Options struct {
	ConfigFile string
	Socket     string // "": that of the configuration's instance and net_namespace
	StateDir   string // the same
	Version    string
	// Ready is called before the process starts anew in another network namespace;
	// an error of it ends Run.
	Ready func() error
}

// ConfigError says that the configuration has errors; its text shows all of
// them with the lines they are in.
type ConfigError struct{ Diagnostics conf.Diagnostics }

// Error implements error.
func (e *ConfigError) Error() string { return strings.TrimSpace(e.Diagnostics.Text()) }

// Daemon is a running vipd.
type Daemon struct {
	opts    Options
	log     *zap.Logger
	started time.Time

	sockets
	frames     *engine.Socket
	daemons    *ipvsnl.Kernel // IPVS, for what may take longer than its table can wait
	vmacKernel *vmac.Netlink

	priority  *priority
	vmacs     *vmac.Manager
	watcher   *host.Watcher
	manager   *host.Manager
	firewall  *firewall.Firewall
	refusal   *refusal
	hindrance hindrance
	twins     *twins
	claims    *claims
	engine    *engine.Engine
	sender    *sender
	router    *router.Router
	scripts   *track.Scripts
	files     *track.Files
	processes *track.Processes
	notify    *notify.Runner
	fifos     *notify.FIFOs
	mail      *mail.Queue
	observer  *observer
	checks    *run.Scheduler
	table     *reconcile.Reconciler
	balance   *balancer
	places    *whereabouts
	survival  *survival
	feed      *feed
	settings  *linksysctl.Keeper
	lacking   atomic.Pointer[[]host.Missing] // static objects that are missing now

	reloader
	config configState
}

// Run runs the daemon until ctx ends, then gives everything up: priority 0,
// addresses and own services removed. When hurry is closed it no longer waits for
// successors and notifications.
// Values on hup make it read its configuration again.
func Run(ctx context.Context, opts Options, hup <-chan os.Signal, hurry <-chan struct{}, log *zap.Logger) error {
	thrifty()
	files := &conf.Loader{}
	cfg, err := load(ctx, files, opts.ConfigFile)
	if err != nil {
		return err
	}
	home, err := enter(cfg.Place, opts.Ready, log)
	if errors.Is(err, ErrAsked) {
		return nil
	}
	if err != nil {
		return err
	}
	opts.settle(cfg.Place, "")
	lock, err := lockStateDir(opts.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	// The number of processors is what it is now: to look for another one every second
	// would be half of what wakes an idle vipd up.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	useHugePages(cfg.Global, hugepages.Use, log)
	hook(ctx, "startup_script", cfg.Global, cfg.Global.Startup, log)
	rivals(os.DirFS("/"), log)
	d := &Daemon{opts: opts, log: log, started: time.Now(), reloader: newReloader(), config: configState{files: files}}
	defer d.close()
	if err := d.open(); err != nil {
		return err
	}
	// The parts outlive ctx: giving everything up needs them.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d.build(work, home)
	if err := d.sweep(cfg); err != nil {
		return err
	}
	g, work := errgroup.WithContext(work)
	err = d.start(work, g, cfg)
	settled()
	useHugePages(cfg.Global, hugepages.Heap, log) // it has grown
	why, wait := "asked to", time.Duration(0)
	if err != nil {
		why = "the start failed: " + err.Error()
	} else if d.serve(ctx, work, hup, d.reload); ctx.Err() == nil {
		why = fmt.Sprintf("a part of vipd failed: %v", context.Cause(work))
	} else {
		wait = d.stopWait()
	}
	err = errors.Join(err, d.stop(why, wait, hurry))
	cancel()
	err = errors.Join(g.Wait(), err)
	d.shutdownHook(hurry)
	log.Info("vipd has stopped")
	return err
}

// useHugePages has f move to huge pages what it can.
func useHugePages(g conf.Global, f func() error, log *zap.Logger) {
	if !g.HugePages {
		return
	}
	if err := f(); err != nil {
		log.Info("some memory stays in small pages", zap.NamedError("reason", err))
	}
}

// open opens what can fail before anything was changed.
func (d *Daemon) open() (err error) {
	if err = d.sockets.open(d.opts.Socket); err != nil {
		return err
	}
	if d.vmacKernel, err = vmac.OpenNetlink(d.netlink); err != nil {
		return err
	}
	d.frames, err = engine.OpenSocket()
	return err
}

// close closes what open opened; parts that were not opened are nil.
func (d *Daemon) close() {
	if d.daemons != nil {
		_ = d.daemons.Close() // nothing is left to be said to the kernel
	}
	if d.priority != nil {
		d.priority.Close()
	}
	if d.frames != nil {
		d.frames.Close()
	}
	if d.vmacKernel != nil {
		d.vmacKernel.Close()
	}
	d.sockets.close()
}

// build makes all parts and joins them; none does anything yet.
func (d *Daemon) build(work context.Context, home home) {
	log := d.log
	d.priority = newPriority(log)
	d.fifos = notify.NewFIFOs(log)
	d.notify = notify.New(notify.DefaultTimeout, d.fifos, log)
	d.mail = mail.New(log)
	d.observer = newObserver(log, d.notify)
	d.observer.alerts = &alerts{post: d.mail.Send}
	d.engine = engine.New(d.frames, log)
	d.settings = linksysctl.New("/proc/sys", filepath.Join(d.opts.StateDir, "sysctls.json"))
	d.manager = host.NewManager(d.netlink, d.netlink, filepath.Join(d.opts.StateDir, "addresses.json"), host.Callbacks{
		Present:    func(instance string, a host.Address, _ *host.Link) { d.engine.Present(target(instance, a)) },
		Lost:       func(instance string, a host.Address) { d.engine.Absent(target(instance, a)) },
		Fought:     func(instance string, a host.Address) { d.router.Fought(instance, "VIP", a.Prefix.Addr().String()) },
		FoughtPath: func(instance string, o fib.Object) { d.router.Fought(instance, o.Kind(), o.String()) },
		Missing:    d.missing,
	}, log)
	d.refusal = &refusal{block: func(reasons map[string]string) { d.router.Block(reasons) }}
	d.hindrance.hinder = func(reasons map[string][]string) { d.router.Hinder(reasons) }
	d.firewall = firewall.New(firewall.NFT{}, d.owner(), d.refusal.trouble, log)
	d.manager.SetShield(d.firewall)
	d.sender = newSender(work, d.poller, func(r *socket.Received) { d.router.Take(r) }, func() { d.router.SocketsChanged() }, log)
	d.places = newWhereabouts(d.manager, func() { d.balance.Moved() }, log)
	d.router = router.New(router.Ports{
		Sender: d.sender, Addresses: d.places, Announcer: announcer{d.engine}, Observer: d.observer, Waiter: d.poller,
	})
	d.scripts = track.New(d.router.TrackResult, log)
	d.files = track.NewFiles(d.trackFile, log)
	d.processes = track.NewProcesses(d.router.TrackProcess, log)
	d.processes.First(home.first)
	d.ipvs = home.kernel()
	d.table = reconcile.New(d.ipvs, filepath.Join(d.opts.StateDir, "services.json"), log)
	d.places.settled = d.table.Settle
	d.checks = run.New(run.Options{Log: log, OnChange: func() { d.balance.HealthChanged() }})
	d.balance = newBalancer(d.checks, d.table, func(line string) { d.fifos.Write(notify.LVS, line) }, log)
	d.balance.alerts, d.balance.run, d.balance.places = d.observer.alerts, d.notify, d.places
	d.balance.Recall(filepath.Join(d.opts.StateDir, "overrides.json"))
	d.balance.local.read, d.balance.local.again = d.files.Status, d.checks.Now
	d.vmacs = vmac.NewManager(d.vmacKernel, vmac.Sysctl{}, d.owner(), d.silence, func() { d.feed.Again() }, log)
	d.feed = &feed{settings: d.settings, log: log, vmacs: d.vmacs, manager: d.manager, router: d.router, engine: d.engine, places: d.places}
	d.twins = newTwins(d.router, func() *host.State { return d.feed.State() }, log)
	d.claims = newClaims(d.router, d.manager, func() *host.State { return d.feed.State() }, log)
	d.observer.master = func() { d.twins.Master(); d.claims.Master() }
	d.daemons = home.kernel()
	d.survival = newSurvival(d.daemons, d.opts.StateDir, log)
	d.survival.states, d.survival.host, d.survival.table = d.router.Status, d.feed.State, d.table.Status
	d.observer.changed = d.survival.Changed
	d.watcher = host.NewWatcher(d.netlink, d.feed.Snapshot, log)
}

// owner is what marks this daemon's nftables rules as its own.
func (d *Daemon) owner() string {
	if dir, err := filepath.Abs(d.opts.StateDir); err == nil {
		return dir
	}
	return d.opts.StateDir
}

func target(instance string, a host.Address) garp.Target {
	return garp.Target{Instance: instance, Address: a.Prefix.Addr(), Interface: a.Dev}
}

// start sets everything going with cfg.
func (d *Daemon) start(work context.Context, g *errgroup.Group, cfg *conf.Config) error {
	for _, f := range []func(context.Context) error{
		d.vmacs.Run, d.manager.Run, d.firewall.Run, d.twins.Run, d.claims.Run, d.engine.Run, d.router.Run, d.watcher.Run, d.scripts.Run, d.files.Run, d.processes.Run, d.table.Run, d.checks.Run, d.places.Run, d.survival.Run, d.balance.Run,
	} {
		g.Go(func() error { return guard(func() error { return f(work) }) })
	}
	g.Go(func() error { return guard(func() error { return control.Serve(work, d.listener, d, d.log) }) })
	g.Go(func() error { <-work.Done(); d.sender.Wait(); return nil })
	if len(cfg.VirtualServers) > 0 {
		// Without an answer nothing is known of the servers; the reconciler
		// reports why.
		if found, err := d.ipvs.Read(); err == nil {
			d.balance.Found(found.Table)
			d.balance.Took(found.Table)
		}
	}
	if cfg.Global.Flush {
		d.table.Claim()
	}
	d.config.set(cfg)
	hold(d.router, cfg, d.started, d.log)
	if err := d.apply(work, cfg); err != nil {
		return err
	}
	d.hinder()
	d.log.Info("vipd started", zap.String("version", d.opts.Version), zap.Int("pid", os.Getpid()),
		zap.String("config", d.opts.ConfigFile), zap.String("socket", d.opts.Socket), zap.Int("vrrp_instances", len(cfg.Instances)),
		zap.Int("virtual_servers", len(cfg.VirtualServers)))
	d.tellManager(daemon.SdNotifyReady)
	return nil
}

// apply hands a configuration to every owner of state. Each of them changes
// only what differs from what it has.
func (d *Daemon) apply(work context.Context, cfg *conf.Config) error {
	sets := hostSets(cfg)
	d.priority.Configure(&cfg.Global)
	// Those that go have their last words to say.
	d.fifos.Configure(fifoConfigs(cfg.Global, d.log))
	d.mail.Configure(mailConfig(cfg.Global.Mail))
	old, _, _ := d.config.get()
	d.observer.Configure(cfg, gone(old.Instances, cfg.Instances, instanceName), gone(old.SyncGroups, cfg.SyncGroups, groupName))
	defer d.observer.Configure(cfg, nil, nil)
	d.protect(cfg)
	if err := d.makeVMACs(work, cfg); err != nil {
		return err
	}
	d.engine.Configure(garpInstances(cfg), garpGroups(cfg))
	d.router.Delay(linkDelays(cfg))
	d.balance.Ahead(work, cfg.VirtualServers, d.table.Settle)
	// The router first: an instance that goes sends its priority 0 before its
	// addresses are removed.
	if err := d.manager.Reconfigure(sets, func() error { return d.router.Apply(work, routerInstances(cfg)) }); err != nil {
		d.balance.Stay()
		return err
	}
	d.observer.Left()
	d.feed.SetVIPs(sets)
	d.places.SetVIPs(sets)
	if err := d.vmacs.Prune(); err != nil {
		d.log.Error("a virtual-MAC link that is not wanted any more stays", zap.NamedError("err", err))
	}
	d.settle(cfg)
	d.scripts.Configure(trackScripts(cfg))
	d.files.Configure(trackFiles(cfg))
	d.processes.Configure(trackProcesses(cfg))
	d.survival.Configure(cfg)
	d.balance.local.configure(cfg.Global)
	d.balance.Tell(cfg.Global.ServersAtStart)
	d.balance.Commands(cfg.Global)
	return d.balance.Configure(cfg.VirtualServers)
}

// gone returns what was configured and is no more.
func gone[T any](old, now []T, name func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(old), func(o T) bool {
		return slices.ContainsFunc(now, func(n T) bool { return name(n) == name(o) })
	})
}

func instanceName(i conf.Instance) string { return i.Name }
func groupName(g conf.SyncGroup) string   { return g.Name }

// guard turns a panic into an error: when a part of the daemon has a fault, the
// others still give the addresses up instead of leaving them to nobody.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// tellManager tells systemd, where there is one, what the daemon is doing.
func (d *Daemon) tellManager(state string) { tellManager(d.log, state) }

func tellManager(log *zap.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("telling systemd failed", zap.NamedError("err", err))
	}
}
