package conf

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// realServers settles the servers of a service.
func (b *builder) realServers(v *values, reals []*values, vs *VirtualServer) {
	first := make(map[netip.AddrPort]*values, len(reals))
	weights, unchecked := 0, []*values(nil)
	for _, r := range reals {
		rs := b.realServer(v, r, vs)
		vs.RealServers = append(vs.RealServers, rs)
		weights += rs.Weight
		if len(rs.Checks) == 0 && !checked(v) && !checked(r) {
			unchecked = append(unchecked, r)
		}
		if !r.has("address") {
			continue
		}
		if old := first[rs.Address]; old != nil {
			it, _ := old.place("address")
			b.say(Error, r, "address", "real_server.address/taken", fmt.Sprintf("%s is already a server of this service at %s", rs.Address, it.src.place(it.at)), "list a server once; give it a higher weight to send it more")
			continue
		}
		first[rs.Address] = r
	}
	if len(reals) == 0 && !v.given("real_server") {
		b.say(Warning, v, "", "virtual_server.real_server/none", "there is no real_server", "add [[virtual_server.real_server]] with its address")
	}
	if len(unchecked) > 0 {
		b.say(Warning, unchecked[0], "", "virtual_server.real_server/unchecked", plural(len(unchecked), "server")+" of this service without a check",
			"a dead server is not noticed and its share of the connections is lost; add TCP_CHECK = {} to the virtual_server")
	}
	if v.has("quorum") && len(reals) > 0 && weights < vs.Quorum {
		b.say(Warning, v, "quorum", "virtual_server.quorum/unreachable", fmt.Sprintf("%d cannot be reached: the weights of all servers add up to %d", vs.Quorum, weights), "the service will never be up; lower the quorum or raise the weights")
	}
}

// checked reports whether a table says anything about checks, be it wrong.
func checked(v *values) bool {
	for _, entry := range v.it.keys {
		name := entry.name
		if k := v.block.find(name); k != nil && (k.block == tcpCheckBlock || k.block == httpGetBlock || k.block == sslGetBlock) {
			return true
		}
		if strings.HasSuffix(name, "_CHECK") && lookupKeyword(v.block.name, name) != nil {
			return true
		}
	}
	return false
}

// realServer returns a real_server with all defaults.
func (b *builder) realServer(v, r *values, vs *VirtualServer) RealServer {
	rs := RealServer{
		Address: get[netip.AddrPort](r, "address"),
		Method:  vs.Method,
		Weight:  inherit("weight", r, v).num("weight"),
		Inhibit: get[bool](inherit("inhibit_on_failure", r, v), "inhibit_on_failure"),
		Alert:   b.alert(r, alertChecker, true),
	}
	if r.has("lvs_method") {
		rs.Method = get[string](r, "lvs_method")
	}
	if !r.has("address") {
		return rs
	}
	rs.Address = b.reach(r, "address", "real_server.address", rs.Address, rs.Method, vs)
	if rs.Address.Addr() == vs.Address.Addr() {
		b.say(Warning, r, "address", "real_server.address/vip", rs.Address.Addr().String()+" is the address of the service itself", "packets would come back to this director; write the server's own address")
	}
	from := r
	if !checked(r) {
		from = v
	}
	for _, kind := range []string{"TCP_CHECK", "HTTP_GET", "SSL_GET"} {
		for _, c := range get[[]*values](from, kind) {
			rs.Checks = append(rs.Checks, b.check1(kind, c, r, v, &rs))
		}
	}
	return rs
}

// check1 returns one check of a server. A key comes from the check itself, else
// from the real server, else from the virtual server.
func (b *builder) check1(kind string, c, r, v *values, rs *RealServer) Check {
	duration := func(name string) (time.Duration, bool) {
		from := inherit(name, c, r, v)
		return get[time.Duration](from, name), from.has(name)
	}
	k := Check{
		Kind:   kind,
		Target: rs.Address,
		Retry:  inherit("retry", c, r, v).num("retry"),
	}
	k.ConnectTimeout, _ = duration("connect_timeout")
	k.DelayLoop, _ = duration("delay_loop")
	given := false
	if k.DelayBeforeRetry, given = duration("delay_before_retry"); !given {
		k.DelayBeforeRetry = time.Second
		if kind != "TCP_CHECK" {
			k.DelayBeforeRetry = 3 * time.Second
		}
	}
	if k.Warmup, given = duration("warmup"); !given {
		k.Warmup = k.DelayLoop
	}
	b.endpoints(c, r, &k)
	if kind != "TCP_CHECK" {
		b.pages(c, r, v, &k)
	}
	return k
}

// endpoints settles where a check connects from and to.
func (b *builder) endpoints(c, r *values, k *Check) {
	host, port := k.Target.Addr(), k.Target.Port()
	if c.has("connect_ip") {
		host = get[netip.Addr](c, "connect_ip")
	}
	if c.has("connect_port") {
		port = uint16(c.num("connect_port"))
	}
	k.Target = netip.AddrPortFrom(host, port)
	if port == 0 && !c.wrong("connect_port") {
		b.say(Error, r, "address", "real_server.address/checkport", "the check of this server has no port to connect to", "neither the service nor the server has a port; add it to the address, or connect_port to the "+c.block.name)
	}
	source := get[netip.Addr](c, "bindto")
	if source.IsValid() && source.Is6() != host.Is6() {
		b.say(Error, c, "bindto", "check.bindto/family", fmt.Sprintf("%s is %s, but the check connects to %s", source, family(source.Is6()), host), "write an "+family(host.Is6())+" address of this machine, or leave bindto out")
	}
	if !source.IsValid() && c.has("bind_port") {
		source = netip.IPv4Unspecified()
		if host.Is6() {
			source = netip.IPv6Unspecified()
		}
	}
	if source.IsValid() {
		k.Bind = netip.AddrPortFrom(source, uint16(c.num("bind_port")))
	}
}

// pages settles what is special to HTTP_GET and SSL_GET.
func (b *builder) pages(c, r, v *values, k *Check) {
	k.HTTPProtocol = get[string](c, "http_protocol")
	k.VirtualHost = get[string](inherit("virtualhost", c, r, v), "virtualhost")
	if k.Kind == "SSL_GET" {
		k.SNI = get[string](c, "sni_name")
		if k.SNI == "" && get[bool](c, "enable_sni") {
			if k.SNI = k.VirtualHost; k.SNI == "" && !c.given("sni_name") {
				b.say(Error, c, "enable_sni", "SSL_GET.enable_sni/name", "there is no name to send", "add sni_name or virtualhost to the check")
			}
		}
	}
	for _, u := range get[[]*values](c, "url") {
		url := URL{
			Path:        get[string](u, "path"),
			Digest:      get[string](u, "digest"),
			StatusCodes: get[[]StatusRange](u, "status_code"),
			VirtualHost: get[string](u, "virtualhost"),
		}
		if url.VirtualHost == "" {
			url.VirtualHost = k.VirtualHost
		}
		if url.StatusCodes == nil && url.Digest == "" {
			url.StatusCodes = []StatusRange{{200, 299}}
		}
		k.URLs = append(k.URLs, url)
	}
}
