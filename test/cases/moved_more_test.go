package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// keepalivedMoved is movedConf for keepalived.
func keepalivedMoved(priority int) string {
	block := func(name, list string) string {
		list = strings.TrimSuffix(strings.TrimPrefix(list, name+` ["`), `"]`)
		return name + " {\n        " + strings.ReplaceAll(list, `", "`, "\n        ") + "\n    }"
	}
	lines := movedLines()
	return lab.KeepalivedConf("", lab.Instance{Priority: priority, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Excluded: []netip.Addr{lab.VIP6()},
		Extra: []string{block("virtual_routes", lines[0]), block("virtual_rules", lines[1])}})
}

// A mixed pair, with the same routes on both.
//
// Claim: in both directions the routes are on the master alone.
func TestRoutesWithKeepalived(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	v1 := d1.Vipd(movedConf(200))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	k2 := d2.Keepalived(keepalivedMoved(100))
	only := func(has, not *lab.Node) {
		t.Helper()
		l.WaitOwner(lab.VIP(), 10*time.Second, has.Name)
		l.Eventually(2*time.Second, has.Name+" alone has the routes", func() bool { return holdsAll(has, movedPaths()) && holdsNone(not, movedPaths()) })
	}
	time.Sleep(3 * time.Second) // keepalived listens
	only(d1, d2)
	v1.Stop(5 * time.Second)
	only(d2, d1)
	v1.Again()
	only(d1, d2)
	v1.Stop(5 * time.Second)
	only(d2, d1)
	k2.Stop(5 * time.Second)
	k2 = d2.Keepalived(keepalivedMoved(220))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d2")
	v1.Again()
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	only(d2, d1)
	k2.Stop(5 * time.Second)
	only(d1, d2)
}

// The kernel drops routes with links and addresses, and tells nobody.
//
// Claim: after a flap of another link, and after the base address was away, the routes
// are back; one whose gateway cannot be reached yet is tried again until it can, and
// status says so meanwhile. The instance on the link that flaps gives way, with its
// routes, and comes back with them.
func TestRoutesAfterLinkFlap(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1 := l.Node("d1")
	conf := lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Excluded: []netip.Addr{lab.VIP6()},
		Extra: append(plain(),
			`virtual_routes ["10.60.0.0/16 via 10.8.0.77 dev eth1", "2001:db8:60::/48 via fe80::77 dev eth1", "10.61.0.0/16 nexthop via 10.8.0.77 dev eth1 weight 2 nexthop via 10.9.0.77 dev eth0", "2001:db8:61::/48 nexthop via fe80::77 dev eth1 nexthop via fe80::77 dev eth0", "10.62.0.0/16 via 198.51.100.7", "10.63.0.0/16 via 10.9.0.77 src 10.9.0.100"]`)})
	v1 := d1.Vipd(conf)
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	most := [][]string{{"10.60.0.0/16", "dev eth1"}, {"2001:db8:60::/48", "dev eth1"}, {"10.61.0.0/16"}, {"2001:db8:61::/48"}, {"10.63.0.0/16", "src 10.9.0.100"}}
	l.Eventually(2*time.Second, "the routes are there", func() bool { return holdsAll(d1, most) })
	pending := func() bool {
		for _, r := range v1.Status().Instance("VI_1").Routes {
			if strings.HasPrefix(r.Route, "10.62.0.0/16") {
				return !r.Present && strings.Contains(r.Error, "unreachable")
			}
		}
		return false
	}
	if !pending() {
		t.Errorf("status does not tell of the route that cannot be: %+v", v1.Status().Instance("VI_1").Routes)
	}
	seen := l.Node("cl").Capture()
	from := time.Now()
	for range 2 {
		d1.LinkDown(1)
		l.Eventually(time.Second, "the kernel drops routes", func() bool { return !d1.HasPath("10.60.0.0/16") })
		time.Sleep(quick)
		d1.LinkUp(1)
		l.Eventually(2*time.Second, "the routes are back", func() bool { return holdsAll(d1, most) })
	}
	d1.Unplug(1)
	l.Eventually(time.Second, "the kernel drops routes", func() bool { return !d1.HasPath("10.61.0.0/16") })
	d1.Plug(1)
	l.Eventually(3*time.Second, "the routes are back on the new interface", func() bool { return holdsAll(d1, most) })
	if n := strings.Count(d1.Paths(), "nexthop"); n != 4 {
		t.Errorf("%d next hops of two routes with two each:\n%s", n, d1.Paths())
	}
	d1.RemoveAddress(lab.VIP()) // takes the route from it along
	l.Eventually(time.Second, "the route from the VIP is back", func() bool { return holdsAll(d1, most) && d1.Has(lab.VIP()) })
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	d1.IP("addr add 198.51.100.1/24 dev eth1")
	l.Eventually(time.Second, "the route whose gateway came is there", func() bool { return d1.HasPath("10.62.0.0/16", "via 198.51.100.7") })

	d1.LinkDown(0)
	v1.WaitState("VI_1", "FAULT", 3*time.Second)
	l.Eventually(time.Second, "the routes went with the instance", func() bool { return holdsNone(d1, append(most, []string{"10.62.0.0/16"})) })
	d1.LinkUp(0)
	l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
	l.Eventually(2*time.Second, "the routes are back with the instance", func() bool { return holdsAll(d1, most) })
}

