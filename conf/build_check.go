package conf

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// checkKind is one kind of check: what is special to it beside the keys of its
// block.
type checkKind struct {
	name  string
	block *block
	retry int           // its default
	pause time.Duration // default of delay_before_retry; 0: delay_loop
	// settle fills in what only this kind has. The tables are those of the check,
	// the real server and the virtual server; nil: there is nothing.
	settle func(b *builder, c, r, v *values, k *Check)
}

// checkKinds are all kinds, in the order in which the checks of a server are kept.
var checkKinds = []checkKind{
	{name: "TCP_CHECK", block: tcpCheckBlock, retry: 1, pause: time.Second},
	{name: "HTTP_GET", block: httpGetBlock, retry: 1, pause: 3 * time.Second, settle: (*builder).pages},
	{name: "SSL_GET", block: sslGetBlock, retry: 1, pause: 3 * time.Second, settle: (*builder).pages},
}

// checked reports whether a table says anything about checks, be it wrong.
func checked(v *values) bool {
	for _, entry := range v.it.keys {
		for _, kind := range checkKinds {
			if entry.name == kind.name {
				return true
			}
		}
		if strings.HasSuffix(entry.name, "_CHECK") && lookupKeyword(v.block.name, entry.name) != nil {
			return true
		}
	}
	return false
}

// check1 returns one check of a server. A key comes from the check itself, else
// from the real server, else from the virtual server.
func (b *builder) check1(kind checkKind, c, r, v *values, rs *RealServer) Check {
	k := Check{Kind: kind.name, Target: rs.Address, Alpha: get[bool](inherit("alpha", c, r, v), "alpha")}
	k.LogAllFailures = b.config.Global.LogAllFailures
	if c.has("log_all_failures") {
		k.LogAllFailures = get[bool](c, "log_all_failures")
	}
	timing(kind, c, r, v, &k)
	b.endpoints(c, r, &k)
	if kind.settle != nil {
		kind.settle(b, c, r, v, &k)
	}
	return k
}

// timing settles when a check runs, and how many results decide.
func timing(kind checkKind, c, r, v *values, k *Check) {
	duration := func(name string) (time.Duration, bool) {
		from := inherit(name, c, r, v)
		return get[time.Duration](from, name), from.has(name)
	}
	k.ConnectTimeout, _ = duration("connect_timeout")
	k.DelayLoop, _ = duration("delay_loop")
	given := false
	if k.DelayBeforeRetry, given = duration("delay_before_retry"); !given {
		if k.DelayBeforeRetry = kind.pause; k.DelayBeforeRetry == 0 {
			k.DelayBeforeRetry = k.DelayLoop
		}
	}
	if k.Warmup, given = duration("warmup"); !given {
		k.Warmup = k.DelayLoop
	}
	fall, retry := inherit("fall", c, r, v), inherit("retry", c, r, v)
	k.Fall, k.Rise = fall.num("fall"), inherit("rise", c, r, v).num("rise")
	switch {
	case retry.has("retry"):
		k.Retry = retry.num("retry")
	case !fall.has("fall"):
		k.Retry = kind.retry
	}
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
	k.BindIf, k.FWMark = get[string](c, "bind_if"), uint32(c.num("fwmark"))
	b.scope(c, k, host, source)
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

// scope wants an interface for link-local addresses, which are there once on each.
func (b *builder) scope(c *values, k *Check, host, source netip.Addr) {
	if k.BindIf != "" || c.wrong("bind_if") {
		return
	}
	key, a := "bindto", source
	if host.IsLinkLocalUnicast() && host.Is6() {
		key, a = "connect_ip", host
	}
	if a.Is6() && a.IsLinkLocalUnicast() {
		b.say(Error, c, key, "check.bind_if/linklocal", a.String()+" is link-local, and no interface is named", "add bind_if with the interface that the check is to leave by")
	}
}

// pages settles what is special to HTTP_GET and SSL_GET.
func (b *builder) pages(c, r, v *values, k *Check) {
	k.HTTPProtocol = get[string](c, "http_protocol")
	if !get[bool](c, "fast_recovery") && !c.wrong("fast_recovery") {
		b.say(Warning, c, "fast_recovery", c.block.name+".fast_recovery/always", "recovery is always fast", "a server is back with the first check that finds all its pages well; take the line out")
	}
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
