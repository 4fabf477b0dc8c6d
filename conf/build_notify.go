package conf

import (
	"fmt"
	"time"
)

// commands returns the commands that an instance or a sync group can have.
func commands(v *values) Notify {
	d := get[deleted](v, "notify_deleted")
	return Notify{
		Any: get[Command](v, "notify"), Master: get[Command](v, "notify_master"), Backup: get[Command](v, "notify_backup"),
		Fault: get[Command](v, "notify_fault"), Stop: get[Command](v, "notify_stop"), Deleted: d.command, SayDeleted: d.on,
	}
}

// notify returns the commands of an instance.
func (b *builder) notify(v *values) Notify {
	n := commands(v)
	n.LowerPri = get[Command](v, "notify_master_rx_lower_pri")
	n.PriorityChanges = get[bool](b.global, "vrrp_notify_priority_changes")
	if v.has("notify_priority_changes") {
		n.PriorityChanges = get[bool](v, "notify_priority_changes")
	}
	return n
}

// events settles what global_defs says of FIFOs and of commands that are run once.
func (b *builder) events() {
	g, global := &b.config.Global, b.global
	taken := map[string]string{}
	for key, to := range b.fifos() {
		*to = get[FIFO](global, key)
		script := key + "_script"
		to.Script = get[Command](global, script)
		if len(to.Script.Argv) > 0 && !global.given(key) {
			b.say(Error, global, script, "global_defs."+script+"/fifo", "there is no "+key, "add "+key+" with the path of the pipe, or take the script out")
		}
	}
	for _, key := range []string{"notify_fifo", "vrrp_notify_fifo", "lvs_notify_fifo"} {
		p := get[FIFO](global, key).Path
		if other := taken[p]; p != "" && other != "" {
			b.say(Error, global, key, "global_defs."+key+"/taken", fmt.Sprintf("%s is the path of %s already", p, other), "the three need pipes of their own; notify_fifo gets every event")
		}
		taken[p] = key
	}
	g.ServersAtStart, g.ScriptGroups = get[bool](global, "rs_init_notifies"), get[bool](global, "set_supplementary_groups")
	g.Flush, g.FlushOnStop = get[bool](global, "lvs_flush"), get[string](global, "lvs_flush_on_stop")
	g.StatesOnReload = get[bool](global, "fifo_write_vrrp_states_on_reload")
	g.Startup = Hook{get[Command](global, "startup_script"), get[time.Duration](global, "startup_script_timeout")}
	g.Shutdown = Hook{get[Command](global, "shutdown_script"), get[time.Duration](global, "shutdown_script_timeout")}
}

// fifos are the keys of FIFOs and where they go.
func (b *builder) fifos() map[string]*FIFO {
	g := &b.config.Global
	return map[string]*FIFO{"notify_fifo": &g.NotifyFIFO, "vrrp_notify_fifo": &g.VRRPFIFO, "lvs_notify_fifo": &g.LVSFIFO}
}
