package host_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vipd/vrrp/host"
)

// node is a manager and a watcher on the real kernel.
type node struct {
	*host.Manager
	w    *host.Watcher
	k    *host.Netlink
	j    *journal
	file string
	stop func()

	mu   sync.Mutex // guards seen
	seen []seen
}

// seen is a published snapshot and when it came.
type seen struct {
	host.State
	at time.Time
}

// newNode starts a manager and a watcher; file is the state file.
func newNode(t *testing.T, file string, buffer int) *node {
	t.Helper()
	n := &node{k: newReal(t).Netlink, j: &journal{}, file: file}
	n.Manager = host.NewManager(n.k, n.k, file, n.j.callbacks(), nil)
	n.w = host.NewWatcher(n.k, func(s host.State) {
		n.mu.Lock()
		n.seen = append(n.seen, seen{s, time.Now()})
		n.mu.Unlock()
		n.Manager.State(s)
	}, nil)
	if buffer > 0 {
		n.w.SetBuffer(buffer)
	}
	return n
}

// run starts it and arranges the end.
func (n *node) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.w.Run(ctx) })
	wg.Go(func() { _ = n.Run(ctx) })
	n.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(n.stop)
	eventually(t, "the first snapshot", func() bool { return n.w.Counters().Published > 0 })
}

// snapshots returns what was published.
func (n *node) snapshots() []seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

// firstSince returns how long after since a snapshot was published that ok accepts.
func (n *node) firstSince(t *testing.T, since time.Time, what string, ok func(host.State) bool) time.Duration {
	t.Helper()
	var d time.Duration
	eventually(t, what, func() bool {
		for _, s := range n.snapshots() {
			if s.at.After(since) && ok(s.State) {
				d = s.at.Sub(since)
				return true
			}
		}
		return false
	})
	return d
}

func eth0(t *testing.T) realBench {
	t.Helper()
	b := newReal(t)
	b.newLink(t, "eth0")
	b.usable(t)
	return b
}

// usable gives eth0 its base address and waits for its carrier.
func (b realBench) usable(t *testing.T) {
	t.Helper()
	ip(t, "addr", "add", "10.9.0.11/24", "dev", "eth0")
	eventually(t, "eth0 is usable", func() bool {
		s, err := b.State()
		must(t, err)
		return s.Link("eth0").Usable()
	})
}

// quick runs a change without the cost of starting ip(8) in its measure.
func (b realBench) quick(t *testing.T, dev, p string) time.Time {
	t.Helper()
	i := index(t, b, dev)
	at := time.Now()
	must(t, b.DelAddress(i, addr(p)))
	return at
}

// TestO18AddressIsPutBack deletes virtual addresses by hand, in a way that is a fight in the end.
func TestO18AddressIsPutBack(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	s := set("A", "10.9.0.100/32", "2001:db8::100/128")
	n.Configure([]host.Set{s})
	n.run(t)
	n.Want("A", true)
	for _, p := range []string{"10.9.0.100/32", "2001:db8::100/128"} {
		line := "present A " + p
		eventually(t, p+" is there", func() bool { return !n.j.when(line).IsZero() })
		for range 3 {
			at := b.quick(t, "eth0", p)
			eventually(t, p+" is put back", func() bool { return n.j.when(line).After(at) })
			d := n.j.when(line).Sub(at)
			t.Logf("%s put back and told after %v", p, d)
			if d > 100*time.Millisecond {
				t.Errorf("%s put back after %v, more than 100 ms", p, d)
			}
		}
	}
	at := b.quick(t, "eth0", "10.9.0.100/32")
	eventually(t, "the fight is reported", func() bool { return n.j.when("fought A 10.9.0.100/32").After(at) })
	time.Sleep(200 * time.Millisecond)
	expect(t, dump(t, n.k, "eth0"), "10.9.0.11/24 dev eth0\n2001:db8::100/128 dev eth0 nodad proto 112")
	must(t, n.Release())
	expect(t, dump(t, n.k, "eth0"), "10.9.0.11/24 dev eth0")
}

// TestO26NoAddressWithoutBase flushes the interface of a master.
func TestO26NoAddressWithoutBase(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	n.Configure([]host.Set{set("A", "10.9.0.100/32")})
	n.run(t)
	n.Want("A", true)
	eventually(t, "the address is there", func() bool { return !n.j.when("present A 10.9.0.100/32").IsZero() })
	ip(t, "addr", "del", "10.9.0.11/24", "dev", "eth0")
	time.Sleep(50 * time.Millisecond)
	ip(t, "addr", "flush", "dev", "eth0", "scope", "global")
	time.Sleep(200 * time.Millisecond)
	expect(t, dump(t, b, "eth0"), "")
	ip(t, "addr", "add", "10.9.0.11/24", "dev", "eth0")
	eventually(t, "both are back", func() bool {
		return dump(t, b, "eth0") == "10.9.0.11/24 dev eth0\n10.9.0.100/32 dev eth0 proto 112"
	})
}

