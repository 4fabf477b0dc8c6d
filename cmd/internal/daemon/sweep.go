package daemon

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/vrrp/host"
)

// leftoverLines is how many addresses of a crashed predecessor are named in the log.
const leftoverLines = 20

// sweep removes the addresses that a crashed predecessor left.
func (d *Daemon) sweep(cfg *conf.Config) error {
	links, err := d.vmacs.Sweep()
	for _, l := range links {
		d.log.Warn("left by an earlier vipd: " + l)
	}
	if err != nil {
		return err
	}
	sets := hostSets(cfg)
	d.feed.SetVIPs(sets)
	d.manager.Configure(sets)
	leftovers, paths, err := d.manager.Sweep()
	if err != nil {
		return fmt.Errorf("looking for what a crash left: %w", err)
	}
	d.settle(cfg)
	for _, l := range paths[:min(len(paths), leftoverLines)] {
		d.log.Warn("a " + l.Object.Kind() + " was here before: " + l.String())
	}
	if n := len(paths) - leftoverLines; n > 0 {
		d.log.Warn("more routes and rules were here before", zap.Int("objects", n))
	}
	slices.SortStableFunc(leftovers, func(a, b host.Leftover) int { // first those that somebody must look at
		switch {
		case a.Removed == b.Removed:
			return 0
		case b.Removed:
			return -1
		}
		return 1
	})
	for _, l := range leftovers[:min(len(leftovers), leftoverLines)] {
		d.log.Warn("an address was here before: " + l.String())
	}
	if n := len(leftovers) - leftoverLines; n > 0 {
		d.log.Warn("more addresses were here before", zap.Int("addresses", n))
	}
	return d.sweepRules() // those that protected the addresses
}
