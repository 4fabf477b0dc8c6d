package cases

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// Virtual routers whose addresses are moved by a script or a cloud API have none
// in their adverts, or none at all (files of this kind are common).
//
// Claim: such a pair has one master like any other, in both versions and both
// families, and the addresses that are not advertised are on one director only.
func TestVariantNothingAdvertised(t *testing.T) {
	t.Parallel()
	excluded := netip.MustParseAddr("10.9.0.101")
	l := lab.New(t, "d1", "d2", "cl")
	seen := l.Node("cl").Capture()
	conf := func(priority int) string {
		return fmt.Sprintf(`
[vrrp_instance.NONE3]
interface = "eth0"
virtual_router_id = 61
version = 3
priority = %[1]d
advert_int = 0.1
no_virtual_ipaddress = true

[vrrp_instance.NONE2]
interface = "eth0"
virtual_router_id = 62
version = 2
priority = %[1]d
advert_int = 1
no_virtual_ipaddress = true

[vrrp_instance.NONE6]
interface = "eth0"
virtual_router_id = 63
priority = %[1]d
advert_int = 0.1
mcast_dst_ip = "ff02::12"
no_virtual_ipaddress = true

[vrrp_instance.EXCLUDED]
interface = "eth0"
virtual_router_id = 64
version = 3
priority = %[1]d
advert_int = 0.1
virtual_ipaddress_excluded = ["%[2]s"]
`, priority, excluded)
	}
	d1 := l.Node("d1").Vipd(conf(200))
	l.Node("d2").Vipd(conf(100))
	const settled = 6 * time.Second // more than version 2's 3.6 s
	time.Sleep(settled)
	from := time.Now()
	time.Sleep(2 * time.Second)
	for vrid, name := range map[uint8]string{61: "version 3", 62: "version 2", 63: "IPv6", 64: "excluded alone"} {
		list := lab.Between(seen.Adverts(vrid), from, time.Now())
		if len(list) == 0 {
			t.Errorf("%s: nobody advertises", name)
		}
		for _, a := range list {
			if a.Priority != 200 || len(a.Addrs) != 0 {
				t.Errorf("%s: %v sends priority %d and %v", name, a.Src, a.Priority, a.Addrs)
				break
			}
		}
	}
	l.WaitOwner(excluded, time.Second, "d1")
	d1.Kill()
	time.Sleep(settled)
	l.WaitOwner(excluded, time.Second, "d1", "d2") // what a crash leaves
	for _, vrid := range []uint8{61, 62, 63, 64} {
		if a, ok := lab.LastBefore(seen.Adverts(vrid), time.Now()); !ok || a.Priority != 100 {
			t.Errorf("VRID %d: the other director has not taken over", vrid)
		}
	}
}

// Routers have the same link-local address on every VLAN.
//
// Claim: fe80::1 on two links belongs to two virtual routers, each of which takes
// it up, puts it back and gives it up without touching the other's.
func TestVariantOneLinkLocalOnTwoLinks(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	const conf = `
[vrrp_instance.A]
interface = "eth0"
virtual_router_id = 51
advert_int = 0.1
virtual_ipaddress = ["fe80::1", "2001:db8:9::100"]
`
	const second = `
[vrrp_instance.B]
interface = "eth1"
virtual_router_id = 51
advert_int = 0.1
virtual_ipaddress = ["fe80::1", "2001:db8:8::100"]
`
	v := d1.Vipd(conf + second)
	has := func(dev string) bool {
		for _, a := range d1.Addresses() {
			if a.Dev == dev && a.Prefix.Addr() == netip.MustParseAddr("fe80::1") {
				return true
			}
		}
		return false
	}
	l.Eventually(10*time.Second, "fe80::1 is on both links", func() bool { return has("eth0") && has("eth1") })
	d1.IP("addr del fe80::1/128 dev eth1")
	l.Eventually(backLimit, "fe80::1 is put back on eth1", func() bool { return has("eth1") })
	v.Reload(conf)
	l.Eventually(2*time.Second, "fe80::1 is gone from eth1", func() bool { return !has("eth1") })
	l.Never(500*time.Millisecond, "fe80::1 is gone from eth0", func() bool { return !has("eth0") })
}
