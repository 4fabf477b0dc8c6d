package observe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"vipd/garp"
	"vipd/ipvs"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	vipA = netip.MustParsePrefix("203.0.113.10/32")
	vipB = netip.MustParsePrefix("203.0.113.11/32")
)

// web is an instance of version 2 with two addresses.
func web(change ...func(*Instance)) Instance {
	in := Instance{
		Config: vrrp.Config{
			Name: "WEB", Interface: "eth0", VRID: 51, Version: 2, Priority: 150, AdvertInterval: time.Second, DownTimerAdverts: 3,
			Addresses: []netip.Addr{vipA.Addr(), vipB.Addr()}, Form: packet.FormPlain,
		},
		Set:      host.Set{Addresses: []host.Address{{Prefix: vipA, Dev: "eth0"}, {Prefix: vipB, Dev: "eth0"}}},
		Announce: garp.Instance{Timing: garp.Timing{MasterRepeat: 5, MasterDelay: 5 * time.Second, Refresh: time.Minute, RefreshRepeat: 1, LowerPrioRepeat: 3}},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// on is a host that has the given addresses on eth0, and lo.
func on(prefixes ...netip.Prefix) host.State {
	l := &host.Link{Name: "eth0", Index: 2}
	for _, p := range prefixes {
		l.Addrs = append(l.Addrs, host.Addr{Prefix: p})
	}
	return host.State{Links: map[string]*host.Link{"eth0": l, "lo": {Name: "lo", Index: 1, Loopback: true}}}
}

// advert is one of keepalived with the configuration of web.
func advert(change ...func(*packet.Advert)) *packet.Advert {
	a := &packet.Advert{Version: 2, VRID: 51, Priority: 150, Interval: time.Second, Addrs: []netip.Addr{vipA.Addr(), vipB.Addr()}}
	for _, c := range change {
		c(a)
	}
	return a
}

// is is what the router says of the instance.
func is(state vrrp.State, master string) *router.InstanceStatus {
	s := &router.InstanceStatus{Name: "WEB"}
	s.Status.State, s.Status.Reason = state, "because"
	if master != "" {
		s.Status.MasterAddress = netip.MustParseAddr(master)
	}
	return s
}

func TestJudge(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name  string
		in    Instance
		heard time.Duration // ago; 0: never
		prio  uint8
		host  host.State
		ours  *router.InstanceStatus
		want  string
	}{
		{"both MASTER", web(), time.Second, 150, on(vipA, vipB), is(vrrp.Master, "192.0.2.1"),
			"MASTER true agrees: keepalived is MASTER here, vipd would be MASTER, too (2 of 2 addresses are here, adverts of priority 150)"},
		{"one address is missing", web(), time.Second, 150, on(vipA), is(vrrp.Master, ""),
			"MASTER true agrees: keepalived is MASTER here, vipd would be MASTER, too (1 of 2 addresses are here, adverts of priority 150)"},
		{"neither", web(), 0, 0, on(), is(vrrp.Backup, "192.0.2.2"),
			"BACKUP true agrees: keepalived is not MASTER here, vipd would be BACKUP (master is 192.0.2.2) (0 of 2 addresses are here, no adverts of its own seen)"},
		{"FAULT", web(), 0, 0, on(), is(vrrp.Fault, ""),
			"BACKUP true agrees: keepalived is not MASTER here, vipd would be FAULT (0 of 2 addresses are here, no adverts of its own seen)"},
		{"keepalived alone", web(), time.Second, 150, on(vipA, vipB), is(vrrp.Backup, "192.0.2.2"),
			"MASTER false DIFFERS: keepalived is MASTER here, vipd would be BACKUP (master is 192.0.2.2) (2 of 2 addresses are here, adverts of priority 150)"},
		{"vipd alone, a script counts as good", web(func(in *Instance) { in.Assumed = []string{"vrrp_script chk"} }), 0, 0, on(), is(vrrp.Master, ""),
			"BACKUP false DIFFERS: keepalived is not MASTER here, vipd would be MASTER; not run here and taken for good: vrrp_script chk (0 of 2 addresses are here, no adverts of its own seen)"},
		{"it has resigned", web(), time.Second, 0, on(), is(vrrp.Backup, ""),
			"BACKUP true agrees: keepalived is not MASTER here, vipd would be BACKUP (0 of 2 addresses are here, last advert 1s ago, of priority 0)"},
		{"it has died", web(), 30 * time.Second, 150, on(vipA, vipB), is(vrrp.Master, ""),
			"SILENT false DIFFERS: the addresses are here, but keepalived sends no adverts: it has ended without removing them, or hangs, vipd would be MASTER (2 of 2 addresses are here, last advert 30s ago, of priority 150)"},
		{"an address was left", web(), 30 * time.Second, 150, on(vipA), is(vrrp.Backup, ""),
			"BACKUP true agrees: keepalived is not MASTER here, vipd would be BACKUP (1 of 2 addresses are here, last advert 30s ago, of priority 150)"},
		{"about to add them", web(), time.Second, 150, on(), is(vrrp.Master, ""),
			"UNKNOWN false nothing can be said yet (0 of 2 addresses are here, adverts of priority 150)"},
		{"unicast that leaves elsewhere", web(func(in *Instance) { in.Config.Unicast = true }), 0, 0, on(vipA, vipB), is(vrrp.Master, ""),
			"MASTER true agrees: keepalived is MASTER here, vipd would be MASTER, too (2 of 2 addresses are here, no adverts of its own seen)"},
		{"no addresses, adverts", web(func(in *Instance) { in.Set.Addresses = nil }), time.Second, 150, on(), is(vrrp.Master, ""),
			"MASTER true agrees: keepalived is MASTER here, vipd would be MASTER, too (0 of 0 addresses are here, adverts of priority 150)"},
		{"no addresses, no adverts", web(func(in *Instance) { in.Set.Addresses = nil }), 0, 0, on(), is(vrrp.Backup, ""),
			"BACKUP true agrees: keepalived is not MASTER here, vipd would be BACKUP (0 of 0 addresses are here, no adverts of its own seen)"},
		{"we wait", web(), time.Second, 150, on(vipA, vipB), is(vrrp.Init, ""),
			"UNKNOWN false nothing can be said yet (2 of 2 addresses are here, adverts of priority 150)"},
		{"nothing is known", web(), 0, 0, host.State{}, is(vrrp.Backup, ""),
			"UNKNOWN false nothing can be said yet (the addresses of this machine are not known yet)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &subject{Instance: c.in}
			if c.heard > 0 {
				s.own = sent{now.Add(-c.heard), c.prio}
			}
			j := s.judge(now, c.ours, c.host)
			if got := fmt.Sprintf("%v %v %s (%s)", j.here, j.agrees, j.text, j.detail); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// An address counts wherever keepalived has put it (use_vmac), but on lo, where a
// real server has it on purpose.
func TestAddressElsewhere(t *testing.T) {
	s := on()
	s.Links["vrrp.51"] = &host.Link{Name: "vrrp.51", Addrs: []host.Addr{{Prefix: netip.PrefixFrom(vipA.Addr(), 24)}}}
	s.Links["lo"].Addrs = []host.Addr{{Prefix: vipB}}
	if a, b := at(s, host.Address{Prefix: vipA, Dev: "eth0"}), at(s, host.Address{Prefix: vipB, Dev: "eth0"}); a != "vrrp.51" || b != "" {
		t.Errorf("%v is on %q, %v on %q", vipA, a, vipB, b)
	}
	if b := at(s, host.Address{Prefix: vipB, Dev: "lo"}); b != "lo" {
		t.Errorf("%v, which belongs on lo, is on %q", vipB, b)
	}
}

func TestDifferences(t *testing.T) {
	v3 := func(c *vrrp.Config) { c.Version, c.Form = 3, packet.FormPseudo }
	other := netip.MustParseAddr("203.0.113.99")
	for _, c := range []struct {
		name   string
		config func(*vrrp.Config)
		advert func(*packet.Advert)
		refuse packet.DropReason
		want   []string
	}{
		{"none", func(*vrrp.Config) {}, func(a *packet.Advert) { a.Priority = 99; slices.Reverse(a.Addrs) }, packet.DropNone, nil},
		{"version, interval", func(c *vrrp.Config) { v3(c); c.AdvertInterval = 100 * time.Millisecond }, func(*packet.Advert) {}, packet.DropNone, []string{
			"its adverts are of version 2, vipd's would be of version 3; compare vrrp_version and version",
			"it sends every 1s, vipd would every 100ms; compare advert_int"}},
		{"addresses", func(*vrrp.Config) {}, func(a *packet.Advert) { a.Addrs[1] = other }, packet.DropNone, []string{
			"its adverts list 203.0.113.99, which virtual_ipaddress does not",
			"its adverts do not list 203.0.113.11, which virtual_ipaddress does"}},
		{"password", func(c *vrrp.Config) { c.AuthPass = "s3cret" }, func(a *packet.Advert) { a.SetPassword("another") }, packet.DropNone, []string{
			"its password is not that of this file; compare authentication"}},
		{"same password", func(c *vrrp.Config) { c.AuthPass = "s3cret" }, func(a *packet.Advert) { a.SetPassword("s3cret") }, packet.DropNone, nil},
		{"checksum", v3, func(a *packet.Advert) { a.Version, a.Form = 3, packet.FormPlain }, packet.DropNone, []string{
			"its checksums are of the other form; set v3_checksum_as_v2 = true"}},
		{"signed", func(*vrrp.Config) {}, func(a *packet.Advert) { a.Signed = true }, packet.DropNone, []string{
			"its adverts are signed: true, vipd's would be: false; compare auth_hmac"}},
		{"refused", func(*vrrp.Config) {}, func(*packet.Advert) {}, packet.DropSigned, []string{
			"vipd would refuse its adverts (signed), and it probably vipd's; compare version, authentication and auth_hmac"}},
	} {
		in := web()
		c.config(&in.Config)
		if got := differences(&in.Config, advert(c.advert), c.refuse); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// logged is a logger and what it got, a line an entry with the level's first letter.
func logged() (*zap.Logger, func() []string) {
	core, logs := observer.New(zapcore.InfoLevel)
	return zap.New(core), func() (out []string) {
		for _, e := range logs.TakeAll() {
			out = append(out, e.Level.CapitalString()[:1]+" "+e.Message)
		}
		return out
	}
}

func want(t *testing.T, what string, got []string, lines ...string) {
	t.Helper()
	if !slices.Equal(got, lines) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// TestStory: what the router does is told in the order of the protocol, each
// transition in one line.
func TestStory(t *testing.T) {
	log, lines := logged()
	r := New(log)
	r.Configure([]Instance{web(), web(func(in *Instance) {
		in.Config.Name, in.Config.VRID, in.Config.IPv6 = "SIX", 52, true
		in.Announce.Form = garp.Both
		in.Announce.Timing = garp.Timing{MasterRepeat: 1}
		in.Set.NoAccept = true
		in.Set.Addresses = nil
		for i := range 9 {
			a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i + 1)})
			in.Set.Addresses = append(in.Set.Addresses, host.Address{Prefix: netip.PrefixFrom(a, 128), Dev: "eth1"})
		}
	})})
	r.State(on(vipB))
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Init, To: vrrp.Backup})
	r.Advert("WEB", 150)
	r.Want("WEB", true)
	r.Announce("WEB", vrrp.BurstMaster)
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Backup, To: vrrp.Master})
	r.Transition(router.TransitionEvent{Group: "G", From: vrrp.Backup, To: vrrp.Master})
	r.Advert("WEB", 150)
	r.Announce("WEB", vrrp.BurstLowerPrio)
	r.Announce("WEB", vrrp.BurstLowerPrio)
	r.Stop("WEB")
	r.Want("WEB", false)
	r.Advert("WEB", 150)
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Master, To: vrrp.Backup})
	r.Want("SIX", true)
	r.Announce("SIX", vrrp.BurstMaster)
	r.Transition(router.TransitionEvent{Instance: "SIX", From: vrrp.Backup, To: vrrp.Master})
	r.Advert("SIX", 0)
	r.Want("SIX", false)
	r.Transition(router.TransitionEvent{Instance: "SIX", From: vrrp.Master, To: vrrp.Fault})
	r.Want("WEB", false) // on a dead link, or with a virtual MAC, there is no advert
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Master, To: vrrp.Fault})
	r.Source("SIX", "eth1", netip.MustParseAddr("2001:db8::77"))
	want(t, "the story", lines(),
		"I would go INIT -> BACKUP",
		"I would become MASTER: send an advert, add 203.0.113.10/32 to eth0 (and, there already, 203.0.113.11/32 to eth0), announce 2 addresses by 5 ARP each, again after 5s, then by 1 frame every 1m0s",
		"I sync group would go BACKUP -> MASTER",
		"I would answer a lesser master and announce 2 addresses by 3 ARP each (told once a minute)",
		"I would leave MASTER for BACKUP: remove 203.0.113.11/32 from eth0 (and, not there, 203.0.113.10/32 from eth0), send a last advert",
		"I would become MASTER: send an advert, refuse packets to 2001:db8::1, 2001:db8::2, 2001:db8::3, 2001:db8::4, 2001:db8::5 and 4 more (no_accept), add 2001:db8::1/128 to eth1, 2001:db8::2/128 to eth1, 2001:db8::3/128 to eth1, 2001:db8::4/128 to eth1, 2001:db8::5/128 to eth1 and 4 more, announce 9 addresses by 1 NA each",
		"W would leave MASTER for FAULT: send priority 0, remove 2001:db8::1/128 from eth1, 2001:db8::2/128 from eth1, 2001:db8::3/128 from eth1, 2001:db8::4/128 from eth1, 2001:db8::5/128 from eth1 and 4 more (not there), refuse packets to them no longer",
		"W would leave MASTER for FAULT: remove 203.0.113.11/32 from eth0 (and, not there, 203.0.113.10/32 from eth0)",
		"I would announce the source address 2001:db8::77 on eth1")
	r.Silence()
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Backup, To: vrrp.Init})
	r.Transition(router.TransitionEvent{Group: "G", From: vrrp.Backup, To: vrrp.Init})
	want(t, "after the end", lines())
}

