package conf

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomConfigRoundTrip: every Config that can exist prints to a file that
// loads to the same Config.
func TestRandomConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := &Config{Global: Global{RouterID: text(r)}}
		c.Global.StartupDelay, c.Global.DelayAfterBoot = duration(r, 0, time.Hour, time.Millisecond), duration(r, 0, time.Hour, time.Second)
		for i := range rapid.IntRange(0, 2).Draw(r, "delays") {
			c.LinkDelays = append(c.LinkDelays, LinkDelay{fmt.Sprintf("x%d", i), duration(r, 0, 255*time.Second, time.Microsecond), duration(r, 0, 255*time.Second, time.Microsecond)})
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "garp groups") {
			c.GARPGroups = append(c.GARPGroups, GARPGroup{[]string{fmt.Sprintf("y%d", i), fmt.Sprintf("z%d", i)}[:number(r, 1, 2)], duration(r, 0, 10*time.Second, time.Microsecond), duration(r, 0, 10*time.Second, time.Microsecond)})
		}
		randomStatics(r, c)
		for i := range rapid.IntRange(0, 2).Draw(r, "scripts") {
			c.Scripts = append(c.Scripts, randomScript(r, fmt.Sprintf("%d%s", i, name(r))))
		}
		c.Global.VMACPrefix, c.Global.VMACAddrPrefix = rapid.StringMatching(`[a-z"]{1,9}`).Draw(r, "prefix"), rapid.StringMatching(`[a-z]{1,9}`).Draw(r, "prefix")
		c.Global.DisableLocalIGMP = coin(r)
		c.Global.ScriptUser, c.Global.ScriptSecurity = user(r), coin(r)
		c.Global.Priority = Priority{number(r, 0, 99), number(r, 2, 10_000_000), number(r, -20, 19), nil}
		if coin(r) {
			c.Global.Priority.CPUs = []int{number(r, 0, 9), number(r, 10, 1023)}
		}
		c.Global.NoSwap = coin(r)
		randomEvents(r, &c.Global)
		c.Global.Firewall = Firewall{rapid.StringMatching(`[a-zA-Z_][a-zA-Z0-9_./-]{0,62}`).Draw(r, "table"), number(r, -1<<31, 1<<31-1), coin(r)}
		randomMail(r, c)
		for i := range rapid.IntRange(0, 2).Draw(r, "files") {
			c.TrackFiles = append(c.TrackFiles, randomFile(r, fmt.Sprintf("%d%s", i, name(r))))
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "processes") {
			c.TrackProcesses = append(c.TrackProcesses, randomProcess(r, fmt.Sprintf("%d%s", i, name(r))))
		}
		for i := range rapid.IntRange(0, 3).Draw(r, "instances") {
			c.Instances = append(c.Instances, randomInstance(r, i, c))
		}
		c.placeVMACs(func(in *Instance, _ *VIP, _, message, _ string) { r.Fatalf("%s: %s", in.Name, message) })
		joinGroups(c)
		if len(c.Instances) > 0 && coin(r) {
			c.Instances[0].SyncGroup = "0" + name(r)
			c.SyncGroups = []SyncGroup{{c.Instances[0].SyncGroup, []string{c.Instances[0].Name}, randomNotify(r), coin(r)}}
			c.SyncGroups[0].Notify.LowerPri, c.SyncGroups[0].Notify.PriorityChanges = Command{}, false
		}
		for _, k := range ipvsSysctlBlock.keys {
			if k.kind == intKind && coin(r) {
				c.IPVSSettings = append(c.IPVSSettings, IPVSSetting{k.name, fmt.Sprint(number(r, int(k.min), int(k.max)))})
			}
		}
		if coin(r) {
			c.IPVSSettings = append(c.IPVSSettings, IPVSSetting{"sync_threshold", fmt.Sprintf("%d 65535", number(r, 0, 65534))})
		}
		for i := range rapid.IntRange(0, 3).Draw(r, "services") {
			c.VirtualServers = append(c.VirtualServers, randomServer(r, c, i))
			if len(c.Instances) > 0 && coin(r) {
				c.VirtualServers[i].ActiveOn = c.Instances[0].Name
			}
		}
		randomSurvival(r, c)
		checkRoundTrip(r, c)
	})
}

