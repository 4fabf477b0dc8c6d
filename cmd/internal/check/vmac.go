package check

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vipd/conf"
	"vipd/vrrp/host"
)

// virtualMACs looks whether links with virtual MACs can be made here, and whether the network and the kernel's settings
// will let them work.
func virtualMACs(cfg *conf.Config, state host.State, root fs.FS) []string {
	var out []string
	parents := map[string]bool{}
	for i := range cfg.Instances {
		in := &cfg.Instances[i]
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("vrrp_instance.%s: ", in.Name)+fmt.Sprintf(format, args...))
		}
		ownTwice(in, state, say)
		for _, l := range in.VMACs {
			parent := state.Link(l.Parent)
			inTheWay(l, parent, state, say)
			if parent != nil && !parents[l.Parent] {
				parents[l.Parent] = true
				carries(parent, root, say)
			}
		}
	}
	if len(parents) == 0 && len(out) == 0 {
		return nil
	}
	if macvlanMissing(root) {
		out = append(out, "this kernel has no macvlan, which use_vmac needs: neither loaded nor a module for "+release()+"; install the kernel package that has it")
	}
	for _, s := range []struct{ name, bad, why string }{
		{"arp_filter", "1", "a virtual MAC is then not answered for where the route to the client leads by the interface itself"},
		{"arp_ignore", "2345678", "an address with a length of 32 is then answered for to nobody"},
	} {
		if v := sysctl(root, "net/ipv4/conf/all/"+s.name); len(v) == 1 && strings.Contains(s.bad, v) {
			out = append(out, fmt.Sprintf("net.ipv4.conf.all.%s is %s: %s; set it to 0, and on the interfaces that need it instead", s.name, v, s.why))
		}
	}
	return out
}

// macvlanMissing reports whether the kernel has no macvlan, as far as its lists say.
func macvlanMissing(root fs.FS) bool {
	if _, err := fs.Stat(root, "sys/module/macvlan"); err == nil {
		return false
	}
	_, readable := listed(root, "modules.dep", "macvlan")
	_, readableToo := listed(root, "modules.builtin", "macvlan")
	return (readable || readableToo) && !moduleKnown(root, "macvlan")
}

// ownTwice reports an owner's address that is on the interface, too: it is then answered for with two MACs.
func ownTwice(in *conf.Instance, state host.State, say func(string, ...any)) {
	for _, v := range append(slices.Clone(in.VIPs), in.Excluded...) {
		parent := state.Link(v.Dev)
		if in.Priority != 255 || v.Link == "" || parent == nil {
			continue
		}
		if slices.ContainsFunc(parent.Addrs, func(a host.Addr) bool { return a.Prefix.Addr() == v.Prefix.Addr() }) {
			say("%s is on %s, and will be on %s as well: neighbours see two MACs; give %s another address, or take use_vmac out", v.Prefix.Addr(), v.Dev, v.Link, v.Dev)
		}
	}
}

// inTheWay reports links that are there already.
func inTheWay(l conf.VMAC, parent *host.Link, state host.State, say func(string, ...any)) {
	if have := state.Link(l.Name); have != nil && !strings.HasPrefix(have.Alias, "vipd ") {
		same := have.Kind == "macvlan" && have.Private && have.MAC == l.MAC && parent != nil && have.Parent == parent.Index
		if !same {
			say("a link %s is there already and not vipd's; the instance stays in FAULT until it is gone, or use_vmac names another one", l.Name)
		} else {
			say("the link %s is there already, made by another program; vipd makes it anew: stop that program (keepalived?) first", l.Name)
		}
	}
	for _, o := range state.Links {
		if parent != nil && o.Name != l.Name && o.Parent == parent.Index && o.MAC == l.MAC {
			say("%s on %s has the virtual MAC %s already; another virtual_router_id is needed, or that link must go", o.Name, l.Parent, l.MAC)
		}
	}
}

// carries reports interfaces that cannot carry another MAC than their own.
func carries(parent *host.Link, root fs.FS, say func(string, ...any)) {
	exists := func(path string) bool { _, err := fs.Stat(root, path); return err == nil }
	vendor, _ := fs.ReadFile(root, "sys/class/dmi/id/sys_vendor")
	cloud := strings.TrimSpace(string(vendor))
	switch {
	case parent.Loopback || parent.MAC == [6]byte{}:
		say("%s has no Ethernet address, so no virtual MAC can be on it; take use_vmac out", parent.Name)
	case exists("sys/class/net/" + parent.Name + "/phy80211"):
		say("%s is a Wi-Fi interface: access points drop frames with other MACs than its own; take use_vmac out", parent.Name)
	case strings.HasPrefix(cloud, "Amazon") || strings.HasPrefix(cloud, "Google"):
		say("this is a machine of %s, whose network drops frames with other MACs than that of %s; take use_vmac out", cloud, parent.Name)
	}
}

// sysctl reads a setting of the kernel, "" when it cannot be read.
func sysctl(root fs.FS, path string) string {
	b, _ := fs.ReadFile(root, "proc/sys/"+path)
	return strings.TrimSpace(string(b))
}
