package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"vipd/conf"
)

const (
	// stopTables bounds the removal of IPVS services at stop. Addresses have a
	// bound of their own (host.Manager.Release).
	stopTables = 2 * time.Second
	// stopAtOnce bounds all removal after a second signal.
	stopAtOnce = 300 * time.Millisecond
)

// stop gives everything up in the order that costs clients least: the peers
// learn it first, then the addresses go, those of each MASTER when its successor
// has announced itself and at most wait later, then the services behind them. Each
// step has a time limit of its own, and none keeps the next from being tried. The
// error tells what stays in this host.
func (d *Daemon) stop(why string, wait time.Duration, hurry <-chan struct{}) error {
	close(d.stopping)
	d.tellManager(daemon.SdNotifyStopping)
	d.log.Info("stopping: giving up addresses and services", zap.String("reason", why))
	d.balance.Omega()
	done, given := make(chan error, 1), make(chan struct{})
	go func() {
		var errs []error
		step := func(f func() error) {
			if err := guard(f); err != nil {
				errs = append(errs, err)
			}
		}
		step(func() error { d.router.Stop(wait); d.sender.Over(); return nil })
		step(func() error {
			// The rules stay with the addresses and links.
			if err := errors.Join(d.manager.Release(), d.vmacs.Release()); err != nil {
				return err
			}
			return d.firewall.Release()
		})
		step(d.releaseSettings)
		step(func() error {
			if cfg, _, _ := d.config.get(); cfg != nil && cfg.Global.FlushOnStop == conf.FlushAll {
				d.table.Claim()
			}
			ctx, cancel := context.WithTimeout(context.Background(), stopTables)
			defer cancel()
			return d.table.Release(ctx)
		})
		step(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), syncLinger+stopTables)
			defer cancel()
			return d.survival.Release(ctx, hurry)
		})
		close(given)
		step(d.lastWords)
		done <- errors.Join(errs...)
	}()
	select {
	case err := <-done:
		if err != nil {
			err = fmt.Errorf("not everything could be given up, remove by hand what stays: %w", err)
		}
		return err
	case <-hurry:
	}
	d.router.Hurry()
	select {
	case <-given:
		d.log.Warn("stopping at once: everything was given up, notifications may be cut off")
	case <-time.After(stopAtOnce):
		d.log.Warn("stopping at once: addresses and services may stay")
	}
	return nil
}

// stopWait is how long a planned end waits for successors.
func (d *Daemon) stopWait() time.Duration {
	cfg, _, _ := d.config.get()
	if cfg == nil {
		return 0
	}
	return cfg.Global.StopWait
}

// lastWords lets commands, FIFOs and mail have their time, all at once.
func (d *Daemon) lastWords() error {
	var g sync.WaitGroup
	for _, end := range []func() error{
		func() error { return d.notify.Close(context.Background()) }, d.mail.Close,
	} {
		g.Go(func() {
			if err := guard(end); err != nil {
				d.log.Warn("notifications were cut off", zap.NamedError("err", err))
			}
		})
	}
	g.Wait()
	if err := d.fifos.Close(); err != nil {
		d.log.Warn("notifications were cut off", zap.NamedError("err", err))
	}
	return nil
}
