// Package check compares a configuration with the machine it is to run on:
// interfaces, base addresses, what the kernel can do. It changes nothing and
// loads no module, so it may run beside a working daemon.
package check

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vipd/cmd/internal/ipvsadvice"
	"vipd/cmd/internal/netns"
	"vipd/cmd/internal/script"
	"vipd/conf"
	"vipd/vrrp/host"
	"vipd/vrrp/packet"
)

// Machine returns what the configuration asks of this machine that it does not
// have, one sentence each. All are warnings: an interface may come later, and
// the file may be meant for another machine.
func Machine(cfg *conf.Config) []string {
	out := namespaces(cfg.Place)
	if len(out) == 0 {
		out = links(cfg)
	}
	if len(cfg.VirtualServers) > 0 {
		out = append(out, ipvsModules(cfg, os.DirFS("/"))...)
		out = append(out, ipvsadvice.Advice(cfg, ipvsSetting(cfg.Place), release())...)
		out = append(out, within(cfg.Place, func() []string { return forwarding(cfg, os.DirFS("/")) })...)
	}
	out = append(out, refusals(cfg, os.DirFS("/"), tryRules)...)
	out = append(out, expiry(cfg, time.Now())...)
	out = append(out, processors(cfg.Global.Priority.CPUs)...)
	return append(out, commands(cfg)...)
}

// processors looks for those of vrrp_cpu_affinity.
func processors(wanted []int) []string {
	var here unix.CPUSet
	if len(wanted) == 0 || unix.SchedGetaffinity(0, &here) != nil {
		return nil
	}
	if !slices.ContainsFunc(wanted, here.IsSet) {
		return []string{fmt.Sprintf("global_defs.vrrp_cpu_affinity: this machine has none of the processors %v; it will not be in force", wanted)}
	}
	return nil
}

// namespaces looks for the network namespaces that the configuration names.
func namespaces(p conf.Place) []string {
	var out []string
	for _, n := range []struct{ key, name string }{{"net_namespace", p.Namespace}, {"net_namespace_ipvs", p.IPVS}} {
		if n.name == "" {
			continue
		}
		err := netns.Do(netns.Path(n.name), func() error { return nil })
		if errors.Is(err, fs.ErrPermission) {
			out = append(out, n.key+": the namespace cannot be looked into without CAP_SYS_ADMIN: run vipd check as root")
		} else if err != nil {
			out = append(out, fmt.Sprintf("%s: %v; vipd does not start until it can", n.key, err))
		}
	}
	return out
}

// links compares the configuration with the interfaces that vipd will see.
func links(cfg *conf.Config) []string {
	var out []string
	look := func() error {
		kernel, err := host.OpenNetlink()
		if err != nil {
			return err
		}
		defer kernel.Close()
		state, err := kernel.State()
		if err == nil {
			out = slices.Concat(interfaces(cfg, state), paths(cfg, state, direct), virtualMACs(cfg, state, os.DirFS("/")), circles(cfg, state), sources(cfg, state))
		}
		return err
	}
	var err error
	if n := cfg.Place.Namespace; n != "" {
		err = netns.Do(netns.Path(n), look)
	} else {
		err = look()
	}
	if err != nil {
		return []string{fmt.Sprintf("the interfaces of this machine could not be read: %v", err)}
	}
	return out
}

