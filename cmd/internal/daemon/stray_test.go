package daemon

import (
	"net/netip"
	"strings"
	"testing"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

func TestStrays(t *testing.T) {
	link := func(proto uint8, prefixes ...string) *host.Link {
		l := &host.Link{}
		for _, p := range prefixes {
			l.Addrs = append(l.Addrs, host.Addr{Prefix: netip.MustParsePrefix(p), Proto: proto})
		}
		return l
	}
	lo := link(0, "10.9.0.100/32")
	lo.Loopback = true
	for name, c := range map[string]struct {
		links    map[string]*host.Link
		state    vrrp.State
		priority uint8
		vip      string
		want     string // what the only text says; "" is no text
	}{
		"none":                 {map[string]*host.Link{"eth0": link(0, "10.9.0.1/24")}, vrrp.Backup, 100, "10.9.0.100/32", ""},
		"being removed":        {map[string]*host.Link{"eth0": link(0, "10.9.0.100/32")}, vrrp.Backup, 100, "10.9.0.100/32", ""},
		"other length":         {map[string]*host.Link{"eth0": link(0, "10.9.0.100/24")}, vrrp.Backup, 100, "10.9.0.100/32", "ip address delete 10.9.0.100/24 dev eth0"},
		"other link":           {map[string]*host.Link{"eth1": link(0, "10.9.0.100/32")}, vrrp.Fault, 100, "10.9.0.100/32", "although the instance is FAULT"},
		"of another instance":  {map[string]*host.Link{"eth1": link(host.Proto, "10.9.0.100/32")}, vrrp.Backup, 100, "10.9.0.100/32", ""},
		"master":               {map[string]*host.Link{"eth0": link(0, "10.9.0.100/24")}, vrrp.Master, 100, "10.9.0.100/32", ""},
		"owner":                {map[string]*host.Link{"eth0": link(0, "10.9.0.100/24")}, vrrp.Backup, 255, "10.9.0.100/32", ""},
		"real server":          {map[string]*host.Link{"lo": lo}, vrrp.Backup, 100, "10.9.0.100/32", ""},
		"link-local elsewhere": {map[string]*host.Link{"eth1": link(0, "fe80::1/64")}, vrrp.Backup, 100, "fe80::1/128", ""},
		"link-local there":     {map[string]*host.Link{"eth0": link(0, "fe80::1/64")}, vrrp.Backup, 100, "fe80::1/128", "fe80::1/64 on eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := router.InstanceStatus{Name: "VI_1", Status: vrrp.Status{State: c.state}}
			r.Config.Priority = c.priority
			got := strays(c.links, &r, "eth0", netip.MustParsePrefix(c.vip))
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestDeaf: addresses on an interface that is down are told of while their instance is
// MASTER, once for each interface.
func TestDeaf(t *testing.T) {
	links := map[string]*host.Link{
		"eth0": {Running: true}, "eth1": {}, "lo": {Loopback: true},
	}
	on := func(present bool, devs ...string) (out []host.AddressStatus) {
		for _, d := range devs {
			out = append(out, host.AddressStatus{Dev: d, Present: present})
		}
		return out
	}
	for name, c := range map[string]struct {
		state vrrp.State
		addrs []host.AddressStatus
		want  string
	}{
		"up":         {vrrp.Master, on(true, "eth0", "lo", "gone"), ""},
		"down":       {vrrp.Master, on(true, "eth0", "eth1", "eth1"), "VI_1: eth1 is down or without carrier, and nobody reaches the 2 addresses on it"},
		"not there":  {vrrp.Master, on(false, "eth1"), ""},
		"not MASTER": {vrrp.Backup, on(true, "eth1"), ""},
	} {
		r := router.InstanceStatus{Name: "VI_1", Status: vrrp.Status{State: c.state}}
		got := deaf(links, &r, c.addrs)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
