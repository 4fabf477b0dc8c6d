package cases

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// settings reads everything that a virtual MAC could touch of a node: its links, and the settings of all of them.
func settings(n *lab.Node) string {
	return n.Sh(`ip -br link | sed 's/ .*//' | sort; cd /proc/sys/net; cat ipv4/igmp_link_local_mcast_reports; grep . ipv4/conf/*/* ipv6/conf/*/* 2>/dev/null | grep -v 'stable_secret\|/mtu:' | sort`)
}

// differences lists the lines that two texts do not share.
func differences(a, b string) []string {
	var out []string
	for _, l := range strings.Split(b, "\n") {
		if !strings.Contains("\n"+a+"\n", "\n"+l+"\n") {
			out = append(out, "+"+l)
		}
	}
	for _, l := range strings.Split(a, "\n") {
		if !strings.Contains("\n"+b+"\n", "\n"+l+"\n") {
			out = append(out, "-"+l)
		}
	}
	return out
}

// linkOf returns the index and the MAC of a link, "" when it is not there.
func linkOf(n *lab.Node, name string) string {
	out, err := n.Try("sh", "-c", fmt.Sprintf("cat /sys/class/net/%[1]s/ifindex /sys/class/net/%[1]s/address", name))
	if err != nil { // /sys is that of the host where it was not mounted anew
		out, err = n.Try("ip", "-o", "link", "show", "dev", name)
	}
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// The settings of the machine are as before after a stop, and after a kill and another start, whoever had set what:
// higher values stay, and a value that an operator changed meanwhile is his.
func TestO27SettingsAreUndone(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	d1.Sysctl("net/ipv4/conf/all/rp_filter", "1")
	d1.Sysctl("net/ipv4/conf/eth1/arp_announce", "1")
	d1.Sysctl("net/ipv4/conf/eth1/arp_ignore", "2")
	conf := func(extra string) string {
		return "[global_defs]\ndisable_local_igmp = true\n" + withVMAC(200) + extra
	}
	more := `
[vrrp_instance.second]
interface = "eth1"
virtual_router_id = 70
version = 3
advert_int = 0.2
use_vmac = "vmac70 02:00:00:00:00 group 5"
virtual_ipaddress = ["10.8.0.70", "10.9.0.70 dev eth0 use_vmac"]
track_interface = ["eth0"]
`
	before := settings(d1)
	v := d1.Vipd(conf(more))
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1")
	}
	l.Eventually(5*time.Second, "the other addresses are there", func() bool {
		out := d1.IP("-o addr show")
		return strings.Contains(out, "vmac70 ") && strings.Contains(out, "10.9.0.70/32") && !strings.Contains(out, "eth0    inet 10.9.0.70")
	})
	for path, want := range map[string]string{
		"ipv4/conf/eth0/arp_ignore": "1", "ipv4/conf/eth0/arp_announce": "2", "ipv4/conf/eth1/arp_ignore": "2", "ipv4/conf/eth1/arp_announce": "2",
		"ipv4/conf/all/rp_filter": "1", "ipv4/conf/vrrp.54/rp_filter": "2", "ipv4/conf/vrrp.54/arp_ignore": "1", "ipv4/conf/vrrp.54/promote_secondaries": "1",
		"ipv6/conf/vrrp.54/disable_ipv6": "1", "ipv6/conf/vrrp.56/disable_ipv6": "0", "ipv6/conf/vrrp.56/addr_gen_mode": "1", "ipv4/igmp_link_local_mcast_reports": "0",
	} {
		if got := d1.ReadSysctl("net/" + path); got != want {
			t.Errorf("while it runs %s is %s, want %s", path, got, want)
		}
	}
	if out := d1.IP("-d -o link show dev vmac70"); !strings.Contains(out, "02:00:00:00:00:46") || !strings.Contains(out, "private") || !strings.Contains(out, "group 5") {
		t.Errorf("the named link is %q", out)
	}

	// A link that two share: eth0 keeps its settings for the other one.
	v.Reload(conf(""))
	l.Eventually(5*time.Second, "the links of the second instance are gone", func() bool { return linkOf(d1, "vmac70") == "" && linkOf(d1, "vrrp.70") == "" })
	if got := d1.ReadSysctl("net/ipv4/conf/eth0/arp_ignore"); got != "1" {
		t.Errorf("eth0 still has virtual MACs, but its arp_ignore is %s", got)
	}
	if got := d1.ReadSysctl("net/ipv4/conf/eth1/arp_announce"); got != "1" {
		t.Errorf("eth1 has none any more, but its arp_announce is %s, not the 1 of before", got)
	}
	v.Stop(5 * time.Second)
	if diff := differences(before, settings(d1)); len(diff) > 0 {
		t.Errorf("after the stop it is not as before: %q", diff)
	}

	v.Again()
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1")
	}
	v.Kill()
	if diff := differences(before, settings(d1)); len(diff) == 0 {
		t.Fatal("a killed daemon left nothing: the rest would prove nothing")
	}
	// Started again with another configuration altogether.
	if err := os.WriteFile(v.ConfigFile, []byte(bothFamilies(lab.Instance{Priority: 100, Interval: quick})), 0o600); err != nil {
		t.Fatal(err)
	}
	v.Again()
	for _, f := range families() {
		v.WaitState(f.instance, "MASTER", 10*time.Second)
		l.WaitOwner(f.vip, 10*time.Second, "d1")
	}
	if diff := differences(before, settings(d1)); len(diff) > 0 {
		t.Errorf("after a kill and a start without virtual MACs it is not as before: %q", diff)
	}

	// Switched on and off by reload: nobody gives way for that.
	seen := d1.Capture()
	at := time.Now()
	for _, on := range []bool{true, false, true} {
		next, where := conf(""), "vrrp."
		if !on {
			next, where = bothFamilies(lab.Instance{Priority: 200, Interval: quick}), "eth0 "
		}
		v.Reload(next)
		for _, f := range families() {
			l.Eventually(5*time.Second, "the address moves to "+where, func() bool {
				return strings.Contains(d1.IP("-o addr show to "+f.vip.String()), where)
			})
			l.Eventually(5*time.Second, "adverts and announcements have the MAC of "+where, func() bool {
				adverts, told := seen.Adverts(f.vrid), seen.Announcements(f.vip)
				want := d1.MAC()
				if on {
					want = f.virtualMAC()
				}
				return len(adverts) > 0 && adverts[len(adverts)-1].SrcMAC == want && len(told) > 0 && told[len(told)-1].MAC == want
			})
		}
		time.Sleep(3 * quick)
	}
	for _, f := range families() {
		list := lab.Between(seen.Adverts(f.vrid), at, time.Now())
		gap, _ := lab.LongestGap(list)
		if resigned := lab.Filter(list, func(a lab.Advert) bool { return a.Priority == 0 }); len(resigned) > 0 || gap > 2*quick {
			t.Errorf("%s: a reload that switches virtual MACs made the master resign (%v) or fall silent (%v)", f.name, resigned, gap)
		}
	}
	d1.Sysctl("net/ipv4/conf/eth0/arp_announce", "0") // an operator's wish
	v.Stop(5 * time.Second)
	if diff := differences(before, settings(d1)); len(diff) > 0 {
		t.Errorf("after the last stop it is not as before: %q", diff)
	}
}