// commands looks at the programs that the configuration names.
func commands(cfg *conf.Config) []string {
	var out []string
	for _, s := range cfg.Scripts {
		if err := script.Check(cfg.Global, s.Argv, s.User); err != nil {
			out = append(out, fmt.Sprintf("vrrp_script.%s: %v; until then it counts as failed", s.Name, err))
		}
	}
	look := func(where string, c conf.Command) {
		if len(c.Argv) == 0 {
			return
		}
		if err := script.Check(cfg.Global, c.Argv, c.User); err != nil {
			out = append(out, fmt.Sprintf("%s: %v; until then it is not run", where, err))
		}
	}
	out = append(out, checkers(cfg)...)
	g := cfg.Global
	look("global_defs.startup_script", g.Startup.Command)
	look("global_defs.shutdown_script", g.Shutdown.Command)
	for _, f := range []struct {
		key  string
		fifo conf.FIFO
	}{{"notify_fifo", g.NotifyFIFO}, {"vrrp_notify_fifo", g.VRRPFIFO}, {"lvs_notify_fifo", g.LVSFIFO}} {
		look("global_defs."+f.key+"_script", f.fifo.Script)
		if info, err := os.Lstat(f.fifo.Path); f.fifo.Path != "" && err == nil && info.Mode().Type() != fs.ModeNamedPipe {
			out = append(out, fmt.Sprintf("global_defs.%s: %s is no FIFO; remove it, vipd makes one", f.key, f.fifo.Path))
		}
	}
	notified := map[string]conf.Notify{}
	for _, i := range cfg.Instances {
		notified["vrrp_instance."+i.Name] = i.Notify
	}
	for _, g := range cfg.SyncGroups {
		notified["vrrp_sync_group."+g.Name] = g.Notify
	}
	for _, owner := range slices.Sorted(maps.Keys(notified)) {
		n := notified[owner]
		for _, c := range []struct {
			key     string
			command conf.Command
		}{{"notify", n.Any}, {"notify_master", n.Master}, {"notify_backup", n.Backup}, {"notify_fault", n.Fault},
			{"notify_stop", n.Stop}, {"notify_deleted", n.Deleted}, {"notify_master_rx_lower_pri", n.LowerPri}} {
			look(owner+"."+c.key, c.command)
		}
	}
	for _, v := range cfg.VirtualServers {
		look("virtual_server "+v.Name+": quorum_up", v.Up)
		look("virtual_server "+v.Name+": quorum_down", v.Down)
		for _, r := range v.RealServers {
			look(fmt.Sprintf("virtual_server %s: real_server %s: notify_up", v.Name, r.Address), r.Up)
			look(fmt.Sprintf("virtual_server %s: real_server %s: notify_down", v.Name, r.Address), r.Down)
		}
	}
	for _, f := range cfg.TrackFiles {
		if info, err := os.Stat(filepath.Dir(f.Path)); err != nil || !info.IsDir() {
			out = append(out, fmt.Sprintf("vrrp_track_file.%s: there is no directory %s; until then the file counts as 0", f.Name, filepath.Dir(f.Path)))
		}
	}
	return out
}

