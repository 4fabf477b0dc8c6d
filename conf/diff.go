package conf

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Change is one object of the configuration that a reload adds, removes or
// changes.
type Change struct {
	Object  string   // "vrrp_instance VI_1", "virtual_server tcp 10.9.0.100:80"
	Kind    string   // "added", "removed" or "changed"
	Details []string // of a change: "priority 100 -> 150", "virtual_ipaddress +203.0.113.11/32"
}

// String returns the change as a line of the log.
func (c Change) String() string {
	if len(c.Details) == 0 {
		return c.Object + " " + c.Kind
	}
	return c.Object + " " + c.Kind + ": " + strings.Join(c.Details, ", ")
}

// Diff returns what a reload from old to new changes, in the order of the
// tables in a file. It is empty when the two do the same, even when the files
// were written differently.
func Diff(old, new *Config) []Change {
	var changes []Change
	if !reflect.DeepEqual(old.Global, new.Global) {
		var d details
		d.add("router_id", old.Global.RouterID, new.Global.RouterID)
		d.add("vrrp_startup_delay", old.Global.StartupDelay, new.Global.StartupDelay)
		d.add("vrrp_delay_after_boot", old.Global.DelayAfterBoot, new.Global.DelayAfterBoot)
		d.add("script_user", old.Global.ScriptUser.String(), new.Global.ScriptUser.String())
		d.add("enable_script_security", old.Global.ScriptSecurity, new.Global.ScriptSecurity)
		d.events(old.Global, new.Global)
		changes = append(changes, Change{"global_defs", "changed", d})
	}
	var d details
	if d.list("interface_up_down_delays", texts(old.LinkDelays), texts(new.LinkDelays)); len(d) > 0 {
		changes = append(changes, Change{"interfaces", "changed", d})
	}
	changes = append(changes, diffNamed("vrrp_script", old.Scripts, new.Scripts, func(s Script) string { return s.Name }, diffScript)...)
	changes = append(changes, diffNamed("vrrp_track_file", old.TrackFiles, new.TrackFiles, func(f TrackFile) string { return f.Name }, diffTrackFile)...)
	changes = append(changes, diffNamed("vrrp_track_process", old.TrackProcesses, new.TrackProcesses, func(p TrackProcess) string { return p.Name }, diffTrackProcess)...)
	changes = append(changes, diffNamed("vrrp_sync_group", old.SyncGroups, new.SyncGroups, func(g SyncGroup) string { return g.Name }, diffGroup)...)
	changes = append(changes, diffNamed("vrrp_instance", old.Instances, new.Instances, func(i Instance) string { return i.Name }, diffInstance)...)
	return append(changes, diffNamed("virtual_server", old.VirtualServers, new.VirtualServers, serviceID, diffServer)...)
}

// serviceID tells services apart: by what they are, not by their names.
func serviceID(vs VirtualServer) string { return serviceText(&vs) }

// diffNamed compares two lists of objects with names.
func diffNamed[T any](kind string, old, new []T, name func(T) string, compare func(a, b T) details) []Change {
	before := make(map[string]T, len(old))
	for _, o := range old {
		before[name(o)] = o
	}
	after := make(map[string]bool, len(new))
	var changes []Change
	for _, n := range new {
		id := name(n)
		after[id] = true
		if o, ok := before[id]; !ok {
			changes = append(changes, Change{Object: kind + " " + id, Kind: "added"})
		} else if d := compare(o, n); len(d) > 0 {
			changes = append(changes, Change{kind + " " + id, "changed", d})
		}
	}
	for _, o := range old {
		if id := name(o); !after[id] {
			changes = append(changes, Change{Object: kind + " " + id, Kind: "removed"})
		}
	}
	return changes
}

// details gathers the changes of one object.
type details []string

// add notes a key whose value is no longer the same.
func (d *details) add(key string, a, b any) {
	if x, y := detail(a), detail(b); x != y {
		*d = append(*d, key+" "+x+" -> "+y)
	}
}

// detail shows a value.
func detail(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "on"
		}
		return "off"
	case time.Duration:
		return shortTime(v)
	case []string:
		if len(v) > 0 {
			return quoteAll(v)
		}
		return "none"
	case netip.Addr:
		if !v.IsValid() {
			return "none"
		}
	case netip.AddrPort:
		if !v.IsValid() {
			return "none"
		}
	case string:
		if v == "" {
			return "none"
		}
	}
	return fmt.Sprint(v)
}

