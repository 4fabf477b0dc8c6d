package conf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// TOML returns the configuration as a file: canonical, with every default
// written out. Load of that file gives an equal Config again, but for Files and
// Warnings, and for Spreads: a vip_spread comes out as the instances that it makes
// on this machine. Passwords are in it.
func (c *Config) TOML() string {
	p := &printer{}
	p.linkDelays(c.LinkDelays)
	p.table("[global_defs]")
	p.text("router_id", c.Global.RouterID)
	p.delay("vrrp_startup_delay", c.Global.StartupDelay)
	p.delay("vrrp_delay_after_boot", c.Global.DelayAfterBoot)
	p.user("script_user", c.Global.ScriptUser)
	p.flag("enable_script_security", c.Global.ScriptSecurity)
	p.events(c.Global)
	for _, s := range c.Scripts {
		p.script(s)
	}
	for _, f := range c.TrackFiles {
		p.trackFile(f)
	}
	for _, t := range c.TrackProcesses {
		p.trackProcess(t)
	}
	for _, in := range c.Instances {
		p.instance(in)
	}
	for _, g := range c.SyncGroups {
		p.table("[" + join("vrrp_sync_group", g.Name) + "]")
		p.raw("group", quoteAll(g.Members))
		p.commands(g.Notify)
	}
	for _, vs := range c.VirtualServers {
		p.server(vs)
	}
	return p.String()
}

// printer writes TOML.
type printer struct{ strings.Builder }

// table opens a table.
func (p *printer) table(header string) {
	if p.Len() > 0 {
		p.WriteByte('\n')
	}
	p.WriteString(header + "\n")
}

// raw writes a key whose value is TOML already.
func (p *printer) raw(key, value string) { p.WriteString(key + " = " + value + "\n") }

// text writes a string, unless it is empty.
func (p *printer) text(key, value string) {
	if value != "" {
		p.raw(key, quote(value))
	}
}

func (p *printer) num(key string, n int)            { p.raw(key, strconv.Itoa(n)) }
func (p *printer) flag(key string, on bool)         { p.raw(key, strconv.FormatBool(on)) }
func (p *printer) time(key string, d time.Duration) { p.raw(key, timeTOML(d)) }

// delay writes a time, unless it is 0.
func (p *printer) delay(key string, d time.Duration) {
	if d > 0 {
		p.time(key, d)
	}
}

// linkDelays writes interface_up_down_delays.
func (p *printer) linkDelays(delays []LinkDelay) {
	if len(delays) > 0 {
		p.raw("interface_up_down_delays", quoteAll(texts(delays)))
	}
}

// String returns the line of interface_up_down_delays.
func (d LinkDelay) String() string {
	return d.Interface + " " + seconds(d.Down) + " " + seconds(d.Up)
}

// command writes an argument vector, unless it is empty.
func (p *printer) command(key string, argv []string) {
	if len(argv) > 0 {
		p.raw(key, quoteAll(argv))
	}
}

// timeTOML returns a time as TOML: whole seconds as a number, else a string.
func timeTOML(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10)
	}
	return `"` + d.String() + `"`
}

// quote returns a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteAll returns a TOML array of strings.
func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// script writes a vrrp_script.
func (p *printer) script(s Script) {
	p.table("[" + join("vrrp_script", s.Name) + "]")
	p.command("script", s.Argv)
	p.time("interval", s.Interval)
	p.time("timeout", s.Timeout)
	p.weight(s.Weight, s.Reverse)
	p.num("rise", s.Rise)
	p.num("fall", s.Fall)
	p.flag("init_fail", s.InitFail)
	p.user("user", s.User)
}

// reverse returns " reverse" or nothing.
func reverse(on bool) string {
	if on {
		return " reverse"
	}
	return ""
}

