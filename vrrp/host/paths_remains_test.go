package host_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/hosttest"
)

// others adds a route as somebody else.
func (r *rig) others(w fib.Want) {
	r.t.Helper()
	o := *w.Route
	o.Protocol = unix.RTPROT_STATIC
	must(r.t, r.k.AddPath(fib.Object{Route: &o}))
}

// A route that the kernel would not remove before its source went has none any more. It is removed all the same, and
// not in the way of the next term.
func TestWhatTheKernelLeftOfARoute(t *testing.T) {
	const line = "2001:db8:50::/48 via fe80::77 dev eth0 src 2001:db8::5"
	const left = "2001:db8:50::/48 via fe80::77 dev eth0 metric 1024"
	const there = "route 2001:db8:50::/48 via fe80::77 dev eth0 metric 1024 src 2001:db8::5\n"
	with := withPaths("A", []string{"10.9.0.100/32", "2001:db8::5/128"}, route("2001:db8:50::/48 via fe80::77 src 2001:db8::5"))
	for name, c := range map[string]struct {
		fail map[string]int // removals that the kernel refuses
		then func(r *rig)
		want string
	}{
		"removed":              {map[string]int{line: 1}, func(*rig) {}, ""},
		"removed with trouble": {map[string]int{line: 1, left: 2}, func(*rig) {}, ""},
		"wanted again":         {map[string]int{line: 1}, func(r *rig) { r.Want("A", true) }, there},
		"wanted with trouble":  {map[string]int{line: 1, left: 2}, func(r *rig) { r.Want("A", true) }, there},
		"not configured":       {map[string]int{line: 1, left: 1}, func(r *rig) { r.Configure(nil) }, ""},
		"the end":              {map[string]int{line: 1, left: 2}, func(r *rig) { must(r.t, r.Release()); expect(r.t, r.k.Paths(), "") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.Configure([]host.Set{with})
				r.Want("A", true)
				r.settle()
				expect(t, r.k.Paths(), there)
				for l, n := range c.fail {
					r.k.FailPath(hosttest.OpDel, l, n, unix.ENOBUFS)
				}
				r.Want("A", false)
				time.Sleep(10 * time.Millisecond)
				expect(t, r.k.Paths(), "route "+left+"\n")
				must(t, r.k.Add("eth1", foreign("192.0.2.9/24"))) // a reason to read
				time.Sleep(10 * time.Millisecond)
				c.then(r)
				time.Sleep(time.Second)
				expect(t, r.k.Paths(), c.want)
				for _, s := range r.PathStatus("A") {
					if s.Present != (c.want != "") || s.Problem != "" {
						t.Errorf("%s is there: %v, %q", s.Object, s.Present, s.Problem)
					}
				}
			})
		})
	}
}

// A next hop of others in the same IPv6 route is not taken for what is left of ours.
func TestNextHopOfOthersIsNoRemainder(t *testing.T) {
	ours := route("2001:db8:50::/48 via fe80::77 src 2001:db8::5")
	two := route("2001:db8:51::/48 via fe80::77")
	two.Route.Hops = append(two.Route.Hops, fib.Hop{Dev: "eth1", Via: two.Route.Hops[0].Via, Weight: 1})
	inBubble(t, func(t *testing.T, r *rig) {
		r.others(route("2001:db8:50::/48 via fe80::99"))
		r.Configure([]host.Set{withPaths("A", []string{"2001:db8::5/128"}, ours, two)})
		r.Want("A", true)
		r.settle()
		r.others(route("2001:db8:51::/48 via fe80::99"))
		r.k.Writes()
		for _, dev := range []string{"eth0", "eth1"} { // reasons to read
			must(t, r.k.Add(dev, foreign("192.0.2.9/32")))
			r.settle()
		}
		expect(t, r.writesOf(), "")
		r.k.RemoveLink("eth1") // with one of our two
		r.k.NewLink("eth1")
		must(t, r.k.Add("eth1", foreign("192.0.2.1/24")))
		time.Sleep(time.Second)
		expect(t, r.j.take(), "present A 2001:db8::5/128")
		expect(t, r.k.Paths(), `route 2001:db8:50::/48 metric 1024 proto 4 nexthop via fe80::99 dev eth0 weight 1 nexthop via fe80::77 dev eth0 weight 1
route 2001:db8:51::/48 metric 1024 nexthop via fe80::99 dev eth0 weight 1 nexthop via fe80::77 dev eth0 weight 1 nexthop via fe80::77 dev eth1 weight 1
`)
		r.Want("A", false)
		r.settle()
		expect(t, r.k.Paths(), `route 2001:db8:50::/48 via fe80::99 dev eth0 metric 1024 proto 4
route 2001:db8:51::/48 via fe80::99 dev eth0 metric 1024
`)
	})
}

// A route of others that is like ours but for the source, and came in while ours was gone, is theirs.
func TestEqualRouteOfOthersIsNoRemainder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const theirs = "route 2001:db8:50::/48 via fe80::77 dev eth0 metric 1024 proto 4\n"
		r.Configure([]host.Set{withPaths("A", []string{"2001:db8::5/128"}, route("2001:db8:50::/48 via fe80::77 src 2001:db8::5"))})
		r.Want("A", true)
		r.settle()
		r.k.OnChange(nil)
		must(t, r.k.DelPath("2001:db8:50::/48 via fe80::77 dev eth0 metric 1024 src 2001:db8::5"))
		r.others(route("2001:db8:50::/48 via fe80::77"))
		for range 3 {
			s, err := r.k.State()
			must(t, err)
			r.State(s)
			r.settle()
			expect(t, r.k.Paths(), theirs)
		}
		r.Want("A", false)
		r.settle()
		expect(t, r.k.Paths(), theirs)
	})
}
