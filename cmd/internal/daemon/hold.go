package daemon

import (
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/conf"
	"vipd/vrrp/router"
)

// hold makes the instances wait for what vrrp_startup_delay and
// vrrp_delay_after_boot demand, whichever ends later. Both are read at the start:
// a reload neither ends nor begins a delay.
func hold(r *router.Router, cfg *conf.Config, started time.Time, log *zap.Logger) {
	if until, why := holdUntil(&cfg.Global, started, bootTime(time.Now())); time.Now().Before(until) {
		r.Hold(until, why)
		log.Info("all instances wait for " + why + " until " + until.Format(time.TimeOnly))
	}
}

// holdUntil returns the end of the longer delay, and what it is.
func holdUntil(g *conf.Global, started, booted time.Time) (time.Time, string) {
	until, why := started.Add(g.StartupDelay), "the end of vrrp_startup_delay"
	if at := booted.Add(g.DelayAfterBoot); g.DelayAfterBoot > 0 && at.After(until) {
		until, why = at, "the end of vrrp_delay_after_boot"
	}
	return until, why
}

// bootTime is when the machine was booted; the time it was suspended counts.
func bootTime(now time.Time) time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return now // a kernel without it: as if booted just now
	}
	return now.Add(-time.Duration(t.Nano()))
}

// linkDelays returns interface_up_down_delays as the router takes them.
func linkDelays(cfg *conf.Config) map[string]router.LinkDelay {
	out := make(map[string]router.LinkDelay, len(cfg.LinkDelays))
	for _, l := range cfg.LinkDelays {
		out[l.Interface] = router.LinkDelay{Down: l.Down, Up: l.Up}
	}
	return out
}