// instance writes a vrrp_instance.
func (p *printer) instance(in Instance) {
	path := join("vrrp_instance", in.Name)
	p.table("[" + path + "]")
	state := "BACKUP"
	if in.WantMaster {
		state = "MASTER"
	}
	p.text("state", state)
	p.text("interface", in.Interface)
	p.num("virtual_router_id", int(in.VRID))
	p.num("version", int(in.Version))
	p.num("priority", int(in.Priority))
	p.time("advert_int", in.AdvertInterval)
	p.num("down_timer_adverts", in.DownTimerAdverts)
	p.flag("nopreempt", in.NoPreempt)
	p.delay("preempt_delay", in.PreemptDelay)
	if in.LatePriority > 0 {
		p.num("timer_expired_backup", int(in.LatePriority))
	}
	if in.IgnoreAdverts {
		p.flag("owner_ignore_adverts", true)
	}
	p.flag("v3_checksum_as_v2", in.ChecksumAsV2)
	p.text("mcast_dst_ip", in.Group.String())
	p.unicastTOML(in)
	if in.Source.IsValid() && !in.Unicast {
		p.text("mcast_src_ip", in.Source.String())
	}
	p.flag("skip_check_adv_addr", in.SkipCheckAddr)
	p.flag("lower_prio_no_advert", in.LowerPrioNoAdv)
	if len(in.VIPs)+len(in.Excluded) == 0 {
		p.flag("no_virtual_ipaddress", true)
	}
	p.vips("virtual_ipaddress", in.VIPs)
	p.vips("virtual_ipaddress_excluded", in.Excluded)
	p.announce(in.Announce)
	p.tracks("track_interface", in.TrackInterfaces)
	p.tracks("track_script", in.TrackScripts)
	p.tracks("track_file", in.TrackFiles)
	p.tracks("track_process", in.TrackProcesses)
	p.notify(in.Notify)
	p.hmacTOML(in.HMAC)
	if in.AuthPass != "" {
		p.raw("authentication", `{ auth_type = "PASS", auth_pass = `+quote(in.AuthPass)+" }")
	}
}

// announce writes the GARP settings.
func (p *printer) announce(a Announce) {
	p.time("garp_master_delay", a.MasterDelay)
	p.num("garp_master_repeat", a.MasterRepeat)
	p.time("garp_master_refresh", a.Refresh)
	p.num("garp_master_refresh_repeat", a.RefreshRepeat)
	p.time("garp_lower_prio_delay", a.LowerPrioDelay)
	p.num("garp_lower_prio_repeat", a.LowerPrioRepeat)
	p.time("garp_interval", a.GARPInterval)
	p.time("gna_interval", a.GNAInterval)
}

// String returns the address as a line of virtual_ipaddress, with every option
// that matters.
func (v VIP) String() string {
	line := v.Prefix.String()
	if v.Dev != "" {
		line += " dev " + v.Dev
	}
	if v.Label != "" {
		line += " label " + v.Label
	}
	if v.Scope != "global" {
		line += " scope " + v.Scope
	}
	if v.Broadcast.IsValid() {
		line += " brd " + v.Broadcast.String()
	}
	if v.NoPrefixRoute {
		line += " noprefixroute"
	}
	if v.NoTrack {
		line += " no_track"
	}
	if host6 := v.Prefix.Addr().Is6() && v.Prefix.Bits() == 128; v.Deprecated != host6 {
		if v.Deprecated {
			line += " preferred_lft 0"
		} else {
			line += " preferred_lft forever"
		}
	}
	return line
}

// vips writes a list of addresses, one a line.
func (p *printer) vips(key string, vips []VIP) {
	if len(vips) == 0 {
		return
	}
	p.WriteString(key + " = [\n")
	for _, v := range vips {
		p.WriteString("  " + quote(v.String()) + ",\n")
	}
	p.WriteString("]\n")
}

// String returns the reference as a line of track_interface or track_script.
func (t TrackRef) String() string {
	return t.Name + " weight " + strconv.Itoa(t.Weight) + reverse(t.Reverse)
}

// tracks writes track_interface or track_script.
func (p *printer) tracks(key string, tracks []TrackRef) {
	if len(tracks) == 0 {
		return
	}
	lines := make([]string, len(tracks))
	for i, t := range tracks {
		lines[i] = t.String()
	}
	p.raw(key, quoteAll(lines))
}

// endpointText returns "ADDRESS:PORT", or the address alone for port 0.
func endpointText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