// TestO22Linux is O22 with the real kernel's secondaries.
func TestO22Linux(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	n.Configure([]host.Set{set("A", "10.7.0.1/24", "10.7.0.2/24"), set("B", "10.7.0.3/24")})
	n.run(t)
	for _, in := range []string{"A", "B"} {
		n.Want(in, true)
		eventually(t, in+" is there", func() bool { return strings.Contains(n.j.take(), "present "+in) })
		time.Sleep(20 * time.Millisecond)
	}
	ip(t, "addr", "add", "10.7.0.4/24", "dev", "eth0", "label", "eth0:x", "valid_lft", "1000", "preferred_lft", "900")
	time.Sleep(50 * time.Millisecond)
	n.j.take()
	n.Want("A", false)
	eventually(t, "A's addresses are gone", func() bool {
		return dump(t, b, "eth0") == "10.9.0.11/24 dev eth0\n10.7.0.3/24 dev eth0 proto 112\n10.7.0.4/24 dev eth0 label eth0:x secondary"
	})
	time.Sleep(100 * time.Millisecond)
	expect(t, n.j.take(), "")
	s, err := b.State()
	must(t, err)
	for _, a := range s.Link("eth0").Addrs {
		if a.Prefix == pfx("10.7.0.4/24") && (a.ValidLft > 1000 || a.ValidLft < 900 || a.PreferredLft > 900) {
			t.Errorf("somebody else's address came back with other lifetimes: %+v", a)
		}
	}
}

// TestO20InterfaceIsRecreated removes the interface and makes it anew.
func TestO20InterfaceIsRecreated(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	n.Configure([]host.Set{set("A", "10.9.0.100/32")})
	n.run(t)
	n.Want("A", true)
	eventually(t, "the address is there", func() bool { return !n.j.when("present A 10.9.0.100/32").IsZero() })
	b.removeLink(t, "eth0")
	time.Sleep(50 * time.Millisecond)
	if st := n.Status()[0].Addresses[0]; st.Present {
		t.Error("status says that the address of a missing interface is present")
	}
	n.j.take()
	b.newLink(t, "eth0")
	b.usable(t)
	eventually(t, "the address is there again", func() bool { return n.j.take() == "present A 10.9.0.100/32" })
}

// TestO23SweepAfterKill ends a manager without a farewell.
func TestO23SweepAfterKill(t *testing.T) {
	b := eth0(t)
	file := filepath.Join(t.TempDir(), "addresses.json")
	n := newNode(t, file, 0)
	n.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/24", "10.9.0.102/24", "2001:db8::5/128")})
	n.run(t)
	n.Want("A", true)
	eventually(t, "the last address is there", func() bool { return !n.j.when("present A 2001:db8::5/128").IsZero() })
	n.stop()
	must(t, b.AddAddress(index(t, b, "eth0"), addr("10.9.0.200/32"))) // another vipd's

	n = newNode(t, file, 0)
	n.Configure([]host.Set{set("A", "10.9.0.100/32")})
	found, _, err := n.Sweep()
	must(t, err)
	expect(t, dump(t, n.k, "eth0"), "10.9.0.11/24 dev eth0\n10.9.0.200/32 dev eth0 proto 112")
	if len(found) != 4 {
		t.Errorf("found %v", found)
	}
}

// TestThousandAddresses measures a takeover with 1,000 addresses, and the turn of a second instance meanwhile.
func TestThousandAddresses(t *testing.T) {
	eth0(t)
	n := newNode(t, filepath.Join(t.TempDir(), "addresses.json"), 0)
	var vips []string
	for i := range 1000 {
		vips = append(vips, fmt.Sprintf("10.8.%d.%d/32", i/250, i%250+1))
	}
	n.Configure([]host.Set{set("A", vips...), set("B", "10.9.0.200/32")})
	n.run(t)
	time.Sleep(50 * time.Millisecond)
	var firsts, lasts, seconds []time.Duration
	for range 5 {
		began := time.Now()
		n.Want("A", true)
		time.Sleep(time.Millisecond)
		second := time.Now()
		n.Want("B", true)
		last := "present A " + vips[999]
		eventually(t, "the last is there", func() bool { return n.j.when(last).After(began) })
		firsts = append(firsts, n.j.when("present A "+vips[0]).Sub(began))
		lasts = append(lasts, n.j.when(last).Sub(began))
		seconds = append(seconds, n.j.when("present B 10.9.0.200/32").Sub(second))
		n.Want("B", false)
		n.Want("A", false)
		gone := time.Now()
		eventually(t, "all are gone", func() bool { return dump(t, n.k, "eth0") == "10.9.0.11/24 dev eth0" })
		t.Logf("first %v, last %v, second instance %v, removed %v; watcher %+v", firsts[len(firsts)-1], lasts[len(lasts)-1], seconds[len(seconds)-1], time.Since(gone), n.w.Counters())
	}
	for what, c := range map[string]struct {
		got   []time.Duration
		limit time.Duration
	}{"first address": {firsts, 5 * time.Millisecond}, "last address": {lasts, 100 * time.Millisecond}, "second instance": {seconds, 10 * time.Millisecond}} {
		if best := slices.Min(c.got); best > c.limit {
			t.Errorf("%s: %v at best, want less than %v", what, best, c.limit)
		}
	}
	if lost := strings.Count(n.j.take(), "lost"); lost != 0 {
		t.Errorf("%d addresses counted as lost", lost)
	}
}
