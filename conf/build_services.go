package conf

import (
	"fmt"
	"net/netip"
	"slices"
)

// serverGroups settles the groups of services.
func (b *builder) serverGroups(tables []*values) {
	b.serviceGroups = map[string]*values{}
	for _, v := range tables {
		b.serviceGroups[v.name] = v
		g := ServerGroup{Name: v.name, Addresses: get[[]ServiceRange](v, "address"), Marks: get[[]ServiceMark](v, "fwmark")}
		b.config.ServerGroups = append(b.config.ServerGroups, g)
		if len(g.Addresses)+len(g.Marks) == 0 && !v.wrong("address") && !v.wrong("fwmark") {
			b.say(Error, v, "", "virtual_server_group.address/none", "the group has no services", `add address = ["203.0.113.10 80"] or fwmark = [7]`)
		}
		b.overlaps(v, g)
	}
}

// overlaps finds services that a group has twice, and groups that are too large.
func (b *builder) overlaps(v *values, g ServerGroup) {
	seen := map[netip.AddrPort]bool{}
	for _, r := range g.Addresses {
		if len(seen)+r.count() > maxServices {
			b.say(Error, v, "address", "virtual_server_group.address/many", fmt.Sprintf("the group has more than %d services", maxServices),
				"make it several groups; or mark the packets by a rule of nftables and make it one service: fwmark = [7]")
			return
		}
		for _, s := range r.services() {
			if seen[s.Address] {
				b.say(Error, v, "address", "virtual_server_group.address/overlap", fmt.Sprintf("%s is in %q and in an entry before it", endpointText(s.Address), r), "a service can be in a group once; take it out of one of them")
				break
			}
			seen[s.Address] = true
		}
	}
}

// services returns the services of a range.
func (r ServiceRange) services() []Service {
	all := make([]Service, 0, r.count())
	for a := r.First; ; a = a.Next() {
		all = append(all, Service{Address: netip.AddrPortFrom(a, r.Port), IPv6: a.Is6()})
		if a == r.Last {
			return all
		}
	}
}

// groupTarget settles the services of a virtual server that names a group.
func (b *builder) groupTarget(v *values, reals []*values, vs *VirtualServer) {
	vs.Group = get[string](v, "group")
	table := b.serviceGroups[vs.Group]
	if table == nil {
		if v.has("group") {
			b.say(Error, v, "group", "virtual_server.group/unknown", fmt.Sprintf("there is no virtual_server_group %q", vs.Group), "add [virtual_server_group."+vs.Group+"] with address or fwmark"+b.groupHint(vs.Group))
		}
		vs.Group, b.vague = "", true
		return
	}
	b.vague = table.wrong("address") || table.wrong("fwmark")
	ranges, marks := get[[]ServiceRange](table, "address"), get[[]ServiceMark](table, "fwmark")
	if len(ranges) == 0 && !table.wrong("address") {
		b.noProtocol(v, vs)
	}
	total := 0
	for _, r := range ranges {
		if total += r.count(); total <= maxServices {
			vs.Members = append(vs.Members, r.services()...)
		}
	}
	b.groupFamily(v, reals, vs, marks)
	for _, m := range marks {
		vs.Members = append(vs.Members, Service{FWMark: m.Mark, IPv6: m.Family == "inet6" || m.Family == "" && vs.IPv6})
	}
	b.memberAddresses(v, vs)
	if len(vs.Members) == 0 { // the group is wrong, and that was said
		vs.Group, b.vague = "", true
	}
}

func (b *builder) groupHint(name string) string {
	var names []string
	for n := range b.serviceGroups {
		names = append(names, n)
	}
	slices.Sort(names)
	if s := suggest(name, names); s != "" {
		return fmt.Sprintf("; or did you mean %q?", s)
	}
	return ""
}

// noProtocol settles a service of firewall marks alone.
func (b *builder) noProtocol(v *values, vs *VirtualServer) {
	vs.Protocol = ""
	if v.has("protocol") {
		b.say(Warning, v, "protocol", "virtual_server.protocol/fwmark", "has no meaning for a fwmark", "the rule that sets the mark chooses the protocol; take it out")
	}
}

