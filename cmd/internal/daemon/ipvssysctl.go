package daemon

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/cmd/internal/ipvsadvice"
	"vipd/cmd/internal/netns"
	"vipd/cmd/internal/status"
	"vipd/conf"
)

// inside runs a call in the namespace of the IPVS table.
func (h home) inside(call func() error) error {
	if h.ipvs == "" {
		return call()
	}
	return netns.Do(h.ipvs, call)
}

// settleIPVS makes the settings of [ipvs_sysctl].
func (d *Daemon) settleIPVS(cfg *conf.Config) {
	want := make(map[string]string, len(cfg.IPVSSettings))
	for _, s := range cfg.IPVSSettings {
		want[s.Name] = s.Value
	}
	if len(want) > 0 {
		// They are there when IPVS is; the reconciler says why it is not.
		_, _ = d.ipvs.Read()
	}
	if err := d.ipvsSettings.Want(want); err != nil {
		d.log.Error("not all of ipvs_sysctl could be set or given back", zap.NamedError("err", err))
	}
}

// releaseIPVSSettings gives them back.
func (d *Daemon) releaseIPVSSettings() error {
	if err := d.ipvsSettings.Release(); err != nil {
		return fmt.Errorf("giving ipvs_sysctl back: %w", err)
	}
	return nil
}

// settingStates adds the settings, and what they do to what the configuration promises.
func (d *Daemon) settingStates(s *status.Status, cfg *conf.Config) {
	for _, x := range d.ipvsSettings.Status() {
		out := status.Setting{Name: "net.ipv4.vs." + x.Name, Want: x.Want, Value: x.Value}
		same := strings.Join(strings.Fields(x.Value), " ") == x.Want
		switch {
		case x.Err != nil:
			out.Error = x.Err.Error()
			s.Alarms = append(s.Alarms, "ipvs_sysctl: "+out.Error)
		case !same:
			s.Alarms = append(s.Alarms, fmt.Sprintf("ipvs_sysctl: %s is %q, not %q: another program has changed it; a reload sets it again", out.Name, x.Value, x.Want))
		}
		s.IPVSSettings = append(s.IPVSSettings, out)
	}
	asIs := *cfg // status tells what is, not what was asked for
	asIs.IPVSSettings = nil
	s.Advice = append(s.Advice, ipvsadvice.Advice(&asIs, d.ipvsSettings.Value, kernelRelease())...)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
