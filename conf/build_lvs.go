package conf

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// services remembers what virtual servers exist, to find repetitions.
type services struct {
	targets map[string]*values
	names   map[string]*values
}

// servers settles all virtual servers.
func (b *builder) servers(tables []*values) {
	seen := services{map[string]*values{}, map[string]*values{}}
	for _, v := range tables {
		b.config.VirtualServers = append(b.config.VirtualServers, b.server(v, seen))
	}
}

// server returns a virtual_server with all defaults.
func (b *builder) server(v *values, seen services) VirtualServer {
	reals := get[[]*values](v, "real_server")
	vs := VirtualServer{
		Address:     get[netip.AddrPort](v, "address"),
		FWMark:      uint32(v.num("fwmark")),
		Protocol:    get[string](v, "protocol"),
		Scheduler:   get[string](v, "lvs_sched"),
		Method:      get[string](v, "lvs_method"),
		Persistence: get[time.Duration](v, "persistence_timeout"),
		Quorum:      v.num("quorum"),
		Alert:       b.alert(v, alertChecker, false),
	}
	b.target(v, reals, &vs)
	b.identity(v, seen, &vs)
	b.granularity(v, &vs)
	b.sorry(v, &vs)
	b.steering(v, &vs)
	vs.Inhibit, vs.DrainFailed = b.onFailure(v)
	b.realServers(v, reals, &vs)
	b.survive(v, &vs)
	b.gentle(v, &vs)
	return vs
}

// target settles what the service is: an address or a firewall mark, and of
// which family.
func (b *builder) target(v *values, reals []*values, vs *VirtualServer) {
	switch {
	case v.given("address") && v.given("fwmark"):
		b.say(Error, v, "fwmark", "virtual_server.address/target", "a service has an address or a fwmark, not both", "make it two services")
	case v.given("fwmark"):
		vs.Protocol = ""
		if v.has("protocol") {
			b.say(Warning, v, "protocol", "virtual_server.protocol/fwmark", "has no meaning for a fwmark", "the rule that sets the mark chooses the protocol; take it out")
		}
		b.markFamily(v, reals, vs)
	case v.given("address"):
		b.serviceAddress(v, vs)
	case v.it.child("group") == nil:
		b.say(Error, v, "", "virtual_server.address/target", "there is neither an address nor a fwmark", `add address = "203.0.113.10:80" or fwmark = 7`)
	}
}

// markFamily settles the family of a fwmark service.
func (b *builder) markFamily(v *values, reals []*values, vs *VirtualServer) {
	if v.has("ip_family") {
		vs.IPv6 = get[string](v, "ip_family") == "inet6"
		return
	}
	found := map[bool]bool{}
	for _, r := range reals {
		if a := get[netip.AddrPort](r, "address"); a.IsValid() {
			found[a.Addr().Is6()] = true
		}
	}
	if len(found) == 2 && !v.given("ip_family") {
		b.say(Error, v, "fwmark", "virtual_server.ip_family/unclear", "the real servers are of both families, so the family of the service is not clear", `add ip_family = "inet" or "inet6"`)
	}
	vs.IPv6 = found[true] && !found[false]
}

// serviceAddress checks the address of a service.
func (b *builder) serviceAddress(v *values, vs *VirtualServer) {
	if !v.has("address") {
		return
	}
	host := vs.Address.Addr()
	vs.IPv6 = host.Is6()
	if v.has("ip_family") && (get[string](v, "ip_family") == "inet6") != vs.IPv6 {
		b.say(Error, v, "ip_family", "virtual_server.ip_family/mismatch", fmt.Sprintf("%s does not fit: %s is %s", shown(v.value("ip_family").it), host, family(vs.IPv6)), "take ip_family out: the address says it")
	}
	if vs.Address.Port() == 0 && vs.Persistence == 0 && !v.wrong("persistence_timeout") {
		b.say(Error, v, "address", "virtual_server.address/port", shown(v.value("address").it)+" has no port",
			"write \""+netip.AddrPortFrom(host, 80).String()+"\"; without a port the service is every port, and that needs persistence_timeout")
	}
	b.refusedService(v, host)
	if _, ours := b.vips[host]; !ours && !b.unclear && len(b.config.Instances) > 0 {
		b.say(Warning, v, "address", "virtual_server.address/novip", host.String()+" is no virtual address of any vrrp_instance", "nobody brings this address up or moves it; add it to virtual_ipaddress, unless it is routed here by other means")
	}
}