// groupFamily settles the family of the firewall marks that name none: ip_family, else that of the addresses, else that of
// the real servers.
func (b *builder) groupFamily(v *values, reals []*values, vs *VirtualServer, marks []ServiceMark) {
	open := slices.ContainsFunc(marks, func(m ServiceMark) bool { return m.Family == "" })
	found := map[bool]bool{}
	for _, s := range vs.Members {
		found[s.IPv6] = true
	}
	for _, m := range marks {
		if m.Family != "" && !open {
			found[m.Family == "inet6"] = true
		}
	}
	switch {
	case v.has("ip_family"):
		vs.IPv6 = get[string](v, "ip_family") == "inet6"
		if !open && len(found) > 0 && !found[vs.IPv6] {
			b.say(Error, v, "ip_family", "virtual_server.ip_family/mismatch", fmt.Sprintf("%s does not fit: the services of group %q are %s", shown(v.value("ip_family").it), vs.Group, family(!vs.IPv6)), "take ip_family out: the addresses say it")
		}
	case len(found) == 1 || len(found) == 2 && !open:
		vs.IPv6 = found[true]
	case len(found) == 2:
		b.say(Error, v, "group", "virtual_server.ip_family/unclear", fmt.Sprintf("group %q has addresses of both families, so the family of its firewall marks is not clear", vs.Group), `name it: fwmark = ["7 inet6"], or ip_family for all of them`)
	default:
		b.realFamily(v, reals, vs, "group")
	}
}

// memberAddresses checks the addresses of a group's services as those of single ones are.
func (b *builder) memberAddresses(v *values, vs *VirtualServer) {
	var lost []netip.Addr
	portless := false
	seen := map[netip.Addr]bool{}
	for _, s := range vs.Members {
		host := s.Address.Addr()
		if s.FWMark != 0 {
			continue
		}
		portless = portless || s.Address.Port() == 0
		if seen[host] {
			continue
		}
		seen[host] = true
		if _, ours := b.vips[host]; !ours {
			lost = append(lost, host)
		}
		if b.refusedService(v, "group", host) {
			break
		}
	}
	if portless && vs.Persistence == 0 && !v.wrong("persistence_timeout") {
		b.say(Error, v, "group", "virtual_server.address/port", fmt.Sprintf("group %q has addresses without a port", vs.Group), "give each a port; without one the service is every port, and that needs persistence_timeout")
	}
	if len(lost) > 0 && !b.unclear && len(b.config.Instances) > 0 {
		message := lost[0].String() + " is no virtual address of any vrrp_instance"
		if len(lost) > 1 {
			message = fmt.Sprintf("%s and %d more addresses of group %q are no virtual addresses of any vrrp_instance", lost[0], len(lost)-1, vs.Group)
		}
		b.say(Warning, v, "group", "virtual_server.address/novip", message, noVIPAdvice)
	}
}

// commonPort is the port of all services that have an address, or 0.
func (vs *VirtualServer) commonPort() uint16 {
	port, first := uint16(0), true
	for _, s := range vs.Services() {
		if s.FWMark != 0 {
			continue
		}
		if p := s.Address.Port(); first || p == port {
			port, first = p, false
		} else {
			return 0
		}
	}
	return port
}

// twin returns what was said before of a server that is r in some service of a group: one of them has the port of each
// service, the other a port of its own that a service has.
func (vs *VirtualServer) twin(r netip.AddrPort, before map[netip.AddrPort]*values) *values {
	if vs.Group == "" {
		return nil
	}
	if r.Port() != 0 {
		if !slices.ContainsFunc(vs.Members, func(s Service) bool { return s.Address.Port() == r.Port() }) {
			return nil
		}
		return before[netip.AddrPortFrom(r.Addr(), 0)]
	}
	for _, s := range vs.Members {
		if old := before[netip.AddrPortFrom(r.Addr(), s.Address.Port())]; old != nil {
			return old
		}
	}
	return nil
}

