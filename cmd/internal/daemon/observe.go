package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/daemon/observe"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/reconcile"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
	"vipd/vrrp/track"
)

// observing is what the control socket of an observing vipd is called after, unless
// another is given: a real one may run beside it.
const observing = "observe"

// observation is a vipd that decides everything and does nothing: what it would do is
// told. Of the parts of a Daemon it has those that only listen.
type observation struct {
	opts    Options
	log     *zap.Logger
	started time.Time

	sockets               // netlink and ipvs are read from only
	tables  *host.Netlink // the same, for routes and rules

	watcher   *host.Watcher
	sender    *sender
	router    *router.Router
	files     *track.Files
	processes *track.Processes
	observer  *observer
	reporter  *observe.Reporter
	table     *observe.Table
	paths     *observe.Paths
	unrun     *unrun
	feed      *feed

	reloader
	config configState

	mu   sync.Mutex // guards the following field
	view view       // what status shows of services
}

// Observe runs a vipd that touches nothing and sends nothing, beside the keepalived
// that is responsible, until ctx ends. Values on hup make it read its configuration
// again.
func Observe(ctx context.Context, opts Options, hup <-chan os.Signal, log *zap.Logger) error {
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
	opts.settle(cfg.Place, observing)
	o := &observation{opts: opts, log: log, started: time.Now(), reloader: newReloader(), config: configState{files: files}}
	defer o.close()
	if err := o.open(); err != nil {
		return err
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	o.build(work, home)
	g, work := errgroup.WithContext(work)
	if err = o.start(work, g, cfg); err == nil {
		o.serve(ctx, work, hup, o.reload)
	}
	close(o.stopping)
	tellManager(log, daemon.SdNotifyStopping)
	o.reporter.Silence()
	cancel()
	err = errors.Join(err, g.Wait())
	log.Info("vipd has stopped observing; there was nothing to give up")
	return err
}

// open opens what only listens and reads.
func (o *observation) open() (err error) {
	if err = o.sockets.open(o.opts.Socket); err != nil {
		return err
	}
	o.tables, err = host.OpenNetlink()
	return err
}

func (o *observation) close() {
	if o.tables != nil {
		o.tables.Close()
	}
	o.sockets.close()
}

// build makes all parts and joins them.
func (o *observation) build(work context.Context, home home) {
	log := o.log
	o.reporter = observe.New(log)
	o.unrun = &unrun{log: log}
	o.observer = newObserver(log, o.unrun)
	o.observer.alerts = &alerts{post: o.unrun.post}
	o.sender = newSender(work, o.poller, func(r *socket.Received) { o.router.Deliver(r) }, func() { o.router.SocketsChanged() }, log)
	o.sender.quiet = o.reporter.Advert
	o.sender.socket = func(key socket.Key, onDrop socket.OnDrop) (*socket.Conn, error) {
		if key.Local.IsValid() {
			return socket.Open(key, onDrop) // by unicast there is no group to join
		}
		return socket.Listen(key, onDrop, o.reporter.Sent)
	}
	o.router = router.New(router.Ports{
		Sender: o.sender, Addresses: o.reporter, Announcer: o.reporter, Observer: told{o.observer, o.reporter, o.unrun, &o.config}, Waiter: o.poller,
	})
	o.files = track.NewFiles(o.router.TrackFile, log)
	o.processes = track.NewProcesses(o.router.TrackProcess, log)
	o.processes.Aside()
	o.paths = observe.NewPaths(o.tables, o.reporter, log)
	o.ipvs = home.kernel()
	o.table = observe.NewTable(o.ipvs.Read, log)
	o.feed = &feed{router: o.router}
	o.watcher = host.NewWatcher(o.netlink, func(s host.State) {
		o.reporter.State(s)
		o.feed.tell(s)
	}, log)
}

// start sets everything going with cfg.
func (o *observation) start(work context.Context, g *errgroup.Group, cfg *conf.Config) error {
	o.feed.SetVIPs(hostSets(cfg))
	for _, f := range []func(context.Context) error{
		o.router.Run, o.watcher.Run, o.files.Run, o.processes.Run, o.table.Run, o.paths.Run,
		func(ctx context.Context) error { return o.reporter.Run(ctx, o.router.Status) },
		func(ctx context.Context) error { return control.Serve(ctx, o.listener, o, o.log) },
	} {
		g.Go(func() error { return guard(func() error { return f(work) }) })
	}
	g.Go(func() error { <-work.Done(); o.sender.Wait(); return nil })
	o.config.set(cfg)
	hold(o.router, cfg, o.started, o.log)
	o.log.Info("vipd observes: nothing is changed and nothing sent", zap.String("version", o.opts.Version), zap.Int("pid", os.Getpid()),
		zap.String("config", o.opts.ConfigFile), zap.String("socket", o.opts.Socket),
		zap.Int("vrrp_instances", len(cfg.Instances)), zap.Int("virtual_servers", len(cfg.VirtualServers)))
	if err := o.apply(work, cfg); err != nil {
		return err
	}
	tellManager(o.log, daemon.SdNotifyReady)
	return nil
}

// reload reads the configuration; a bad one changes nothing.
func (o *observation) reload(ctx, work context.Context) (string, error) {
	cfg, text, err := o.config.reread(ctx, o.opts.ConfigFile, o.log)
	if err != nil {
		return "", err
	}
	if err := o.apply(work, cfg); err != nil {
		o.config.refuse(err)
		o.log.Error("reload failed", zap.NamedError("err", err))
		return "", err
	}
	o.config.set(cfg)
	o.log.Info("reloaded", zap.String("changes", text))
	return text, nil
}

// apply hands a configuration on. Scripts are not run: they count as good.
func (o *observation) apply(work context.Context, cfg *conf.Config) error {
	if err := o.stand(cfg); err != nil {
		return err
	}
	o.reporter.Configure(observed(cfg))
	full := cfg
	cfg = plain(cfg)
	o.unrun.settle(cfg)
	o.observer.Configure(cfg, nil, nil)
	o.router.Delay(linkDelays(cfg))
	instances := routerInstances(cfg)
	for i := range instances {
		instances[i].SharedMAC = routerInstance(&full.Instances[i]).SharedMAC
	}
	if err := o.router.Apply(work, instances); err != nil {
		return err
	}
	o.feed.SetVIPs(hostSets(cfg))
	var scripts []string
	for _, s := range trackScripts(cfg) {
		scripts = append(scripts, s.Name)
		o.router.TrackResult(s.Name, true)
	}
	if len(scripts) > 0 {
		o.log.Info("no vrrp_script is run while observing; these count as good: " + strings.Join(scripts, ", "))
	}
	files := trackFiles(cfg)
	for i := range files {
		files[i].Init = false // it would be written
	}
	o.files.Configure(files)
	o.processes.Configure(trackProcesses(cfg))
	if len(cfg.VirtualServers) == 0 {
		o.table.Configure(nil)
		o.show(view{})
		return nil
	}
	if _, err := o.wanted(cfg.VirtualServers, nil); err != nil {
		return err
	}
	o.table.Flush(cfg.Global.Flush)
	o.table.Configure(func(found ipvs.Table) ipvs.Table {
		t, _ := o.wanted(cfg.VirtualServers, found) // it did not fail before
		return t
	})
	return nil
}

// plain is the configuration without virtual MACs: their links are not made, and where
// keepalived has its own does not matter to who is master.
func plain(cfg *conf.Config) *conf.Config {
	out := *cfg
	out.Instances = slices.Clone(cfg.Instances)
	for i := range out.Instances {
		in := &out.Instances[i]
		in.UseVMAC, in.UseVMACAddr, in.XmitBase, in.VMACs = nil, false, false, nil
		in.VIPs, in.Excluded = slices.Clone(in.VIPs), slices.Clone(in.Excluded)
		for _, list := range [][]conf.VIP{in.VIPs, in.Excluded} {
			for j := range list {
				list[j].UseVMAC, list[j].Link = false, ""
			}
		}
	}
	return &out
}

// unchecked stands in for checks that are not run: a verdict from before stays.
type unchecked map[string]run.Status

func (u unchecked) Configure(jobs []run.Job, _ func(string) bool) error {
	for _, j := range jobs {
		u[j.Key] = run.Status{
			Known: j.Inherit != healthcheck.Unknown, Healthy: j.Inherit == healthcheck.Up, Inherited: true,
			Detail: "not run while observing",
		}
	}
	return nil
}

func (u unchecked) Look(map[string]run.Status) map[string]run.Status { return u }

// kept keeps the wanted table.
type kept struct{ table ipvs.Table }

func (k *kept) Set(t ipvs.Table) { k.table = t }

func (k *kept) Refresh(context.Context) (reconcile.Status, error) { return reconcile.Status{}, nil }

// wanted is the table that vipd would make at its start, where the kernel has found:
// servers that keepalived has taken out are down, all others good.
func (o *observation) wanted(servers []conf.VirtualServer, found ipvs.Table) (ipvs.Table, error) {
	var k kept
	b := newBalancer(unchecked{}, &k, func(string) {}, zap.NewNop())
	b.Found(found)
	if err := b.Configure(servers); err != nil {
		return nil, fmt.Errorf("computing the IPVS table: %w", err)
	}
	o.show(b.View())
	return k.table, nil
}

// show keeps what status tells of services.
func (o *observation) show(v view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.view = view{services: slices.Clone(v.services), plan: v.plan, checks: v.checks}
}
