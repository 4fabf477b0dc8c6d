package host_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/hosttest"
)

// TestTablesConformance holds routes and rules of the in-memory kernel against the real
// one.
func TestTablesConformance(t *testing.T) {
	benches := map[string]func(*testing.T) bench{
		"memory": func(*testing.T) bench { return fakeBench{hosttest.New()} },
		"linux":  func(t *testing.T) bench { return newReal(t) },
	}
	cases := map[string]func(*testing.T, bench){
		"routes":       conformRoutes,
		"merged":       conformMerged,
		"refused":      conformRefused,
		"address gone": conformAddressGone,
		"link gone":    conformLinkGone,
		"rules":        conformRules,
	}
	for kind, open := range benches {
		for name, test := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				b := open(t)
				for _, dev := range []string{"tst0", "tst1"} {
					b.newLink(t, dev)
				}
				must(t, b.AddAddress(index(t, b, "tst0"), addr("10.1.0.1/24")))
				must(t, b.AddAddress(index(t, b, "tst0"), addr("2001:db8:1::1/64")))
				must(t, b.AddAddress(index(t, b, "tst1"), addr("10.2.0.1/24")))
				test(t, b)
			})
		}
	}
}

// tbl keeps these tests out of each other's way, and out of the main table.
const tbl = 4711

// via is a route to a network.
func via(dst string, hops ...fib.Hop) fib.Route {
	r := fib.Route{Type: fib.Unicast, Dst: pfx(dst), Table: tbl, Protocol: fib.Protocol, Hops: hops}
	gateway := slices.ContainsFunc(hops, func(h fib.Hop) bool { return h.Via.IsValid() })
	if !gateway && !r.IPv6() {
		r.Scope = unix.RT_SCOPE_LINK
	}
	return r
}

// hop is "ADDRESS DEV", each of which may be "-".
func hop(s string) fib.Hop {
	h := fib.Hop{Weight: 1}
	gw, dev, _ := strings.Cut(s, " ")
	if gw != "-" {
		h.Via = netip.MustParseAddr(gw)
	}
	if dev != "-" {
		h.Dev = dev
	}
	return h
}

// indexed fills in the indexes of interfaces.
func indexed(t *testing.T, k host.Kernel, r fib.Route) fib.Object {
	t.Helper()
	r.Hops = slices.Clone(r.Hops)
	for i := range r.Hops {
		if r.Hops[i].Dev != "" {
			r.Hops[i].Index = index(t, k, r.Hops[i].Dev)
		}
	}
	return fib.Object{Route: &r}
}

// paths prints the routes of the table and the rules that lead there, in the kernel's order.
func paths(t *testing.T, b bench) string {
	t.Helper()
	b.Tables([]fib.Query{{Table: tbl}, {Table: tbl, IPv6: true}})
	s, err := b.State()
	must(t, err)
	if s.FIB == nil {
		t.Fatal("the routes could not be read")
	}
	var lines []string
	for _, r := range s.FIB.Routes {
		lines = append(lines, r.String())
	}
	slices.SortStableFunc(lines, func(a, b string) int { // by destination
		return strings.Compare(strings.Fields(strings.TrimPrefix(a, "unreachable "))[0], strings.Fields(strings.TrimPrefix(b, "unreachable "))[0])
	})
	for _, r := range s.FIB.Rules {
		if r.Table == tbl || r.Protocol == fib.Protocol {
			lines = append(lines, r.String())
		}
	}
	return strings.Join(lines, "\n")
}

