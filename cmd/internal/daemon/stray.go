package daemon

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

// strays tells of virtual addresses that this machine has in another form or
// place than vipd writes them, while another director is to have them: left by
// another program (a keepalived that crashed), or added by hand. vipd removes
// only what it added, but both machines answer for such an address. Loopback
// interfaces are left out: a real server has the addresses there on purpose.
func strays(links map[string]*host.Link, r *router.InstanceStatus, dev string, want netip.Prefix) []string {
	if state := r.Status.State; state != vrrp.Backup && state != vrrp.Fault || r.Config.Priority == 255 {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(links)) {
		l := links[name]
		if l.Loopback || want.Addr().IsLinkLocalUnicast() && name != dev {
			continue
		}
		for i := range l.Addrs {
			a := &l.Addrs[i]
			if a.Prefix.Addr() != want.Addr() || a.Proto == host.Proto || name == dev && a.Prefix == want {
				continue
			}
			out = append(out, fmt.Sprintf("%s: %v on %s was not added by vipd, and this machine answers for it although the instance is %v; if nothing needs it: ip address delete %v dev %s",
				r.Name, a.Prefix, name, r.Status.State, a.Prefix, name))
		}
	}
	return out
}

// deaf tells of addresses of a MASTER on interfaces that are down: they are in the
// kernel, and nobody reaches them.
func deaf(links map[string]*host.Link, r *router.InstanceStatus, addrs []host.AddressStatus) []string {
	if r.Status.State != vrrp.Master {
		return nil
	}
	on := map[string]int{}
	for _, a := range addrs {
		if l := links[a.Dev]; a.Present && l != nil && !l.Running && !l.Loopback {
			on[a.Dev]++
		}
	}
	var out []string
	for _, dev := range slices.Sorted(maps.Keys(on)) {
		out = append(out, fmt.Sprintf("%s: %s is down or without carrier, and nobody reaches the %d addresses on it; with track_interface that is a fault, and another director has them", r.Name, dev, on[dev]))
	}
	return out
}