// TestComparison: agreement is told soon and once, a difference when it has lasted
// longer than a takeover may need, and again what has changed.
func TestComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged()
		r := New(log)
		r.Configure([]Instance{web()})
		ours := is(vrrp.Backup, "")
		key := socket.Key{Interface: "eth0", Index: 2, Group: socket.Group4}
		own := netip.MustParseAddr("192.0.2.1")
		speaking := true
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(checkEvery) {
				if speaking {
					r.Sent(key, advert(), own, socket.Group4, packet.DropNone)
				}
				r.check(time.Now(), []router.InstanceStatus{*ours})
			}
		}
		r.State(on(vipA, vipB))
		pass(3 * time.Second)
		want(t, "while we listen", lines())
		ours = is(vrrp.Master, "")
		pass(time.Second)
		want(t, "both MASTER", lines(), "I agrees: keepalived is MASTER here, vipd would be MASTER, too")
		pass(time.Minute)
		want(t, "the same", lines())
		r.Configure([]Instance{web(func(in *Instance) { in.Set.Addresses[0].Dev = "eth1" })})
		r.Configure([]Instance{web(func(in *Instance) { in.Set.Addresses[0].Dev = "eth1" })})
		want(t, "a reload of a MASTER", lines(), "I would add and announce 203.0.113.10/32 dev eth1, remove 203.0.113.10/32 dev eth0")
		r.Configure([]Instance{web()})
		lines()

		r.Sent(key, advert(func(a *packet.Advert) { a.Priority = 0 }), own, socket.Group4, packet.DropNone)
		r.State(on())
		speaking = false
		pass(5 * time.Second)
		want(t, "for as long as a takeover may need", lines())
		pass(2 * time.Second)
		want(t, "after that", lines(), "W DIFFERS: keepalived is not MASTER here, vipd would be MASTER")
		ours = is(vrrp.Backup, "192.0.2.2")
		pass(time.Second)
		want(t, "we gave way, too", lines(), "I agrees: keepalived is not MASTER here, vipd would be BACKUP (master is 192.0.2.2)")

		r.Sent(key, advert(func(a *packet.Advert) { a.Interval = 3 * time.Second }), own, socket.Group4, packet.DropNone)
		r.Sent(key, advert(func(a *packet.Advert) { a.Interval = 3 * time.Second }), own, socket.Group4, packet.DropNone)
		r.Sent(key, advert(), own, socket.Group4, packet.DropNone)
		r.Sent(socket.Key{Interface: "eth1", Group: socket.Group4}, advert(func(a *packet.Advert) { a.Interval = 0 }), own, socket.Group4, packet.DropNone)
		want(t, "another configuration", lines(), "W this file is not what keepalived does: it sends every 3s, vipd would every 1s; compare advert_int",
			"I keepalived's adverts are now as this file would have them")
		if b := r.Beside(time.Now(), ours); b.State != "BACKUP" && b.State != "UNKNOWN" || len(b.Unlike) != 0 {
			t.Errorf("status: %+v", b)
		}
		moved := func(in *Instance) { in.Set.Addresses = in.Set.Addresses[1:]; in.Set.Addresses[0].Dev = "eth1" }
		r.Configure([]Instance{web(moved)}) // of a BACKUP: nothing to do
		r.Configure([]Instance{web()})      // a reload forgets nothing
		pass(time.Minute)
		want(t, "after a reload of the same", lines())
	})
}

