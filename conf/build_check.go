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
	reach  reach // what it connects to
	tcp    bool  // over TCP: check_path applies
}

// quickRetry is the default of delay_if_refused where the file says nothing of retries.
const quickRetry = 50 * time.Millisecond

// reach is what a kind of check connects to.
type reach int

const (
	toPort    reach = iota // an address and a port
	toAddress              // an address
	toNothing              // it asks this machine
)

// checkKinds are all kinds, in the order in which the checks of a server are kept.
var checkKinds = []checkKind{
	{name: "TCP_CHECK", block: tcpCheckBlock, retry: 1, pause: time.Second, settle: (*builder).talk, tcp: true},
	{name: "HTTP_GET", block: httpGetBlock, retry: 1, pause: 3 * time.Second, settle: (*builder).pages, tcp: true},
	{name: "SSL_GET", block: sslGetBlock, retry: 1, pause: 3 * time.Second, settle: (*builder).pages, tcp: true},
	{name: "SMTP_CHECK", block: smtpCheckBlock, retry: 1, pause: time.Second, settle: func(_ *builder, c, _, _ *values, k *Check) { k.Helo = get[string](c, "helo_name") }, tcp: true},
	{name: "DNS_CHECK", block: dnsCheckBlock, retry: 3, settle: (*builder).question},
	{name: "UDP_CHECK", block: udpCheckBlock, retry: 1, pause: time.Second, settle: (*builder).datagram},
	{name: "PING_CHECK", block: pingCheckBlock, retry: 1, pause: time.Second, reach: toAddress},
	{name: "GRPC_CHECK", block: grpcCheckBlock, retry: 1, pause: time.Second, settle: (*builder).health, tcp: true},
	{name: "MISC_CHECK", block: miscCheckBlock, pause: time.Second, settle: (*builder).program, reach: toNothing},
	{name: "FILE_CHECK", block: fileCheckBlock, settle: (*builder).trackedFile, reach: toNothing},
}

// checked reports whether a table says anything about checks, be it wrong.
func checked(v *values) bool {
	for _, entry := range v.it.keys {
		for i := range checkKinds {
			if entry.name == checkKinds[i].name {
				return true
			}
		}
		if strings.HasSuffix(entry.name, "_CHECK") && lookupKeyword(v.block.name, entry.name) != nil {
			return true
		}
	}
	return false
}

// checks adds what a table of a check means: one check, or one for each host. A
// key comes from the check itself, else from the real server, else from the virtual
// server.
func (b *builder) checks(kind *checkKind, c, r, v *values, rs *RealServer) {
	n := len(rs.Checks)
	rs.Checks = append(rs.Checks, Check{Kind: kind.name, Target: rs.Address, Alpha: get[bool](inherit("alpha", c, r, v), "alpha")})
	k := &rs.Checks[n]
	k.LogAllFailures = b.config.Global.LogAllFailures
	if c.has("log_all_failures") {
		k.LogAllFailures = get[bool](c, "log_all_failures")
	}
	timing(kind, c, r, v, k)
	if kind.tcp {
		b.path(c, r, v, rs, k)
	}
	if kind.settle != nil {
		kind.settle(b, c, r, v, k)
	}
	if kind.reach == toNothing {
		k.Target = netip.AddrPort{}
		return
	}
	var hosts []*values
	if c.block.find("host") != nil {
		hosts = get[[]*values](c, "host")
	}
	if len(hosts) == 0 {
		b.endpoints(kind, k, r, c)
		return
	}
	one := *k
	rs.Checks = rs.Checks[:n]
	for _, h := range hosts {
		rs.Checks = append(rs.Checks, one)
		b.endpoints(kind, &rs.Checks[len(rs.Checks)-1], r, h, c)
	}
}

