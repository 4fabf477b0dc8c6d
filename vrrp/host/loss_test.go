package host_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"vipd/vrrp/host"
)

// slow is a kernel whose readings take their time, as those of very many addresses do.
type slow struct {
	*host.Netlink
	takes time.Duration
}

func (k *slow) State() (host.State, error) {
	time.Sleep(k.takes)
	return k.Netlink.State()
}

// watch runs a watcher of k. What it publishes comes out of the channel.
func watch(t *testing.T, k host.Kernel) <-chan host.State {
	t.Helper()
	states := make(chan host.State, 10000)
	w := host.NewWatcher(k, func(s host.State) { states <- s }, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	<-states
	return states
}

// TestO18LossIsSeenBeforeTheReading: the loss of an address with vipd's mark is told before everything is read again,
// that of another one after it.
func TestO18LossIsSeenBeforeTheReading(t *testing.T) {
	b := eth0(t)
	i := index(t, b, "eth0")
	for _, p := range []string{"10.7.0.1/32", "10.7.0.2/32", "2001:db8::7/128"} {
		must(t, b.AddAddress(i, addr(p)))
	}
	must(t, b.AddAddress(i, foreign("10.6.0.1/32")))
	b.settled(t)
	const takes = 500 * time.Millisecond
	states := watch(t, &slow{newReal(t).Netlink, takes})
	for _, c := range []struct {
		address string
		early   bool
	}{{"10.7.0.1/32", true}, {"2001:db8::7/128", true}, {"10.6.0.1/32", false}, {"10.7.0.2/32", true}} {
		time.Sleep(3 * takes) // it has read what changed before, and waits
		for len(states) > 0 {
			<-states
		}
		since := time.Now()
		must(t, b.DelAddress(i, host.Addr{Prefix: pfx(c.address)}))
		s := <-states
		took := time.Since(since)
		t.Logf("%s: %v", c.address, took)
		if s.Has("eth0", pfx(c.address)) || !s.Has("eth0", pfx("10.9.0.11/24")) {
			t.Errorf("the next snapshot after the loss of %s: %+v", c.address, s.Link("eth0").Addrs)
		}
		if (took < takes) != c.early {
			t.Errorf("the loss of %s is told after %v, a reading takes %v", c.address, took, takes)
		}
	}
}

// meddled is a kernel that something happens to just before a reading.
type meddled struct {
	*host.Netlink
	mu     sync.Mutex // guards before
	before func()
}

func (k *meddled) State() (host.State, error) {
	k.mu.Lock()
	f := k.before
	k.before = nil
	k.mu.Unlock()
	if f != nil {
		f()
	}
	return k.Netlink.State()
}

// TestOldLossIsNone: an address that was lost and put back before the last reading is there, though the event is taken
// after it. One that is lost then is gone.
func TestOldLossIsNone(t *testing.T) {
	b := eth0(t)
	i := index(t, b, "eth0")
	const mine = "10.7.0.1/32"
	must(t, b.AddAddress(i, addr(mine)))
	b.settled(t)
	k := &meddled{Netlink: newReal(t).Netlink}
	states := watch(t, k)
	time.Sleep(200 * time.Millisecond)
	done := make(chan struct{})
	k.mu.Lock()
	k.before = func() {
		defer close(done)
		must(t, b.DelAddress(i, host.Addr{Prefix: pfx(mine)}))
		must(t, k.AddAddress(i, addr(mine)))
	}
	k.mu.Unlock()
	must(t, b.AddAddress(i, foreign("10.6.0.1/32"))) // a reason to read
	<-done
	time.Sleep(200 * time.Millisecond)
	for len(states) > 0 {
		if s := <-states; !s.Has("eth0", pfx(mine)) {
			t.Fatalf("an old loss is told: %+v", s.Link("eth0").Addrs)
		}
	}
	must(t, b.DelAddress(i, host.Addr{Prefix: pfx(mine)}))
	for s := range states {
		if !s.Has("eth0", pfx(mine)) {
			break
		}
	}
}

// TestLossIsNeverHalfAChange: what the kernel takes away in one go is told at once: an interface that goes down has
// not lost its IPv6 addresses to somebody, and a secondary address not without its primary one.
func TestLossIsNeverHalfAChange(t *testing.T) {
	b := eth0(t)
	i := index(t, b, "eth0")
	sysctl(t, "net/ipv4/conf/all/promote_secondaries", "0")
	sysctl(t, "net/ipv4/conf/eth0/promote_secondaries", "0")
	base := foreign("10.7.0.1/24")
	var all, six, second []host.Addr
	for j := range 200 {
		second = append(second, addr(fmt.Sprintf("10.7.0.%d/24", j+2)))
		six = append(six, addr(fmt.Sprintf("2001:db8::%x/128", j+2)))
	}
	all = slices.Concat([]host.Addr{base}, second, six)
	missing := func(s host.State, of []host.Addr) (n int) {
		for _, a := range of {
			if !s.Has("eth0", a.Prefix) {
				n++
			}
		}
		return n
	}
	b.settled(t)
	states := watch(t, newReal(t).Netlink)
	down := 0
	for range 10 {
		for _, a := range all {
			must(t, b.AddAddress(i, a))
		}
		time.Sleep(50 * time.Millisecond)
		must(t, b.DelAddress(i, host.Addr{Prefix: base.Prefix}))
		time.Sleep(50 * time.Millisecond)
		setFlags(t, "eth0", false)
		time.Sleep(50 * time.Millisecond)
		setFlags(t, "eth0", true)
		time.Sleep(50 * time.Millisecond)
		for had, had4 := false, false; len(states) > 0; {
			s := <-states
			if n := missing(s, six); had && s.Link("eth0").Up && n > 0 {
				t.Errorf("%d IPv6 addresses are missing though the interface is up", n)
			}
			if n := missing(s, second); had4 && n > 0 && s.Has("eth0", base.Prefix) {
				t.Errorf("%d secondary addresses are missing though their primary one is there", n)
			}
			had4 = had4 || missing(s, second) == 0
			if had = had || missing(s, six) == 0; had && !s.Link("eth0").Up {
				had = false
				down++
			}
		}
	}
	if down < 5 {
		t.Errorf("the interface was seen down %d times; the test is worth nothing", down)
	}
}
