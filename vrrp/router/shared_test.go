package router

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

var (
	groupB = netip.MustParseAddr("224.0.0.77")
	vipB   = netip.MustParseAddr("10.9.0.101")
)

// other makes an instance VI_2, with the VRID of VI_1 and an address of its own.
func other(in *Instance) { in.Name, in.Addresses = "VI_2", []netip.Addr{vipB} }

// inGroup has an instance speak to the second group.
func inGroup(in *Instance) { in.Group = groupB }

// states are those of VI_1 and VI_2 on a node.
func states(d *node) string {
	return d.status("VI_1").Status.State.String() + " " + d.status("VI_2").Status.State.String()
}

// undisturbed checks that all that nodes heard was for them.
func undisturbed(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, d := range nodes {
		for _, s := range d.router.Status() {
			if len(s.Drops) > 0 || s.Unproven != nil || s.Foreign.IsValid() {
				t.Errorf("%s, %s: dropped %v, doubts %v, foreign %v", d.name, s.Name, s.Drops, s.Unproven, s.Foreign)
			}
		}
		if len(d.drops) > 0 || len(d.notes) > 0 || d.router.Strays() != 0 {
			t.Errorf("%s: drops %v, notes %v, %d strays", d.name, d.drops, d.notes, d.router.Strays())
		}
	}
}

// TestOneVRIDInTwoWays: two virtual routers of one VRID on one interface, each with a
// master of its own, which the other director follows; told apart by the group, by the
// peers, by the source, or by the way they speak, with other keys too.
func TestOneVRIDInTwoWays(t *testing.T) {
	sign := func(key byte) func(*Instance) { return signing(vrrp.AuthEnforce, key) }
	none := func(*Instance) {}
	from := func(s1, s2 string, peers ...string) func(string) func(*Instance) {
		return func(node string) func(*Instance) {
			return func(in *Instance) {
				unicastTo(peers...)(in)
				in.Source = netip.MustParseAddr(map[string]string{"d1": s1, "d2": s2}[node])
			}
		}
	}
	group := func(f func(*Instance)) func(string) func(*Instance) {
		return func(string) func(*Instance) { return f }
	}
	for name, how := range map[string]struct {
		one, two func(node string) func(*Instance)
		keys     [2]func(*Instance)
	}{
		"groups":              {group(none), group(inGroup), [2]func(*Instance){none, none}},
		"groups, keys":        {group(none), group(inGroup), [2]func(*Instance){sign(7), sign(8)}},
		"groups, one key":     {group(none), group(inGroup), [2]func(*Instance){none, sign(8)}},
		"ways":                {group(none), from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), [2]func(*Instance){none, none}},
		"ways, keys":          {group(none), from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), [2]func(*Instance){sign(7), sign(8)}},
		"ways, one key":       {group(none), from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), [2]func(*Instance){none, sign(8)}},
		"sources":             {from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), from("10.9.0.11", "10.9.0.12", "10.9.0.11", "10.9.0.12"), [2]func(*Instance){none, none}},
		"crossed, keys":       {from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), from("10.9.0.1", "10.9.0.12", "10.9.0.1", "10.9.0.12"), [2]func(*Instance){sign(7), sign(8)}},
		"crossed, second key": {from("10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2"), from("10.9.0.1", "10.9.0.12", "10.9.0.1", "10.9.0.12"), [2]func(*Instance){none, sign(8)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				boot := func(name string, p1, p2 uint8, addrs ...string) *node {
					d := n.boot(name, config(p1, how.one(name), how.keys[0]), config(p2, how.two(name), how.keys[1], other))
					d.setLinks(map[string]Link{"eth0": link(2, addrs...)})
					return d
				}
				d1 := boot("d1", 200, 100, "10.9.0.1", "10.9.0.11")
				d2 := boot("d2", 100, 200, "10.9.0.2", "10.9.0.12")
				n.run(10 * time.Second)
				if one, two := states(d1), states(d2); one != "MASTER BACKUP" || two != "BACKUP MASTER" {
					t.Fatalf("d1 %s, d2 %s", one, two)
				}
				undisturbed(t, d1, d2)
				heard := d2.status("VI_1").Received
				d1.crash()
				n.run(10 * time.Second)
				if two := states(d2); two != "MASTER MASTER" || heard < 5 || d2.status("VI_2").Received != 0 {
					t.Errorf("after the crash d2 is %s, VI_1 heard %d, VI_2 %d", two, heard, d2.status("VI_2").Received)
				}
				undisturbed(t, d2)
			})
		})
	}
}

