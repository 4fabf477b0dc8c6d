package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vipd/cmd/internal/ipvsadvice"
	"vipd/cmd/internal/status"
	"vipd/conf"
)

// ipvsSettings are the settings of the kernel's IPVS that cfg asks for: what keeps connections, and what is in
// [ipvs_sysctl], which decides where both name one.
func ipvsSettings(cfg *conf.Config) map[string]string {
	want := map[string]string{}
	if cfg.Global.SyncDaemon != nil {
		want["sync_threshold"] = "3 0"
		want["sync_refresh_period"] = strconv.Itoa(int(conf.SyncRefresh.Seconds()))
	}
	if slices.ContainsFunc(cfg.VirtualServers, func(v conf.VirtualServer) bool { return v.Survive != "" }) {
		want["sloppy_tcp"], want["sloppy_sctp"] = "1", "1"
	}
	for _, s := range cfg.IPVSSettings {
		want[s.Name] = s.Value
	}
	return want
}

// settle makes the settings; what failed is tried again with the next look at the facts.
func (s *survival) settle(cfg *conf.Config) {
	want := ipvsSettings(cfg)
	if len(want) > 0 {
		// They are there when IPVS is; the reconciler says why it is not.
		_, _, _ = s.kernel.Facts()
	}
	err := s.settings.Want(want)
	if err != nil {
		err = fmt.Errorf("not all settings of IPVS could be made or given back: %w", err)
	}
	s.note("settings", err)
}

// settingStates adds the settings, and what they do to what the configuration promises.
func (d *Daemon) settingStates(s *status.Status, cfg *conf.Config) {
	for _, x := range d.survival.settings.Status() {
		out := status.Setting{Name: "net.ipv4.vs." + x.Name, Want: x.Want, Value: x.Value}
		same := strings.Join(strings.Fields(x.Value), " ") == x.Want
		switch {
		case x.Err != nil:
			out.Error = x.Err.Error()
			// There is one alarm for all of them, among the problems of survival.
		case !same:
			s.Alarms = append(s.Alarms, fmt.Sprintf("ipvs_sysctl: %s is %q, not %q: another program has changed it; a reload sets it again", out.Name, x.Value, x.Want))
		}
		s.IPVSSettings = append(s.IPVSSettings, out)
	}
	asIs := *cfg // status tells what is, not what was asked for
	asIs.IPVSSettings = nil
	s.Advice = append(s.Advice, ipvsadvice.Advice(&asIs, d.survival.settings.Value, kernelRelease())...)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
