package cases

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// movedLines are what moves in most of these cases: routes from and over the virtual
// address, in the main table and in others, and rules, for both families.
func movedLines() []string {
	return []string{
		`virtual_routes ["10.50.0.0/16 via 10.9.0.77 dev eth0 src 10.9.0.100", "default via 10.9.0.77 dev eth0 table 100", "2001:db8:50::/48 via fe80::77 dev eth0 src 2001:db8:9::100", "blackhole 10.51.0.0/16"]`,
		`virtual_rules ["from 10.9.0.100 table 100 priority 1000", "from 2001:db8:9::100 table 100 priority 1001"]`,
	}
}

// movedPaths are the lines that then show them.
func movedPaths() [][]string {
	return [][]string{
		{"10.50.0.0/16", "via 10.9.0.77", "dev eth0", "proto keepalived", "src 10.9.0.100"}, {"default", "via 10.9.0.77", "dev eth0", "table 100"},
		{"2001:db8:50::/48", "via fe80::77", "src 2001:db8:9::100"}, {"blackhole 10.51.0.0/16"},
		{"1000:", "from 10.9.0.100 lookup 100"}, {"1001:", "from 2001:db8:9::100 lookup 100"},
	}
}

// movedConf has one instance with everything that moves; the IPv6 address is excluded.
func movedConf(priority int, extra ...string) string {
	return lab.VipdConf("", lab.Instance{Priority: priority, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Excluded: []netip.Addr{lab.VIP6()},
		Extra: slices.Concat(plain(), movedLines(), extra)})
}

// holdsAll reports whether the node has every path.
func holdsAll(n *lab.Node, paths [][]string) bool {
	return !slices.ContainsFunc(paths, func(p []string) bool { return !n.HasPath(p[0], p[1:]...) })
}

// holdsNone reports whether the node has no path of a daemon's to where these lead.
func holdsNone(n *lab.Node, paths [][]string) bool {
	return !slices.ContainsFunc(paths, func(p []string) bool {
		if strings.HasSuffix(p[0], ":") {
			return n.CountPath(p[0]) > 0
		}
		return n.CountPath(p[0], "proto keepalived") > 0
	})
}

// movedPair is d1 as MASTER and d2 as BACKUP, with paths.
func movedPair(t *testing.T, conf func(int, ...string) string) (*lab.Lab, *lab.Daemon, *lab.Daemon) {
	t.Helper()
	l := lab.New(t, "d1", "d2", "cl")
	v1 := l.Node("d1").Vipd(conf(200))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	v2 := l.Node("d2").Vipd(conf(100))
	v2.WaitState("VI_1", "BACKUP", 10*time.Second)
	l.Eventually(2*time.Second, "d1 has the routes", func() bool { return holdsAll(l.Node("d1"), movedPaths()) })
	return l, v1, v2
}

// within waits for something that must be there by a time, looking without a break.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit+3*time.Second {
			t.Fatalf("%s: not even after %v", what, time.Since(began))
		}
	}
	if took := time.Since(began); took > limit {
		t.Errorf("%s: after %v, want within 100 ms", what, took)
	}
}

// O18, the part of routes: a network manager removes them, or puts its own in their
// place, and the daemon stays MASTER without them.
//
// Claim: a route is back within 100 ms with no change of state: adverts go on, the
// backup stays silent. no_track leaves it away. Lost a fourth time within 10 s:
// priority 0, FAULT, and the peer has address and routes.
func TestO18RouteDeletedByHand(t *testing.T) {
	t.Parallel()
	l, v1, _ := movedPair(t, func(prio int, extra ...string) string {
		return strings.Replace(movedConf(prio), `"blackhole 10.51.0.0/16"]`, `"blackhole 10.51.0.0/16", "10.52.0.0/16 dev eth0 no_track"]`, 1)
	})
	d1, d2 := l.Node("d1"), l.Node("d2")
	seen := l.Node("cl").Capture()
	from := time.Now()
	for _, c := range []struct{ del, begin string }{
		{"route del 10.50.0.0/16", "10.50.0.0/16"},
		{"-6 route del 2001:db8:50::/48", "2001:db8:50::/48"},
		{"route del default table 100", "default via 10.9.0.77 dev eth0 table 100"},
		{"route replace blackhole 10.51.0.0/16 proto static", "blackhole 10.51.0.0/16 proto keepalived"},
	} {
		d1.IP(c.del)
		within(t, backLimit, c.del+": it is back", func() bool { return d1.HasPath(c.begin) })
	}
	if d1.IP("route del 10.52.0.0/16"); !d1.HasPath("blackhole 10.51.0.0/16", "proto static") {
		t.Error("the route of others in the place of ours is gone")
	}
	time.Sleep(5 * quick)
	if d1.HasPath("10.52.0.0/16") {
		t.Error("a route with no_track came back")
	}
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	silent(t, seen, 51, d2.Addr(), from)
	for i := range 3 { // with the one above
		d1.IP("route del 10.50.0.0/16")
		if i < 2 {
			within(t, backLimit, "it is back", func() bool { return d1.HasPath("10.50.0.0/16") })
		}
	}
	l.WaitOwner(lab.VIP(), 2*time.Second, "d2")
	l.Eventually(time.Second, "d2 has the routes", func() bool { return holdsAll(d2, movedPaths()) })
	if i := v1.Status().Instance("VI_1"); i.State != "FAULT" || !strings.Contains(i.Reason, "route fought over: 10.50.0.0/16") {
		t.Errorf("status says %s (%s), want FAULT and that the route is fought over", i.State, i.Reason)
	}
	d1.IP("route del blackhole 10.51.0.0/16 proto static")
	if !holdsNone(d1, movedPaths()) {
		t.Errorf("d1 still has routes:\n%s", d1.Paths())
	}
}

