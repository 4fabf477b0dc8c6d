package conf

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// randomServer makes the i-th service; its number keeps services apart.
func randomServer(r *rapid.T, c *Config, i int) VirtualServer {
	vs := VirtualServer{
		Name: fmt.Sprintf("%d %s", i, text(r)), IPv6: coin(r), Scheduler: rapid.SampledFrom(schedulers).Draw(r, "scheduler"),
		Persistence: duration(r, 0, 31*24*time.Hour, time.Second), Quorum: number(r, 1, 100), Inhibit: coin(r), Alert: coin(r), Granularity: 32,
		Flag1: coin(r), Flag2: coin(r), Flag3: coin(r),
	}
	vs.Method, vs.Tunnel = randomMethod(r)
	if vs.Scheduler == "mh" && coin(r) {
		vs.Survive = "mh"
	}
	if vs.IPv6 {
		vs.Granularity = 128
	}
	vs.Granularity = number(r, 1, vs.Granularity)
	vs.Hysteresis, vs.Omega, vs.Up, vs.Down = number(r, 0, vs.Quorum-1), coin(r), run(r), run(r)
	vs.MinUp, vs.DrainMax = float64(number(r, 0, 100))/100, duration(r, 0, 31*24*time.Hour, time.Millisecond)
	vs.DrainFailed = !vs.Inhibit && coin(r)
	host := func(last byte) netip.Addr {
		if vs.IPv6 {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: last})
		}
		return netip.AddrFrom4([4]byte{10, 9, 0, last})
	}
	port := uint16(number(r, 1, 65535))
	vs.Protocol = rapid.SampledFrom([]string{"TCP", "UDP", "SCTP"}).Draw(r, "protocol")
	switch number(r, 0, 2) {
	case 0:
		vs.FWMark, vs.Protocol = uint32(1+i), ""
	case 1:
		vs.Address = netip.AddrPortFrom(host(byte(1+i)), port)
		vs.HASuspend = coin(r)
	default:
		g := randomGroup(r, i, vs.IPv6, port)
		c.ServerGroups = append(c.ServerGroups, g)
		vs.Group, vs.Members = g.Name, g.members(vs.IPv6)
	}
	if vs.Protocol == "UDP" || vs.Protocol == "" {
		vs.OnePacket = coin(r)
		if vs.Persistence > 0 && coin(r) {
			vs.PersistenceEngine = "sip"
		}
	}
	if coin(r) {
		vs.Sorry = &Sorry{Address: netip.AddrPortFrom(host(250), port), Inhibit: coin(r)}
		vs.Sorry.Method, vs.Sorry.Tunnel = randomMethod(r)
	}
	for j := range number(r, 0, 3) {
		rs := RealServer{Address: netip.AddrPortFrom(host(byte(100+j)), port), Weight: number(r, 0, maxWeight), Inhibit: coin(r), Alert: coin(r), Up: run(r), Down: run(r)}
		rs.Method, rs.Tunnel = randomMethod(r)
		rs.DrainFailed, rs.SlowStart = !rs.Inhibit && coin(r), duration(r, 0, 24*time.Hour, time.Millisecond)
		rs.UpperThreshold = uint32(number(r, 0, 1<<31-1))
		rs.LowerThreshold = uint32(number(r, 0, int(rs.UpperThreshold)))
		for _, kind := range checkKinds {
			if !slices.Contains(otherKinds, kind.name) && kind.reach != toNothing && coin(r) {
				k := randomCheck(r, kind.name, netip.AddrPortFrom(host(200), port))
				if kind.tcp && rs.Method == "DR" && coin(r) {
					k.Via = rs.Address.Addr()
				}
				rs.Checks = append(rs.Checks, k)
			}
		}
		randomChecks(r, &rs, netip.AddrPortFrom(host(200), port), c.TrackFiles)
		for j := range rs.Checks {
			if k := &rs.Checks[j]; slices.Contains([]string{"PING_CHECK", "MISC_CHECK", "FILE_CHECK"}, k.Kind) {
				k.DelayIfRefused = k.DelayBeforeRetry
			}
		}
		vs.RealServers = append(vs.RealServers, rs)
	}
	return vs
}

// randomMethod draws a way to forward packets, with a tunnel where it has one.
func randomMethod(r *rapid.T) (string, Tunnel) {
	method := rapid.SampledFrom(methods).Draw(r, "method")
	if method != "TUN" {
		return method, Tunnel{}
	}
	return method, rapid.SampledFrom([]Tunnel{
		{}, {Type: "gue", Port: uint16(number(r, 1, 65535))}, {Type: "gue", Port: 1, Checksum: "csum"}, {Type: "gue", Port: 2, Checksum: "remcsum"}, {Type: "gre"}, {Type: "gre", Checksum: "csum"},
	}).Draw(r, "tunnel")
}

