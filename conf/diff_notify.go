package conf

import (
	"reflect"
)

// run notes another command, or another user of it.
func (d *details) run(key string, a, b Command) {
	if !reflect.DeepEqual(a, b) {
		d.add(key, a.Argv, b.Argv)
		d.add(key+" user", a.User.String(), b.User.String())
	}
}

// notify compares the commands of two instances.
func (d *details) notify(a, b Notify) {
	d.run("notify", a.Any, b.Any)
	d.run("notify_master", a.Master, b.Master)
	d.run("notify_backup", a.Backup, b.Backup)
	d.run("notify_fault", a.Fault, b.Fault)
	d.run("notify_stop", a.Stop, b.Stop)
	d.add("DELETED", a.SayDeleted, b.SayDeleted)
	d.run("notify_deleted", a.Deleted, b.Deleted)
	d.run("notify_master_rx_lower_pri", a.LowerPri, b.LowerPri)
	d.add("notify_priority_changes", a.PriorityChanges, b.PriorityChanges)
}

// events compares what two files say of FIFOs and of commands that are run once.
func (d *details) events(a, b Global) {
	fifo := func(key string, x, y FIFO) {
		d.add(key, x.Path, y.Path)
		d.add(key+" user", x.User.String(), y.User.String())
		d.run(key+"_script", x.Script, y.Script)
	}
	fifo("notify_fifo", a.NotifyFIFO, b.NotifyFIFO)
	fifo("vrrp_notify_fifo", a.VRRPFIFO, b.VRRPFIFO)
	fifo("lvs_notify_fifo", a.LVSFIFO, b.LVSFIFO)
	d.add("fifo_write_vrrp_states_on_reload", a.StatesOnReload, b.StatesOnReload)
	d.add("rs_init_notifies", a.ServersAtStart, b.ServersAtStart)
	d.add("set_supplementary_groups", a.ScriptGroups, b.ScriptGroups)
	d.run("startup_script", a.Startup.Command, b.Startup.Command)
	d.add("startup_script_timeout", a.Startup.Timeout, b.Startup.Timeout)
	d.run("shutdown_script", a.Shutdown.Command, b.Shutdown.Command)
	d.add("shutdown_script_timeout", a.Shutdown.Timeout, b.Shutdown.Timeout)
}
