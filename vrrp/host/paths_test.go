package host_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/hosttest"
)

// route is a route of the main table through eth0, "DST via ADDRESS [src ADDRESS]".
func route(line string) fib.Want {
	w := strings.Fields(line)
	r := fib.Route{Type: fib.Unicast, Dst: pfx(w[0]), Table: fib.MainTable, Protocol: fib.Protocol, Hops: []fib.Hop{{Dev: "eth0", Weight: 1}}}
	r.Scope = unix.RT_SCOPE_LINK
	for i := 1; i+1 < len(w); i += 2 {
		switch w[i] {
		case "via":
			r.Hops[0].Via, r.Scope = netip.MustParseAddr(w[i+1]), 0
		case "src":
			r.Src = netip.MustParseAddr(w[i+1])
		case "dev":
			r.Hops[0].Dev = w[i+1]
		}
	}
	if r.IPv6() {
		r.Scope = 0
	}
	return fib.Want{Object: fib.Object{Route: &r}}
}

// rule is "from ADDRESS" to table 100.
func rule(from string, priority uint32) fib.Want {
	r := fib.Rule{From: pfx(from), Action: fib.ToTable, Table: 100, Priority: priority, SuppressPrefix: -1, Protocol: fib.Protocol}
	r.IPv6 = r.From.Addr().Is6()
	return fib.Want{Object: fib.Object{Rule: &r}}
}

// withPaths is a set with routes and rules.
func withPaths(name string, vips []string, paths ...fib.Want) host.Set {
	s := set(name, vips...)
	s.Paths = paths
	return s
}

// writesOf returns what was asked of the kernel, without what it refused.
func (r *rig) writesOf() string {
	var out []string
	for _, w := range r.k.Writes() {
		if !strings.Contains(w, ": ") {
			out = append(out, strings.NewReplacer(" dev eth0", "").Replace(w))
		}
	}
	return strings.Join(out, "\n")
}

// Addresses, routes, rules; and the other way round.
func TestPathsComeAfterAddressesAndGoBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32", "10.9.0.101/32"}, route("10.50.0.0/16 via 10.9.0.77 src 10.9.0.100"), route("10.51.0.0/16"), rule("10.9.0.100/32", 7))})
		r.settle()
		expect(t, r.writesOf(), "")
		r.Want("A", true)
		r.settle()
		expect(t, r.writesOf(), `add 10.9.0.100/32
add 10.9.0.101/32
add route 10.50.0.0/16 via 10.9.0.77 src 10.9.0.100
add route 10.51.0.0/16
add rule from 10.9.0.100/32 table 100 priority 7`)
		r.Want("A", false)
		r.settle()
		expect(t, r.writesOf(), `del rule from 10.9.0.100/32 table 100 priority 7
del route 10.51.0.0/16
del route 10.50.0.0/16 via 10.9.0.77 src 10.9.0.100
del 10.9.0.101/32
del 10.9.0.100/32`)
		r.Want("A", true)
		r.settle()
		must(t, r.Release())
		expect(t, r.k.Paths(), "")
		expect(t, r.addresses(), baseOnly)
	})
}

// A thousand routes of one instance do not keep another's address waiting.
func TestManyPathsLetAddressesPass(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var many []fib.Want
		for i := range 1000 {
			many = append(many, route(fmt.Sprintf("10.%d.%d.0/24 via 10.9.0.77", 100+i/256, i%256)))
		}
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, many...), set("B", "10.9.0.200/32")})
		r.settle()
		writes := 0
		r.k.OnChange(func() {
			if writes++; writes == 20 {
				r.Want("B", true)
			}
		})
		r.k.Writes()
		r.Want("A", true)
		r.settle()
		all := r.k.Writes()
		for i, w := range all {
			if strings.HasPrefix(w, "add 10.9.0.200/32") && i > 80 {
				t.Errorf("B's address came at place %d of %d", i, len(all))
			}
		}
		if n := strings.Count(r.k.Paths(), "\n"); n != 1000 || !r.k.Has("eth0", pfx("10.9.0.200/32")) {
			t.Errorf("there are %d routes", n)
		}
	})
}