// schedulerFlags settles the flags of the scheduler, and ops.
func (b *builder) schedulerFlags(v *values, vs *VirtualServer) {
	scheduler := vs.Scheduler
	if get[string](v, "survive") != "" {
		scheduler = "mh" // it is not settled yet
	}
	for _, f := range []struct {
		key, scheduler string
		flag           *bool
	}{
		{"flag-1", "", &vs.Flag1}, {"flag-2", "", &vs.Flag2}, {"flag-3", "", &vs.Flag3},
		{"sh-fallback", "sh", &vs.Flag1}, {"sh-port", "sh", &vs.Flag2}, {"mh-fallback", "mh", &vs.Flag1}, {"mh-port", "mh", &vs.Flag2},
	} {
		if !get[bool](v, f.key) {
			continue
		}
		*f.flag = true
		switch {
		case v.wrong("lvs_sched"):
		case f.scheduler != "" && scheduler != f.scheduler:
			b.say(Error, v, f.key, "virtual_server."+f.key+"/scheduler", fmt.Sprintf("is for lvs_sched = %q, and this is %q", f.scheduler, scheduler), fmt.Sprintf("take it out, or write lvs_sched = %q", f.scheduler))
		case f.scheduler == "" && scheduler != "sh" && scheduler != "mh":
			b.say(Warning, v, f.key, "virtual_server.flag-1/unused", fmt.Sprintf("%s of Linux has no flags", scheduler), "take it out; only sh and mh have some")
		}
	}
	if vs.OnePacket = get[bool](v, "ops"); !vs.OnePacket || v.wrong("protocol") {
		return
	}
	if vs.Protocol == "TCP" || vs.Protocol == "SCTP" {
		b.say(Error, v, "ops", "virtual_server.ops/protocol", "is for UDP, and this service is "+vs.Protocol, "a connection stays with its server, so the kernel schedules single packets of UDP only: take ops out, or write protocol = \"UDP\"")
	}
}

// oneWay warns of one-packet scheduling to servers whose answers the kernel does not translate back.
func (b *builder) oneWay(v *values, vs *VirtualServer) {
	if vs.Protocol != "UDP" && vs.Protocol != "" {
		return
	}
	nat := vs.Sorry != nil && vs.Sorry.Method == "NAT"
	for i := range vs.RealServers {
		nat = nat || vs.RealServers[i].Method == "NAT"
	}
	if vs.OnePacket && nat && !v.wrong("lvs_method") {
		b.say(Warning, v, "ops", "virtual_server.ops/nat", "answers under NAT do not reach the clients", "the kernel has forgotten the datagram when the answer comes, which then keeps the server's address: use DR or TUN, unless nobody answers, as with syslog")
	}
}

// engine settles the persistence engine.
func (b *builder) engine(v *values, vs *VirtualServer) {
	vs.PersistenceEngine = get[string](v, "persistence_engine")
	if vs.PersistenceEngine == "" {
		return
	}
	if (vs.Protocol == "TCP" || vs.Protocol == "SCTP") && !v.wrong("protocol") {
		b.say(Error, v, "persistence_engine", "virtual_server.persistence_engine/protocol", "is for SIP over UDP, and this service is "+vs.Protocol, "the kernel would drop every packet of it: take persistence_engine out, or write protocol = \"UDP\"")
	}
	if vs.Persistence == 0 && !v.wrong("persistence_timeout") {
		b.say(Warning, v, "persistence_engine", "virtual_server.persistence_engine/unused", "has no effect without persistence_timeout", "add persistence_timeout, or take it out")
	}
}

// limits settles the connection limits of a real server.
func (b *builder) limits(r *values, rs *RealServer) {
	rs.UpperThreshold, rs.LowerThreshold = uint32(r.num("uthreshold")), uint32(r.num("lthreshold"))
	if rs.LowerThreshold > rs.UpperThreshold && !r.wrong("uthreshold") {
		b.say(Error, r, "lthreshold", "real_server.lthreshold/above", fmt.Sprintf("%d is above uthreshold, which is %d", rs.LowerThreshold, rs.UpperThreshold), "the kernel refuses it: write an lthreshold of at most uthreshold, or leave it out for three quarters of that")
	}
}