// randomSurvival fills in what keeps connections.
func randomSurvival(r *rapid.T, c *Config) {
	g := &c.Global
	g.LVSTimeouts = Timeouts{duration(r, 0, time.Hour, time.Second), duration(r, 0, time.Hour, time.Second), duration(r, 0, time.Hour, time.Second)}
	g.Shield = duration(r, 0, 30*time.Second, time.Microsecond)
	if coin(r) || slices.ContainsFunc(c.VirtualServers, mixed) {
		return
	}
	g.SyncDaemon = &SyncDaemon{Interface: "x0", ID: number(r, 0, 255), MaxLen: number(r, 0, 65507), Port: number(r, 1, 65535), TTL: number(r, 1, 255), Group: syncGroup}
	if len(c.Instances) > 0 && coin(r) {
		g.SyncDaemon.Instance = c.Instances[0].Name
	}
	g.SyncDelay = duration(r, 0, time.Hour, time.Microsecond)
}

// mixed reports whether a service has a server of the other family.
func mixed(vs VirtualServer) bool {
	return slices.ContainsFunc(vs.RealServers, func(rs RealServer) bool { return rs.Address.Addr().Is6() != vs.IPv6 })
}

// text is a string that a key may hold.
func text(r *rapid.T) string {
	return rapid.StringMatching(`[ -~äß日😀"\\'#=\[\]{}]{1,20}`).Draw(r, "text")
}

// solid is a text without blanks.
func solid(r *rapid.T) string { return strings.ReplaceAll(text(r), " ", "-") }

// name is a name of a table.
func name(r *rapid.T) string {
	return rapid.StringMatching(`[!-~äß日😀]{0,12}`).Filter(validOrEmpty).Draw(r, "name")
}

func validOrEmpty(s string) bool { return s == "" || validName(s) }

// duration is a time from min to max in steps.
func duration(r *rapid.T, min, max, step time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(int64(min/step), int64(max/step)).Draw(r, "time")) * step
}

func coin(r *rapid.T) bool { return rapid.Bool().Draw(r, "flag") }

func number(r *rapid.T, min, max int) int { return rapid.IntRange(min, max).Draw(r, "number") }

// command is an argument vector, or none.
func command(r *rapid.T) []string {
	if coin(r) {
		return nil
	}
	return []string{"/bin/" + text(r), text(r), "", "$(x) > 'y'"}
}

func randomScript(r *rapid.T, name string) Script {
	return Script{
		Name: name, Argv: []string{"/bin/x", text(r)}, Interval: duration(r, 10*time.Millisecond, time.Hour, time.Microsecond), Timeout: duration(r, 10*time.Millisecond, time.Hour, time.Millisecond),
		Weight: number(r, -253, 253), Reverse: coin(r), Rise: number(r, 1, 9), Fall: number(r, 1, 9), InitFail: coin(r),
		User: user(r),
	}
}

// user is who a command runs as, or nobody in particular.
func user(r *rapid.T) User {
	u := User{Name: rapid.StringMatching(`[a-z0-9_-]{0,8}`).Draw(r, "user")}
	if u.Name != "" && coin(r) {
		u.Group = rapid.StringMatching(`[a-z]{1,8}`).Draw(r, "group")
	}
	return u
}

// run is a command with a user, or none.
func run(r *rapid.T) Command {
	if argv := command(r); argv != nil {
		return Command{argv, user(r)}
	}
	return Command{}
}

func randomNotify(r *rapid.T) Notify {
	n := Notify{run(r), run(r), run(r), run(r), run(r), run(r), run(r), false, coin(r)}
	n.SayDeleted = len(n.Deleted.Argv) > 0 || coin(r)
	return n
}

// randomEvents fills in FIFOs and commands that are run once.
func randomEvents(r *rapid.T, g *Global) {
	for i, f := range []*FIFO{&g.NotifyFIFO, &g.VRRPFIFO, &g.LVSFIFO} {
		if coin(r) {
			*f = FIFO{fmt.Sprintf("/%d%s", i, rapid.StringMatching(`[a-z"]{1,9}`).Draw(r, "path")), user(r), run(r)}
		}
	}
	g.Flush, g.FlushOnStop = coin(r), rapid.SampledFrom([]string{"", FlushAll, flushVS}).Draw(r, "flush")
	g.StatesOnReload, g.ServersAtStart, g.ScriptGroups = coin(r), coin(r), coin(r)
	g.Startup = Hook{run(r), duration(r, time.Second, 1000*time.Second, time.Second)}
	g.Shutdown = Hook{run(r), duration(r, time.Second, 1000*time.Second, time.Second)}
}