func conformRoutes(t *testing.T, b bench) {
	full := via("10.8.0.0/16", hop("10.1.0.9 tst0"))
	full.Metric, full.TOS, full.Src, full.Protocol = 7, 0x10, netip.MustParseAddr("10.1.0.1"), 42
	full.Metrics = []fib.Metric{{ID: 2, Value: 1400, Lock: true}, {ID: 8, Value: 1300}, {ID: 11, Value: 20}}
	multi := via("10.9.0.0/16", hop("10.1.0.9 tst0"), hop("10.2.0.9 tst1"))
	multi.Hops[1].Weight = 5
	onlink := via("10.10.0.0/16", hop("192.0.2.1 tst0"))
	onlink.Hops[0].OnLink = true
	black := fib.Route{Type: fib.Unreachable, Dst: pfx("10.11.0.0/16"), Table: tbl, Protocol: fib.Protocol}
	six := via("2001:db8:8::/48", hop("fe80::9 tst0"))
	six.Src = netip.MustParseAddr("2001:db8:1::1")
	six.Metrics = []fib.Metric{{ID: 2, Value: 1400}}
	multi6 := via("2001:db8:9::/48", hop("fe80::9 tst0"), hop("fe80::8 tst1"))
	black6 := fib.Route{Type: fib.Unreachable, Dst: pfx("2001:db8:a::/48"), Table: tbl, Protocol: fib.Protocol, Metric: 5}
	viaSix := via("10.12.0.0/16", hop("fe80::9 tst0"))
	all := []fib.Route{
		via("0.0.0.0/0", hop("10.1.0.254 tst0")), via("10.7.0.0/16", hop("10.1.0.254 -")), full, multi, onlink, black, viaSix, via("10.13.0.0/16", hop("- tst1")),
		via("::/0", hop("fe80::1 tst0")), six, multi6, black6,
	}
	for _, r := range all {
		must(t, b.AddObject(indexed(t, b, r)))
		wantErr(t, b.AddObject(indexed(t, b, r)), unix.EEXIST, "a second "+r.String())
	}
	expect(t, paths(t, b), `0.0.0.0/0 via 10.1.0.254 dev tst0 table 4711
10.10.0.0/16 via 192.0.2.1 dev tst0 onlink table 4711
unreachable 10.11.0.0/16 table 4711
10.12.0.0/16 via inet6 fe80::9 dev tst0 table 4711
10.13.0.0/16 dev tst1 table 4711
10.7.0.0/16 via 10.1.0.254 dev tst0 table 4711
10.8.0.0/16 via 10.1.0.9 dev tst0 table 4711 metric 7 tos 0x10 src 10.1.0.1 proto 42 mtu lock 1400 advmss 1300 initcwnd 20
10.9.0.0/16 table 4711 nexthop via 10.1.0.9 dev tst0 weight 1 nexthop via 10.2.0.9 dev tst1 weight 5
2001:db8:8::/48 via fe80::9 dev tst0 table 4711 metric 1024 src 2001:db8:1::1 mtu 1400
2001:db8:9::/48 table 4711 metric 1024 nexthop via fe80::9 dev tst0 weight 1 nexthop via fe80::8 dev tst1 weight 1
unreachable 2001:db8:a::/48 table 4711 metric 5
::/0 via fe80::1 dev tst0 table 4711 metric 1024`)
	for _, r := range all {
		must(t, b.DelObject(indexed(t, b, r)))
		wantErr(t, b.DelObject(indexed(t, b, r)), unix.ESRCH, "removing a missing "+r.String())
	}
	expect(t, paths(t, b), "")
}

func conformMerged(t *testing.T, b bench) {
	first, second, third := via("10.7.0.0/16", hop("10.1.0.1 tst0")), via("10.7.0.0/16", hop("10.1.0.9 tst0")), via("10.7.0.0/16", hop("10.1.0.8 tst0"))
	first = via("10.7.0.0/16", hop("10.2.0.9 tst1"))
	first.Protocol = 3
	must(t, b.AddObject(indexed(t, b, first)))
	must(t, b.AddObject(indexed(t, b, second)))
	third.Place = fib.Append
	must(t, b.AddObject(indexed(t, b, third)))
	alone := via("10.7.0.0/16", hop("10.1.0.7 tst0"))
	alone.Place = fib.Alone
	wantErr(t, b.AddObject(indexed(t, b, alone)), unix.EEXIST, "one that would be alone")
	expect(t, paths(t, b), `10.7.0.0/16 via 10.1.0.9 dev tst0 table 4711
10.7.0.0/16 via 10.2.0.9 dev tst1 table 4711 proto 3
10.7.0.0/16 via 10.1.0.8 dev tst0 table 4711`)
	same := first
	same.Protocol = fib.Protocol
	must(t, b.AddObject(indexed(t, b, same)))
	must(t, b.DelObject(indexed(t, b, same)))
	must(t, b.DelObject(indexed(t, b, second)))
	expect(t, paths(t, b), `10.7.0.0/16 via 10.2.0.9 dev tst1 table 4711 proto 3
10.7.0.0/16 via 10.1.0.8 dev tst0 table 4711`)
	// IPv6 has one route for a destination and metric.
	foreign, ours := via("2001:db8:8::/48", hop("fe80::1 tst0")), via("2001:db8:8::/48", hop("fe80::2 tst0"))
	foreign.Protocol = 3
	must(t, b.AddObject(indexed(t, b, foreign)))
	must(t, b.AddObject(indexed(t, b, ours)))
	equal := foreign
	equal.Protocol = fib.Protocol
	wantErr(t, b.AddObject(indexed(t, b, equal)), unix.EEXIST, "the same next hop")
	expect(t, strings.Join(strings.Split(paths(t, b), "\n")[2:], "\n"),
		"2001:db8:8::/48 table 4711 metric 1024 proto 3 nexthop via fe80::1 dev tst0 weight 1 nexthop via fe80::2 dev tst0 weight 1")
	must(t, b.DelObject(indexed(t, b, ours)))
	expect(t, strings.Join(strings.Split(paths(t, b), "\n")[2:], "\n"), "2001:db8:8::/48 via fe80::1 dev tst0 table 4711 metric 1024 proto 3")
}

