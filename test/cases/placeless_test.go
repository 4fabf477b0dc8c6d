package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// An instance without interface speaks from its source address wherever that is: it
// moves with it, and is in FAULT while it is nowhere.
func TestUnicastWithoutInterface(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, peer := range []string{"vipd", "keepalived"} {
			t.Run(f.name+" "+peer, func(t *testing.T) {
				t.Parallel()
				withoutInterface(t, f, peer)
			})
		}
	}
}

// inner is an address of a director that belongs to no network of an interface, and its length.
func inner(f family, n *lab.Node) (netip.Addr, int) {
	if f.vip.Is6() {
		return netip.MustParseAddr("2001:db8:6::" + n.Name[1:]), 128
	}
	return netip.MustParseAddr("10.6.0." + n.Name[1:]), 32
}

// innerAddress adds or deletes that address.
func innerAddress(f family, n *lab.Node, verb, dev string) {
	a, bits := inner(f, n)
	line := fmt.Sprintf("addr %s %v/%d dev %s", verb, a, bits, dev)
	if a.Is6() && verb == "add" {
		line += " nodad"
	}
	n.IP(line)
}

func withoutInterface(t *testing.T, f family, peer string) {
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	conf := func(n, other *lab.Node, priority int) lab.Instance {
		in := unicastInstance(f, n, priority, other)
		src, _ := inner(f, n)
		dst, _ := inner(f, other)
		in.Interface, in.Extra, in.Peers = lab.None, []string{"unicast_src_ip " + src.String()}, []string{dst.String()}
		return in
	}
	for n, other := range map[*lab.Node]*lab.Node{d1: d2, d2: d1} {
		innerAddress(f, n, "add", "eth0")
		a, bits := inner(f, other)
		n.IP(fmt.Sprintf("route add %v/%d via %v", a, bits, f.own(other)))
	}
	seen := d2.Capture()
	v := d1.Vipd(lab.VipdConf("", conf(d1, d2, 200)))
	l.WaitOwner(f.vip, 10*time.Second, "d1")
	if in := conf(d2, d1, 100); peer == "vipd" {
		d2.Vipd(lab.VipdConf("", in)).WaitState(f.instance, "BACKUP", 5*time.Second)
	} else {
		in.Interface = "eth0" // 2.2.7 calls none an unknown interface
		d2.Keepalived(lab.KeepalivedConf("", in))
	}
	p := &pair{Lab: l, t: t}
	p.owns(f, d1, 2*time.Second)
	src, _ := inner(f, d1)
	dst, _ := inner(f, d2)
	if a := seen.WaitAdvert(5*time.Second, f.vrid, src, time.Now()); a.Dst != dst {
		t.Errorf("%v went to %v, want %v", a, a.Dst, dst)
	}
	at := func(dev string) {
		t.Helper()
		l.Eventually(3*time.Second, fmt.Sprintf("status shows the interface %q", dev), func() bool {
			return v.Status().Instance(f.instance).Interface == dev
		})
	}
	at("eth0")

	innerAddress(f, d1, "add", "eth1")
	innerAddress(f, d1, "del", "eth0")
	at("eth1")
	p.owns(f, d1, time.Second)
	seen.WaitAdvert(2*time.Second, f.vrid, src, time.Now())

	innerAddress(f, d1, "del", "eth1")
	v.WaitState(f.instance, "FAULT", 2*time.Second)
	l.WaitOwner(f.vip, 3*time.Second, "d2")
	if i := v.Status().Instance(f.instance); !strings.Contains(i.Reason, fmt.Sprintf("the configured source address %v is on no interface", src)) {
		t.Errorf("FAULT says %q", i.Reason)
	}
	at("")
	p.owns(f, d2, time.Second)

	innerAddress(f, d1, "add", "eth0")
	l.Eventually(2*time.Second, "it takes part again", func() bool { return v.Status().Instance(f.instance).State != "FAULT" })
	at("eth0")
	l.WaitOwner(f.vip, 5*time.Second, "d1")
	p.owns(f, d1, time.Second)
}
