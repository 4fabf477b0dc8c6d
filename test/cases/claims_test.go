package cases

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O43: a real server of LVS-DR has the virtual address on lo and answers ARP for it:
// part of the clients go past the director.
//
// Claim: the MASTER names it with its MAC address within 12 s, in the log, a note and an
// alarm; a server with arp_ignore is not named, nor is this director's second interface
// on the LAN, and the BACKUP names nobody. The alarm ends when that does.
func TestO43VIPAnsweredByAnother(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "r1", "r2")
	d1, r1, r2 := l.Node("d1"), l.Node("r1"), l.Node("r2")
	l.Switch().IP("link set d1-1 master br0") // both interfaces of d1 on one LAN
	conf := func(priority int) string {
		return lab.VipdConf("", lab.Instance{Priority: priority, Interval: quick, VIPs: []netip.Addr{lab.VIP()}})
	}
	master := d1.Vipd(conf(200))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	backup := l.Node("d2").Vipd(conf(100))
	r2.Sysctl("net/ipv4/conf/all/arp_ignore", "1")
	for _, r := range []*lab.Node{r1, r2} {
		r.IP("addr add " + lab.VIP().String() + "/32 dev lo")
	}
	master.WaitLog("WARN the machine with the MAC address "+r1.MAC()+" on .* answers for "+lab.VIP().String(), 12*time.Second)
	alarms := func(v *lab.Daemon) []string {
		return slices.DeleteFunc(v.Status().Alarms, func(a string) bool { return !strings.Contains(a, "answers for") })
	}
	if got := alarms(master); len(got) != 1 || !strings.Contains(got[0], r1.MAC()) || !strings.Contains(got[0], lab.VIP().String()) {
		t.Errorf("alarms %q, want one that names %v at %s", got, lab.VIP(), r1.MAC())
	}
	if got := alarms(backup); len(got) != 0 {
		t.Errorf("the BACKUP has alarms %q", got)
	}
	r1.Sysctl("net/ipv4/conf/all/arp_ignore", "1")
	for end := time.Now().Add(14 * time.Second); len(alarms(master)) > 0; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the alarm stays: %q", alarms(master))
		}
	}
}