// A route taken away is put back, and a fourth time it is a fight. What the kernel took
// away with an address or a link is none.
func TestPathRepairAndFight(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		dropped := route("10.52.0.0/16 via 10.9.0.77")
		dropped.NoTrack = true
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77 src 10.9.0.100"), dropped, rule("10.9.0.100/32", 7))})
		r.Want("A", true)
		r.settle()
		all := r.k.Paths()
		for range 5 { // no fight
			must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
			r.settle()
			expect(t, sortLines(r.k.Paths()), sortLines(all))
			r.j.take()
			time.Sleep(4 * time.Second)
		}
		for range 5 {
			must(t, r.k.SetLink("eth0", false, true))
			r.settle()
			must(t, r.k.SetLink("eth0", true, true))
			time.Sleep(2 * time.Second)
		}
		if got := r.j.take(); strings.Contains(got, "fought") {
			t.Errorf("a link that flaps is a fight: %s", got)
		}
		if strings.Count(r.k.Paths(), "\n") != 3 {
			t.Errorf("after flaps there is:\n%s", r.k.Paths())
		}
		must(t, r.k.DelPath("10.52.0.0/16 via 10.9.0.77 dev eth0"))
		r.settle()
		if strings.Contains(r.k.Paths(), "10.52.") {
			t.Error("a route with no_track came back")
		}
		for i := range 4 {
			must(t, r.k.DelPath("10.50.0.0/16 via 10.9.0.77 dev eth0 src 10.9.0.100"))
			r.settle()
			if back := strings.Contains(r.k.Paths(), "10.50."); back != (i < 3) {
				t.Fatalf("after loss %d the route is back: %v", i+1, back)
			}
		}
		expect(t, r.j.take(), "fought route A 10.50.0.0/16 via 10.9.0.77 dev eth0 src 10.9.0.100")
		r.Want("A", false)
		r.Want("A", true)
		r.settle()
		if strings.Count(r.k.Paths(), "\n") != 3 {
			t.Errorf("a new term does not begin anew:\n%s", r.k.Paths())
		}
	})
}

// A reload changes what differs, the new first.
func TestPathsReconfigured(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		same := []fib.Want{route("10.50.0.0/16 via 10.9.0.77"), route("2001:db8:50::/48 via fe80::77")}
		metric := route("2001:db8:51::/48 via fe80::77")
		metric.Route.Metrics = []fib.Metric{{ID: 2, Value: 1400}}
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, append(same, route("10.51.0.0/16 via 10.9.0.77"), route("2001:db8:51::/48 via fe80::77"))...)})
		r.Want("A", true)
		r.settle()
		r.k.Writes()
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, append(same, route("10.51.0.0/16 via 10.9.0.78"), metric)...)})
		r.settle()
		expect(t, r.writesOf(), `add route 10.51.0.0/16 via 10.9.0.78
del route 2001:db8:51::/48 via fe80::77
add route 2001:db8:51::/48 via fe80::77 mtu 1400
del route 10.51.0.0/16 via 10.9.0.77`)
		if n := strings.Count(r.k.Paths(), "\n"); n != 4 {
			t.Errorf("%d routes:\n%s", n, r.k.Paths())
		}
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.settle()
		expect(t, r.k.Paths(), "")
	})
}

// A reload takes an IPv6 address and the route from it: the kernel keeps the route
// without its source, and it must go all the same.
func TestPathWithoutItsSource(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		with := withPaths("A", []string{"10.9.0.100/32", "2001:db8::5/128"}, route("2001:db8:50::/48 via fe80::77 src 2001:db8::5"))
		r.Configure([]host.Set{with})
		r.Want("A", true)
		r.settle()
		all := r.k.Paths()
		for range 2 {
			must(t, r.k.Del("eth0", pfx("2001:db8::5/128")))
			r.settle()
			expect(t, r.k.Paths(), all)
			r.Configure([]host.Set{set("A", "10.9.0.100/32")})
			r.settle()
			expect(t, r.k.Paths(), "")
			r.Configure([]host.Set{with})
			r.settle()
			expect(t, r.k.Paths(), all)
		}
	})
}

