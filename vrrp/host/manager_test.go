package host_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

func TestWantAddsInOrderAndRemoves(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := set("A", "10.9.0.100/32", "10.9.0.99/32")
		s.Addresses = append(s.Addresses,
			host.Address{Prefix: pfx("2001:db8::5/128"), Deprecated: true},
			host.Address{Prefix: pfx("192.0.2.7/24"), Dev: "eth1", Label: "eth1:v", Broadcast: netip.MustParseAddr("192.0.2.255"), NoPrefixRoute: true})
		r.Configure([]host.Set{s})
		r.settle()
		expect(t, r.addresses(), baseOnly)
		r.Want("A", true)
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32\npresent A 10.9.0.99/32\npresent A 2001:db8::5/128\npresent A 192.0.2.7/24")
		expect(t, r.addresses(), `ip addr add 10.9.0.100/32 dev eth0 proto 112
ip addr add 10.9.0.11/24 dev eth0
ip addr add 10.9.0.99/32 dev eth0 proto 112
ip addr add 192.0.2.1/24 dev eth1
ip addr add 192.0.2.7/24 dev eth1 brd 192.0.2.255 label eth1:v noprefixroute proto 112
ip addr add 2001:db8::5/128 dev eth0 preferred_lft 0 nodad proto 112
`)
		r.Want("A", false)
		r.settle()
		expect(t, r.addresses(), baseOnly)
		r.Want("A", true)
		r.settle()
		r.j.take()
		must(t, r.Release())
		expect(t, r.addresses(), baseOnly)
		r.Want("A", true)
		r.settle()
		expect(t, r.addresses(), baseOnly)
	})
}

// A second instance's address must not wait for all of the first one's.
func TestInstancesTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf("10.8.%d.%d/32", i/100, i%100+1))
		}
		r.Configure([]host.Set{set("A", many...), set("B", "10.9.0.200/32")})
		r.settle()
		r.Want("A", true)
		r.Want("B", true)
		r.settle()
		lines := strings.Split(r.j.take(), "\n")
		if at := slices.Index(lines, "present B 10.9.0.200/32"); at < 0 || at > 2 {
			t.Errorf("B's address came at place %d of %d", at, len(lines))
		}
	})
}

func TestWantAnewTellsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.Want("A", true)
		r.settle()
		r.j.take()
		r.k.Writes()
		r.Want("A", true) // changes nothing
		r.settle()
		expect(t, r.j.take(), "")
		r.stop()
		r.Want("A", false)
		r.Want("A", true) // before the worker looks
		r.run()
		expect(t, r.j.take(), "present A 10.9.0.100/32")
		expect(t, strings.Join(r.k.Writes(), "\n"), "")
	})
}

func TestRepair(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := set("A", "10.9.0.100/32")
		s.Addresses = append(s.Addresses, host.Address{Prefix: pfx("10.9.0.101/32"), NoTrack: true}, host.Address{Prefix: pfx("192.0.2.7/32"), Dev: "eth1"})
		r.Configure([]host.Set{s})
		r.Want("A", true)
		r.settle()
		r.j.take()
		must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
		r.settle()
		expect(t, r.j.take(), "lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
		must(t, r.k.Del("eth1", pfx("192.0.2.7/32")))
		r.settle()
		expect(t, r.j.take(), "lost A 192.0.2.7/32\npresent A 192.0.2.7/32")
		must(t, r.k.Del("eth0", pfx("10.9.0.101/32")))
		r.settle()
		expect(t, r.j.take(), "lost A 10.9.0.101/32")
		if r.k.Has("eth0", pfx("10.9.0.101/32")) {
			t.Error("an address with no_track was put back")
		}
	})
}

// An address lost together with its interface's fitness is no fight, and is not put back meanwhile.
func TestNoRepairOnUnfitInterface(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt, mend func(*testing.T, *hosttest.Kernel)
	}{
		"down": {
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.SetLink("eth0", false, true)) },
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.SetLink("eth0", true, true)) },
		},
		"no carrier": {
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.SetLink("eth0", true, false)) },
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.SetLink("eth0", true, true)) },
		},
		"no base address": {
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.Del("eth0", pfx("10.9.0.11/24"))) },
			func(t *testing.T, k *hosttest.Kernel) { must(t, k.Add("eth0", foreign("10.9.0.11/24"))) },
		},
		"re-created": {
			func(_ *testing.T, k *hosttest.Kernel) { k.RemoveLink("eth0") },
			func(t *testing.T, k *hosttest.Kernel) {
				k.NewLink("eth0")
				must(t, k.Add("eth0", foreign("10.9.0.11/24")))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.Configure([]host.Set{set("A", "10.9.0.100/32")})
				r.Want("A", true)
				r.settle()
				for range 5 { // more often than a fight takes
					r.j.take()
					r.k.Writes()
					c.breakIt(t, r.k)
					r.settle()
					_ = r.k.Del("eth0", pfx("10.9.0.100/32"))
					r.settle()
					expect(t, r.j.take(), "lost A 10.9.0.100/32") // so that it is not announced any more
					expect(t, strings.Join(r.k.Writes(), "\n"), "")
					c.mend(t, r.k)
					r.settle()
					expect(t, r.j.take(), "present A 10.9.0.100/32")
				}
			})
		})
	}
}