// randomMail fills in who gets mail, and where the daemon lives.
func randomMail(r *rapid.T, c *Config) {
	c.Global.LogAllFailures, c.Global.MaxProcesses = coin(r), number(r, 1, 10000)
	if coin(r) {
		c.Global.Mail = Mail{
			To: []string{"a@" + rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,9}`).Draw(r, "host"), "b+c@x.example"}, From: "x@y", Port: relayPort,
			Helo: "h", Timeout: duration(r, time.Second, time.Hour, time.Millisecond), NoFaults: coin(r),
		}
		if coin(r) {
			c.Global.Mail.Server = rapid.SampledFrom([]string{"mail.example.com", "10.0.0.5", "2001:db8::25"}).Draw(r, "relay")
			c.Global.Mail.Port = number(r, 1, 65535)
		}
	}
	place := func() string { return rapid.StringMatching(`([A-Za-z0-9_][A-Za-z0-9._-]{0,8})?`).Draw(r, "place") }
	c.Place = Place{Namespace: place(), IPVS: place(), Instance: place()}
	c.Place.FirstIPVS = c.Place.IPVS == "" && coin(r)
}

func randomFile(r *rapid.T, name string) TrackFile {
	f := TrackFile{Name: name, Path: "/" + rapid.StringMatching(`[a-zäß \\"]{1,9}`).Draw(r, "path"), Weight: number(r, -weightMax, weightMax), Reverse: coin(r), Init: coin(r)}
	if f.Init {
		f.InitValue, f.Overwrite = number(r, -weightMax, weightMax), coin(r)
	}
	return f
}

func randomProcess(r *rapid.T, name string) TrackProcess {
	p := TrackProcess{
		Name: name, Argv: []string{"/bin/x" + text(r)}, Weight: number(r, -254, 254), Reverse: coin(r), Quorum: number(r, 0, 9), QuorumMax: -1,
		ForkDelay: duration(r, 0, time.Hour, time.Millisecond), TerminateDelay: duration(r, 0, time.Hour, time.Millisecond),
	}
	matches := []string{"name", "exact", "partial"}
	if coin(r) {
		p.Argv, matches = append(p.Argv, text(r), ""), []string{"exact", "partial", "initial"}
	}
	p.Match = rapid.SampledFrom(matches).Draw(r, "match")
	if coin(r) {
		p.QuorumMax = number(r, p.Quorum, 20)
	}
	return p
}

// randomInstance makes the i-th instance; its number keeps VRIDs and addresses apart.
func randomInstance(r *rapid.T, i int, c *Config) Instance {
	in := Instance{
		Name: fmt.Sprintf("%d%s", i, name(r)), Interface: "eth0", VRID: uint8(i + 1), Version: uint8(number(r, 2, 3)), IPv6: coin(r), Priority: uint8(number(r, 1, 255)), WantMaster: coin(r),
		DownTimerAdverts: number(r, 1, 100), SkipCheckAddr: coin(r), LowerPrioNoAdv: coin(r),
		Announce: Announce{
			duration(r, 0, time.Hour, time.Millisecond), number(r, 1, 255), duration(r, 0, time.Hour, time.Second), number(r, 1, 255), duration(r, 0, time.Hour, time.Millisecond), number(r, 0, 255),
			duration(r, 0, time.Second, time.Microsecond), duration(r, 0, time.Second, time.Microsecond), duration(r, 0, 24*time.Hour, time.Microsecond), coin(r),
		},
		GARPForm:        rapid.SampledFrom(garpForms).Draw(r, "form"),
		TrackInterfaces: []TrackRef{{Name: "eth1", Weight: number(r, -253, 253), Reverse: coin(r)}},
		Notify:          randomNotify(r), Alert: coin(r),
	}
	in.Group = netip.MustParseAddr("224.0.0.77")
	if in.IPv6 {
		in.Version, in.Group = 3, netip.MustParseAddr("ff02::77")
	}
	if in.Version == 2 {
		in.AdvertInterval = duration(r, time.Second, 255*time.Second, time.Second)
		if coin(r) {
			in.AuthPass = rapid.StringMatching(`[ -~]{1,8}`).Draw(r, "password")
		}
	} else {
		in.AdvertInterval = duration(r, 10*time.Millisecond, 40950*time.Millisecond, 10*time.Millisecond)
		in.ChecksumAsV2 = coin(r) && !in.IPv6
	}
	in.NoAccept = coin(r) && in.Priority < 255
	in.NoPreempt = coin(r) && !in.WantMaster && in.Priority < 255
	switch {
	case in.NoPreempt:
		in.LatePriority = uint8(number(r, 0, 254))
	case in.Priority == 255:
		in.IgnoreAdverts = coin(r)
	case !in.WantMaster:
		in.PreemptDelay = duration(r, 0, 1000*time.Second, time.Millisecond)
	}
	if coin(r) && in.AuthPass == "" {
		in.HMAC = HMAC{
			Mode: rapid.SampledFrom([]string{"enforce", "permissive", "receive-only"}).Draw(r, "mode"), Monotonic: coin(r),
			Window: duration(r, time.Second, 300*time.Second, time.Millisecond), Active: 7,
			Keys: []HMACKey{{uint8(number(r, 1, 6)), rapid.StringMatching(`[ -~]{32,64}`).Draw(r, "key")}, {7, string(make([]byte, number(r, 32, 64)))}},
		}
	}
	if coin(r) {
		in.Unicast, in.UnicastTTL = true, uint8(number(r, 1, 255))
		for j := range number(r, 0, 3) {
			p := Peer{netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j + 1)}), uint8(number(r, 0, 100)), uint8(number(r, 100, 255))}
			if in.IPv6 {
				p.Address = netip.MustParseAddr(fmt.Sprintf("fe80::%d", j+1))
			}
			in.Peers = append(in.Peers, p)
		}
		in.CheckUnicastSource = coin(r) || slices.ContainsFunc(in.Peers, Peer.bounded)
	}
	in.UseVMACAddr, in.DontTrackPrimary = coin(r), coin(r)
	if coin(r) {
		in.UseVMAC = randomVMAC(r, i)
		in.XmitBase = in.Unicast || coin(r)
	}
	for j := range number(r, 0, 3) {
		in.VIPs = append(in.VIPs, randomVIP(r, in.IPv6, i, j))
	}
	for j := range number(r, 0, 3) {
		in.Excluded = append(in.Excluded, randomVIP(r, in.IPv6 != (coin(r) && len(in.VIPs) > 0), i, 10+j))
	}
	in.PromoteSecondaries = coin(r)
	for j := range number(r, 0, 3) {
		in.Routes = append(in.Routes, randomRoute(r, 10*i+j))
		in.Rules = append(in.Rules, randomRule(r, 10*i+j))
	}
	for _, s := range c.Scripts {
		in.TrackScripts = append(in.TrackScripts, randomTrack(r, s.Name, 253, s.Reverse))
	}
	for _, f := range c.TrackFiles {
		in.TrackFiles = append(in.TrackFiles, randomTrack(r, f.Name, 254, f.Reverse))
	}
	for _, p := range c.TrackProcesses {
		in.TrackProcesses = append(in.TrackProcesses, randomTrack(r, p.Name, 254, p.Reverse))
	}
	return in
}