// randomGroup makes a group that no other meets, for the i-th service.
func randomGroup(r *rapid.T, i int, ipv6 bool, port uint16) ServerGroup {
	g := ServerGroup{Name: fmt.Sprintf("g%03d", i)}
	a := netip.AddrFrom4([4]byte{10, 10, byte(i), byte(number(r, 1, 9))})
	if ipv6 {
		a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 1, 14: byte(i), 15: byte(number(r, 1, 9))})
	}
	last := a
	for range number(r, 0, 20) {
		last = last.Next()
	}
	g.Addresses = []ServiceRange{{a, last, port}}
	if coin(r) {
		g.Marks = []ServiceMark{{Mark: uint32(1000 + i)}}
		if coin(r) {
			g.Marks = append(g.Marks, ServiceMark{uint32(2000 + i), familyWord(ipv6)})
		}
	}
	return g
}

// members lists the services of a group whose marks without a family are of one.
func (g ServerGroup) members(ipv6 bool) []Service {
	var all []Service
	for _, a := range g.Addresses {
		all = append(all, a.services()...)
	}
	for _, m := range g.Marks {
		all = append(all, Service{FWMark: m.Mark, IPv6: m.Family == "inet6" || m.Family == "" && ipv6})
	}
	return all
}

func randomCheck(r *rapid.T, kind string, target netip.AddrPort) Check {
	k := Check{
		Kind: kind, Target: target, ConnectTimeout: duration(r, 10*time.Millisecond, time.Hour, time.Millisecond), DelayLoop: duration(r, 100*time.Millisecond, 24*time.Hour, time.Millisecond),
		Retry: number(r, 0, 1000), Fall: number(r, 1, 1000), Rise: number(r, 1, 1000), Alpha: coin(r), LogAllFailures: coin(r),
		FWMark: rapid.Uint32().Draw(r, "mark"), DelayBeforeRetry: duration(r, 0, time.Hour, time.Millisecond), DelayIfRefused: duration(r, 0, time.Hour, time.Millisecond), Warmup: duration(r, 0, 24*time.Hour, time.Millisecond),
	}
	if coin(r) {
		k.Bind = netip.AddrPortFrom(target.Addr().Next(), uint16(number(r, 0, 65535)))
	}
	if coin(r) {
		k.BindIf = "eth0"
	}
	switch kind {
	case "TCP_CHECK":
		if coin(r) {
			k.Send, k.Expect = text(r)+"\r\n\x00", "^"+rapid.StringMatching(`[a-z."é]{1,9}`).Draw(r, "expect")
		}
		return k
	case "SMTP_CHECK":
		k.Helo = rapid.StringMatching(`[a-z][a-z0-9.-]{0,9}[a-z]`).Filter(validHost).Draw(r, "helo")
		return k
	case "DNS_CHECK":
		k.DNS = Question{Type: rapid.SampledFrom(dnsTypes()).Draw(r, "type"), Name: rapid.SampledFrom([]string{".", "a.", "x-y.example.org."}).Draw(r, "name"), Protocol: rapid.SampledFrom([]string{"UDP", "TCP"}).Draw(r, "protocol")}
		if coin(r) {
			k.DNS.Type, k.DNS.Answer = "TXT", []string{`"a b" c`, `";"`}
		}
		return k
	}
	k.HTTPProtocol = rapid.SampledFrom([]string{"1.0", "1.0C", "1.1"}).Draw(r, "protocol")
	if coin(r) {
		k.VirtualHost = solid(r)
	}
	if kind == "SSL_GET" && coin(r) {
		k.SNI = solid(r)
	} else if kind == "SSL_GET" && k.VirtualHost != "" {
		k.EnableSNI = coin(r)
	}
	if kind == "SSL_GET" && coin(r) {
		k.Trust = randomTrust(r)
	}
	for range number(r, 1, 3) {
		u := URL{Path: "/" + rapid.StringMatching(`[!-~ä]{0,9}`).Draw(r, "path"), VirtualHost: k.VirtualHost}
		if coin(r) {
			u.VirtualHost = solid(r)
		}
		if coin(r) {
			u.Digest = rapid.StringMatching(`[0-9a-f]{32}`).Draw(r, "digest")
		}
		from := number(r, 100, 599)
		u.StatusCodes = []StatusRange{{from, number(r, from, 599)}, {200, 200}}
		if coin(r) {
			u.Regex, u.RegexNoMatch, u.RegexMin = rapid.SampledFrom([]string{`a"b\\d$`, "^ä*#'"}).Draw(r, "regex"), coin(r), number(r, 0, 100)
			u.RegexOptions, u.RegexMax = rapid.SampledFrom([][]string{{}, {"caseless"}, {"dotall", "ungreedy"}}).Draw(r, "options"), number(r, 100, 200)
			if len(u.RegexOptions) == 0 {
				u.RegexOptions, u.RegexMax = nil, 0
			}
		}
		u.Compliant = kind == "SSL_GET" && coin(r)
		k.URLs = append(k.URLs, u)
	}
	return k
}

// randomTrust makes certificates out of those of the good corpus.
func randomTrust(r *rapid.T) (t Trust) {
	read := func(name string) string {
		text, err := os.ReadFile("testdata/good/tls/" + name)
		if err != nil {
			r.Fatal(err)
		}
		return string(text)
	}
	if coin(r) {
		t.CA = read("ca.pem")
	}
	if coin(r) {
		t.Certificate, t.Key = read("client.pem"), read("client.key")
	}
	return t
}