// Of an instance without interface, the source address says whether it is fit, wherever that is.
func TestNoRepairWithoutSource(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := host.Set{
			Instance: "A", Source: pfx("192.0.2.1/24").Addr(),
			Addresses: []host.Address{{Prefix: pfx("10.9.0.100/32"), Dev: "eth0"}},
		}
		r.Configure([]host.Set{s})
		r.Want("A", true)
		r.settle()
		lose := func(want string) {
			t.Helper()
			r.j.take()
			must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
			r.settle()
			expect(t, r.j.take(), want)
		}
		must(t, r.k.Del("eth0", pfx("10.9.0.11/24"))) // no base of this one
		r.settle()
		lose("lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
		must(t, r.k.Add("eth0", foreign("192.0.2.1/24")))
		must(t, r.k.Del("eth1", pfx("192.0.2.1/24")))
		r.settle()
		lose("lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
		must(t, r.k.Del("eth0", pfx("192.0.2.1/24")))
		r.settle()
		lose("lost A 10.9.0.100/32")
		must(t, r.k.Add("eth1", foreign("192.0.2.1/24")))
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32")
	})
}

func TestFight(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
		r.Want("A", true)
		r.settle()
		lose := func(want string) {
			t.Helper()
			r.j.take()
			must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
			r.settle()
			expect(t, r.j.take(), want)
		}
		const repaired = "lost A 10.9.0.100/32\npresent A 10.9.0.100/32"
		for range 6 { // three within ten seconds are no fight
			time.Sleep(4 * time.Second)
			lose(repaired)
		}
		time.Sleep(10 * time.Second)
		for range 3 {
			lose(repaired)
		}
		lose("lost A 10.9.0.100/32\nfought A 10.9.0.100/32")
		time.Sleep(30 * time.Second)
		if r.k.Has("eth0", pfx("10.9.0.100/32")) {
			t.Error("put back after a fight")
		}
		if st := r.Status()[0].Addresses; !st[0].Fought || st[0].Present || st[1].Fought || !st[1].Present {
			t.Errorf("status after a fight: %+v", st)
		}
		r.Want("A", false)
		r.settle()
		r.Want("A", true)
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32\npresent A 10.9.0.101/32")
		lose(repaired)
	})
}

func TestErrorsAreRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
		r.k.Fail(hosttest.OpAdd, pfx("10.9.0.100/32"), 5, unix.ENOBUFS)
		began := time.Now()
		r.Want("A", true)
		r.settle()
		if st := r.Status()[0].Addresses[0]; st.Present || !errors.Is(st.Err, unix.ENOBUFS) {
			t.Errorf("status of a refused address: %+v", st)
		}
		time.Sleep(5 * time.Second)
		if got := r.j.when("present A 10.9.0.100/32").Sub(began); got != 1550*time.Millisecond { // 50+100+200+400+800
			t.Errorf("added after %v, want 1.55 s", got)
		}
		if st := r.Status()[0].Addresses[0]; !st.Present || st.Err != nil {
			t.Errorf("status of an address added late: %+v", st)
		}
		r.k.Fail(hosttest.OpDel, pfx("10.9.0.101/32"), 3, unix.EPERM)
		r.Want("A", false)
		time.Sleep(time.Second)
		expect(t, r.addresses(), baseOnly)
	})
}

func TestReleaseIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
		r.Want("A", true)
		r.settle()
		r.k.Fail(hosttest.OpDel, pfx("10.9.0.101/32"), 1000, unix.EPERM)
		began := time.Now()
		err := r.Release()
		if err == nil || !strings.Contains(err.Error(), "10.9.0.101/32 on eth0") || strings.Contains(err.Error(), "10.9.0.100") {
			t.Errorf("release says %v", err)
		}
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("release took %v", d)
		}
	})
}

// Release works without a worker too.
func TestReleaseAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.Want("A", true)
		r.settle()
		r.stop()
		r.k.Fail(hosttest.OpDel, netip.Prefix{}, 2, unix.EPERM)
		must(t, r.Release())
		expect(t, r.addresses(), baseOnly)
	})
}