// TestOneVRIDWithOtherPeers: three directors; the one in the middle has two virtual
// routers of one VRID and from one address, each with another of the others.
func TestOneVRIDWithOtherPeers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(150, unicastTo("10.9.0.2"), signing(vrrp.AuthEnforce, 7)), config(150, unicastTo("10.9.0.3"), other))
		d2 := n.add("d2", "10.9.0.2", config(200, unicastTo("10.9.0.1"), signing(vrrp.AuthEnforce, 7)))
		d3 := n.add("d3", "10.9.0.3", config(100, unicastTo("10.9.0.1"), other))
		n.run(10 * time.Second)
		if got := states(d1); got != "BACKUP MASTER" || d2.state() != vrrp.Master || d3.status("VI_2").Status.State != vrrp.Backup {
			t.Errorf("d1 %s, d2 %v, d3 %v", got, d2.state(), d3.status("VI_2").Status.State)
		}
		undisturbed(t, d1, d2, d3)
		// A stranger is refused once, by the first; with check_unicast_src off, heard by the one that hears anybody.
		say := func() {
			d1.router.Deliver(&socket.Received{
				Advert: packet.Advert{Version: 3, VRID: 51, Priority: 250, Interval: time.Second, Addrs: []netip.Addr{vipB}},
				Src:    netip.MustParseAddr("10.9.0.9"), Dst: netip.MustParseAddr("10.9.0.1"), TTL: 255, Unicast: true, At: time.Now(),
			})
			n.run(time.Millisecond)
		}
		say()
		one, two := d1.status("VI_1"), d1.status("VI_2")
		if one.Drops[packet.DropNotPeer] != 1 || len(two.Drops) != 0 || two.Received != 0 {
			t.Errorf("VI_1 dropped %v; VI_2 dropped %v, heard %d", one.Drops, two.Drops, two.Received)
		}
		d1.apply(config(150, unicastTo("10.9.0.2"), signing(vrrp.AuthEnforce, 7)),
			config(150, unicastTo("10.9.0.3"), other, func(in *Instance) { in.AnySource = true }))
		say()
		if got := d1.status("VI_2"); got.Status.State != vrrp.Backup || got.Received != 1 {
			t.Errorf("VI_2 is %v and heard %d", got.Status.State, got.Received)
		}
	})
}

// TestSharedVRIDsReload: who is who is known by what peers see, then by name.
func TestSharedVRIDsReload(t *testing.T) {
	named := func(name string) func(*Instance) { return func(in *Instance) { in.Name = name } }
	third := func(in *Instance) { in.Group = netip.MustParseAddr("224.0.0.78") }
	both := []Instance{config(200), config(200, other, inGroup)}
	for name, c := range map[string]struct {
		before, after []Instance
		given         string // names of those that end
	}{
		"nothing":           {both, both, ""},
		"another beside it": {both[:1], both, ""},
		"one goes":          {both, both[:1], "VI_2"},
		"the other goes":    {both, both[1:], "VI_1"},
		"a group changes":   {both, []Instance{config(200), config(200, other, third)}, ""},
		"names are swapped": {both, []Instance{config(200, named("VI_2")), config(200, other, inGroup, named("VI_1"))}, ""},
		"one is named anew": {both, []Instance{config(200), config(200, other, inGroup, named("VI_3"))}, ""},
		"one becomes two":   {both[:1], []Instance{config(200, named("VI_3"), inGroup), config(200, other, third)}, "VI_1"},
		"unicast comes":     {both[:1], []Instance{config(200, named("VI_3")), config(200, unicastTo("10.9.0.2"), named("VI_1"))}, ""},
		"unicast instead":   {both[:1], []Instance{config(200, unicastTo("10.9.0.2"))}, ""},
		"peers are swapped": {
			[]Instance{config(200, unicastTo("10.9.0.2")), config(200, other, unicastTo("10.9.0.3"))},
			[]Instance{config(200, unicastTo("10.9.0.3")), config(200, other, unicastTo("10.9.0.2"))}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", c.before...)
				n.run(10 * time.Second)
				d1.take()
				d1.apply(c.after...)
				var ended []string
				for _, e := range d1.take() {
					if name, is := strings.CutSuffix(e.text, " MASTER -> INIT: shut down"); is {
						ended = append(ended, name)
					}
				}
				if got := strings.Join(ended, " "); got != c.given {
					t.Errorf("%q ended, want %q", got, c.given)
				}
				n.run(10 * time.Second)
				for _, s := range d1.router.Status() {
					if s.Status.State != vrrp.Master {
						t.Errorf("%s is %v", s.Name, s.Status.State)
					}
				}
			})
		})
	}
}

