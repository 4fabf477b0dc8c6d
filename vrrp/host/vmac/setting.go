package vmac

import (
	"strconv"
	"strings"

	"vipd/vrrp/host"
)

// setting is a value that the kernel is to have.
type setting struct {
	path    string // below /proc/sys
	value   int
	atLeast bool // a higher one will do
	index   int  // of the interface that it belongs to; 0: of none
}

// satisfied reports whether the kernel's value will do.
func (s setting) satisfied(have string) bool {
	n, err := strconv.Atoi(have)
	return err == nil && (n == s.value || s.atLeast && n > s.value)
}

const (
	allRPFilter = "net/ipv4/conf/all/rp_filter"
	localIGMP   = "net/ipv4/igmp_link_local_mcast_reports"
)

// onLink lists the settings of a link itself. They end with it. filtering is net.ipv4.conf.all.rp_filter being on.
func onLink(l Link, index int, filtering bool) []setting {
	var out []setting
	add := func(family, name string, value int) {
		out = append(out, setting{path: "net/" + family + "/conf/" + l.Name + "/" + name, value: value, index: index})
	}
	rp := 0
	if filtering {
		rp = 2 // the higher of this and all's counts
	}
	add("ipv4", "arp_ignore", 1)
	add("ipv4", "arp_announce", 2)
	add("ipv4", "arp_filter", 0)
	add("ipv4", "arp_notify", 0)
	add("ipv4", "accept_local", 0)
	add("ipv4", "rp_filter", rp)
	add("ipv4", "promote_secondaries", 1)
	if !l.IPv6 {
		add("ipv6", "disable_ipv6", 1)
		return out
	}
	add("ipv6", "accept_ra", 0)
	add("ipv6", "autoconf", 0)
	add("ipv6", "router_solicitations", 0)
	add("ipv6", "accept_dad", 0)
	add("ipv6", "dad_transmits", 0)
	add("ipv6", "ndisc_notify", 0)
	add("ipv6", "disable_ipv6", 0)
	return out
}

// onOthers lists what the links ask of their parents, each once, and of the machine.
func onOthers(links []Link, s host.State, quiet bool) []setting {
	var out []setting
	seen := map[string]bool{}
	for _, l := range links {
		p := s.Link(l.Parent)
		if !l.IPv4 || p == nil || seen[l.Parent] {
			continue
		}
		seen[l.Parent] = true
		dir := "net/ipv4/conf/" + l.Parent + "/"
		out = append(out,
			setting{path: dir + "arp_ignore", value: 1, atLeast: true, index: p.Index},
			setting{path: dir + "arp_announce", value: 2, atLeast: true, index: p.Index})
	}
	if quiet {
		out = append(out, setting{path: localIGMP})
	}
	return out
}

// ipv6Missing reports whether a setting is absent because the kernel has no IPv6.
func (s setting) ipv6Missing() bool { return strings.HasPrefix(s.path, "net/ipv6/") }
