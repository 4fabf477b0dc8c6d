package vmac_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/host/vmac/vmactest"
)

var (
	v4 = vmac.Link{Name: "vrrp.51", Parent: "eth0", MAC: [6]byte{0, 0, 0x5e, 0, 1, 51}, Group: vmac.ParentGroup, IPv4: true}
	v6 = vmac.Link{Name: "vrrp6.51", Parent: "eth0", MAC: [6]byte{0, 0, 0x5e, 0, 2, 51}, Group: vmac.ParentGroup, IPv6: true}
	on = vmac.Link{Name: "other", Parent: "eth1", MAC: [6]byte{2, 0, 0, 0, 0, 9}, Group: 7, IPv4: true, IPv6: true}
)

// site is a machine with two interfaces.
func site() *vmactest.Kernel {
	k := vmactest.New()
	k.Plug("eth0", [6]byte{2, 0, 0, 0, 0, 1})
	k.Plug("eth1", [6]byte{2, 0, 0, 0, 0, 2})
	return k
}

func manager(t interface{ TempDir() string }, k *vmactest.Kernel) *vmac.Manager {
	return vmac.NewManager(k, k, t.TempDir(), nil, nil, nil)
}

func want(t *testing.T, k *vmactest.Kernel, when, text string) {
	t.Helper()
	if got := strings.TrimSpace(k.String()); got != strings.TrimSpace(text) {
		t.Errorf("%s the machine is\n%s\nwant\n%s", when, got, text)
	}
}

const bare = `
link eth0 mtu 1500
link eth1 mtu 1500`

func TestLinksAreMadeAndUndone(t *testing.T) {
	k := site()
	m := manager(t, k)
	m.Configure([]vmac.Link{v4, v6, on}, true)
	want(t, k, "configured", `
ipv4/eth0/arp_announce 2
ipv4/eth0/arp_ignore 1
ipv4/eth1/arp_announce 2
ipv4/eth1/arp_ignore 1
ipv4/igmp_link_local_mcast_reports 0
ipv4/other/arp_announce 2
ipv4/other/arp_ignore 1
ipv4/other/promote_secondaries 1
ipv4/other/rp_filter 0
ipv4/vrrp.51/arp_announce 2
ipv4/vrrp.51/arp_ignore 1
ipv4/vrrp.51/promote_secondaries 1
ipv4/vrrp.51/rp_filter 0
ipv4/vrrp6.51/arp_announce 2
ipv4/vrrp6.51/arp_ignore 1
ipv4/vrrp6.51/promote_secondaries 1
ipv4/vrrp6.51/rp_filter 0
ipv6/other/accept_dad 0
ipv6/other/accept_ra 0
ipv6/other/autoconf 0
ipv6/other/dad_transmits 0
ipv6/other/router_solicitations 0
ipv6/vrrp.51/disable_ipv6 1
ipv6/vrrp6.51/accept_dad 0
ipv6/vrrp6.51/accept_ra 0
ipv6/vrrp6.51/autoconf 0
ipv6/vrrp6.51/dad_transmits 0
ipv6/vrrp6.51/router_solicitations 0
link eth0 mtu 1500
link eth1 mtu 1500
link other on eth1 macvlan mac 000009 group 7 mtu 1500
link vrrp.51 on eth0 macvlan mac 000133 group 0 mtu 1500
link vrrp6.51 on eth0 macvlan mac 000233 group 0 mtu 1500`)

	// The same again touches nothing; a link is set up before it is taken up.
	w := k.Writes()
	made, up := slices.IndexFunc(w, func(s string) bool { return strings.HasPrefix(s, "add vrrp.51") }), slices.Index(w, "adjust vrrp.51 mtu 1500 up")
	if quiet := slices.Index(w, "set net/ipv6/conf/vrrp.51/disable_ipv6 1"); made < 0 || quiet < made || up < quiet {
		t.Errorf("in the wrong order: %q", w)
	}
	m.Configure([]vmac.Link{v4, v6, on}, true)
	if w := k.Writes(); len(w) > 0 {
		t.Errorf("nothing changed, but it writes %q", w)
	}

	// Another group is reached without making the link anew.
	moved := v4
	moved.Group = 9
	m.Configure([]vmac.Link{moved, v6, on}, true)
	s, err := k.State()
	if w := k.Writes(); err != nil || s.Link("vrrp.51").Group != 9 || len(w) != 1 {
		t.Errorf("in group %d after a reload to 9, written %q, %v", s.Link("vrrp.51").Group, w, err)
	}
	m.Configure([]vmac.Link{v4, v6, on}, true)

	// eth0 still has a link with IPv6, which asks nothing of it.
	m.Configure([]vmac.Link{v6}, false)
	if err := m.Prune(); err != nil {
		t.Fatal(err)
	}
	want(t, k, "with one left", `
ipv4/vrrp6.51/arp_announce 2
ipv4/vrrp6.51/arp_ignore 1
ipv4/vrrp6.51/promote_secondaries 1
ipv4/vrrp6.51/rp_filter 0
ipv6/vrrp6.51/accept_dad 0
ipv6/vrrp6.51/accept_ra 0
ipv6/vrrp6.51/autoconf 0
ipv6/vrrp6.51/dad_transmits 0
ipv6/vrrp6.51/router_solicitations 0
link eth0 mtu 1500
link eth1 mtu 1500
link vrrp6.51 on eth0 macvlan mac 000233 group 0 mtu 1500`)
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	want(t, k, "released", bare)
}