func interfaces(cfg *conf.Config, state host.State) []string {
	var out []string
	spreads := map[string]string{} // by instance: what all instances of a spread have in common is said once
	for _, s := range cfg.Spreads {
		for _, g := range s.Groups {
			spreads[g.Instance] = "vip_spread." + s.Name
		}
	}
	warn := func(instance, format string, args ...any) {
		path := "vrrp_instance." + instance
		if s, ok := spreads[instance]; ok {
			path = s
		}
		s := path + ": " + fmt.Sprintf(format, args...)
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, i := range cfg.Instances {
		missing := map[string]int{} // addresses of this instance by device that is not there
		link := state.Link(i.Interface)
		switch {
		case link == nil && i.Interface != "":
			warn(i.Name, "interface %s does not exist here (%s); the instance stays in FAULT until it does", i.Interface, known(state))
		case i.Source.IsValid():
			if !onHost(state, i.Source) {
				warn(i.Name, "source address %s is on no interface here; the instance stays in FAULT until it is", i.Source)
			}
		case i.IPv6 && !link.Source6(nil).IsValid():
			warn(i.Name, "interface %s has no IPv6 link-local address; the instance stays in FAULT until it has one", i.Interface)
		case !i.IPv6 && !link.Source4(nil).IsValid():
			warn(i.Name, "interface %s has no IPv4 address; the instance stays in FAULT until it has one", i.Interface)
		}
		if len(i.Peers) > 0 && !slices.ContainsFunc(i.Peers, func(p conf.Peer) bool { return !onHost(state, p.Address) }) {
			warn(i.Name, "unicast_peer lists addresses of this machine only; the instance stays in FAULT until there is another director")
		}
		if n := room(&i, link); n < len(i.VIPs) {
			warn(i.Name, "the MTU of %d on %s leaves room for %d of its %d addresses in an advert; raise it, or move the others to virtual_ipaddress_excluded on all directors", link.MTU, i.Interface, n, len(i.VIPs))
		}
		for _, v := range append(slices.Clone(i.VIPs), i.Excluded...) {
			if v.Dev != "" && v.Dev != i.Interface && state.Link(v.Dev) == nil && !madeHere(cfg, v.Dev) {
				missing[v.Dev]++
			}
			if i.Priority == 255 {
				continue
			}
			for dev, l := range state.Links {
				for _, a := range l.Addrs {
					if a.Prefix.Addr() == v.Prefix.Addr() && (a.Prefix != v.Prefix || base(&a)) {
						warn(i.Name, "%s is on %s already as %s: if that is this machine's own address, the VIP must be another one",
							v.Prefix.Addr(), dev, a.Prefix)
					}
				}
			}
		}
		for _, dev := range slices.Sorted(maps.Keys(missing)) {
			warn(i.Name, "dev %s, where %d of its addresses belong, does not exist here (%s)", dev, missing[dev], known(state))
		}
	}
	return out
}

// base reports whether an address is that by which its machine is in a network, and not
// known to be from vipd.
func base(a *host.Addr) bool { return !a.Prefix.IsSingleIP() && !a.Secondary && a.Proto == 0 }

// room is how many addresses an advert of an instance can hold on its interface.
func room(i *conf.Instance, link *host.Link) int {
	if link == nil || link.MTU == 0 {
		return len(i.VIPs)
	}
	mtu := link.MTU
	if len(i.HMAC.Keys) > 0 {
		mtu -= packet.TrailerLen
	}
	return packet.AddrsMax(i.Version, i.IPv6, mtu)
}

// onHost reports whether an address is on any interface.
func onHost(state host.State, a netip.Addr) bool {
	for _, l := range state.Links {
		if slices.ContainsFunc(l.Addrs, func(x host.Addr) bool { return x.Prefix.Addr() == a }) {
			return true
		}
	}
	return false
}

func known(state host.State) string {
	var names []string
	for n := range state.Links {
		names = append(names, n)
	}
	slices.Sort(names)
	return "there are: " + strings.Join(names, ", ")
}

// ipvsModules looks for IPVS and the schedulers, built in, loaded or loadable.
func ipvsModules(cfg *conf.Config, root fs.FS) []string {
	if !moduleKnown(root, "ip_vs") {
		return []string{"this kernel has no IPVS: neither loaded nor a module ip_vs for " + release() + "; install the kernel package that has it"}
	}
	var out []string
	var seen []string
	for _, v := range cfg.VirtualServers {
		if e := v.PersistenceEngine; e != "" && !moduleKnown(root, "ip_vs_pe_"+e) {
			out = append(out, fmt.Sprintf("virtual_server %s: this kernel has no persistence engine %q (module ip_vs_pe_%s)", v.Name, e, e))
		}
		if slices.Contains(seen, v.Scheduler) {
			continue
		}
		seen = append(seen, v.Scheduler)
		if !moduleKnown(root, "ip_vs_"+v.Scheduler) {
			out = append(out, fmt.Sprintf("virtual_server %s: this kernel has no scheduler %q (module ip_vs_%s)", v.Name, v.Scheduler, v.Scheduler))
		}
	}
	return out
}

// ipvsSetting reads net.ipv4.vs.NAME in the namespace of the table.
func ipvsSetting(p conf.Place) func(string) string {
	return func(name string) (value string) {
		look := func() error { value = sysctl(os.DirFS("/"), "net/ipv4/vs/"+name); return nil }
		if n := p.TableNamespace(); n != "" {
			// Where it cannot be entered nothing is known, as namespaces says.
			_ = netns.Do(netns.Path(n), look)
			return value
		}
		_ = look() // it returns no error
		return value
	}
}

// within looks at what belongs to the network namespace of the IPVS table.
func within(p conf.Place, look func() []string) (out []string) {
	if n := p.TableNamespace(); n != "" {
		// Where it cannot be entered nothing is known, as namespaces says.
		_ = netns.Do(netns.Path(n), func() error { out = look(); return nil })
		return out
	}
	return look()
}

// moduleKnown reports whether the module is loaded, built in or on disk. Where
// nothing is known of modules at all it says yes: silence is better than a
// wrong alarm.
func moduleKnown(root fs.FS, name string) bool {
	if _, err := fs.Stat(root, "sys/module/"+name); err == nil {
		return true
	}
	loadable, readable := listed(root, "modules.dep", name)
	within, readableToo := listed(root, "modules.builtin", name)
	if !readable && !readableToo {
		_, err := fs.Stat(root, "proc/net/ip_vs")
		return err == nil
	}
	return loadable || within
}

// builtIn reports whether the kernel has the module within itself, as far as its
// lists say.
func builtIn(root fs.FS, name string) bool {
	found, _ := listed(root, "modules.builtin", name)
	return found
}

// listed looks for a module in one of the lists of the running kernel.
func listed(root fs.FS, list, name string) (found, readable bool) {
	b, err := fs.ReadFile(root, filepath.Join("lib/modules", release(), list))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false
	}
	for line := range strings.Lines(string(b)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base, _, _ := strings.Cut(filepath.Base(file), ".")
		found = found || strings.ReplaceAll(base, "-", "_") == name
	}
	return found, err == nil
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "this kernel"
	}
	return unix.ByteSliceToString(u.Release[:])
}
