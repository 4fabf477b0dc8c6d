package conf

import (
	"fmt"
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
