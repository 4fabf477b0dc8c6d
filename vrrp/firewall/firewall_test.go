package firewall_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp/firewall"
	"vipd/vrrp/firewall/firewalltest"
)

// rig is a firewall over the in-memory kernel, and what trouble heard.
type rig struct {
	*firewall.Firewall
	k *firewalltest.Kernel

	mu    sync.Mutex // guards heard
	heard []string
}

func newRig(k *firewalltest.Kernel) *rig {
	r := &rig{k: k}
	r.Firewall = firewall.New(k, "/run/vipd", func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil {
			r.heard = append(r.heard, "well")
		} else {
			r.heard = append(r.heard, err.Error())
		}
	}, nil)
	return r
}

func (r *rig) troubles() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.heard
	r.heard = nil
	return h
}

// run starts Run and arranges its end.
func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-done) })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func lines(commits [][]string) string {
	var s []string
	for _, c := range commits {
		s = append(s, strings.Join(c, "\n"))
	}
	return strings.Join(s, "\n---\n")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got = strings.TrimSpace(got); got != strings.TrimSpace(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestOneTransaction(t *testing.T) {
	r := newRig(firewalltest.New())
	must(t, r.Refuse(list(four, six, local)))
	expect(t, lines(r.k.Commits()), `
create table ip vipd { in -1: VRRP | no_accept; out -1: what routing needs | VRRP | multicast membership | no_accept }
add element ip vipd 10.9.0.100
create table ip6 vipd { in -1: what routing needs | VRRP | no_accept | no_accept, link-local; out -1: what routing needs | VRRP | no_accept | no_accept, link-local }
add element ip6 vipd 2001:db8::100 fe80::100 . "eth0"`)
	must(t, r.Refuse(list(four, six, local)))
	expect(t, lines(r.k.Commits()), "")
	other := firewall.On(netip.MustParseAddr("10.9.0.101"), "eth0")
	must(t, r.Refuse(list(other, six)))
	expect(t, lines(r.k.Commits()), `
delete element ip vipd 10.9.0.100
add element ip vipd 10.9.0.101
delete element ip6 vipd fe80::100 . "eth0"`)
	must(t, r.Silence([]firewall.Link{silent}))
	got := lines(r.k.Commits())
	if !strings.HasPrefix(got, "delete table ip vipd\ncreate table ip vipd { in -1: VRRP | no_accept; out -1: reports of") || !strings.Contains(got, "add element ip vipd 10.9.0.101 \"vrrp.51\" : 1") || strings.Contains(got, "---") {
		t.Errorf("a silent link is added by:\n%s", got)
	}
	must(t, r.Refuse(nil))
	must(t, r.Silence(nil))
	expect(t, r.k.String(), "")
	if h := r.troubles(); h != nil {
		t.Errorf("trouble heard %q", h)
	}
}

func TestOptionsChangeInPlace(t *testing.T) {
	r := newRig(firewalltest.New())
	must(t, r.Refuse(list(four)))
	r.k.Commits()
	must(t, r.Configure(firewall.Options{Table: "other", Priority: 100, Counters: true}, firewall.IPv4))
	expect(t, lines(r.k.Commits()), `
delete table ip vipd
create table ip other { in 100: VRRP | no_accept | counted; out 100: what routing needs | VRRP | multicast membership | no_accept | counted }
add element ip other 10.9.0.100`)
	must(t, r.Configure(firewall.Options{Priority: -1}, firewall.IPv4))
	if got := r.k.String(); !strings.Contains(got, "table ip vipd") || strings.Contains(got, "other") {
		t.Errorf("back to the default name:\n%s", got)
	}
}

func TestFlushedRulesetIsPutBack(t *testing.T) {
	for name, hand := range map[string]func(k *firewalltest.Kernel){
		"ruleset": (*firewalltest.Kernel).Flush,
		"rules":   func(k *firewalltest.Kernel) { k.FlushRules(firewall.IPv4, "vipd") },
		"mark": func(k *firewalltest.Kernel) {
			k.Put(firewall.Table{Family: firewall.IPv4, Name: "vipd", Form: "in -1: "})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(firewalltest.New())
			must(t, r.Refuse(list(four)))
			r.run(t)
			time.Sleep(100 * time.Millisecond)
			before := r.k.String()
			hand(r.k)
			eventually(t, "the rules are back", func() bool { return r.k.String() == before })
			if h := r.troubles(); h != nil {
				t.Errorf("trouble heard %q", h)
			}
		})
	}
}

func TestTableOfSomebodyElse(t *testing.T) {
	for _, owner := range []string{"", "/run/other"} {
		k := firewalltest.New()
		theirs := firewall.Table{Family: firewall.IPv4, Name: "vipd", Owner: owner, Form: "theirs"}
		k.Put(theirs)
		before := k.String()
		r := newRig(k)
		if err := r.Configure(firewall.Options{}, firewall.IPv4); !errors.Is(err, firewall.ErrForeign) {
			t.Errorf("owner %q: the probe says %v", owner, err)
		}
		if err := r.Refuse(list(four)); !errors.Is(err, firewall.ErrForeign) {
			t.Errorf("owner %q: refusing says %v", owner, err)
		}
		_ = r.Refuse(nil)
		must(t, r.Configure(firewall.Options{}, firewall.IPv6)) // the other family is free
		if found, err := r.Sweep(); err != nil || found != nil {
			t.Errorf("owner %q: swept %q, %v", owner, found, err)
		}
		_ = r.Release()
		if after := k.String(); after != before {
			t.Errorf("owner %q: the table was\n%snow is\n%s", owner, before, after)
		}
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	k := firewalltest.New()
	crashed := newRig(k)
	must(t, crashed.Configure(firewall.Options{Table: "before"}))
	must(t, crashed.Refuse(list(four, six)))
	k.Put(firewall.Table{Family: firewall.IPv4, Name: "filter"})
	r := newRig(k)
	found, err := r.Sweep()
	must(t, err)
	if !slices.Equal(found, []string{"ip before", "ip6 before"}) {
		t.Errorf("swept %q", found)
	}
	expect(t, k.String(), `table ip filter of "" {  }`)
}

func TestNoNftables(t *testing.T) {
	k := firewalltest.New()
	k.Fail(firewall.ErrUnsupported)
	r := newRig(k)
	must(t, r.Configure(firewall.Options{})) // nobody needs it
	must(t, r.Release())
	if _, err := r.Sweep(); err != nil {
		t.Error("sweeping:", err)
	}
	if err := r.Configure(firewall.Options{}, firewall.IPv4); !errors.Is(err, firewall.ErrUnsupported) {
		t.Errorf("the probe says %v", err)
	}
	if h := r.troubles(); len(h) != 1 {
		t.Errorf("trouble heard %q, want one", h)
	}
	r.run(t)
	k.Fail(nil)
	eventually(t, "well again", func() bool { return slices.Equal(r.troubles(), []string{"well"}) })
	expect(t, k.String(), "")
}

// A refusal that failed is not well again because nothing is to be refused any more.
func TestFailureStaysUntilProved(t *testing.T) {
	k := firewalltest.New()
	r := newRig(k)
	must(t, r.Configure(firewall.Options{}, firewall.IPv4))
	k.FailSteps(func(o firewall.Op) error {
		if o.Kind == firewall.OpCreate {
			return errors.New("no memory")
		}
		return nil
	})
	if err := r.Refuse(list(four)); err == nil {
		t.Fatal("refusing did not fail")
	}
	if err := r.Refuse(nil); err == nil {
		t.Error("well without a proof")
	}
	r.run(t)
	time.Sleep(200 * time.Millisecond)
	if h := r.troubles(); len(h) != 1 {
		t.Errorf("trouble heard %q, want one", h)
	}
	k.FailSteps(nil)
	eventually(t, "well again", func() bool { return slices.Equal(r.troubles(), []string{"well"}) })
}

// Links that cannot be silenced must not let addresses be accepted.
func TestRefusesWithoutSilence(t *testing.T) {
	k := firewalltest.New()
	k.FailSteps(func(o firewall.Op) error {
		if o.Parts.Silencing {
			return errors.New("no dup")
		}
		return nil
	})
	r := newRig(k)
	if err := r.Silence([]firewall.Link{silent}); err == nil || !strings.Contains(err.Error(), "no dup") {
		t.Errorf("silencing says %v", err)
	}
	must(t, r.Refuse(list(four)))
	if got := k.Refused("/run/vipd"); !slices.Equal(got, []string{"10.9.0.100"}) {
		t.Errorf("refused are %q", got)
	}
	if h := r.troubles(); h != nil {
		t.Errorf("trouble heard %q", h)
	}
	r.run(t)
	k.FailSteps(nil)
	eventually(t, "silent at last", func() bool { return strings.Contains(k.String(), `silent "vrrp.51" : 1`) })
}

// Whatever is wished in whatever order, and whatever others do meanwhile, the last wish is what is there.
func TestLastWishCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := firewalltest.New()
		r := newRig(k)
		address := rapid.Custom(func(t *rapid.T) firewall.Address {
			switch n := byte(rapid.IntRange(1, 4).Draw(t, "host")); rapid.IntRange(0, 2).Draw(t, "family") {
			case 0:
				return firewall.On(netip.AddrFrom4([4]byte{10, 0, 0, n}), "eth0")
			case 1:
				return firewall.On(netip.AddrFrom16([16]byte{0x20, 1, 15: n}), "eth0")
			default:
				return firewall.On(netip.AddrFrom16([16]byte{0xfe, 0x80, 15: n}), rapid.SampledFrom([]string{"eth0", "eth1"}).Draw(t, "iface"))
			}
		})
		var refused []firewall.Address
		var links []firewall.Link
		table := "vipd"
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				refused = rapid.SliceOfN(address, 0, 5).Draw(t, "addresses")
				err = r.Refuse(refused)
			case 2:
				links = nil
				if rapid.Bool().Draw(t, "linked") {
					links = []firewall.Link{{Name: "vrrp.1", Parent: rapid.IntRange(1, 3).Draw(t, "parent")}}
				}
				err = r.Silence(links)
			case 3:
				table = rapid.SampledFrom([]string{"vipd", "other"}).Draw(t, "table")
				err = r.Configure(firewall.Options{Table: table, Counters: rapid.Bool().Draw(t, "counters")}, firewall.IPv4, firewall.IPv6)
			case 4:
				k.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Look() // after a flush that nobody was told of
		var want []string
		for _, a := range refused {
			want = append(want, a.String())
		}
		slices.Sort(want)
		if got := k.Refused("/run/vipd"); !slices.Equal(got, slices.Compact(want)) {
			t.Fatalf("refused are %q, want %q", got, want)
		}
		tables, _ := k.Tables("/run/vipd")
		for _, x := range tables {
			if x.Name != table {
				t.Fatalf("table %s is left over", x.Name)
			}
			if len(x.Silent) != len(links) || len(links) > 0 && x.Silent["vrrp.1"] != links[0].Parent {
				t.Fatalf("silent are %v, want %v", x.Silent, links)
			}
		}
		if (len(tables) > 0) != (len(want)+len(links) > 0) {
			t.Fatalf("there are %d tables for %d addresses and %d links", len(tables), len(want), len(links))
		}
	})
}