// list notes entries that came and went, or that only the order changed.
func (d *details) list(key string, a, b []string) {
	var parts []string
	for _, x := range b {
		if !slices.Contains(a, x) {
			parts = append(parts, "+"+x)
		}
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			parts = append(parts, "-"+x)
		}
	}
	if len(parts) == 0 && !slices.Equal(a, b) {
		parts = []string{"in another order"}
	}
	if len(parts) > 6 {
		parts = append(parts[:6], fmt.Sprintf("and %d more", len(parts)-6))
	}
	if len(parts) > 0 {
		*d = append(*d, key+" "+strings.Join(parts, " "))
	}
}

// texts returns the String of every entry.
func texts[T fmt.Stringer](list []T) []string {
	all := make([]string, len(list))
	for i, x := range list {
		all[i] = x.String()
	}
	return all
}

// diffScript compares two scripts.
func diffScript(a, b Script) (d details) {
	d.add("script", a.Argv, b.Argv)
	d.add("interval", a.Interval, b.Interval)
	d.add("timeout", a.Timeout, b.Timeout)
	d.add("weight", a.Weight, b.Weight)
	d.add("reverse", a.Reverse, b.Reverse)
	d.add("rise", a.Rise, b.Rise)
	d.add("fall", a.Fall, b.Fall)
	d.add("init_fail", a.InitFail, b.InitFail)
	d.add("user", a.User.String(), b.User.String())
	return d
}

// diffTrackFile compares two files.
func diffTrackFile(a, b TrackFile) (d details) {
	d.add("file", a.Path, b.Path)
	d.add("weight", a.Weight, b.Weight)
	d.add("reverse", a.Reverse, b.Reverse)
	d.add("init_file", a.Init, b.Init)
	d.add("init_file value", a.InitValue, b.InitValue)
	d.add("init_file overwrite", a.Overwrite, b.Overwrite)
	return d
}

// diffTrackProcess compares two kinds of processes.
func diffTrackProcess(a, b TrackProcess) (d details) {
	d.add("process", a.Argv, b.Argv)
	d.add("match", a.Match, b.Match)
	d.add("weight", a.Weight, b.Weight)
	d.add("reverse", a.Reverse, b.Reverse)
	d.add("quorum", a.Quorum, b.Quorum)
	d.add("quorum_max", a.QuorumMax, b.QuorumMax)
	d.add("fork_delay", a.ForkDelay, b.ForkDelay)
	d.add("terminate_delay", a.TerminateDelay, b.TerminateDelay)
	return d
}

// diffGroup compares two sync groups.
func diffGroup(a, b SyncGroup) (d details) {
	d.list("group", a.Members, b.Members)
	d.notify(a.Notify, b.Notify)
	return d
}

// diffInstance compares two instances.
func diffInstance(a, b Instance) (d details) {
	d.add("interface", a.Interface, b.Interface)
	d.add("vrrp_sync_group", a.SyncGroup, b.SyncGroup)
	d.add("virtual_router_id", a.VRID, b.VRID)
	d.add("version", a.Version, b.Version)
	d.add("family", family(a.IPv6), family(b.IPv6))
	d.add("priority", a.Priority, b.Priority)
	d.add("state MASTER", a.WantMaster, b.WantMaster)
	d.add("advert_int", a.AdvertInterval, b.AdvertInterval)
	d.add("down_timer_adverts", a.DownTimerAdverts, b.DownTimerAdverts)
	d.add("nopreempt", a.NoPreempt, b.NoPreempt)
	d.add("preempt_delay", a.PreemptDelay, b.PreemptDelay)
	d.add("timer_expired_backup", a.LatePriority, b.LatePriority)
	d.add("owner_ignore_adverts", a.IgnoreAdverts, b.IgnoreAdverts)
	if a.AuthPass != b.AuthPass {
		d = append(d, "authentication changed") // a password has no place in a log
	}
	d.diffHMAC(a.HMAC, b.HMAC)
	d.add("v3_checksum_as_v2", a.ChecksumAsV2, b.ChecksumAsV2)
	d.add("mcast_dst_ip", a.Group, b.Group)
	source := "mcast_src_ip"
	if b.Unicast {
		source = "unicast_src_ip"
	}
	d.add(source, a.Source, b.Source)
	d.add("unicast", a.Unicast, b.Unicast)
	d.list("unicast_peer", texts(a.Peers), texts(b.Peers))
	d.add("unicast_ttl", a.UnicastTTL, b.UnicastTTL)
	d.add("check_unicast_src", a.CheckUnicastSource, b.CheckUnicastSource)
	d.add("skip_check_adv_addr", a.SkipCheckAddr, b.SkipCheckAddr)
	d.add("lower_prio_no_advert", a.LowerPrioNoAdv, b.LowerPrioNoAdv)
	d.list("virtual_ipaddress", texts(a.VIPs), texts(b.VIPs))
	d.list("virtual_ipaddress_excluded", texts(a.Excluded), texts(b.Excluded))
	d.add("garp_master_delay", a.Announce.MasterDelay, b.Announce.MasterDelay)
	d.add("garp_master_repeat", a.Announce.MasterRepeat, b.Announce.MasterRepeat)
	d.add("garp_master_refresh", a.Announce.Refresh, b.Announce.Refresh)
	d.add("garp_master_refresh_repeat", a.Announce.RefreshRepeat, b.Announce.RefreshRepeat)
	d.add("garp_lower_prio_delay", a.Announce.LowerPrioDelay, b.Announce.LowerPrioDelay)
	d.add("garp_lower_prio_repeat", a.Announce.LowerPrioRepeat, b.Announce.LowerPrioRepeat)
	d.add("garp_interval", a.Announce.GARPInterval, b.Announce.GARPInterval)
	d.add("gna_interval", a.Announce.GNAInterval, b.Announce.GNAInterval)
	d.list("track_interface", texts(a.TrackInterfaces), texts(b.TrackInterfaces))
	d.list("track_script", texts(a.TrackScripts), texts(b.TrackScripts))
	d.list("track_file", texts(a.TrackFiles), texts(b.TrackFiles))
	d.list("track_process", texts(a.TrackProcesses), texts(b.TrackProcesses))
	d.notify(a.Notify, b.Notify)
	return d
}

