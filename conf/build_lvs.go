package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// services remembers what virtual servers exist, to find repetitions.
type services struct {
	targets map[string]mention
	names   map[string]mention
}

// mention is where a service or a name stood first.
type mention struct {
	server int   // the number of the virtual server
	at     *item // nil: it was not read
}

// servers settles all virtual servers.
func (b *builder) servers(tables []*values) {
	seen := services{map[string]mention{}, map[string]mention{}}
	b.remember = make(map[string]int, len(tables))
	b.config.VirtualServers = slices.Grow(b.config.VirtualServers, len(tables)) // nil stays nil
	known := b.last.known(b)
	for i, v := range tables {
		text, trace := v.it.unread(), b.trace
		old := known[text]
		if old != nil {
			b.config.VirtualServers = append(b.config.VirtualServers, *old)
			b.again(old, i, seen)
		} else {
			b.config.VirtualServers = append(b.config.VirtualServers, b.server(b.open(v), i, seen))
		}
		if b.whole && text != "" {
			return // it is all to be done again
		}
		if b.trace == trace && text != "" {
			b.remember[text] = i
		}
	}
}

// again settles a virtual server that is as it was.
func (b *builder) again(vs *VirtualServer, number int, seen services) {
	_, named := seen.names[vs.Name]
	b.whole = b.whole || named
	seen.names[vs.Name] = mention{server: number}
	for _, s := range vs.Services() {
		text := s.text(vs.Protocol)
		_, taken := seen.targets[text]
		b.whole = b.whole || taken
		seen.targets[text] = mention{server: number}
	}
}

// server returns a virtual_server with all defaults.
func (b *builder) server(v *values, number int, seen services) VirtualServer {
	reals := get[[]*values](v, "real_server")
	b.nobody(v)
	b.nobody(reals...)
	vs := VirtualServer{
		Address:     get[netip.AddrPort](v, "address"),
		FWMark:      uint32(v.num("fwmark")),
		Protocol:    get[string](v, "protocol"),
		Scheduler:   get[string](v, "lvs_sched"),
		Method:      get[forwarding](v, "lvs_method").Method,
		Tunnel:      get[forwarding](v, "lvs_method").Tunnel,
		Persistence: get[time.Duration](v, "persistence_timeout"),
		Quorum:      v.num("quorum"),
		Alert:       b.alert(v, alertChecker, false),
	}
	b.vague = false
	b.target(v, reals, &vs)
	b.port = vs.commonPort()
	b.identity(v, number, seen, &vs)
	b.schedulerFlags(v, &vs)
	b.granularity(v, &vs)
	b.engine(v, &vs)
	b.sorry(v, &vs)
	b.steering(v, &vs)
	vs.Inhibit, vs.DrainFailed = b.onFailure(v)
	b.realServers(v, reals, &vs)
	b.survive(v, &vs)
	b.gentle(v, &vs)
	b.oneWay(v, &vs)
	return vs
}

// target settles what the service is: an address, a firewall mark or a group, and
// of which family.
func (b *builder) target(v *values, reals []*values, vs *VirtualServer) {
	var given []string
	for _, key := range []string{"address", "fwmark", "group"} {
		if v.given(key) {
			given = append(given, key)
		}
	}
	switch {
	case len(given) > 1:
		b.say(Error, v, given[1], "virtual_server.address/target", "a service has an address, a fwmark or a group, only one of them", "make it several virtual servers, or list addresses and marks in a virtual_server_group")
		vs.Address, vs.FWMark = netip.AddrPort{}, 0
	case len(given) == 0:
		b.say(Error, v, "", "virtual_server.address/target", "there is neither an address nor a fwmark nor a group", `add address = "203.0.113.10:80", fwmark = 7, or group = "NAME"`)
	case given[0] == "group":
		b.groupTarget(v, reals, vs)
	case given[0] == "fwmark":
		b.noProtocol(v, vs)
		b.markFamily(v, reals, vs)
	default:
		b.serviceAddress(v, vs)
	}
}

// markFamily settles the family of a fwmark service.
func (b *builder) markFamily(v *values, reals []*values, vs *VirtualServer) {
	if v.has("ip_family") {
		vs.IPv6 = get[string](v, "ip_family") == "inet6"
		return
	}
	b.realFamily(v, reals, vs, "fwmark")
}

// realFamily makes the family of the real servers that of a service.
func (b *builder) realFamily(v *values, reals []*values, vs *VirtualServer, key string) {
	found := map[bool]bool{}
	for _, r := range reals {
		if a := get[netip.AddrPort](r, "address"); a.IsValid() {
			found[a.Addr().Is6()] = true
		}
	}
	if len(found) == 2 && !v.given("ip_family") {
		b.say(Error, v, key, "virtual_server.ip_family/unclear", "the real servers are of both families, so the family of the service is not clear", `add ip_family = "inet" or "inet6"`)
	}
	vs.IPv6 = found[true] && !found[false]
}

// noVIPAdvice is what to do about an address that no instance has.
const noVIPAdvice = "nobody brings this address up or moves it; add it to virtual_ipaddress, unless it is routed here by other means"

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
	b.refusedService(v, "address", host)
	if _, ours := b.vips[host]; !ours && !b.unclear && len(b.config.Instances) > 0 {
		b.say(Warning, v, "address", "virtual_server.address/novip", host.String()+" is no virtual address of any vrrp_instance", noVIPAdvice)
	}
}

