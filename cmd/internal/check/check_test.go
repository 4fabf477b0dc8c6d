package check

import (
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"vipd/conf"
	"vipd/vrrp/host"
)

// TestInterfaces: what the machine lacks is said once, however many addresses
// are concerned.
func TestInterfaces(t *testing.T) {
	state := host.State{Links: map[string]*host.Link{
		"eth0": {Name: "eth0", Addrs: []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.1/24")}}},
		"eth1": {Name: "eth1"},
		"eth2": {Name: "eth2", MTU: 576, Addrs: []host.Addr{
			{Prefix: netip.MustParsePrefix("10.8.0.1/24")}, {Prefix: netip.MustParsePrefix("10.8.0.9/24"), Secondary: true},
			{Prefix: netip.MustParsePrefix("10.8.0.100/32")}, {Prefix: netip.MustParsePrefix("10.7.0.100/24"), Proto: host.Proto},
			{Prefix: netip.MustParsePrefix("fe80::1/64")},
		}},
	}}
	peers := func(list ...string) (out []conf.Peer) {
		for _, a := range list {
			out = append(out, conf.Peer{Address: netip.MustParseAddr(a)})
		}
		return out
	}
	var many []string // 576 - 20 - 8 bytes hold 137, those of IPv6 32
	for a := netip.MustParseAddr("10.8.1.0"); len(many) < 138; a = a.Next() {
		many = append(many, a.String()+"/32")
	}
	vips := func(dev string, list ...string) (out []conf.VIP) {
		for _, p := range list {
			out = append(out, conf.VIP{Prefix: netip.MustParsePrefix(p), Dev: dev})
		}
		return out
	}
	for name, c := range map[string]struct {
		instance conf.Instance
		want     string
	}{
		"all there":       {conf.Instance{Interface: "eth0", VIPs: vips("eth0", "10.9.0.100/32")}, ""},
		"no base address": {conf.Instance{Interface: "eth1", VIPs: vips("eth1", "10.9.0.100/32")}, "interface eth1 has no IPv4 address"},
		"no link-local":   {conf.Instance{Interface: "eth0", IPv6: true}, "interface eth0 has no IPv6 link-local address"},
		"no interface":    {conf.Instance{Interface: "eth9", VIPs: vips("eth9", "10.9.0.100/32", "10.9.0.101/32")}, "interface eth9 does not exist here (there are: eth0, eth1, eth2)"},
		"no device":       {conf.Instance{Interface: "eth0", VIPs: vips("eth9", "10.9.0.100/32", "10.9.0.101/32")}, "dev eth9, where 2 of its addresses belong, does not exist here"},
		"own address":     {conf.Instance{Interface: "eth0", VIPs: vips("eth0", "10.9.0.1/32")}, "10.9.0.1 is on eth0 already as 10.9.0.1/24"},
		"source there":    {conf.Instance{Interface: "eth1", Source: netip.MustParseAddr("10.9.0.1")}, ""},
		"placeless":       {conf.Instance{Source: netip.MustParseAddr("10.9.0.1"), VIPs: vips("eth0", "10.9.0.100/32")}, ""},
		"placeless, away": {conf.Instance{Source: netip.MustParseAddr("10.9.0.2"), VIPs: vips("eth0", "10.9.0.100/32")}, "source address 10.9.0.2 is on no interface here"},
		"no source":       {conf.Instance{Interface: "eth0", Source: netip.MustParseAddr("10.9.0.2")}, "source address 10.9.0.2 is on no interface here"},
		"own prefix":      {conf.Instance{Interface: "eth2", VIPs: vips("eth2", "10.8.0.1/24")}, "10.8.0.1 is on eth2 already as 10.8.0.1/24"},
		"left, or held":   {conf.Instance{Interface: "eth2", VIPs: vips("eth2", "10.8.0.9/24", "10.8.0.100/32", "10.7.0.100/24")}, ""},
		"own peers":       {conf.Instance{Interface: "eth0", Peers: peers("10.9.0.1", "10.8.0.1")}, "unicast_peer lists addresses of this machine only"},
		"another peer":    {conf.Instance{Interface: "eth0", Peers: peers("10.9.0.1", "10.9.0.2")}, ""},
		"MTU":             {conf.Instance{Interface: "eth2", Version: 3, VIPs: vips("eth2", many[:137]...)}, ""},
		"low MTU":         {conf.Instance{Interface: "eth2", Version: 3, VIPs: vips("eth2", many...)}, "the MTU of 576 on eth2 leaves room for 137 of its 138 addresses in an advert"},
		"low, version 2":  {conf.Instance{Interface: "eth2", Version: 2, VIPs: vips("eth2", many[:136]...)}, "the MTU of 576 on eth2 leaves room for 135 of its 136 addresses in an advert"},
		"low, signed":     {conf.Instance{Interface: "eth2", Version: 3, HMAC: conf.HMAC{Keys: make([]conf.HMACKey, 1)}, VIPs: vips("eth2", many[:131]...)}, "the MTU of 576 on eth2 leaves room for 130 of its 131 addresses in an advert"},
		"owner":           {conf.Instance{Interface: "eth0", Priority: 255, VIPs: vips("eth0", "10.9.0.1/32")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.instance.Name = "VI_1"
			got := interfaces(&conf.Config{Instances: []conf.Instance{c.instance}}, state)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "vrrp_instance.VI_1: "+c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestModuleKnown: a module may be loaded, built in or on disk.
// TestSpread: what all instances of a spread lack is said once, under the name
// that stands in the file.
func TestSpread(t *testing.T) {
	cfg := &conf.Config{
		Instances: []conf.Instance{{Name: "WEB-01", Interface: "eth9"}, {Name: "WEB-02", Interface: "eth9"}},
		Spreads:   []conf.Spread{{Name: "WEB", Groups: []conf.SpreadGroup{{Instance: "WEB-01"}, {Instance: "WEB-02"}}}},
	}
	got := interfaces(cfg, host.State{})
	if len(got) != 1 || !strings.HasPrefix(got[0], "vip_spread.WEB: interface eth9 does not exist here") {
		t.Errorf("%q", got)
	}
}

func TestModuleKnown(t *testing.T) {
	dir := "lib/modules/" + release() + "/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		root        fstest.MapFS
		ipvs, sched bool
	}{
		"nothing known":  {fstest.MapFS{}, false, false},
		"IPVS only seen": {fstest.MapFS{"proc/net/ip_vs": file("")}, true, true},
		"loaded":         {fstest.MapFS{"sys/module/ip_vs/parameters/x": file("")}, true, false},
		"on disk":        {fstest.MapFS{dir + "modules.dep": file("kernel/net/ip_vs.ko.xz: kernel/x.ko\nkernel/net/ip_vs_wlc.ko:\n")}, true, true},
		"not on disk":    {fstest.MapFS{dir + "modules.dep": file("kernel/net/dummy.ko:\n")}, false, false},
		"built in":       {fstest.MapFS{dir + "modules.builtin": file("kernel/net/ip_vs.ko\n")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := moduleKnown(c.root, "ip_vs"); got != c.ipvs {
				t.Errorf("ip_vs: %v", got)
			}
			if got := moduleKnown(c.root, "ip_vs_wlc"); got != c.sched {
				t.Errorf("ip_vs_wlc: %v", got)
			}
		})
	}
}