// A reload changes one route of three, and one rule.
//
// Claim: ip monitor shows these and nothing else; the new route is there before the old
// one goes; the state does not change. Giving the priority of a rule only is a change of
// that rule.
func TestReloadChangesOneRoute(t *testing.T) {
	t.Parallel()
	l, v1, _ := movedPair(t, movedConf)
	d1, cl := l.Node("d1"), l.Node("cl")
	seen, watch := cl.Capture(), d1.MonitorPaths()
	from, mark := time.Now(), len(watch.Log())
	v1.Reload(strings.NewReplacer("default via 10.9.0.77", "default via 10.9.0.78", "priority 1001", "priority 1003").Replace(movedConf(200)))
	l.Eventually(2*time.Second, "the new route and rule are there", func() bool {
		return d1.HasPath("default", "via 10.9.0.78", "table 100") && !d1.HasPath("default", "via 10.9.0.77", "table 100") && d1.HasPath("1003:") && !d1.HasPath("1001:")
	})
	time.Sleep(5 * quick)
	var got []string
	for line := range strings.Lines(watch.Log()[mark:]) {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(line, "keepalived") || strings.Contains(line, "lookup 100") {
			got = append(got, strings.Join(words[:min(len(words), 4)], " "))
		}
	}
	want := "[ROUTE]default via 10.9.0.78 dev;[RULE]1003: from 2001:db8:9::100 lookup;[RULE]Deleted 1001: from 2001:db8:9::100;[ROUTE]Deleted default via 10.9.0.77"
	if s := strings.Join(got, ";"); s != want {
		t.Errorf("ip monitor shows\n%s\nwant\n%s\nof\n%s", s, want, watch.Log()[mark:])
	}
	v1.Reload(movedConf(200, `promote_secondaries true`))
	l.Eventually(2*time.Second, "the old ones are there again", func() bool { return holdsAll(d1, movedPaths()) })
	v1.Reload(lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Extra: plain()}))
	l.Eventually(2*time.Second, "without routes in the configuration there are none", func() bool { return holdsNone(d1, movedPaths()) })
	v1.Reload(movedConf(200))
	l.Eventually(2*time.Second, "and then there are", func() bool { return holdsAll(d1, movedPaths()) })
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
}

// staticConf is an instance beside objects that every state has.
func staticConf(priority int, group bool, lines ...string) string {
	before := "static_ipaddress = [\"10.70.0.1/24 dev eth1\", \"10.9.0.150/32 dev eth0\"]\nstatic_routes = [\"10.71.0.0/16 via 10.70.0.9 dev eth1\"]\nstatic_rules = [\"from 10.71.0.0/16 table 77 priority 770\"]\n"
	for i := 0; i+1 < len(lines); i += 2 {
		before = strings.Replace(before, lines[i], lines[i+1], 1)
	}
	if group {
		before += "[track_group.NEEDED]\ngroup = [\"VI_1\"]\n"
	}
	return lab.VipdConf(before, lab.Instance{Priority: priority, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Extra: plain()})
}

// Static objects.
//
// Claim: they are there in every state, come back when removed, change in place by
// reload, survive nothing: a clean stop and the start after a crash leave exactly what
// was there before. An address that the machine had before stays.
func TestStaticObjects(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	d1.IP("addr add 10.9.0.150/32 dev eth0") // the machine's own
	before := d1.Paths()
	d2.Vipd(lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}}))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d2")
	v1 := d1.Vipd(staticConf(100, false))
	all := [][]string{{"10.70.0.0/24", "dev eth1"}, {"10.71.0.0/16", "via 10.70.0.9", "proto keepalived"}, {"770:", "from 10.71.0.0/16 lookup 77"}}
	there := func() bool { return d1.Has(netip.MustParseAddr("10.70.0.1")) && holdsAll(d1, all) }
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	l.Eventually(2*time.Second, "static objects are there in BACKUP", there)
	d1.IP("rule del priority 770")
	d1.IP("addr del 10.70.0.1/24 dev eth1") // the route goes along
	l.Eventually(time.Second, "they come back", there)
	d1.LinkDown(0)
	v1.WaitState("VI_1", "FAULT", 3*time.Second)
	d1.IP("route del 10.71.0.0/16")
	l.Eventually(time.Second, "they come back in FAULT", there)
	d1.LinkUp(0)

	watch := d1.MonitorPaths()
	mark := len(watch.Log())
	v1.Reload(staticConf(100, false, "10.71.0.0/16 via 10.70.0.9", "10.72.0.0/16 via 10.70.0.9"))
	l.Eventually(2*time.Second, "the other route is there", func() bool { return d1.HasPath("10.72.0.0/16") && !d1.HasPath("10.71.0.0/16") })
	if log := watch.Log()[mark:]; strings.Contains(log, "10.70.0.1/") || strings.Contains(log, "770:") {
		t.Errorf("the reload touched others:\n%s", log)
	}
	v1.Kill()
	v1.ConfigFile = writeConf(t, l, lab.VipdConf("", lab.Instance{Priority: 100, Interval: quick, VIPs: []netip.Addr{lab.VIP()}}))
	v1.Again()
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	if got := d1.Paths(); got != before {
		t.Errorf("after a crash and a start without static objects there is:\n%s\nbefore there was:\n%s", got, before)
	}
	v1.Reload(staticConf(100, false))
	l.Eventually(2*time.Second, "they are there again", there)
	v1.Kill()
	v1.Again()
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	l.Eventually(time.Second, "they are there after a crash", there)
	v1.Stop(5 * time.Second)
	if got := d1.Paths(); got != before {
		t.Errorf("after a clean stop there is:\n%s\nbefore there was:\n%s", got, before)
	}
}

