package conf

// steering lists when a service is up, who hears of it and where it is active.
func (vs VirtualServer) steering() []setting {
	active := "always"
	if vs.ActiveOn != "" {
		active = "master"
	}
	return []setting{
		{"hysteresis", unless(vs.Hysteresis, 0)},
		{"quorum_up", vs.Up},
		{"quorum_down", vs.Down},
		{"omega", unless(vs.Omega, false)},
		{"ha_suspend", unless(vs.HASuspend, false)},
		{"active_on", unless(active, "always")},
		{"active_instance", vs.ActiveOn},
	}
}

// flushSettings lists what becomes of services of others.
func (g Global) flushSettings() []setting {
	var onStop any = unwritten{g.FlushOnStop}
	switch g.FlushOnStop {
	case FlushAll:
		onStop = true
	case flushVS:
		onStop = flushVS
	}
	return []setting{{"lvs_flush", unless(g.Flush, false)}, {"lvs_flush_on_stop", onStop}}
}
