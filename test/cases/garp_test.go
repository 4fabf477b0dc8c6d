package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O06: a VIP bound to lo is announced on lo; the state says MASTER and the
// network still sends to the old director.
//
// Claim: an announcement leaves on the interface that faces the network, with the
// MAC of that interface: where the VIP sits, and for a VIP on lo where VRRP runs.
// Nothing is ever announced on lo. What cannot work (IPv6 on lo: Linux answers for
// an address only where it sits) is warned of before.
func TestO06AnnouncementFacesTheNetwork(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, dev := range []string{"lo", "eth0", "eth1"} {
			t.Run(f.name+" on "+dev, func(t *testing.T) {
				t.Parallel()
				facesNetwork(t, f, dev)
			})
		}
	}
}

func facesNetwork(t *testing.T, f family, dev string) {
	l := lab.New(t, "d1", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	bridge, out := 0, "eth0" // where it must be announced
	if dev == "eth1" {
		bridge, out = 1, "eth1"
	}
	const old = "02:00:00:00:00:77" // of the director that had the VIP before
	for _, i := range []string{"eth0", "eth1"} {
		cl.IP(fmt.Sprintf("neigh replace %v lladdr %s nud stale dev %s", f.vip, old, i))
	}
	captures := map[string]*lab.Capture{}
	for _, i := range []string{"lo", "eth0", "eth1"} {
		captures[i] = d1.CaptureOn(i)
	}
	conf := onDevice(f, dev)
	started := time.Now()
	v1 := d1.Vipd(conf)
	if check, err := v1.Ctl("check", "-c", v1.ConfigFile); dev == "lo" && !strings.Contains(check, f.vip.String()+" sits on lo") && !strings.Contains(check, f.vip.String()+" on lo cannot be reached") {
		t.Errorf("vipd check does not warn of %v on lo: %v\n%s", f.vip, err, check)
	}
	a := waitAnnouncedBy(captures[out], f.vip, d1.MACOn(bridge), started, 10*time.Second)
	time.Sleep(time.Second) // the rest of the burst
	for name, c := range captures {
		all := c.Announcements(f.vip)
		switch wrong := lab.Filter(all, func(a lab.Announcement) bool { return a.MAC != d1.MACOn(bridge) }); {
		case name == out && (len(all) < 5 || len(wrong) > 0):
			t.Errorf("%d announcements on %s, %d with a wrong MAC; want at least 5 and none", len(all), name, len(wrong))
		case name != out && len(all) > 0:
			t.Errorf("%d announcements of a VIP on %s left through %s", len(all), dev, name)
		}
	}
	if got := neighOn(cl, f.vip, out); got != d1.MACOn(bridge) {
		t.Errorf("%v after the announcement the client has %v at %q on %s, want d1's %s", time.Since(a.At), f.vip, got, out, d1.MACOn(bridge))
	}
	if dev == "lo" {
		// What the warning says is true: the client finds the address anew for IPv4 alone.
		cl.IP("neigh flush dev eth0")
		if _, err := cl.Try("ping", "-c", "1", "-W", "2", f.vip.String()); (err == nil) != f.vip.Is4() {
			t.Errorf("%v on lo answers: %v", f.vip, err == nil)
		}
	}
}

// onDevice is the configuration of one instance on eth0 whose VIP sits on dev.
func onDevice(f family, dev string, extra ...string) string {
	var quoted []string
	for _, vip := range f.vips {
		line := vip.String()
		if vip == f.vip {
			line += " dev " + dev
		}
		quoted = append(quoted, fmt.Sprintf("%q", line))
	}
	return lab.VipdConf("", lab.Instance{Name: f.instance, VRID: f.vrid, Priority: 200,
		Extra: append(extra, "virtual_ipaddress ["+strings.Join(quoted, ", ")+"]")})
}

// neighOn is the MAC that a node has for an address on one interface.
func neighOn(n *lab.Node, addr netip.Addr, dev string) string {
	fields := strings.Fields(n.IP("neigh show " + addr.String() + " dev " + dev))
	for i, w := range fields {
		if w == "lladdr" && i+1 < len(fields) {
			return fields[i+1]
		}
	}
	return ""
}

// O17: the IPv6 VIP moves without a neighbour advertisement, or with one that
// lacks the Router flag, so that hosts drop their default router.
//
// Claim: unsolicited advertisements to ff02::1 with Override, the target
// link-layer address, hop limit 255, and Router as the interface forwards; as many
// and as often as gratuitous ARP; and the IPv6 outage is that of IPv4.
func TestO17NeighbourAdvertisements(t *testing.T) {
	t.Parallel()
	for _, forwarding := range []string{"0", "1"} {
		t.Run("forwarding "+forwarding, func(t *testing.T) {
			t.Parallel()
			dualStack(t, forwarding)
		})
	}
}

func dualStack(t *testing.T, forwarding string) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	for _, n := range l.Nodes("d1", "d2") {
		n.Sysctl("net/ipv6/conf/all/forwarding", forwarding)
	}
	seen := cl.Capture()
	// One instance for both, so that both move at the same moment.
	conf := func(priority int) string {
		return lab.VipdConf("", lab.Instance{Priority: priority, VIPs: []netip.Addr{lab.VIP()}, Excluded: []netip.Addr{lab.VIP6()},
			Interval: 200 * time.Millisecond, Extra: []string{"garp_master_delay 1", "garp_master_refresh 2", "garp_master_refresh_repeat 2"}})
	}
	d1.Vipd(conf(200))
	l.WaitOwner(lab.VIP6(), 15*time.Second, "d1")
	d2.Vipd(conf(100)).WaitState("VI_1", "BACKUP", 10*time.Second)
	seen.WaitAdvert(5*time.Second, 51, d1.Addr(), time.Now())

	ping := cl.Ping(5*time.Millisecond, lab.VIP(), lab.VIP6())
	time.Sleep(500 * time.Millisecond)
	cut := d1.Isolate(0)
	l.WaitOwner(lab.VIP6(), 5*time.Second, "d1", "d2")
	time.Sleep(4 * time.Second) // second burst and refresh
	probes := ping.Stop()

	outage := map[netip.Addr]time.Duration{}
	for _, vip := range []netip.Addr{lab.VIP(), lab.VIP6()} {
		mine := lab.Filter(probes, func(p lab.Probe) bool { return p.Target == vip })
		outage[vip], _ = lab.Outage(mine)
		if got := cl.Neigh(vip); got != d2.MAC() {
			t.Errorf("the client has %v at %q, want d2's", vip, got)
		}
	}
	t.Logf("outage: IPv4 %v, IPv6 %v", outage[lab.VIP()], outage[lab.VIP6()])
	if o4, o6 := outage[lab.VIP()], outage[lab.VIP6()]; o6 > o4+200*time.Millisecond || o6 > 2*time.Second {
		t.Errorf("the outage of IPv6 was %v, that of IPv4 %v", o6, o4)
	}
	garps := lab.Between(seen.GARPs(lab.VIP()), cut, time.Now())
	nas := lab.Between(seen.NAs(lab.VIP6()), cut, time.Now())
	if len(nas) < 5+5+2 || len(nas) < len(garps)-2 || len(nas) > len(garps)+2 {
		t.Errorf("%d neighbour advertisements and %d gratuitous ARPs; want as many, at least 5 + 5 + 2", len(nas), len(garps))
	}
	for _, a := range nas {
		if a.Dst != netip.MustParseAddr("ff02::1") || !a.Override || a.Solicited || a.TTL != 255 ||
			a.MAC != d2.MAC() || a.SrcMAC != d2.MAC() || a.Router != (forwarding == "1") {
			t.Fatalf("wrong advertisement: to %v override %v solicited %v hop limit %d option %q from %s router %v; forwarding is %s",
				a.Dst, a.Override, a.Solicited, a.TTL, a.MAC, a.SrcMAC, a.Router, forwarding)
		}
	}
}