// TestTable: the difference is told once, and again when it changes; without IPVS the
// kernel is not even asked, for that would load the module.
func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged()
		key := ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("203.0.113.10:80"))
		server := func(last byte, weight int) ipvs.Destination {
			return ipvs.Destination{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), 80), Method: ipvs.DR, Weight: weight}
		}
		table := func(servers ...ipvs.Destination) ipvs.Table {
			t := ipvs.Table{}
			t.AddService(ipvs.Service{Key: key, Scheduler: "wlc"})
			for _, d := range servers {
				t.AddDestination(key, d)
			}
			return t
		}
		var mu sync.Mutex // guards the kernel of the test
		have, reads, present := ipvs.Table{}, 0, false
		var failed error
		kernel := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		x := NewTable(func() (s ipvs.Snapshot, err error) {
			kernel(func() { reads++; s.Table, err = have, failed })
			return s, err
		}, log)
		x.present = func() (yes bool) { kernel(func() { yes = present }); return yes }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- x.Run(ctx) }()
		pass := func() { time.Sleep(2 * tableEvery); synctest.Wait() }

		pass()
		want(t, "without services", lines())
		x.Configure(func(ipvs.Table) ipvs.Table { return table(server(1, 1)) })
		pass()
		want(t, "without IPVS", lines(), "W this kernel has no IPVS loaded; vipd would have it loaded, and make all services")
		if reads != 0 {
			t.Errorf("the kernel was asked %d times", reads)
		}
		kernel(func() { present = true })
		pass()
		pass()
		const head = "in the IPVS table; no server was checked, those that keepalived has taken out count as down"
		want(t, "an empty table", lines(), "W DIFFERS: vipd would make 2 changes "+head,
			"I would run: ipvsadm -A -t 203.0.113.10:80 -s wlc", "I would run: ipvsadm -a -t 203.0.113.10:80 -r 10.0.0.1:80 -g -w 1")
		kernel(func() { have = table(server(1, 1)) })
		pass()
		want(t, "keepalived has made it", lines(), "I agrees: the IPVS table is as vipd would make it; no server was checked, those that keepalived has taken out count as down")
		kernel(func() { have = table(server(1, 3)) })
		pass()
		want(t, "another weight", lines(), "W DIFFERS: vipd would make 1 change "+head, "I would run: ipvsadm -e -t 203.0.113.10:80 -r 10.0.0.1:80 -g -w 1")
		kernel(func() {
			have = table(server(1, 1))
			have.AddService(ipvs.Service{Key: ipvs.Key{FWMark: 7}, Scheduler: "rr"})
		})
		pass()
		want(t, "of somebody else", lines(), "I agrees: the IPVS table is as vipd would make it; no server was checked, those that keepalived has taken out count as down")
		x.Flush(true)
		pass()
		want(t, "lvs_flush", lines(), "W DIFFERS: vipd would make 1 change "+head, "I would run: ipvsadm -D -f 7")
		kernel(func() { failed = errors.New("no") })
		pass()
		want(t, "an error", lines(), "W the IPVS table could not be read: no")
		x.Configure(nil)
		pass()
		want(t, "no services any more", lines())
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
