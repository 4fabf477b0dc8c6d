package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/conf"
)

// errStopped answers a reload that comes while the daemon stops.
var errStopped = errors.New("vipd is stopping")

// configState is the configuration that runs and how the last reload went.
type configState struct {
	files *conf.Loader // reads it

	mu     sync.Mutex // guards all following fields
	cfg    *conf.Config
	loaded time.Time
	err    string // why the last reload was refused; "" when it was not
}

func (c *configState) set(cfg *conf.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg, c.loaded, c.err = cfg, time.Now(), ""
}

func (c *configState) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err.Error()
	var bad *ConfigError
	if errors.As(err, &bad) {
		c.err = bad.Diagnostics.Error() // in one line
	}
}

func (c *configState) get() (cfg *conf.Config, loaded time.Time, refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg, c.loaded, c.err
}

type reloadRequest struct{ answer chan reloadAnswer }

type reloadAnswer struct {
	text string
	err  error
}

// reloader takes the reloads of the control socket.
type reloader struct {
	reloads  chan reloadRequest
	stopping chan struct{} // closed when no more reloads are taken
}

func newReloader() reloader {
	return reloader{reloads: make(chan reloadRequest), stopping: make(chan struct{})}
}

// Reload implements control.Daemon: it reads the configuration again and tells
// what changed, or what is wrong with it.
func (d *reloader) Reload(ctx context.Context) (string, error) {
	r := reloadRequest{answer: make(chan reloadAnswer, 1)}
	select {
	case d.reloads <- r:
	case <-d.stopping:
		return "", errStopped
	case <-ctx.Done():
		return "", errStopped
	}
	select {
	case a := <-r.answer:
		return a.text, a.err
	case <-ctx.Done():
		return "", errStopped
	}
}

// serve answers reloads until ctx ends or a part fails, which ends work.
func (d *reloader) serve(ctx, work context.Context, hup <-chan os.Signal, reload func(ctx, work context.Context) (string, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-work.Done():
			return
		case <-hup:
			_, _ = reload(ctx, work) // refused or not, it was logged
		case r := <-d.reloads:
			text, err := reload(ctx, work)
			r.answer <- reloadAnswer{text, err}
		}
	}
}

// errNothing refuses a reload that would give everything up. Mostly the file was
// read between its truncation and its writing.
var errNothing = errors.New("the new configuration has neither a vrrp_instance nor a virtual_server: write the file whole before the reload; to give everything up, stop vipd")

// empty reports whether a configuration asks for nothing at all.
func empty(cfg *conf.Config) bool {
	return len(cfg.Instances) == 0 && len(cfg.VirtualServers) == 0 && len(cfg.StaticAddresses)+len(cfg.StaticRoutes)+len(cfg.StaticRules) == 0
}

// reload reads the configuration; a bad one changes nothing.
// It returns errStopped when ctx ends before the file could be read.
func (d *Daemon) reload(ctx, work context.Context) (string, error) {
	d.tellManager(daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + monotonic())
	defer d.tellManager(daemon.SdNotifyReady)
	thrifty()
	defer settled()
	cfg, text, err := d.config.reread(ctx, d.opts.ConfigFile, d.log)
	if err != nil {
		return "", err
	}
	if err := d.apply(work, cfg); err != nil {
		d.config.refuse(err)
		d.log.Error("reload failed", zap.NamedError("err", err))
		return "", err
	}
	d.table.Reread() // whoever reloads wants things right now, whatever others did
	d.config.set(cfg)
	d.hinder()
	if cfg.Global.StatesOnReload {
		d.writeStates()
	}
	d.log.Info("reloaded", zap.String("changes", text))
	return text, nil
}

// reread reads the configuration anew and says what is changed by it. One that is
// not taken is remembered and logged.
func (c *configState) reread(ctx context.Context, path string, log *zap.Logger) (cfg *conf.Config, changes string, err error) {
	old, _, _ := c.get()
	cfg, err = load(ctx, c.files, path)
	if errors.Is(err, errStopped) {
		return nil, "", err
	}
	if err == nil && empty(cfg) && !empty(old) {
		err = errNothing
	}
	if err == nil {
		err = moved(old.Place, cfg.Place)
	}
	if err != nil {
		c.refuse(err)
		logRefusal(err, log)
		return nil, "", err
	}
	diff := conf.Diff(old, cfg)
	if len(diff) == 0 {
		return cfg, "nothing changed", nil
	}
	lines := make([]string, len(diff))
	for i, c := range diff {
		lines[i] = c.String()
	}
	return cfg, strings.Join(lines, "; "), nil
}

// logRefusal logs why a configuration is not taken.
func logRefusal(err error, log *zap.Logger) {
	reasons := []string{err.Error()}
	var bad *ConfigError
	if errors.As(err, &bad) {
		reasons = nil
		for _, diag := range bad.Diagnostics {
			reasons = append(reasons, diag.Error())
		}
	}
	for _, reason := range reasons {
		log.Error("reload refused, the running configuration stays: " + reason)
	}
}

// load reads a configuration from the file system of the host. It does not wait
// for a file system that hangs when ctx ends: the reading, which cannot be broken
// off, is left to end with the process.
func load(ctx context.Context, files *conf.Loader, path string) (*conf.Config, error) {
	var cfg *conf.Config
	var diags conf.Diagnostics
	done := make(chan struct{})
	var fault error
	go func() {
		defer close(done)
		fault = guard(func() error { cfg, diags = Load(files, path); return nil })
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, errStopped
	}
	if fault != nil {
		return nil, fmt.Errorf("reading the configuration met a fault in vipd: %w", fault)
	}
	if cfg == nil {
		return nil, &ConfigError{diags}
	}
	return cfg, nil
}

// Load reads the file at path, which may be relative to the working directory.
func Load(files *conf.Loader, path string) (*conf.Config, conf.Diagnostics) {
	// Both may be unknown: conf then says what it cannot find.
	hostname, _ := os.Hostname()
	dir, _ := os.Getwd()
	return files.Load(os.DirFS("/"), path, conf.Env{Hostname: hostname, Dir: dir})
}

// monotonic is the time of CLOCK_MONOTONIC in microseconds, which systemd
// wants with every reload.
func monotonic() string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return "0"
	}
	return strconv.FormatInt(ts.Nano()/1000, 10)
}
