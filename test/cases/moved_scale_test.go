package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// The options of addresses that `ip address` has.
//
// Claim: the kernel has each of them as written, for virtual addresses and static ones,
// and they come back so when removed by hand; a stop leaves none.
func TestAddressOptions(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	before := d1.Paths()
	v1 := d1.Vipd(lab.VipdConf("static_ipaddress = [\"239.7.7.7 dev eth1 autojoin\", \"10.70.0.1 peer 10.70.1.1/24 dev eth1\"]\n",
		lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Extra: append(plain(),
			`virtual_ipaddress_excluded ["10.9.0.120 peer 10.9.7.1", "10.9.0.121 preferred_lft 0", "10.9.0.122/32 scope link brd 10.9.0.255 label eth0:x", "2001:db8:9::120/64 home noprefixroute", "2001:db8:9::121/64 mngtmpaddr", "2001:db8:9::122 -nodad preferred_lft forever", "2001:db8:9::123/64 preferred_lft 500", "2001:db8:9::124 peer 2001:db8:77::1"]`)}))
	want := []struct{ dev, line string }{
		{"eth0", "inet 10.9.0.120 peer 10.9.7.1/32 scope global"}, {"eth0", "inet 10.9.0.121/32 scope global deprecated"},
		{"eth0", "inet 10.9.0.122/32 brd 10.9.0.255 scope link eth0:x"}, {"eth0", "inet6 2001:db8:9::120/64 scope global nodad home noprefixroute"},
		{"eth0", "inet6 2001:db8:9::121/64 scope global nodad mngtmpaddr"}, {"eth0", "inet6 2001:db8:9::122/128 scope global"},
		{"eth0", "inet6 2001:db8:9::124 peer 2001:db8:77::1/128 scope global nodad deprecated"}, {"eth1", "inet 239.7.7.7/32 scope global autojoin"},
		{"eth1", "inet 10.70.0.1 peer 10.70.1.1/24 scope global"},
	}
	squeeze := func(dev string) string { return strings.Join(strings.Fields(d1.IP("address show dev "+dev)), " ") }
	all := func() bool {
		eth0, eth1 := squeeze("eth0"), squeeze("eth1")
		for _, w := range want {
			if !strings.Contains(map[string]string{"eth0": eth0, "eth1": eth1}[w.dev], w.line) {
				return false
			}
		}
		return strings.Contains(eth0, "preferred_lft 4") // of 500 s, a moment later
	}
	end := time.Now().Add(15 * time.Second)
	for !all() {
		if time.Now().After(end) {
			t.Fatalf("not all are as written:\n%s\n%s", squeeze("eth0"), squeeze("eth1"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	d1.IP("addr del 10.9.0.120 peer 10.9.7.1 dev eth0")
	d1.IP("addr del 10.70.0.1 peer 10.70.1.1/24 dev eth1")
	d1.IP("addr del 2001:db8:9::121/64 dev eth0")
	l.Eventually(2*time.Second, "they are back as written", all)
	v1.Stop(5 * time.Second)
	if got := d1.Paths(); got != before {
		t.Errorf("after a stop there is:\n%s\nbefore there was:\n%s", got, before)
	}
}

// A thousand routes and two hundred rules of one instance, at advert_int 0.1 s.
//
// Claim: they delay no advert and no first announcement: that comes as soon as without
// them, and all are there, and gone, in a second or two.
func TestThousandRoutes(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	l := lab.New(t, "d1", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	var routes, rules []string
	for i := range 1000 {
		routes = append(routes, fmt.Sprintf("%q", fmt.Sprintf("10.%d.%d.0/24 via 10.9.0.77 dev eth0 src 10.9.0.100", 100+i/250, i%250)))
	}
	for i := range 200 {
		rules = append(rules, fmt.Sprintf("%q", fmt.Sprintf("from 10.100.%d.0/24 table 100 priority %d", i, 1000+i)))
	}
	conf := func(prio int) string {
		return lab.VipdConf("", lab.Instance{Priority: prio, Interval: interval, VIPs: []netip.Addr{lab.VIP()}, Extra: append(plain(),
			"virtual_routes ["+strings.Join(routes, ", ")+"]", "virtual_rules ["+strings.Join(rules, ", ")+"]")})
	}
	count := func() (int, int) {
		return strings.Count(d1.IP("route show proto keepalived"), "\n"), strings.Count(d1.IP("rule"), "keepalived")
	}
	seen := cl.Capture()
	from := time.Now()
	v1 := d1.Vipd(conf(200))
	first := seen.WaitAdvert(10*time.Second, 51, d1.Addr(), from)
	a := waitAnnouncedBy(seen, lab.VIP(), d1.MAC(), first.At, 2*time.Second)
	t.Logf("announced %v after the first advert", a.At.Sub(first.At))
	if took := a.At.Sub(first.At); took > 200*time.Millisecond {
		t.Errorf("announced %v after the first advert, want a few ms", took)
	}
	l.Eventually(5*time.Second, "all routes and rules are there", func() bool { n, m := count(); return n == 1000 && m == 200 })
	began := time.Now()
	d1.IP("route flush proto keepalived")
	l.Eventually(5*time.Second, "all routes are back", func() bool { n, _ := count(); return n == 1000 })
	t.Logf("a flush was put right after %v", time.Since(began))
	time.Sleep(5 * interval)
	steady(t, seen, 51, d1.Addr(), 200, interval, first.At)
	began = time.Now()
	v1.Stop(5 * time.Second)
	t.Logf("the stop took %v", time.Since(began))
	if n, m := count(); n+m > 0 {
		t.Errorf("%d routes and %d rules are left", n, m)
	}
}