// The loop follows what happens to links and their parents, and tries again what the kernel refused.
func TestLinksAreKeptRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := site()
		changes := 0
		silenced := map[string]int{}
		m := vmac.NewManager(k, k, filepath.Join(t.TempDir(), "not", "there"), func(p map[string]int) error {
			silenced = maps.Clone(p)
			return nil
		}, func() { changes++ }, nil)
		m.Configure([]vmac.Link{v4}, false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		look := func() {
			time.Sleep(time.Millisecond)
			s, _ := k.State()
			m.State(s)
			synctest.Wait()
		}
		right := func(when string) {
			t.Helper()
			look()
			s, _ := k.State()
			if l := s.Link("vrrp.51"); l == nil || !l.Up || l.MTU != s.Link("eth0").MTU || l.Parent != s.Link("eth0").Index || silenced["vrrp.51"] != l.Parent {
				t.Errorf("%s: the link is %+v, silenced on %v", when, l, silenced)
			}
			if v, _ := k.Get("net/ipv4/conf/eth0/arp_ignore"); v != "1" {
				t.Errorf("%s: arp_ignore of the parent is %q", when, v)
			}
			if p := m.Problems(); len(p) > 0 {
				t.Errorf("%s: %v", when, p)
			}
		}
		right("at first")
		k.Unplug("vrrp.51")
		right("deleted by hand")
		k.Change("vrrp.51", func(l *host.Link) { l.Up = false })
		right("set down by hand")
		k.Change("eth0", func(l *host.Link) { l.MTU = 9000 })
		right("another MTU")
		k.Unplug("eth0")
		look()
		if p := m.Problems()["vrrp.51"]; !strings.Contains(p, "eth0") || !strings.Contains(p, "does not exist") {
			t.Errorf("without its parent the problem is %q", p)
		}
		k.Plug("eth0", [6]byte{2, 0, 0, 0, 0, 1})
		right("a new parent")

		// A parent that is down: when it is up again.
		k.Unplug("vrrp.51")
		k.Change("eth0", func(l *host.Link) { l.Up = false })
		look()
		k.Change("eth0", func(l *host.Link) { l.Up = true })
		right("the parent was down")

		// Somebody removes it again and again.
		time.Sleep(time.Minute)
		for range 6 {
			k.Unplug("vrrp.51")
			look()
			if s, _ := k.State(); s.Link("vrrp.51") == nil {
				break
			}
		}
		if p := m.Problems()["vrrp.51"]; !strings.Contains(p, "again and again") {
			t.Errorf("fought over: %q", p)
		}
		time.Sleep(29 * time.Second)
		if s, _ := k.State(); s.Link("vrrp.51") != nil {
			t.Error("it is made again too early")
		}
		time.Sleep(3 * time.Second)
		right("after the pause")

		// Another vipd on the machine puts the setting back that we both need.
		if err := k.Set("net/ipv4/conf/eth0/arp_ignore", "0"); err != nil {
			t.Fatal(err)
		}
		right("the setting of the parent was changed")

		k.Fail("add", unix.EOPNOTSUPP)
		k.Unplug("vrrp.51")
		look()
		before := changes
		if p := m.Problems()["vrrp.51"]; !strings.Contains(p, "no macvlan") {
			t.Errorf("the kernel has no macvlan: %q", p)
		}
		k.Fail("add", nil)
		time.Sleep(2 * time.Second)
		right("tried again")
		if changes == before {
			t.Error("nobody was told that the problem is over")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// On a parent that is a macvlan itself the link is beside it, and is not made again and again for that; so in a container,
// where what both are on is in another namespace.
func TestParentIsMacvlan(t *testing.T) {
	for _, lower := range []int{1, 0} {
		k := site()
		k.Make(host.Link{Name: "mv0", Kind: "macvlan", Parent: lower, MAC: [6]byte{2, 0, 0, 0, 0, 7}, Up: true, Running: true, MTU: 1500})
		m := manager(t, k)
		l := v4
		l.Parent = "mv0"
		for range 3 {
			m.Configure([]vmac.Link{l}, false)
			if p := m.Problems(); len(p) > 0 {
				t.Error(p)
			}
		}
		if n := strings.Count(strings.Join(k.Writes(), "\n"), "add "); n != 1 {
			t.Errorf("on %d it was made %d times", lower, n)
		}
	}
}

// Whatever is configured in whatever order, and whatever happens between: what is wanted is there in the end, and in the
// very end nothing is left.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		k := site()
		dir := filepath.Join(t.TempDir(), rapid.StringMatching("[a-z]{8}").Draw(r, "dir"))
		m := vmac.NewManager(k, k, dir, nil, nil, nil)
		links := []vmac.Link{v4, v6, on, {Name: "renamed", Parent: "eth0", MAC: v4.MAC, Group: 3, IPv4: true}}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0: // a crash
				m = vmac.NewManager(k, k, dir, nil, nil, nil)
				if _, err := m.Sweep(); err != nil {
					r.Fatal(err)
				}
				if got := k.String(); got != strings.TrimSpace(bare) {
					r.Fatalf("swept, the machine is\n%s", got)
				}
			case 1: // somebody deletes a link
				s, _ := k.State()
				names := slices.Sorted(maps.Keys(s.Links))
				if name := rapid.SampledFrom(names).Draw(r, "link"); s.Link(name).Kind == "macvlan" {
					k.Unplug(name)
				}
			case 2: // a parent is made anew
				k.Unplug("eth0")
				k.Plug("eth0", [6]byte{2, 0, 0, 0, 0, 1})
			default:
				var some []vmac.Link
				macs := map[string]bool{}
				for _, l := range links {
					if id := l.Parent + string(l.MAC[:]); rapid.Bool().Draw(r, "wanted") && !macs[id] {
						macs[id] = true
						some = append(some, l)
					}
				}
				m.Configure(some, rapid.Bool().Draw(r, "quiet"))
				if err := m.Prune(); err != nil {
					r.Fatal(err)
				}
				s, _ := k.State()
				if len(s.Links) != 2+len(some) || len(m.Problems()) > 0 {
					r.Fatalf("wanted %v, problems %v, have\n%s", some, m.Problems(), k)
				}
			}
		}
		if err := m.Release(); err != nil {
			r.Fatal(err)
		}
		if got := k.String(); got != strings.TrimSpace(bare) {
			r.Fatalf("released, the machine is\n%s", got)
		}
	})
}