// timing settles when a check runs, and how many results decide.
func timing(kind *checkKind, c, r, v *values, k *Check) {
	duration := func(name string) (time.Duration, bool) {
		from := inherit(name, c, r, v)
		return get[time.Duration](from, name), from.has(name)
	}
	k.ConnectTimeout, _ = duration("connect_timeout")
	k.DelayLoop, _ = duration("delay_loop")
	given := false
	if k.Warmup, given = duration("warmup"); !given {
		k.Warmup = k.DelayLoop
	}
	fall, retry := inherit("fall", c, r, v), inherit("retry", c, r, v)
	k.Fall, k.Rise = fall.num("fall"), inherit("rise", c, r, v).num("rise")
	k.DelayIfRefused = quickRetry
	switch {
	case retry.has("retry"):
		k.Retry = retry.num("retry")
	case !fall.has("fall"):
		k.Retry = kind.retry
	}
	if k.DelayBeforeRetry, given = duration("delay_before_retry"); !given {
		if k.DelayBeforeRetry = kind.pause; k.DelayBeforeRetry == 0 || k.DelayBeforeRetry > k.DelayLoop {
			k.DelayBeforeRetry = k.DelayLoop
		}
	}
	if given || retry.has("retry") || fall.has("fall") {
		k.DelayIfRefused = k.DelayBeforeRetry // as the file has it
	}
	if quick, own := duration("delay_if_refused"); own {
		k.DelayIfRefused = quick
	}
	if kind.reach != toPort {
		k.DelayIfRefused = k.DelayBeforeRetry // nobody refuses
	}
}

// endpoints settles where a check connects from and to. A key comes from the first
// of the tables that has it; the last one is the check itself.
func (b *builder) endpoints(kind *checkKind, k *Check, r *values, tables ...*values) {
	of := func(name string) *values { return inherit(name, tables...) }
	host, port := k.Target.Addr(), k.Target.Port()
	if c := of("connect_ip"); c.has("connect_ip") {
		host = get[netip.Addr](c, "connect_ip")
	}
	c := of("connect_port")
	if c.has("connect_port") {
		port = uint16(c.num("connect_port"))
	}
	if port == 0 { // each service's
		port = b.port
	}
	if kind.reach == toAddress {
		port = 0
	}
	k.Target = netip.AddrPortFrom(host, port)
	if port == 0 && kind.reach == toPort && !tables[0].wrong("connect_port") && !c.wrong("connect_port") && !b.vague {
		b.say(Error, r, "address", "real_server.address/checkport", "the check of this server has no port to connect to", "neither the service nor the server has a port; add it to the address, or connect_port to the "+c.block.name)
	}
	from := of("bindto")
	source := get[netip.Addr](from, "bindto")
	if source.IsValid() && source.Is6() != host.Is6() {
		b.say(Error, from, "bindto", "check.bindto/family", fmt.Sprintf("%s is %s, but the check connects to %s", source, family(source.Is6()), host), "write an "+family(host.Is6())+" address of this machine, or leave bindto out")
	}
	k.BindIf, k.FWMark = get[string](of("bind_if"), "bind_if"), uint32(of("fwmark").num("fwmark"))
	if !of("bind_if").wrong("bind_if") {
		b.scope(k, host, source, of)
	}
	fixed := of("bind_port")
	if !source.IsValid() && fixed.has("bind_port") {
		source = netip.IPv4Unspecified()
		if host.Is6() {
			source = netip.IPv6Unspecified()
		}
	}
	if source.IsValid() {
		own := 0
		if fixed.has("bind_port") {
			own = fixed.num("bind_port")
		}
		k.Bind = netip.AddrPortFrom(source, uint16(own))
	}
}

// scope wants an interface for link-local addresses, which are there once on each.
func (b *builder) scope(k *Check, host, source netip.Addr, of func(string) *values) {
	key, a := "bindto", source
	if host.IsLinkLocalUnicast() && host.Is6() {
		key, a = "connect_ip", host
	}
	if k.BindIf == "" && a.Is6() && a.IsLinkLocalUnicast() {
		b.say(Error, of(key), key, "check.bind_if/linklocal", a.String()+" is link-local, and no interface is named", "add bind_if with the interface that the check is to leave by")
	}
}