// Addresses that a reload leaves alone see no call at all (O34).
func TestConfigureTouchesOnlyTheDifference(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		sets := []host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32"), set("B", "10.9.0.110/32"), set("C", "10.9.0.120/32")}
		r.Configure(sets)
		for _, n := range []string{"A", "B"} {
			r.Want(n, true)
		}
		r.settle()
		r.j.take()
		r.k.Writes()
		r.Configure([]host.Set{set("A", "10.9.0.101/32", "10.9.0.102/32"), set("C", "10.9.0.120/32", "10.9.0.121/32")})
		r.settle()
		w := r.k.Writes()
		slices.Sort(w)
		expect(t, strings.Join(w, "\n"), "add 10.9.0.102/32 dev eth0\ndel 10.9.0.100/32 dev eth0\ndel 10.9.0.110/32 dev eth0")
		expect(t, r.j.take(), "present A 10.9.0.102/32")

		r.Configure([]host.Set{set("A", "10.9.0.101/32", "10.9.0.102/32"), set("D", "10.9.0.101/32")})
		r.Want("D", true)
		r.settle()
		expect(t, r.j.take(), "present D 10.9.0.101/32")
		r.Configure([]host.Set{set("A", "10.9.0.102/32"), set("D", "10.9.0.101/32")}) // handed from A to D
		r.settle()
		expect(t, strings.Join(r.k.Writes(), "\n"), "")
		expect(t, r.j.take(), "")

		labelled := set("A", "10.9.0.102/32")
		labelled.Addresses[0].Label = "eth0:x"
		r.Configure([]host.Set{labelled, set("D", "10.9.0.101/32")})
		r.settle()
		expect(t, strings.Join(r.k.Writes(), "\n"), "del 10.9.0.102/32 dev eth0\nadd 10.9.0.102/32 dev eth0")
		expect(t, r.j.take(), "present A 10.9.0.102/32")
	})
}

// TestO22 removes primary addresses of a subnet where promote_secondaries is off.
func TestO22RemovingOneKeepsOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.7.0.1/24", "10.7.0.2/24"), set("B", "10.7.0.3/24")})
		r.Want("A", true)
		r.Want("B", true)
		r.settle()
		must(t, r.k.Add("eth0", foreign("10.7.0.4/24"))) // somebody else's, and a secondary of ours
		r.settle()
		r.j.take()
		r.Want("A", false)
		r.settle()
		expect(t, r.addresses(), "ip addr add 10.7.0.3/24 dev eth0 proto 112\nip addr add 10.7.0.4/24 dev eth0\n"+baseOnly)
		expect(t, r.j.take(), "")
	})
}

func TestEarlyWantAndMissingInterface(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Want("A", true)
		r.settle()
		s := set("A", "10.9.0.100/32")
		s.Addresses = append(s.Addresses, host.Address{Prefix: pfx("10.5.0.1/32"), Dev: "vlan5"})
		r.Configure([]host.Set{s})
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32")
		expect(t, strings.Join(r.k.Writes(), "\n"), "add 10.9.0.100/32 dev eth0")
		r.k.NewLink("vlan5")
		must(t, r.k.SetLink("vlan5", true, true))
		r.settle()
		expect(t, r.j.take(), "present A 10.5.0.1/32")
	})
}

// TestNamesSwap: a MASTER and a BACKUP that swap their names in a reload keep what they have, not for an instant less or
// more: what is wanted under the new names does not meet the old sets.
func TestNamesSwap(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		master := func(name string) host.Set {
			return withPaths(name, []string{"10.9.0.100/32"}, route("10.50.0.0/16 via 10.9.0.77"))
		}
		backup := func(name string) host.Set {
			return withPaths(name, []string{"10.9.0.101/32"}, route("10.51.0.0/16 via 10.9.0.77"))
		}
		r.Configure([]host.Set{master("A"), backup("B")})
		r.Want("A", true)
		r.settle()
		had := r.k.String() + r.k.Paths()
		r.k.Writes()
		r.j.take()
		swapped := []host.Set{backup("A"), master("B")}
		must(t, r.Reconfigure(swapped, func() error {
			r.Want("A", false)
			r.Want("B", true)
			r.settle()
			return nil
		}))
		r.settle()
		expect(t, strings.Join(r.k.Writes(), "\n"), "")
		expect(t, r.k.String()+r.k.Paths(), had)
		expect(t, r.j.take(), "present B 10.9.0.100/32")

		// A change that is refused changes nothing, and what is wanted meanwhile counts.
		refused := errors.New("refused")
		if err := r.Reconfigure(nil, func() error { r.Want("B", false); return refused }); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		r.settle()
		expect(t, r.k.Paths(), "")
		expect(t, r.addresses(), baseOnly)
		r.Want("A", true)
		r.settle()
		expect(t, r.k.Paths(), "route 10.51.0.0/16 via 10.9.0.77 dev eth0\n")
	})
}