// identity settles the name and finds repetitions.
func (b *builder) identity(v *values, number int, seen services, vs *VirtualServer) {
	text := serviceText(vs)
	vs.Name = text
	if v.has("name") {
		vs.Name = get[string](v, "name")
	}
	if text == "" {
		return
	}
	for _, one := range vs.Services() {
		if !b.firstService(v, number, seen, vs, one) {
			return
		}
	}
	if first, taken := seen.names[vs.Name]; taken {
		b.say(Error, v, "name", "virtual_server.name/taken", fmt.Sprintf("%q is already the name of the service at %s", vs.Name, b.placeOf(first)), "names must differ, for commands choose services by name")
		return
	}
	it, _ := v.place("name")
	seen.names[vs.Name] = mention{number, it}
}

// placeOf shows where something stood first. Of a virtual server that was not read that is not known: then all are.
func (b *builder) placeOf(m mention) string {
	if m.at == nil {
		b.whole = true
		return ""
	}
	return m.at.src.place(m.at.at)
}

// firstService notes a service, and reports whether it is the first of its kind.
func (b *builder) firstService(v *values, number int, seen services, vs *VirtualServer, one Service) bool {
	text := one.text(vs.Protocol)
	first, taken := seen.targets[text]
	if taken && first.server == number && one.FWMark == 0 {
		return false // the group has it twice, and that was said
	}
	key := "group"
	for _, k := range []string{"fwmark", "address"} {
		if v.given(k) {
			key = k
		}
	}
	if !taken {
		it, _ := v.place(key)
		seen.targets[text] = mention{number, it}
		return true
	}
	b.say(Error, v, key, "virtual_server.address/taken", text+" is already defined at "+b.placeOf(first), "a service can be defined once; put the real servers together")
	return false
}

// text returns "tcp 10.9.0.100:80" or "fwmark 7 inet6", or "" when the service is
// not known.
func (s Service) text(protocol string) string {
	switch {
	case s.FWMark != 0:
		return fmt.Sprintf("fwmark %d %s", s.FWMark, familyWord(s.IPv6))
	case s.Address.IsValid():
		return strings.ToLower(protocol) + " " + s.Address.String()
	}
	return ""
}

// serviceText returns what a virtual server is: its service, or "group web tcp".
func serviceText(vs *VirtualServer) string {
	if vs.Group != "" {
		return strings.TrimSpace("group " + vs.Group + " " + strings.ToLower(vs.Protocol))
	}
	return vs.Services()[0].text(vs.Protocol)
}

// granularity settles the mask of persistence.
func (b *builder) granularity(v *values, vs *VirtualServer) {
	full := vs.longest()
	vs.Granularity = full
	if !v.has("persistence_granularity") {
		return
	}
	it, _ := v.place("persistence_granularity")
	s, _ := it.value.(string)
	mask, dotted := address(s)
	least := 128
	for _, one := range vs.Services() {
		if !one.IPv6 {
			least = 32
		}
	}
	if n := v.num("persistence_granularity"); n > least || dotted && mask.Is4() && full == 128 {
		b.say(Error, v, "persistence_granularity", "virtual_server.persistence_granularity/family", fmt.Sprintf("%s does not fit: the service is %s", shown(it), family(least == 128)), fmt.Sprintf("must be a prefix length 1..%d", least))
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
	s := Sorry{Address: get[netip.AddrPort](v, "sorry_server"), Method: vs.Method, Tunnel: vs.Tunnel, Inhibit: get[bool](v, "sorry_server_inhibit")}
	if v.has("sorry_server_lvs_method") {
		own := get[forwarding](v, "sorry_server_lvs_method")
		s.Method, s.Tunnel = own.Method, own.Tunnel
	}
	s.Address = b.reach(v, "sorry_server", "virtual_server.sorry_server", s.Address, s.Method, vs)
	vs.Sorry = &s
}

// reach checks that a method can deliver packets to a server, and fills in the
// port of the service where the server has none. In a group it stays open: it is
// that of each service.
func (b *builder) reach(v *values, key, id string, server netip.AddrPort, method string, vs *VirtualServer) netip.AddrPort {
	if server.Port() == 0 {
		server = netip.AddrPortFrom(server.Addr(), vs.Address.Port())
	}
	port, strange := true, true
	for _, s := range vs.Services() {
		if p := s.Address.Port(); port && p != 0 && server.Port() != 0 && server.Port() != p && method != "NAT" {
			port = false
			right := netip.AddrPortFrom(server.Addr(), p)
			if vs.Group != "" {
				right = netip.AddrPortFrom(server.Addr(), 0)
			}
			b.say(Error, v, key, id+"/port", fmt.Sprintf("port %d differs from the service's port %d, which %s cannot change", server.Port(), p, method),
				fmt.Sprintf("under %s packets arrive unchanged, so the server must listen on port %d: write \"%s\";\nor use lvs_method = \"NAT\", which maps ports", method, p, endpointText(right)))
		}
		if known := s.text(vs.Protocol) != ""; strange && known && server.Addr().Is6() != s.IPv6 && method != "TUN" {
			strange = false
			b.say(Error, v, key, id+"/family", fmt.Sprintf("%s is %s, but the service is %s", server.Addr(), family(!s.IPv6), family(s.IPv6)),
				"under "+method+" both must be of one family; only lvs_method = \"TUN\" can mix them")
		}
	}
	return server
}