// randomTrack is a line about an object whose weight is turned or not.
func randomTrack(r *rapid.T, name string, most int, turned bool) TrackRef {
	t := TrackRef{Name: name, Weight: number(r, -most, most), Reverse: coin(r)}
	t.Straight = turned && !t.Reverse
	return t
}

// randomVMAC is the use_vmac of the i-th instance.
func randomVMAC(r *rapid.T, i int) *UseVMAC {
	u := &UseVMAC{Group: number(r, -1, 1<<31-1), Notify: coin(r)}
	if coin(r) {
		u.Name = rapid.SampledFrom([]string{"group", "name", "netlink_notify_msg", "v\"m"}).Draw(r, "link")
		if i > 0 {
			u.Name = fmt.Sprintf("vm%d", i)
		}
		u.Name = u.Name[:min(len(u.Name), 15)]
	}
	if coin(r) {
		u.MAC = MAC{2, 0, 0, 0, byte(i), byte(number(r, 0, 255))}
	}
	return u
}

func randomVIP(r *rapid.T, ipv6 bool, i, j int) VIP {
	v := VIP{Dev: "eth" + fmt.Sprint(number(r, 0, 2)), Scope: rapid.SampledFrom([]string{"global", "link", "host", "site", "0", "255"}).Draw(r, "scope"), NoPrefixRoute: coin(r), NoTrack: coin(r), UseVMAC: coin(r)}
	if ipv6 && coin(r) {
		v.PreferredLft = uint32(number(r, 1, 1<<31-1))
	} else {
		v.Deprecated = coin(r)
	}
	if ipv6 {
		v.Prefix = netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", i, j+1)), number(r, 1, 128))
		v.Home, v.DAD, v.ManageTemp = coin(r), coin(r), coin(r)
		if coin(r) {
			v.Peer = netip.MustParseAddr("2001:db8:ffff::1")
		}
		return v
	}
	v.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 1}), number(r, 1, 32))
	if coin(r) {
		v.Peer = netip.MustParseAddr("10.255.0.1")
	}
	v.Label = rapid.StringMatching(`[!-~]{0,15}`).Draw(r, "label")
	if coin(r) {
		v.Broadcast = netip.AddrFrom4([4]byte{10, byte(i), 255, 255})
	}
	return v
}

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
