package cases

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// A pair by unicast whose instances are in a sync group gets, at the MASTER, virtual MACs and all that comes with them
// by one reload, and loses them by the next.
//
// Claim: nobody moves. The addresses and a route are on the links with the virtual MACs, then everything is as before.
func TestVMACByReload(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	const group = "\n[vrrp_sync_group.G]\ngroup = [\"VI_4\", \"VI_6\"]\n"
	conf := func(n, peer *lab.Node, priority int, extra ...string) string {
		var list []lab.Instance
		for _, f := range families() {
			i := unicastInstance(f, n, priority, peer)
			i.Extra = append(i.Extra, extra...)
			list = append(list, i)
		}
		return lab.VipdConf("", list...) + group
	}
	before := settings(d1)
	v1 := d1.Vipd(conf(d1, d2, 200))
	for _, f := range families() {
		v1.WaitState(f.instance, "MASTER", 10*time.Second)
	}
	v2 := d2.Vipd(conf(d2, d1, 100))
	for _, f := range families() {
		v2.WaitState(f.instance, "BACKUP", 10*time.Second)
	}

	more := conf(d1, d2, 200, "use_vmac", "vmac_xmit_base", "no_accept", "promote_secondaries", "garp_form both", "garp_extra_if all 1", "notify_master /bin/true")
	more = strings.Replace(more, "[vrrp_instance.VI_4]\n", "[vrrp_instance.VI_4]\nvirtual_routes = [\"10.67.0.0/16 dev vrrp.54 src 10.9.0.100\"]\n", 1)
	more = strings.Replace(more, "use_vmac = true", `use_vmac = "group 7"`, 1) + "[[garp_group]]\ninterface = \"eth0\"\ngarp_interval = 0.02\n"
	for range 2 {
		v1.Reload(more)
		l.Eventually(5*time.Second, "addresses and route are on the links", func() bool {
			out, _ := d1.Try("sh", "-c", "ip -o addr show dev vrrp.54; ip -o addr show dev vrrp.56; ip route show dev vrrp.54; ip -d link show dev vrrp.54")
			return strings.Contains(out, "10.9.0.100/32") && strings.Contains(out, "2001:db8:9::100/128") && strings.Contains(out, "10.67.0.0/16") &&
				strings.Contains(out, " group 7 ")
		})
		if out := d1.Sh("nft list ruleset"); !strings.Contains(out, "10.9.0.100") {
			t.Errorf("no_accept by reload: the rules are\n%s", out)
		}
		if out := d1.IP("-o addr show dev eth0"); strings.Contains(out, "10.9.0.100/") {
			t.Errorf("the address is on eth0 as well: %s", out)
		}
		v1.Reload(strings.Replace(more, "group 7", "group 8", 1))
		l.Eventually(5*time.Second, "the link is in the other group", func() bool { return strings.Contains(d1.IP("-d link show dev vrrp.54"), " group 8 ") })
		v1.Reload(conf(d1, d2, 200))
		l.Eventually(5*time.Second, "the links are gone and the address is on eth0", func() bool {
			return linkOf(d1, "vrrp.54") == "" && linkOf(d1, "vrrp.56") == "" && strings.Contains(d1.IP("-o addr show dev eth0"), "10.9.0.100/32")
		})
		l.Eventually(5*time.Second, "everything is as before", func() bool {
			out := d1.Sh("nft list ruleset; ip route")
			return len(differences(before, settings(d1))) == 0 && !strings.Contains(out, "10.9.0.100") && !strings.Contains(out, "10.67.")
		})
	}
	time.Sleep(4 * unicastInterval) // d2 would have taken over by now
	changes := regexp.MustCompile(`(?m) INFO (sync group )?[A-Z]+ -> `)
	for v, most := range map[*lab.Daemon]int{v1: 6, v2: 3} { // two instances and the group, each from INIT on
		if n := len(changes.FindAllString(v.Log(), -1)); n != most {
			t.Errorf("%s has changed its state %d times, want %d", v.Name, n, most)
		}
	}
	for _, f := range families() {
		l.WaitOwner(f.vip, time.Second, "d1")
	}
}

// A MASTER whose link has to be made anew, for it moves to another interface or has another virtual MAC under the same
// name, tells the others that it leaves before the old link goes.
func TestVMACLinkIsMadeAnew(t *testing.T) {
	t.Parallel()
	shape := func(dev string, vrid uint8) string {
		i := one("A", vrid, `["10.9.0.100"]`, "use_vmac vm0")
		i.Interface = dev
		return lab.VipdConf("", i)
	}
	for name, after := range map[string]string{"interface": shape("eth1", 51), "VRID": shape("eth0", 52)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "cl")
			d1 := l.Node("d1")
			seen := l.Node("cl").Capture()
			v := d1.Vipd(shape("eth0", 51))
			l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
			seen.WaitAdvert(2*time.Second, 51, d1.Addr(), time.Now())
			at := reloaded(l, v, after)
			v.WaitState("A", "MASTER", 5*time.Second)
			adverts := seen.Adverts(51)
			if last := adverts[len(adverts)-1]; last.Priority != 0 || last.At.Sub(at) > time.Second {
				t.Errorf("the last advert of VRID 51 on eth0, %v after the reload, has priority %d, want 0", last.At.Sub(at), last.Priority)
			}
			if has := kernelHas(d1, lab.VIP()); has != "10.9.0.100/32 vm0 vm0" {
				t.Errorf("the kernel has the VIP as %q", has)
			}
			calm(t, v)
		})
	}
}