// What others have stays, whatever ours is like.
func TestPathsOfOthersStay(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		foreign := func(w fib.Want) {
			o := *w.Route
			o.Protocol = 4
			must(t, r.k.AddPath(fib.Object{Route: &o}))
		}
		foreign(route("10.50.0.0/16 via 10.9.0.77"))
		foreign(route("10.51.0.0/16 via 10.9.0.78"))
		foreign(route("2001:db8:50::/48 via fe80::77"))
		foreign(route("2001:db8:51::/48 via fe80::78"))
		before := r.k.Paths()
		equal := route("10.52.0.0/16 via 10.9.0.77")
		equal.Route.Protocol = 4
		foreign(equal)
		before += "route 10.52.0.0/16 via 10.9.0.77 dev eth0 proto 4\n"
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77"), route("10.51.0.0/16 via 10.9.0.77"),
			route("2001:db8:50::/48 via fe80::77"), route("2001:db8:51::/48 via fe80::77"), equal)})
		r.Want("A", true)
		time.Sleep(3 * time.Second)
		for _, s := range r.PathStatus("A") {
			if !s.Present {
				t.Errorf("%s is not there: %s", s.Object, s.Problem)
			}
		}
		r.Want("A", false)
		r.settle()
		expect(t, sortLines(r.k.Paths()), sortLines(before))
	})
}

func sortLines(s string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(s), "\n"))), "\n")
}

// A route that cannot be added is told, tried again, and there as soon as it can be.
func TestPathThatCannotBeYet(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 198.51.100.9"), route("10.51.0.0/16 dev eth7"), route("10.52.0.0/16 src 203.0.113.1"))})
		r.Want("A", true)
		time.Sleep(10 * time.Second)
		want := []string{"unreachable", "eth7, which does not exist", "waits for the address 203.0.113.1"}
		for i, s := range r.PathStatus("A") {
			if s.Present || !strings.Contains(s.Problem, want[i]) {
				t.Errorf("%s: there: %v, %q; want %q", s.Object, s.Present, s.Problem, want[i])
			}
		}
		if n := len(r.k.Writes()); n > 30 {
			t.Errorf("%d attempts in 10 s", n)
		}
		must(t, r.k.Add("eth0", foreign("198.51.100.1/24")))
		r.k.NewLink("eth7")
		must(t, r.k.Add("eth1", foreign("203.0.113.1/32")))
		r.settle()
		if n := strings.Count(r.k.Paths(), "\n"); n != 3 {
			t.Errorf("%d routes are there:\n%s", n, r.k.Paths())
		}
	})
}

// Static objects are there in every state, and whoever needs them hears when they cannot
// be.
func TestStatics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		need := route("10.70.0.0/16 dev eth1")
		need.Group = "G"
		static := host.Set{Static: true, Addresses: []host.Address{{Prefix: pfx("10.20.0.1/24"), Dev: "eth1", Group: "G"}}, Paths: []fib.Want{need}}
		r.Configure([]host.Set{static, set("A", "10.9.0.100/32")})
		r.settle()
		expect(t, r.addresses(), "ip addr add 10.20.0.1/24 dev eth1 proto 113\n"+baseOnly)
		expect(t, r.k.Paths(), "route 10.70.0.0/16 dev eth1\n")
		expect(t, r.j.missing(), "")
		r.Want("A", true)
		r.Want("A", false)
		must(t, r.k.Del("eth1", pfx("10.20.0.1/24")))
		must(t, r.k.DelPath("10.70.0.0/16 dev eth1"))
		r.settle()
		expect(t, r.k.Paths(), "route 10.70.0.0/16 dev eth1\n")
		expect(t, r.j.missing(), "") // it was repaired
		must(t, r.k.SetLink("eth1", false, true))
		r.settle()
		expect(t, r.j.missing(), "G route 10.70.0.0/16 dev eth1: waits for interface eth1, which is down")
		must(t, r.k.SetLink("eth1", true, true))
		r.settle()
		expect(t, r.j.missing(), "")
		for range 3 { // with the one above
			must(t, r.k.Del("eth1", pfx("10.20.0.1/24")))
			r.settle()
		}
		expect(t, r.j.missing(), "G address 10.20.0.1/24 dev eth1: others remove it again and again: find out who")
		time.Sleep(31 * time.Second)
		expect(t, r.j.missing(), "")
		expect(t, r.addresses(), "ip addr add 10.20.0.1/24 dev eth1 proto 113\n"+baseOnly)
		must(t, r.Release())
		expect(t, r.addresses(), baseOnly)
		expect(t, r.k.Paths(), "")
	})
}

