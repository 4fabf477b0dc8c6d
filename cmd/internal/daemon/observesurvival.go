package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"vipd/cmd/internal/daemon/observe"
	"vipd/cmd/internal/settings/ipvssysctl"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/connsync"
	"vipd/vrrp"
	"vipd/vrrp/router"
)

// found is what the kernel has of what keeps connections.
type found struct {
	loaded    bool // the kernel has IPVS; asking it otherwise would load the module
	setting   func(name string) string
	timeouts  ipvs.Timeouts
	daemons   []ipvs.Daemon
	reachable error // of the sync daemon's group
	err       error // why the kernel's daemons and timeouts are not known
}

// look reads it. It changes nothing and loads no module.
func (o *observation) look(cfg *conf.Config, root fs.FS) found {
	f := found{setting: ipvssysctl.New(ipvssysctl.Dir, "", o.ipvs.In).Value}
	if d := cfg.Global.SyncDaemon; d != nil {
		f.reachable = connsync.Group{In: o.ipvs.In}.Reachable(syncConfig(cfg).Daemon)
	}
	if _, err := fs.Stat(root, "proc/net/ip_vs"); err != nil {
		return f
	}
	f.loaded = true
	var err error
	if f.timeouts, _, err = o.ipvs.Facts(); err == nil {
		f.daemons, err = o.ipvs.Daemons()
	}
	if errors.Is(err, ipvs.ErrAbsent) {
		f.loaded, err = false, nil
	}
	f.err = err
	return f
}

// survivalSteps tells what would be done for connections that outlive their director.
func survivalSteps(cfg *conf.Config, f *found) (out []observe.Step) {
	say := func(format string, args ...any) { out = append(out, observe.Step{Text: fmt.Sprintf(format, args...)}) }
	warn := func(format string, args ...any) {
		out = append(out, observe.Step{Text: fmt.Sprintf(format, args...), Warn: true})
	}
	want := ipvsSettings(cfg)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch have := f.setting(name); {
		case have == "" && !f.loaded:
			say("would set net.ipv4.vs.%s to %s", name, want[name])
		case have == "":
			warn("could not set net.ipv4.vs.%s to %s: this kernel does not have it", name, want[name])
		case have == strings.Join(strings.Fields(want[name]), " "):
			say("would leave net.ipv4.vs.%s = %s as it is", name, have)
		default:
			say("would set net.ipv4.vs.%s from %s to %s", name, have, want[name])
		}
	}
	if f.err != nil {
		warn("the timeouts and sync daemons of IPVS cannot be compared: %v", f.err)
	}
	known := f.loaded && f.err == nil
	switch t := ipvs.Timeouts(cfg.Global.LVSTimeouts); {
	case t == ipvs.Timeouts{}:
	case !known:
		say("would set the timeouts of IPVS: %v (0 keeps what there is)", t)
	case f.timeouts.Differs(t):
		say("would change the timeouts of IPVS from %v to %v", f.timeouts, f.timeouts.With(t))
	default:
		say("would leave the timeouts of IPVS as they are: %v", f.timeouts)
	}
	if cfg.Global.SyncDaemon != nil {
		for _, text := range syncGroup(cfg.Global.SyncDaemon, f.reachable) {
			warn("%s", text)
		}
		out = append(out, daemonSteps(cfg, f.daemons)...)
	}
	if shielded := servedAddresses(cfg); cfg.Global.Shield > 0 && len(shielded) > 0 {
		say("would for %v after a takeover send no TCP resets from %s (nftables tables ip and ip6 %s)", cfg.Global.Shield, strings.Join(shielded, ", "), shieldTable(cfg))
	}
	return out
}

// daemonSteps tells of the sync daemons, and of those that run differently.
func daemonSteps(cfg *conf.Config, have []ipvs.Daemon) (out []observe.Step) {
	c := syncConfig(cfg)
	waiting := slices.Sorted(maps.Keys(cfg.SyncDelays()))
	for _, r := range []ipvs.Role{ipvs.SyncMaster, ipvs.SyncBackup} {
		d := c.Daemon
		d.Role = r
		step := observe.Step{Text: "would run: ipvsadm " + d.String()}
		if !c.Both {
			step.Text = fmt.Sprintf("would run while %s is %sMASTER: ipvsadm %s", cfg.Global.SyncDaemon.Instance, map[ipvs.Role]string{ipvs.SyncBackup: "not "}[r], d)
		}
		if i := slices.IndexFunc(have, func(h ipvs.Daemon) bool { return h.Role == r }); i >= 0 {
			if have[i].Does(d) {
				step.Text += " (there already)"
			} else {
				step = observe.Step{Text: step.Text + " (DIFFERS from the one there: ipvsadm " + have[i].String() + ")", Warn: true}
			}
		}
		out = append(out, step)
	}
	if len(waiting) > 0 {
		out = append(out, observe.Step{Text: fmt.Sprintf("would leave a MASTER of lower priority alone for %v, until its connections are known (sync_delay): %s", cfg.Global.SyncDelay, strings.Join(waiting, ", "))})
	}
	return out
}

// servedAddresses are those from which resets may be held back.
func servedAddresses(cfg *conf.Config) (out []string) {
	states := make([]router.InstanceStatus, len(cfg.Instances))
	for i := range states {
		states[i].Name = cfg.Instances[i].Name
	}
	armed, _ := armedAddresses(time.Time{}, cfg, states, nil)
	for _, a := range armed {
		out = append(out, a.String())
	}
	return out
}

// syncRoles tells which sync daemons a change of state would start and stop.
func syncRoles(cfg *conf.Config, e router.TransitionEvent) []string {
	d := cfg.Global.SyncDaemon
	if d == nil || d.Instance == "" || d.Instance != e.Instance && d.Instance != e.Group || (e.From == vrrp.Master) == (e.To == vrrp.Master) {
		return nil
	}
	start, stop := ipvs.SyncMaster, ipvs.SyncBackup
	if e.From == vrrp.Master {
		start, stop = stop, start
	}
	return []string{fmt.Sprintf("start the %v sync daemon and stop the %v %v later", start, stop, syncLinger)}
}
