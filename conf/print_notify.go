package conf

import "strings"

// run writes a command and who runs it, unless it is empty.
func (p *printer) run(key string, c Command) {
	if len(c.Argv) == 0 {
		return
	}
	if c.User.Name == "" {
		p.command(key, c.Argv)
		return
	}
	p.raw(key, "{ script = "+quoteAll(c.Argv)+userTOML(c.User)+" }")
}

// userTOML continues an inline table.
func userTOML(u User) string {
	text := ""
	if u.Name != "" {
		text += ", user = " + quote(u.Name)
	}
	if u.Group != "" {
		text += ", group = " + quote(u.Group)
	}
	return text
}

// String returns the command as one line, with who runs it.
func (c Command) String() string {
	text := strings.Join(c.Argv, " ")
	if c.User.Name != "" {
		text += " (as " + c.User.String() + ")"
	}
	return text
}

// notify writes the commands of an instance.
func (p *printer) notify(n Notify) {
	p.commands(n)
	p.run("notify_master_rx_lower_pri", n.LowerPri)
	p.flag("notify_priority_changes", n.PriorityChanges)
}

// commands writes those that a sync group can have, too.
func (p *printer) commands(n Notify) {
	p.run("notify", n.Any)
	p.run("notify_master", n.Master)
	p.run("notify_backup", n.Backup)
	p.run("notify_fault", n.Fault)
	p.run("notify_stop", n.Stop)
	if n.SayDeleted && len(n.Deleted.Argv) == 0 {
		p.flag("notify_deleted", true)
	}
	p.run("notify_deleted", n.Deleted)
}

// events writes what global_defs says of FIFOs and of commands that are run once.
func (p *printer) events(g Global) {
	for _, f := range []struct {
		key  string
		fifo FIFO
	}{{"notify_fifo", g.NotifyFIFO}, {"vrrp_notify_fifo", g.VRRPFIFO}, {"lvs_notify_fifo", g.LVSFIFO}} {
		if f.fifo.Path != "" {
			p.raw(f.key, "{ path = "+quote(f.fifo.Path)+userTOML(f.fifo.User)+" }")
		}
		p.run(f.key+"_script", f.fifo.Script)
	}
	if g.StatesOnReload {
		p.flag("fifo_write_vrrp_states_on_reload", true)
	}
	if g.ServersAtStart {
		p.flag("rs_init_notifies", true)
	}
	if g.ScriptGroups {
		p.flag("set_supplementary_groups", true)
	}
	p.hook("startup_script", g.Startup)
	p.hook("shutdown_script", g.Shutdown)
}

// hook writes a command that is run once.
func (p *printer) hook(key string, h Hook) {
	p.run(key, h.Command)
	const usual = 10
	if h.Timeout.Seconds() != usual {
		p.time(key+"_timeout", h.Timeout)
	}
}
