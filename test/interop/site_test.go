package interop

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"vipd/test/lab"
)

// A site is one laboratory: which daemons, the best first ('v' or 'k'), and what
// all their virtual routers have in common.
type site struct {
	version int
	order   string
	unicast bool
	vmac    string // "", "vmac" or "vmac, base": adverts from the parent interface
	group   bool   // sync groups over two networks
	short   bool   // fewer events
}

// transport is the part of the name that rows of a table differ in.
func (s site) transport() string {
	if s.unicast {
		return "unicast"
	}
	return "multicast"
}

func (s site) name() string {
	parts := []string{fmt.Sprintf("v%d", s.version), s.transport()}
	if s.vmac != "" {
		parts = append(parts, strings.ReplaceAll(s.vmac, ", ", "-"))
	}
	if s.group {
		parts = append(parts, "group")
	}
	return strings.Join(append(parts, s.order), " ")
}

// interval is the advert interval: version 2 has whole seconds only.
func (s site) interval() time.Duration {
	if s.version == 2 {
		return time.Second
	}
	return 200 * time.Millisecond
}

// priority of the director at a place in the order: far apart, so that a busy
// machine does not decide who is first.
func priority(place int) int { return []int{250, 125, 5}[place] }

// skew and down are the times of RFC 3768 §6.1 and RFC 9568 §6.1 for a director.
func (s site) skew(place int) time.Duration {
	unit := time.Second
	if s.version == 3 {
		unit = s.interval()
	}
	return time.Duration(256-priority(place)) * unit / 256
}

func (s site) down(place int) time.Duration { return 3*s.interval() + s.skew(place) }

// A row is one virtual router.
type row struct {
	form      string // "v2 PASS"
	nopreempt bool
	pass      string
	ipv6      bool
	lan       int
	index     int
}

// rows are the virtual routers of a site.
func (s site) rows() []row {
	forms := []row{{form: "v2 IPv4"}, {form: "v2 IPv4 PASS", pass: "vecpass"}}
	if s.version == 3 {
		forms = []row{{form: "v3 IPv4"}, {form: "v3 IPv6", ipv6: true}}
	}
	var list []row
	for _, nopreempt := range []bool{false, true} {
		for i, r := range forms {
			r.nopreempt, r.index = nopreempt, len(list)
			if s.group {
				r.lan = i // a group that spans two networks
			}
			list = append(list, r)
		}
	}
	return list
}

func (r row) preemption() string {
	if r.nopreempt {
		return "nopreempt"
	}
	return "preempt"
}

func (r row) instance() string { return fmt.Sprintf("R%d", r.index) }
func (r row) vrid() uint8      { return uint8(51 + r.index) }

// vip is the address by which the row's owners are known; more are its others.
func (r row) vip() netip.Addr { return r.more(0) }

func (r row) more(n int) netip.Addr {
	if r.ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", 9-r.lan, 100+10*r.index+n))
	}
	return netip.AddrFrom4([4]byte{10, byte(9 - r.lan), 0, byte(100 + 10*r.index + n)})
}

// source is the address that a director sends a row's unicast adverts from.
func (r row) source(n *lab.Node) netip.Addr {
	if !r.ipv6 {
		return n.AddrOn(r.lan)
	}
	return n.Addr6On(r.lan)
}

// written says which of the changes that are reloaded are in a configuration.
type written struct {
	excluded bool // one more address that is not in adverts
	vip      bool // one more that is
}

// virtual writes a row's virtual router for the director at a place.
func (s site) virtual(r row, nodes []*lab.Node, place int, w written) lab.Instance {
	i := lab.Instance{Name: r.instance(), Interface: fmt.Sprintf("eth%d", r.lan), VRID: r.vrid(), Version: s.version,
		Priority: priority(place), Interval: s.interval(), NoPreempt: r.nopreempt, AuthPass: r.pass, State: "BACKUP"}
	if r.ipv6 {
		i.VIPs = append(i.VIPs, netip.MustParseAddr(fmt.Sprintf("fe80::%d", 100+10*r.index)))
	}
	i.VIPs = append(i.VIPs, r.vip())
	if w.vip {
		i.VIPs = append(i.VIPs, r.more(1))
	}
	if w.excluded {
		i.Excluded = append(i.Excluded, r.more(2))
	}
	if s.unicast {
		i.Extra = append(i.Extra, "unicast_src_ip "+r.source(nodes[place]).String())
		for p, n := range nodes {
			if p != place {
				i.Peers = append(i.Peers, r.source(n).String())
			}
		}
	}
	if s.vmac != "" {
		i.Extra = append(i.Extra, fmt.Sprintf("use_vmac vr%d", r.vrid()))
	}
	if strings.Contains(s.vmac, "base") {
		i.Extra = append(i.Extra, "vmac_xmit_base")
	}
	return i
}

// conf writes the whole file of the director at a place.
func (s site) conf(nodes []*lab.Node, place int, w written) string {
	var list []lab.Instance
	groups := map[bool][]string{}
	for _, r := range s.rows() {
		list = append(list, s.virtual(r, nodes, place, w))
		groups[r.nopreempt] = append(groups[r.nopreempt], r.instance())
	}
	if s.order[place] == 'v' {
		text := lab.VipdConf("", list...)
		for nopreempt, names := range groups {
			if s.group {
				text += fmt.Sprintf("[vrrp_sync_group.G%d]\ngroup = [\"%s\"]\n", btoi(nopreempt), strings.Join(names, `", "`))
			}
		}
		return text
	}
	before := ""
	for nopreempt, names := range groups {
		if s.group {
			before += fmt.Sprintf("vrrp_sync_group G%d {\n    group {\n        %s\n    }\n}\n", btoi(nopreempt), strings.Join(names, "\n        "))
		}
	}
	return lab.KeepalivedConf(before, list...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