func conformRefused(t *testing.T, b bench) {
	wantErr(t, b.AddObject(indexed(t, b, via("10.7.0.0/16", hop("192.0.2.9 tst0")))), unix.ENETUNREACH, "a gateway that cannot be reached")
	wantErr(t, b.AddObject(indexed(t, b, via("2001:db8:8::/48", hop("2001:db8:77::1 tst0")))), unix.EHOSTUNREACH, "an IPv6 gateway that cannot be reached")
	src := via("10.7.0.0/16", hop("10.1.0.9 tst0"))
	src.Src = netip.MustParseAddr("10.1.0.77")
	wantErr(t, b.AddObject(indexed(t, b, src)), unix.EINVAL, "a source that is not ours")
	gone := via("10.7.0.0/16", hop("- -"))
	gone.Hops[0].Index = 9999
	wantErr(t, b.AddObject(fib.Object{Route: &gone}), unix.ENODEV, "an interface that is not there")
	b.setUp(t, "tst1", false)
	wantErr(t, b.AddObject(indexed(t, b, via("10.7.0.0/16", hop("- tst1")))), unix.ENETDOWN, "an interface that is down")
	wantErr(t, b.AddObject(indexed(t, b, via("10.7.0.0/16", hop("10.2.0.9 tst1")))), unix.ENETUNREACH, "a gateway on an interface that is down")
	expect(t, paths(t, b), "")
}

func conformAddressGone(t *testing.T, b bench) {
	i := index(t, b, "tst0")
	must(t, b.AddAddress(i, addr("10.1.0.5/32")))
	must(t, b.AddAddress(i, addr("2001:db8:1::5/128")))
	four, six := via("10.7.0.0/16", hop("10.1.0.9 tst0")), via("2001:db8:8::/48", hop("fe80::9 tst0"))
	four.Src, six.Src = netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("2001:db8:1::5")
	other := via("10.8.0.0/16", hop("10.1.0.9 tst0"))
	main := four
	main.Table = fib.MainTable
	for _, r := range []fib.Route{four, six, other, main} {
		must(t, b.AddObject(indexed(t, b, r)))
	}
	must(t, b.DelAddress(i, addr("10.1.0.5/32")))
	must(t, b.DelAddress(i, addr("2001:db8:1::5/128")))
	wantErr(t, b.DelObject(indexed(t, b, main)), unix.ESRCH, "a route whose source is gone")
	// Only the main table is cleaned.
	expect(t, paths(t, b), `10.7.0.0/16 via 10.1.0.9 dev tst0 table 4711 src 10.1.0.5
10.8.0.0/16 via 10.1.0.9 dev tst0 table 4711
2001:db8:8::/48 via fe80::9 dev tst0 table 4711 metric 1024`) // IPv6 keeps the route and forgets its source
	must(t, b.DelAddress(i, addr("10.1.0.1/24")))
	expect(t, paths(t, b), "2001:db8:8::/48 via fe80::9 dev tst0 table 4711 metric 1024")
}

