package vmac_test

import (
	"strings"
	"testing"

	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
)

// What others set stays theirs: higher values, and what they change while we run.
func TestSettingsOfOthers(t *testing.T) {
	k := site()
	dir := "net/ipv4/conf/eth0/"
	for path, v := range map[string]string{dir + "arp_ignore": "2", dir + "arp_announce": "1", "net/ipv4/conf/all/rp_filter": "1"} {
		if err := k.Set(path, v); err != nil {
			t.Fatal(err)
		}
	}
	m := manager(t, k)
	m.Configure([]vmac.Link{v4, on}, false)
	for path, want := range map[string]string{dir + "arp_ignore": "2", dir + "arp_announce": "2", "net/ipv4/conf/vrrp.51/rp_filter": "2", "net/ipv4/conf/all/rp_filter": "1"} {
		if got, _ := k.Get(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if err := k.Set("net/ipv4/conf/eth1/arp_announce", "1"); err != nil { // an operator
		t.Fatal(err)
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir + "arp_ignore": "2", dir + "arp_announce": "1", "net/ipv4/conf/eth1/arp_announce": "1", "net/ipv4/conf/eth1/arp_ignore": "0"} {
		if got, _ := k.Get(path); got != want {
			t.Errorf("released, %s is %s, want %s", path, got, want)
		}
	}
}

// Two vipd with state directories of their own do not touch each other's links; nor those of strangers.
func TestLinksOfOthersStay(t *testing.T) {
	for name, c := range map[string]struct {
		link  host.Link
		says  string
		taken bool
	}{
		"of another kind":          {host.Link{Name: "vrrp.51", Kind: "dummy"}, "not made by vipd (dummy with 00:00:00:00:00:00)", false},
		"in another mode":          {host.Link{Name: "vrrp.51", Kind: "macvlan", Parent: 1, MAC: v4.MAC}, "not in private mode", false},
		"on another parent":        {host.Link{Name: "vrrp.51", Kind: "macvlan", Private: true, Parent: 2, MAC: v4.MAC}, "on eth1", false},
		"of another vipd":          {host.Link{Name: "vrrp.51", Kind: "macvlan", Private: true, Parent: 1, MAC: v4.MAC, Alias: "vipd /run/other"}, "another vipd (state directory /run/other)", false},
		"with our MAC":             {host.Link{Name: "vrrp9", Kind: "macvlan", Private: true, Parent: 1, MAC: v4.MAC}, "vrrp9 on eth0 has the virtual MAC 00:00:5e:00:01:33 already", false},
		"as ours, of another tool": {host.Link{Name: "vrrp.51", Kind: "macvlan", Private: true, Parent: 1, MAC: v4.MAC}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := site()
			index := k.Make(c.link)
			m := manager(t, k)
			if _, err := m.Sweep(); err != nil {
				t.Fatal(err)
			}
			m.Configure([]vmac.Link{v4}, false)
			s, _ := k.State()
			if there := s.ByIndex(index) != nil; there == c.taken {
				t.Errorf("the link is there: %v", there)
			}
			if got := m.Problems()["vrrp.51"]; !strings.Contains(got, c.says) || (got == "") != c.taken {
				t.Errorf("the problem is %q, want %q", got, c.says)
			}
			if err := m.Release(); err != nil {
				t.Fatal(err)
			}
			if s, _ := k.State(); (s.ByIndex(index) != nil) == c.taken {
				t.Error("after the release it is not as before")
			}
			if !c.taken {
				k.Unplug(c.link.Name)
				m := manager(t, k)
				m.Configure([]vmac.Link{v4}, false)
				if p := m.Problems(); len(p) > 0 {
					t.Errorf("without it there is still a problem: %v", p)
				}
			}
		})
	}
}

// A link that has another MAC or parent under its name is replaced, and so is one of ours that has the MAC under another
// name. What is the same, new, or in the way but of others, is not.
func TestReplaces(t *testing.T) {
	k := site()
	m := manager(t, k)
	if m.Replaces([]vmac.Link{v4}) {
		t.Error("nothing is there, but it would be replaced")
	}
	m.Configure([]vmac.Link{v4, on}, false)
	moved, other, named, fresh := v4, v4, v4, v4
	moved.Parent, other.MAC[5], named.Name = "eth1", 52, "vm0"
	fresh.Name, fresh.MAC[5] = "vrrp.60", 60
	for _, tt := range []struct {
		what  string
		links []vmac.Link
		want  bool
	}{
		{"the same", []vmac.Link{v4, on}, false},
		{"one less and one more", []vmac.Link{v4, fresh}, false},
		{"another parent", []vmac.Link{on, moved}, true},
		{"another MAC", []vmac.Link{other}, true},
		{"another name", []vmac.Link{named}, true},
	} {
		if got := m.Replaces(tt.links); got != tt.want {
			t.Errorf("%s: replaced: %v, want %v", tt.what, got, tt.want)
		}
	}
	if w := strings.Join(k.Writes(), " "); strings.Contains(w, "delete") {
		t.Errorf("asking writes %s", w)
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
}
