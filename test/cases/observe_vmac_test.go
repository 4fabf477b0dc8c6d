package cases

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// An observer beside keepalived with virtual MACs and routes over their links.
//
// Claim: it sees keepalived's adverts and addresses on the link with the virtual MAC
// and agrees at both nodes, before and after a failover. It makes no link, takes no
// setting, and leaves keepalived's links and routes as they are.
func TestObserveVMAC(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	conf := func(write func(string, ...lab.Instance) string, priority int) string {
		var list []lab.Instance
		for _, f := range families() {
			list = append(list, lab.Instance{Name: f.instance, VRID: f.vrid, Priority: priority, VIPs: f.vips, State: "BACKUP",
				Interval: observedInterval, Extra: []string{"use_vmac"}})
		}
		return write("", list...)
	}
	vipd := func(priority int) string {
		before := "static_ipaddress = [\"10.66.0.1/32 dev lo track_group T\"]\nstatic_rules = [\"from 10.66.0.1 table 100 priority 99\"]\n[track_group.T]\ngroup = [\"VI_4\"]"
		text := strings.Replace(conf(lab.VipdConf, priority), "[vrrp_instance.VI_4]\n",
			before+"\n[vrrp_instance.VI_4]\nvirtual_routes = [\"10.67.0.0/16 dev vrrp.54\"]\npromote_secondaries = true\ntrack_interface = [\"eth0\"]\n", 1)
		return text + "[global_defs]\nsmtp_server = \"10.9.0.99\"\nnotification_email = \"a@b.c\"\nsmtp_alert = true\ndisable_local_igmp = true\n"
	}
	k2 := d2.Keepalived(conf(lab.KeepalivedConf, 100))
	k1 := d1.Keepalived(conf(lab.KeepalivedConf, 200))
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	settled(l, d2)
	state := func() string { return strings.ReplaceAll(kernelState(d2), " users 2", "") } // the tap has the card pass the group's frames
	before := state()
	v1 := d1.Vipd(vipd(200), "--observe")
	v2 := d2.Vipd(vipd(100), "--observe")
	for _, f := range families() {
		v1.WaitLog(`agrees: keepalived is MASTER here.*"`+f.instance, 10*time.Second)
		v2.WaitLog(`agrees: keepalived is not MASTER here, vipd would be BACKUP.*"`+f.instance, 10*time.Second)
	}
	v1.WaitLog(`would become MASTER: .*2001:db8:9::100/128 to vrrp.56 \(virtual MAC 00:00:5e:00:02:38 on eth0\) \(there already\)`, time.Second)
	if after := state(); after != before {
		t.Errorf("the kernel of d2 has changed beside an observer, from\n%s\nto\n%s", before, after)
	}
	k1.Stop(5 * time.Second)
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d2")
		v1.WaitLog(`DIFFERS: keepalived is not MASTER here, vipd would be MASTER.*"`+f.instance, 15*time.Second)
		v2.WaitLog(`agrees: keepalived is MASTER here.*"`+f.instance, 15*time.Second)
	}
	if links := d1.Sh("ip -o link show type macvlan; ip rule show priority 99; ip addr show dev lo | grep 10.66 || true"); links != "" {
		t.Errorf("on d1, where keepalived has ended, there is %s", links)
	}
	for _, v := range []*lab.Daemon{v1, v2} {
		v.Signal(syscall.SIGTERM)
		if code := v.Wait(2 * time.Second); code != 0 {
			t.Errorf("%s: exit code %d", v.Name, code)
		}
		for _, line := range []string{"this file is not what keepalived does", "DIFFERS: the addresses"} {
			if strings.Contains(v.Log(), line) {
				t.Errorf("%s says %q:\n%s", v.Name, line, v.Log())
			}
		}
	}
	k2.Stop(5 * time.Second)
}