// diffServer compares two services with the same key.
func diffServer(a, b VirtualServer) (d details) {
	d.add("name", a.Name, b.Name)
	d.add("lvs_sched", a.Scheduler, b.Scheduler)
	d.add("lvs_method", a.Method, b.Method)
	d.add("persistence_timeout", a.Persistence, b.Persistence)
	d.add("persistence_granularity", a.Granularity, b.Granularity)
	d.add("quorum", a.Quorum, b.Quorum)
	d.add("inhibit_on_failure", a.Inhibit, b.Inhibit)
	d.add("sorry_server", sorryText(a.Sorry), sorryText(b.Sorry))
	server := func(rs RealServer) string { return endpointText(rs.Address) }
	for _, c := range diffNamed("real_server", a.RealServers, b.RealServers, server, diffReal) {
		text := c.Object + " " + c.Kind
		if len(c.Details) > 0 {
			text = c.Object + " (" + strings.Join(c.Details, ", ") + ")"
		}
		d = append(d, text)
	}
	if len(d) == 0 && !slices.EqualFunc(a.RealServers, b.RealServers, func(x, y RealServer) bool { return x.Address == y.Address }) {
		d = append(d, "real servers in another order")
	}
	return d
}

// sorryText shows a sorry server.
func sorryText(s *Sorry) string {
	if s == nil {
		return ""
	}
	return endpointText(s.Address) + " " + s.Method
}

// diffReal compares two real servers with the same address.
func diffReal(a, b RealServer) (d details) {
	d.add("lvs_method", a.Method, b.Method)
	d.add("weight", a.Weight, b.Weight)
	d.add("inhibit_on_failure", a.Inhibit, b.Inhibit)
	if len(a.Checks) != len(b.Checks) {
		return append(d, fmt.Sprintf("checks %d -> %d", len(a.Checks), len(b.Checks)))
	}
	for i := range a.Checks {
		d = append(d, diffCheck(a.Checks[i], b.Checks[i])...)
	}
	return d
}

// diffCheck compares two checks.
func diffCheck(a, b Check) (d details) {
	d.add("check", a.Kind, b.Kind)
	d.add("connect to", a.Target, b.Target)
	d.add("bindto", a.Bind, b.Bind)
	d.add("connect_timeout", a.ConnectTimeout, b.ConnectTimeout)
	d.add("delay_loop", a.DelayLoop, b.DelayLoop)
	d.add("retry", a.Retry, b.Retry)
	d.add("delay_before_retry", a.DelayBeforeRetry, b.DelayBeforeRetry)
	d.add("warmup", a.Warmup, b.Warmup)
	d.add("virtualhost", a.VirtualHost, b.VirtualHost)
	d.add("http_protocol", a.HTTPProtocol, b.HTTPProtocol)
	d.add("sni_name", a.SNI, b.SNI)
	d.list("url", texts(a.URLs), texts(b.URLs))
	return d
}

// String returns the page with what is expected of it.
func (u URL) String() string {
	text := u.Path
	if u.VirtualHost != "" {
		text = u.VirtualHost + text
	}
	if u.StatusCodes != nil {
		text += " status_code " + statusText(u.StatusCodes)
	}
	if u.Digest != "" {
		text += " digest " + u.Digest
	}
	return text
}