// A static object that instances need.
//
// Claim: while it cannot be put back the instances of its track_group are in FAULT, with
// the reason in status, and the peer has the address; others are not touched. A removal
// that is repaired costs nothing.
func TestTrackGroupFault(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	conf := func(prio int) string {
		return staticConf(prio, true, `via 10.70.0.9 dev eth1`, `via 10.70.0.9 dev eth1 track_group NEEDED`) +
			"[vrrp_instance.FREE]\ninterface = \"eth0\"\nvirtual_router_id = 52\nversion = 3\npriority = " + fmt.Sprint(prio) + "\nadvert_int = 0.2\nvirtual_ipaddress = [\"10.9.0.101\"]\n"
	}
	v1 := d1.Vipd(conf(200))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	l.Node("d2").Vipd(conf(100)).WaitState("VI_1", "BACKUP", 10*time.Second)
	seen := cl.Capture()
	from := time.Now()
	d1.IP("route del 10.71.0.0/16")
	l.Eventually(time.Second, "the route is back", func() bool { return d1.HasPath("10.71.0.0/16") })
	time.Sleep(3 * quick)
	silent(t, seen, 51, l.Node("d2").Addr(), from)
	l.WaitOwner(lab.VIP(), 0, "d1")
	d1.LinkDown(1)
	l.WaitOwner(lab.VIP(), 3*time.Second, "d2")
	if i := v1.Status().Instance("VI_1"); i.State != "FAULT" || !strings.Contains(i.Reason, "static route 10.71.0.0/16") || !strings.Contains(i.Reason, "eth1") {
		t.Errorf("status says %s (%s), want FAULT and the route that is missing", i.State, i.Reason)
	}
	if s := v1.Status(); len(s.Alarms) == 0 || s.Instance("FREE").State != "MASTER" {
		t.Errorf("alarms %q, the other instance is %s", s.Alarms, s.Instance("FREE").State)
	}
	d1.LinkUp(1)
	l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
}

// promote_secondaries.
//
// Claim: the setting of the interface is on while vipd runs, in any state, and what it
// was before afterwards: after a stop, after a reload without it, and after a crash at
// the next start.
func TestPromoteSecondaries(t *testing.T) {
	t.Parallel()
	const key = "net/ipv4/conf/eth0/promote_secondaries"
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	d1.Sysctl(key, "0")
	d1.Sysctl("net/ipv4/conf/eth1/promote_secondaries", "0")
	with, without := movedConf(200, "promote_secondaries true"), movedConf(200)
	v1 := d1.Vipd(with)
	v1.WaitState("VI_1", "BACKUP", 5*time.Second)
	expect := func(what, want string) {
		t.Helper()
		l.Eventually(2*time.Second, what+": it is "+want, func() bool { return d1.ReadSysctl(key) == want })
	}
	expect("started", "1")
	if got := d1.ReadSysctl("net/ipv4/conf/eth1/promote_secondaries"); got != "0" {
		t.Errorf("another interface has %s", got)
	}
	v1.Reload(without)
	expect("a reload without it", "0")
	v1.Reload(with)
	expect("a reload with it", "1")
	v1.Kill()
	expect("after a crash", "1")
	v1.ConfigFile = writeConf(t, l, without)
	v1.Again()
	expect("the next start, without it", "0")
	v1.Reload(with)
	expect("a reload with it", "1")
	v1.Kill()
	v1.Again()
	v1.WaitState("VI_1", "MASTER", 5*time.Second)
	v1.Stop(5 * time.Second)
	expect("a crash, a start and a stop", "0")
}
