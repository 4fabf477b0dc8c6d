package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/hosttest"
)

// walkPaths are what instances may have: sources, gateways, several next hops, two
// routes to one place, rules.
func walkPaths() []fib.Want {
	several := route("10.54.0.0/16 via 10.9.0.77")
	several.Route.Hops = append(several.Route.Hops, fib.Hop{Dev: "eth1", Via: route("0.0.0.0/0 via 192.0.2.77").Route.Hops[0].Via, Weight: 1})
	several6 := route("2001:db8:54::/48 via fe80::77")
	several6.Route.Hops = append(several6.Route.Hops, fib.Hop{Dev: "eth1", Via: several6.Route.Hops[0].Via, Weight: 1})
	return []fib.Want{
		route("10.50.0.0/16 via 10.9.0.77 src 10.9.0.100"), route("10.51.0.0/16 via 10.9.0.77"), route("10.51.0.0/16 via 10.9.0.78"), route("10.53.0.0/16 dev eth1"),
		several, several6, route("2001:db8:50::/48 via fe80::77 src 2001:db8::5"), route("2001:db8:51::/48 via fe80::77"), route("2001:db8:51::/48 via fe80::78 dev eth1"),
		rule("10.9.0.100/32", 7), rule("2001:db8::5/128", 8),
	}
}

// pathMove is one step of a history.
type pathMove struct {
	kind, instance, dev string
	paths               []int
	path                int
	on                  bool
	pause, times        int
}

func drawPathMove(rt *rapid.T) pathMove {
	n := len(walkPaths())
	kinds := []string{"want", "want", "want", "configure", "configure", "delete", "delete", "foreign", "link", "recreate", "address", "fault"}
	return pathMove{
		kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), instance: rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "instance"), dev: rapid.SampledFrom([]string{"eth0", "eth1"}).Draw(rt, "dev"),
		paths: rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, n, rapid.ID[int]).Draw(rt, "paths"), path: rapid.IntRange(0, n-1).Draw(rt, "path"),
		on: rapid.Bool().Draw(rt, "on"), pause: rapid.SampledFrom([]int{0, 0, 1, 30, 100, 3000}).Draw(rt, "pause"), times: rapid.IntRange(1, 3).Draw(rt, "times"),
	}
}

// TestRandomPathWalk: after any history of wishes, reloads, interference, flaps and
// errors the kernel has exactly the routes and rules that are wanted, and those of others.
func TestRandomPathWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(drawPathMove), 1, 25).Draw(rt, "history")
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.run()
			defer r.stop()
			sets, wanted := map[string][]int{"A": nil, "B": nil}, map[string]bool{}
			for _, m := range history {
				walkPath(r, m, sets, wanted)
				time.Sleep(time.Duration(m.pause) * time.Millisecond)
			}
			mendPaths(r, sets, wanted)
			wrong = checkPaths(r, sets, wanted)
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// walkPath makes one step.
func walkPath(r *rig, m pathMove, sets map[string][]int, wanted map[string]bool) {
	all := walkPaths()
	switch m.kind {
	case "want":
		wanted[m.instance] = m.on
		r.Want(m.instance, m.on)
	case "configure":
		sets[m.instance] = m.paths
		r.Configure(pathSets(sets))
	case "delete":
		line := all[m.path].String()
		if strings.Contains(line, "2001:") && all[m.path].Route != nil {
			line = strings.Replace(line, " src", " metric 1024 src", 1)
			if !strings.Contains(line, "metric") {
				line += " metric 1024"
			}
		}
		_ = r.k.DelPath(line)
	case "foreign":
		if w := all[1]; m.on {
			o := *w.Route
			o.Protocol = 4
			_ = r.k.AddPath(fib.Object{Route: &o})
		} else {
			_ = r.k.DelPath(w.String() + " proto 4")
		}
	case "link":
		must(r.t, r.k.SetLink(m.dev, m.on, true))
	case "recreate":
		r.k.RemoveLink(m.dev)
		r.k.NewLink(m.dev)
	case "address":
		_ = r.k.Del("eth0", pfx([]string{"10.9.0.100/32", "2001:db8::5/128", "10.9.0.11/24"}[m.times-1]))
	case "fault":
		r.k.FailPath([]hosttest.Op{hosttest.OpAdd, hosttest.OpDel}[m.times%2], all[m.path].String(), m.times, unix.ENOBUFS)
	}
}

// pathSets are the sets of the instances; both need both addresses.
func pathSets(sets map[string][]int) []host.Set {
	var out []host.Set
	for _, name := range []string{"A", "B"} {
		s := set(name, "10.9.0.100/32", "2001:db8::5/128")
		for _, i := range slices.Sorted(slices.Values(sets[name])) {
			s.Paths = append(s.Paths, walkPaths()[i])
		}
		out = append(out, s)
	}
	return out
}

// mendPaths ends all trouble and begins every instance's term anew.
func mendPaths(r *rig, sets map[string][]int, wanted map[string]bool) {
	r.k.Heal()
	time.Sleep(3 * time.Second)
	for dev, own := range map[string]string{"eth0": "10.9.0.11/24", "eth1": "192.0.2.1/24"} {
		must(r.t, r.k.SetLink(dev, true, true))
		_ = r.k.Add(dev, foreign(own))
	}
	r.Configure(pathSets(sets))
	r.settle()
	for _, in := range []string{"A", "B"} {
		r.Want(in, false)
		r.settle()
		r.Want(in, wanted[in])
	}
	time.Sleep(5 * time.Second)
}

// checkPaths returns how the kernel differs from what is wanted.
func checkPaths(r *rig, sets map[string][]int, wanted map[string]bool) string {
	want := map[string]bool{}
	for in, paths := range sets {
		for _, i := range paths {
			if wanted[in] {
				want[walkPaths()[i].String()] = true
			}
		}
	}
	for _, in := range []string{"A", "B"} {
		for _, s := range r.PathStatus(in) {
			if s.Present != want[s.Object.String()] {
				return fmt.Sprintf("%s is there: %v (%s), wanted: %v; kernel:\n%s", s.Object, s.Present, s.Problem, want[s.Object.String()], r.k.Paths())
			}
		}
	}
	// Every next hop, and every rule, by itself: the kernel may hold those of IPv6 in one route.
	count := func(lines []string) map[string]int {
		n := map[string]int{}
		for _, l := range lines {
			if strings.Contains(l, "proto 4") {
				continue
			}
			l = strings.TrimPrefix(strings.TrimPrefix(strings.ReplaceAll(l, " metric 1024", ""), "route "), "rule ")
			head, hops, several := strings.Cut(strings.ReplaceAll(l, " weight 1", ""), " nexthop ")
			if !several {
				n[l]++
				continue
			}
			dst := strings.Fields(head)[0]
			for h := range strings.SplitSeq(hops, " nexthop ") {
				n[dst+" "+h]++
			}
		}
		return n
	}
	have := count(slices.DeleteFunc(strings.Split(r.k.Paths(), "\n"), func(l string) bool { return l == "" }))
	var lines []string
	for l := range want {
		lines = append(lines, l)
	}
	if should := count(lines); fmt.Sprint(have) != fmt.Sprint(should) {
		return fmt.Sprintf("the kernel has\n%v\nwanted\n%v\nkernel:\n%s", have, should, r.k.Paths())
	}
	return ""
}