func conformLinkGone(t *testing.T, b bench) {
	four, six := via("10.7.0.0/16", hop("10.1.0.9 tst0")), via("2001:db8:8::/48", hop("fe80::9 tst0"))
	multi := via("10.9.0.0/16", hop("10.1.0.9 tst0"), hop("10.2.0.9 tst1"))
	multi6 := via("2001:db8:9::/48", hop("fe80::9 tst0"), hop("fe80::8 tst1"))
	for _, r := range []fib.Route{four, six, multi, multi6} {
		must(t, b.AddObject(indexed(t, b, r)))
	}
	b.setUp(t, "tst0", false)
	expect(t, paths(t, b), `10.9.0.0/16 table 4711 nexthop via 10.1.0.9 dev tst0 weight 1 nexthop via 10.2.0.9 dev tst1 weight 1
2001:db8:9::/48 table 4711 metric 1024 nexthop via fe80::9 dev tst0 weight 1 nexthop via fe80::8 dev tst1 weight 1`)
	b.setUp(t, "tst1", false)
	expect(t, paths(t, b), "")
	b.setUp(t, "tst0", true)
	b.setUp(t, "tst1", true)
	must(t, b.AddObject(indexed(t, b, multi)))
	must(t, b.AddObject(indexed(t, b, multi6)))
	b.removeLink(t, "tst1")
	expect(t, paths(t, b), "2001:db8:9::/48 via fe80::9 dev tst0 table 4711 metric 1024")
}

func conformRules(t *testing.T, b bench) {
	base := fib.Rule{Action: fib.ToTable, Table: tbl, Priority: 100, SuppressPrefix: -1, Protocol: fib.Protocol}
	rules := []fib.Rule{base}
	for i, change := range []func(*fib.Rule){
		func(r *fib.Rule) { r.From, r.To, r.Not = pfx("10.1.0.5/32"), pfx("10.7.0.0/16"), true },
		func(r *fib.Rule) { r.IIF, r.OIF, r.TOS = "tst0", "nosuch", 0x10 },
		func(r *fib.Rule) { r.Mark, r.Mask = 7, 0xff },
		func(r *fib.Rule) { r.IPProto, r.SPort, r.DPort = 6, [2]uint16{10, 20}, [2]uint16{80, 80} },
		func(r *fib.Rule) { r.UID, r.UIDs = true, [2]uint32{0, 99} },
		func(r *fib.Rule) { r.Table, r.SuppressPrefix = fib.MainTable, 0 },
		func(r *fib.Rule) { r.Action, r.Table, r.Goto = fib.Goto, 0, 32766 },
		func(r *fib.Rule) { r.Action, r.Table = fib.RuleBlackhole, 0 },
		func(r *fib.Rule) { r.Action, r.Table = fib.RuleUnreachable, 0 },
		func(r *fib.Rule) { r.Action, r.Table, r.Protocol = fib.RuleProhibit, 0, 99 },
		func(r *fib.Rule) { r.IPv6, r.From = true, pfx("2001:db8::/32") },
		func(r *fib.Rule) { r.Table = 0 },
	} {
		r := base
		r.Priority += uint32(i + 1)
		change(&r)
		rules = append(rules, r)
	}
	b.Tables([]fib.Query{})
	for _, r := range rules {
		must(t, b.AddObject(fib.Object{Rule: &r}))
		wantErr(t, b.AddObject(fib.Object{Rule: &r}), unix.EEXIST, "a second "+r.String())
	}
	other := base
	other.Protocol = 4
	must(t, b.AddObject(fib.Object{Rule: &other})) // who added it counts
	must(t, b.DelObject(fib.Object{Rule: &other}))
	s, err := b.State()
	must(t, err)
	for _, r := range rules {
		if !slices.Contains(s.FIB.Rules, r) {
			t.Errorf("%s is not there as it was added; there are %v", r.String(), s.FIB.Rules)
		}
	}
	for _, r := range rules {
		must(t, b.DelObject(fib.Object{Rule: &r}))
		wantErr(t, b.DelObject(fib.Object{Rule: &r}), unix.ENOENT, "removing a missing "+r.String())
	}
	expect(t, paths(t, b), "")
}