// A crash leaves everything; the next start removes what is not wanted, by its state
// file or, when that is lost, by the mark.
func TestSweepPaths(t *testing.T) {
	for name, c := range map[string]struct {
		lose  bool
		again []host.Set
		left  string
	}{
		"the same":           {false, []host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77"), rule("10.9.0.100/32", 7))}, ""},
		"not configured":     {false, nil, ""},
		"state file lost":    {true, []host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77"), rule("10.9.0.100/32", 7))}, ""},
		"lost, unconfigured": {true, nil, "route 10.50.0.0/16 via 10.9.0.77 dev eth0\nrule from 10.9.0.100/32 table 100 priority 7\n"},
		"static now": {false, []host.Set{{Static: true, Paths: []fib.Want{route("10.50.0.0/16 via 10.9.0.77")}}},
			"route 10.50.0.0/16 via 10.9.0.77 dev eth0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.Configure([]host.Set{withPaths("A", []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77"), rule("10.9.0.100/32", 7))})
				r.Want("A", true)
				r.settle()
				r.stop()
				if c.lose {
					r.file += "-other"
				}
				other := route("10.50.0.0/16 via 10.9.0.78")
				other.Route.Protocol = 4
				must(t, r.k.AddPath(other.Object))
				r.start()
				r.Configure(c.again)
				_, found, err := r.Sweep()
				must(t, err)
				expect(t, strings.Replace(r.k.Paths(), "route 10.50.0.0/16 via 10.9.0.78 dev eth0 proto 4\n", "", 1), c.left)
				for _, l := range found {
					if !l.Removed || !strings.Contains(l.String(), "removed r") {
						t.Errorf("found %s", l)
					}
				}
				r.run()
				must(t, r.Release())
				if c.again != nil && strings.Contains(r.k.Paths(), "10.9.0.77") {
					t.Errorf("after the release:\n%s", r.k.Paths())
				}
			})
		})
	}
}

// One that others are in the way of does not keep what a reload replaced elsewhere, and is not tried without pause.
func TestReplacedBesideOneOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{withPaths("A", nil, route("10.51.0.0/16 via 10.9.0.77"))})
		r.Want("A", true)
		r.settle()
		others := route("10.50.0.0/16 via 10.9.0.77")
		others.Route.Protocol = unix.RTPROT_STATIC
		must(t, r.k.AddPath(others.Object))
		r.settle()
		r.k.Writes()
		mine := route("10.50.0.0/16 via 10.9.0.78")
		mine.Route.Place = fib.Alone
		line := mine.Route.String()
		r.k.FailPath(hosttest.OpAdd, line, 20, unix.EEXIST)
		r.k.FailPath(hosttest.OpAdd, line, 1000, unix.EIO) // trying without pause ends here
		r.Configure([]host.Set{withPaths("A", nil, mine, route("10.51.0.0/16 via 10.9.0.79"))})
		r.settle()
		var done []string
		tries := 0
		for _, w := range r.k.Writes() {
			if strings.Contains(w, line) {
				tries++
			} else {
				done = append(done, w)
			}
		}
		expect(t, strings.Join(done, "\n"), `add route 10.51.0.0/16 via 10.9.0.79 dev eth0
del route 10.51.0.0/16 via 10.9.0.77 dev eth0`)
		if tries > 3 {
			t.Errorf("what others are in the way of was tried %d times in 100 ms", tries)
		}
	})
}
