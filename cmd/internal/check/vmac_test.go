package check

import (
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"vipd/conf"
	"vipd/vrrp/host"
)

// TestVirtualMACs: what will keep a link with a virtual MAC from being made, or from working, is named; where all is well,
// and without such links, nothing is said.
func TestVirtualMACs(t *testing.T) {
	mac := [6]byte{0, 0, 0x5e, 0, 1, 51}
	eth0 := func() *host.Link { return &host.Link{Name: "eth0", Index: 2, MAC: [6]byte{2, 0, 0, 0, 0, 1}} }
	modules := "lib/modules/" + release() + "/modules.dep"
	for name, c := range map[string]struct {
		links []*host.Link
		files map[string]string
		want  string
	}{
		"all is well":      {[]*host.Link{eth0()}, map[string]string{modules: "kernel/drivers/net/macvlan.ko.xz:", "proc/sys/net/ipv4/conf/all/arp_ignore": "1"}, ""},
		"nothing is known": {[]*host.Link{eth0()}, nil, ""},
		"no parent yet":    {nil, nil, ""},
		"left by vipd":     {[]*host.Link{eth0(), {Name: "vrrp.51", Kind: "macvlan", Alias: "vipd /run/vipd"}}, nil, ""},
		"no macvlan":       {[]*host.Link{eth0()}, map[string]string{modules: "kernel/drivers/net/dummy.ko:"}, "this kernel has no macvlan"},
		"arp_filter":       {[]*host.Link{eth0()}, map[string]string{"proc/sys/net/ipv4/conf/all/arp_filter": "1\n"}, "net.ipv4.conf.all.arp_filter is 1"},
		"arp_ignore":       {[]*host.Link{eth0()}, map[string]string{"proc/sys/net/ipv4/conf/all/arp_ignore": "8\n"}, "net.ipv4.conf.all.arp_ignore is 8"},
		"Wi-Fi":            {[]*host.Link{eth0()}, map[string]string{"sys/class/net/eth0/phy80211/name": ""}, "vrrp_instance.VI_1: eth0 is a Wi-Fi interface"},
		"a cloud":          {[]*host.Link{eth0()}, map[string]string{"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "vrrp_instance.VI_1: this is a machine of Amazon EC2"},
		"no Ethernet":      {[]*host.Link{{Name: "eth0", Index: 2}}, nil, "vrrp_instance.VI_1: eth0 has no Ethernet address"},
		"another link":     {[]*host.Link{eth0(), {Name: "vrrp.51", Kind: "dummy"}}, nil, "vrrp_instance.VI_1: a link vrrp.51 is there already and not vipd's"},
		"of keepalived":    {[]*host.Link{eth0(), {Name: "vrrp.51", Kind: "macvlan", Private: true, Parent: 2, MAC: mac}}, nil, "vrrp_instance.VI_1: the link vrrp.51 is there already, made by another program"},
		"the MAC":          {[]*host.Link{eth0(), {Name: "vm7", Kind: "macvlan", Parent: 2, MAC: mac}}, nil, "vrrp_instance.VI_1: vm7 on eth0 has the virtual MAC 00:00:5e:00:01:33 already"},
	} {
		t.Run(name, func(t *testing.T) {
			state := host.State{Links: map[string]*host.Link{}}
			for _, l := range c.links {
				state.Links[l.Name] = l
			}
			root := fstest.MapFS{}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			cfg := &conf.Config{Instances: []conf.Instance{{Name: "VI_1", Interface: "eth0", VMACs: []conf.VMAC{{Name: "vrrp.51", Parent: "eth0", MAC: mac}}}}}
			got := virtualMACs(cfg, state, root)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if owner := cfg.Instances[0]; c.want == "" && len(c.links) > 0 {
				owner.Priority, owner.VIPs = 255, []conf.VIP{{Prefix: netip.MustParsePrefix("10.9.0.1/32"), Dev: "eth0", Link: "vrrp.51"}}
				eth := state.Links["eth0"]
				eth.Addrs = []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.1/24")}}
				got := virtualMACs(&conf.Config{Instances: []conf.Instance{owner}}, state, root)
				if len(got) != 1 || !strings.HasPrefix(got[0], "vrrp_instance.VI_1: 10.9.0.1 is on eth0, and will be on vrrp.51 as well") {
					t.Errorf("an owner: %q", got)
				}
			}
			cfg.Instances[0].VMACs = nil
			if got := virtualMACs(cfg, state, root); len(got) > 0 {
				t.Errorf("without virtual MACs: %q", got)
			}
		})
	}
}