// O18, the part of rules.
//
// Claim: as for routes.
func TestO18RuleDeletedByHand(t *testing.T) {
	t.Parallel()
	l, v1, _ := movedPair(t, movedConf)
	d1, d2 := l.Node("d1"), l.Node("d2")
	seen := l.Node("cl").Capture()
	from := time.Now()
	for _, c := range []struct{ del, begin string }{{"rule del priority 1000", "1000:"}, {"-6 rule del priority 1001", "1001:"}} {
		d1.IP(c.del)
		within(t, backLimit, c.del+": it is back", func() bool { return d1.HasPath(c.begin) })
	}
	d1.IP("rule flush") // as a network manager does it; the table of the kernel's own goes too
	within(t, backLimit, "the rule is back after a flush", func() bool { return d1.HasPath("1000:") })
	d1.IP("rule add table main priority 32766")
	time.Sleep(5 * quick)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	silent(t, seen, 51, d2.Addr(), from)
	d1.IP("rule del priority 1000")
	within(t, backLimit, "it is back", func() bool { return d1.HasPath("1000:") })
	d1.IP("rule del priority 1000")
	l.WaitOwner(lab.VIP(), 2*time.Second, "d2")
	l.Eventually(time.Second, "d2 has the rules", func() bool { return holdsAll(d2, movedPaths()) })
	if i := v1.Status().Instance("VI_1"); i.State != "FAULT" || !strings.Contains(i.Reason, "rule fought over") {
		t.Errorf("status says %s (%s), want FAULT and that the rule is fought over", i.State, i.Reason)
	}
}

// Routes and rules are there with the addresses and only then.
//
// Claim: they come after the addresses and go before them; a clean stop leaves the
// machine exactly as it was; after kill -9 the next start removes them before it sends
// anything, also those that are not configured any more; what others added stays.
func TestRoutesMoveWithAddresses(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	d1.IP("route add 10.50.0.0/16 via 10.9.0.78 dev eth0") // somebody's own
	d1.IP("rule add from 10.9.0.100 table 100 priority 999")
	before := d1.Paths()
	watch := d1.MonitorPaths()
	v1 := d1.Vipd(movedConf(200))
	l.Eventually(10*time.Second, "d1 has the routes", func() bool { return holdsAll(d1, movedPaths()) })
	v2 := d2.Vipd(movedConf(100))
	v2.WaitState("VI_1", "BACKUP", 10*time.Second)
	if !holdsNone(d2, movedPaths()) {
		t.Errorf("the backup has routes:\n%s", d2.Paths())
	}
	ordered(t, watch.Log(), []string{"[ADDR]", "[ROUTE]", "[RULE]"}, false)
	from := len(watch.Log())
	v1.Stop(5 * time.Second)
	l.Eventually(time.Second, "the end is monitored", func() bool { return strings.Contains(watch.Log()[from:], "[ADDR]Deleted") })
	ordered(t, watch.Log()[from:], []string{"[RULE]Deleted", "[ROUTE]Deleted", "[ADDR]Deleted"}, true)
	if got := d1.Paths(); got != before {
		t.Errorf("after a clean stop there is:\n%s\nbefore there was:\n%s", got, before)
	}
	l.WaitOwner(lab.VIP(), 2*time.Second, "d2")
	l.Eventually(time.Second, "d2 has the routes", func() bool { return holdsAll(d2, movedPaths()) })

	v1.Again()
	l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
	l.Eventually(2*time.Second, "d1 has the routes again", func() bool { return holdsAll(d1, movedPaths()) })
	if !holdsNone(d2, movedPaths()) {
		t.Errorf("d2 keeps routes:\n%s", d2.Paths())
	}
	v1.Kill()
	if !holdsAll(d1, movedPaths()) {
		t.Fatal("a crash leaves nothing: the case proves nothing")
	}
	// Started again as the lesser one, with one of the routes no longer configured.
	v1.ConfigFile = writeConf(t, l, strings.Replace(movedConf(50), `, "blackhole 10.51.0.0/16"`, "", 1))
	v1.Again()
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	if got := d1.Paths(); got != before {
		t.Errorf("after the crash and a new start there is:\n%s\nbefore there was:\n%s", got, before)
	}
}

// ordered fails unless, of ip monitor's lines, those with the first label come before
// those with the second, and so on.
func ordered(t *testing.T, log string, labels []string, deleted bool) {
	t.Helper()
	at := make([][2]int, len(labels)) // first and last line of each
	n := 0
	for line := range strings.Lines(log) {
		ours := strings.Contains(line, "10.9.0.100") && strings.Contains(line, "/32") || strings.Contains(line, "proto keepalived") || strings.Contains(line, "from 10.9.0.100 lookup")
		n++
		for i, label := range labels {
			if ours && strings.Contains(line, label) && strings.Contains(line, "Deleted") == deleted && !strings.Contains(line, "table local") {
				if at[i][0] == 0 {
					at[i][0] = n
				}
				at[i][1] = n
			}
		}
	}
	for i := range at {
		if at[i][0] == 0 || i > 0 && at[i][0] < at[i-1][1] {
			t.Errorf("%v are not in this order: first and last lines are %v of\n%s", labels, at, log)
			return
		}
	}
}

// writeConf writes another configuration and returns where.
func writeConf(t *testing.T, l *lab.Lab, text string) string {
	t.Helper()
	file := fmt.Sprintf("%s/other-%d.toml", l.Dir(), time.Now().UnixNano())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