// identity settles the name and finds repetitions.
func (b *builder) identity(v *values, seen services, vs *VirtualServer) {
	text := serviceText(vs)
	vs.Name = text
	if v.has("name") {
		vs.Name = get[string](v, "name")
	}
	if text == "" {
		return
	}
	if first := seen.targets[text]; first != nil {
		it, _ := first.place("address")
		if first.given("fwmark") {
			it, _ = first.place("fwmark")
		}
		key := "address"
		if v.given("fwmark") {
			key = "fwmark"
		}
		b.say(Error, v, key, "virtual_server.address/taken", text+" is already defined at "+it.src.place(it.at), "a service can be defined once; put the real servers together")
		return
	}
	seen.targets[text] = v
	if first := seen.names[vs.Name]; first != nil {
		it, _ := first.place("name")
		b.say(Error, v, "name", "virtual_server.name/taken", fmt.Sprintf("%q is already the name of the service at %s", vs.Name, it.src.place(it.at)), "names must differ, for commands choose services by name")
		return
	}
	seen.names[vs.Name] = v
}

// serviceText returns "tcp 10.9.0.100:80" or "fwmark 7 inet6", or "" when the
// service is not known.
func serviceText(vs *VirtualServer) string {
	switch {
	case vs.FWMark != 0 && vs.IPv6:
		return fmt.Sprintf("fwmark %d inet6", vs.FWMark)
	case vs.FWMark != 0:
		return fmt.Sprintf("fwmark %d inet", vs.FWMark)
	case vs.Address.IsValid():
		return strings.ToLower(vs.Protocol) + " " + vs.Address.String()
	}
	return ""
}

// granularity settles the mask of persistence.
func (b *builder) granularity(v *values, vs *VirtualServer) {
	full := 32
	if vs.IPv6 {
		full = 128
	}
	vs.Granularity = full
	if !v.has("persistence_granularity") {
		return
	}
	it, _ := v.place("persistence_granularity")
	s, _ := it.value.(string)
	mask, dotted := address(s)
	if n := v.num("persistence_granularity"); n > full || dotted && mask.Is4() && vs.IPv6 {
		b.say(Error, v, "persistence_granularity", "virtual_server.persistence_granularity/family", fmt.Sprintf("%s does not fit: the service is %s", shown(it), family(vs.IPv6)), fmt.Sprintf("must be a prefix length 1..%d", full))
	} else {
		vs.Granularity = n
	}
	if vs.Persistence == 0 && !v.wrong("persistence_timeout") {
		b.say(Warning, v, "persistence_granularity", "virtual_server.persistence_granularity/unused", "has no effect without persistence_timeout", "add persistence_timeout, or take it out")
	}
}

// sorry settles the sorry server.
func (b *builder) sorry(v *values, vs *VirtualServer) {
	if !v.has("sorry_server") {
		if get[bool](v, "sorry_server_inhibit") && !v.given("sorry_server") {
			b.say(Warning, v, "sorry_server_inhibit", "virtual_server.sorry_server_inhibit/unused", "has no effect without sorry_server", "add sorry_server, or take it out")
		}
		return
	}
	s := Sorry{Address: get[netip.AddrPort](v, "sorry_server"), Method: vs.Method, Inhibit: get[bool](v, "sorry_server_inhibit")}
	if v.has("sorry_server_lvs_method") {
		s.Method = get[string](v, "sorry_server_lvs_method")
	}
	s.Address = b.reach(v, "sorry_server", "virtual_server.sorry_server", s.Address, s.Method, vs)
	vs.Sorry = &s
}

// reach checks that a method can deliver packets to a server, and fills in the
// port of the service where the server has none.
func (b *builder) reach(v *values, key, id string, server netip.AddrPort, method string, vs *VirtualServer) netip.AddrPort {
	port := vs.Address.Port()
	if server.Port() == 0 {
		server = netip.AddrPortFrom(server.Addr(), port)
	}
	if port != 0 && server.Port() != port && method != "NAT" {
		b.say(Error, v, key, id+"/port", fmt.Sprintf("port %d differs from the service's port %d, which %s cannot change", server.Port(), port, method),
			fmt.Sprintf("under %s packets arrive unchanged, so the server must listen on port %d: write \"%s\";\nor use lvs_method = \"NAT\", which maps ports", method, port, netip.AddrPortFrom(server.Addr(), port)))
	}
	if known := serviceText(vs) != ""; known && server.Addr().Is6() != vs.IPv6 && method != "TUN" {
		b.say(Error, v, key, id+"/family", fmt.Sprintf("%s is %s, but the service is %s", server.Addr(), family(!vs.IPv6), family(vs.IPv6)),
			"under "+method+" both must be of one family; only lvs_method = \"TUN\" can mix them")
	}
	return server
}