// A link that is no longer wanted is silent until it is gone: what its sockets say when they are closed, or the kernel
// of an address that goes, would teach switches the virtual MAC at the wrong port.
func TestLinksAreSilentUntilTheyAreGone(t *testing.T) {
	k := site()
	var told []string
	silence := func(parents map[string]int) error {
		told = append(told, strings.Join(slices.Sorted(maps.Keys(parents)), " "))
		return nil
	}
	m := vmac.NewManager(k, k, t.TempDir(), silence, nil, nil)
	last := func(when, want string) {
		t.Helper()
		if got := told[len(told)-1]; got != want {
			t.Errorf("%s %q are silent, want %q", when, got, want)
		}
	}
	m.Configure([]vmac.Link{v4, v6, on}, false)
	last("made,", "other vrrp.51 vrrp6.51")
	m.Configure([]vmac.Link{on}, false)
	last("no longer wanted,", "other vrrp.51 vrrp6.51")
	if err := m.Prune(); err != nil {
		t.Fatal(err)
	}
	last("pruned,", "other")
	m.Configure(nil, false)
	last("none wanted,", "other")
	if err := m.Prune(); err != nil {
		t.Fatal(err)
	}
	last("none there,", "")
	m.Configure([]vmac.Link{v4}, false)
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	last("released,", "")
}

// The interfaces of a reading are older than its addresses: what was made meanwhile is not to be made again.
func TestLinkMadeDuringAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := site()
		m := manager(t, k)
		s, err := k.State()
		if err != nil {
			t.Fatal(err)
		}
		s.Began = s.At
		time.Sleep(time.Millisecond)
		m.Configure([]vmac.Link{v4}, false)
		time.Sleep(time.Millisecond)
		s.At = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		m.State(s)
		synctest.Wait()
		if p := m.Problems(); len(p) > 0 {
			t.Errorf("problems: %v", p)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
