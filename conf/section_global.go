package conf

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// section is [global_defs].
func (g Global) section() section {
	return section{
		header: "[global_defs]",
		object: "global_defs",
		settings: slices.Concat([]setting{
			{"router_id", g.RouterID},
			{"vrrp_startup_delay", unless(g.StartupDelay, 0)},
			{"vrrp_delay_after_boot", unless(g.DelayAfterBoot, 0)},
			{"stop_wait", unless(g.StopWait, 5*time.Second)},
			{"script_user", g.ScriptUser.String()},
			{"enable_script_security", g.ScriptSecurity},
		},
			g.NotifyFIFO.settings("notify_fifo"),
			g.VRRPFIFO.settings("vrrp_notify_fifo"),
			g.LVSFIFO.settings("lvs_notify_fifo"),
			[]setting{
				{"fifo_write_vrrp_states_on_reload", unless(g.StatesOnReload, false)},
				{"rs_init_notifies", unless(g.ServersAtStart, false)},
				{"set_supplementary_groups", unless(g.ScriptGroups, false)},
			},
			g.flushSettings(),
			[]setting{
				{"checker_log_all_failures", unless(g.LogAllFailures, false)},
				{"checker_max_processes", unless(g.MaxProcesses, usualProcesses)},
			},
			g.Mail.settings(),
			g.Firewall.settings(),
			g.vmacSettings(),
			g.survivalSettings(),
			g.Startup.settings("startup_script"),
			g.Shutdown.settings("shutdown_script"),
			g.Priority.settings(),
			[]setting{{"vrrp_no_swap", unless(g.NoSwap, false)}, {"huge_pages", unless(g.HugePages, true)}},
		),
	}
}

// String returns the line of interface_up_down_delays.
func (d LinkDelay) String() string {
	return d.Interface + " " + seconds(d.Down) + " " + seconds(d.Up)
}

// settings lists a FIFO and its reader.
func (f FIFO) settings(key string) []setting {
	var pipe any = inline{{"path", f.Path}, {"user", f.User.Name}, {"group", f.User.Group}}
	if f.Path == "" {
		pipe = unwritten{pipe}
	}
	return []setting{{key, pipe}, {key + "_script", f.Script}}
}

// settings lists a command that is run once.
func (h Hook) settings(key string) []setting {
	return []setting{{key, h.Command}, {key + "_timeout", unless(h.Timeout, 10*time.Second)}}
}

// settings lists the priorities.
func (t Priority) settings() []setting {
	cpus := strings.Join(each(t.CPUs, strconv.Itoa), " ")
	var affinity any = cpus
	if cpus == "" {
		affinity = unwritten{cpus}
	}
	return []setting{
		{"vrrp_rt_priority", unless(t.RTPriority, 0)},
		{"vrrp_rlimit_rttime", unless(t.RTTime, 1_000_000)},
		{"vrrp_priority", unless(t.Nice, 0)},
		{"vrrp_cpu_affinity", affinity},
	}
}