// Somebody else's link of the same name is a reason for FAULT that is named, and is not touched. A link that an operator
// deletes, or whose parent is made anew, comes back with its addresses.
func TestO27LinksOfOthers(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	seen := cl.Capture()
	d1.IP("link add vrrp.54 link eth1 type macvlan mode bridge")
	foreign := linkOf(d1, "vrrp.54")
	v := d1.Vipd(withVMAC(200))
	l.WaitOwner(lab.VIP6(), 10*time.Second, "d1") // the other one works
	v.WaitState("VI_4", "FAULT", 5*time.Second)
	if reason := v.Status().Instance("VI_4").Reason; !strings.Contains(reason, "vrrp.54") || !strings.Contains(reason, "not made by vipd") || !strings.Contains(reason, "on eth1") {
		t.Errorf("the reason is %q", reason)
	}
	if linkOf(d1, "vrrp.54") != foreign || foreign == "" {
		t.Error("the link of others was touched")
	}
	d1.IP("link del vrrp.54")
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")

	// Deleted by hand.
	at := time.Now()
	d1.IP("link del vrrp.54")
	d1.IP("link set vrrp.56 down")
	for _, f := range families() {
		l.Eventually(10*time.Second, f.name+": the link is there again with its address", func() bool {
			return strings.Contains(d1.IP("-o addr show to "+f.vip.String()), fmt.Sprintf("vrrp.%d ", f.vrid))
		})
		seen.WaitAdvert(5*time.Second, f.vrid, f.source(d1), at.Add(500*time.Millisecond))
		for _, a := range lab.Between(seen.Adverts(f.vrid), at, time.Now()) {
			if a.Priority == 0 {
				t.Errorf("%s: the master resigned because its link was made anew", f.name)
			}
		}
	}

	d1.IP("link set eth0 mtu 1400")
	l.Eventually(3*time.Second, "the links follow the MTU", func() bool { return strings.Contains(d1.IP("-o link show dev vrrp.54"), "mtu 1400") })
	d1.IP("link set eth0 mtu 1500")
	l.Eventually(3*time.Second, "and back", func() bool { return strings.Contains(d1.IP("-o link show dev vrrp.54"), "mtu 1500") })

	// The parent goes, its links with it, and comes back.
	d1.Unplug(0)
	l.Eventually(5*time.Second, "the links went with their parent", func() bool { return linkOf(d1, "vrrp.54") == "" && linkOf(d1, "vrrp.56") == "" })
	v.WaitState("VI_6", "FAULT", 5*time.Second)
	at = d1.Plug(0)
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1")
		if a := seen.WaitAdvert(5*time.Second, f.vrid, f.source(d1), at); a.SrcMAC != f.virtualMAC() {
			t.Errorf("%s: after the parent came back adverts come from %s", f.name, a.SrcMAC)
		}
	}
	if got := d1.ReadSysctl("net/ipv4/conf/eth0/arp_ignore"); got != "1" {
		t.Errorf("the new eth0 has arp_ignore %s, want 1", got)
	}
	v.Stop(5 * time.Second)
	if out := d1.IP("-o link show type macvlan"); strings.TrimSpace(out) != "" {
		t.Errorf("links are left: %s", out)
	}
}