// TestVRIDsThatClash cannot be told apart, and are refused; what can be is not.
func TestVRIDsThatClash(t *testing.T) {
	from := func(src string) func(*Instance) {
		return func(in *Instance) { in.Source = netip.MustParseAddr(src) }
	}
	on := func(iface string) func(*Instance) { return func(in *Instance) { in.Interface = iface } }
	six := func(in *Instance) { in.IPv6 = true }
	to := unicastTo
	for name, c := range map[string]struct {
		a, b  []func(*Instance)
		clash bool
	}{
		"one group":                {nil, nil, true},
		"two versions":             {nil, []func(*Instance){func(in *Instance) { in.Version = 2 }}, true},
		"two sources by multicast": {[]func(*Instance){from("10.9.0.1")}, []func(*Instance){from("10.9.0.5")}, true},
		"a virtual MAC":            {nil, []func(*Instance){func(in *Instance) { in.VMAC = "vrrp.51" }}, true},
		"two groups":               {nil, []func(*Instance){inGroup}, false},
		"two interfaces":           {nil, []func(*Instance){on("eth1")}, false},
		"two ways":                 {nil, []func(*Instance){to("10.9.0.2")}, false},
		"a common peer":            {[]func(*Instance){to("10.9.0.2", "10.9.0.3")}, []func(*Instance){to("10.9.0.3", "10.9.0.4")}, true},
		"other peers":              {[]func(*Instance){to("10.9.0.2")}, []func(*Instance){to("10.9.0.3")}, false},
		"a common peer, a source":  {[]func(*Instance){to("10.9.0.2")}, []func(*Instance){to("10.9.0.2"), from("10.9.0.5")}, true},
		"a common peer, sources":   {[]func(*Instance){to("10.9.0.2"), from("10.9.0.1")}, []func(*Instance){to("10.9.0.2"), from("10.9.0.5")}, false},
		"this machine is no peer": {
			[]func(*Instance){to("10.9.0.1", "10.9.0.2"), from("10.9.0.1")}, []func(*Instance){to("10.9.0.1", "10.9.0.3"), from("10.9.0.1")}, false,
		},
		"one source, two interfaces": {
			[]func(*Instance){to("10.9.0.2"), from("10.9.0.1")}, []func(*Instance){to("10.9.0.2"), from("10.9.0.1"), on("eth1")}, true,
		},
		"one source, without interface": {
			[]func(*Instance){to("10.9.0.2"), from("10.9.0.1")}, []func(*Instance){to("10.9.0.2"), from("10.9.0.1"), on("")}, true,
		},
		"link-local, two interfaces": {
			[]func(*Instance){six, to("fe80::2"), from("fe80::1")}, []func(*Instance){six, to("fe80::2"), from("fe80::1"), on("eth1")}, false,
		},
	} {
		a, b := config(200, c.a...), config(100, append(c.b, other)...)
		for _, list := range [][]Instance{{a, b}, {b, a}} {
			if err := check(list); (err != nil) != c.clash {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
