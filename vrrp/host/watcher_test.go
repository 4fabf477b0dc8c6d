package host_test

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
)

// TestWatcher: the first change after a quiet time is seen at once, a burst in few readings, nothing new in none.
func TestWatcher(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	n.run(t)
	time.Sleep(100 * time.Millisecond)

	var took []time.Duration
	for range 5 {
		for _, up := range []bool{false, true} {
			since := time.Now()
			setFlags(t, "eth0", up)
			took = append(took, n.firstSince(t, since, fmt.Sprint("up ", up), func(s host.State) bool { return s.Link("eth0").Up == up }))
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Logf("link changes seen after %v", took)
	if best := slices.Min(took); best > 10*time.Millisecond {
		t.Errorf("a link change is seen after %v at best", best)
	}

	time.Sleep(100 * time.Millisecond)
	before := n.w.Counters()
	i := index(t, b, "eth0")
	for j := range 500 {
		must(t, b.AddAddress(i, addr(fmt.Sprintf("10.8.%d.%d/32", j/250, j%250+1))))
	}
	n.firstSince(t, time.Time{}, "the last address", func(s host.State) bool { return s.Has("eth0", pfx("10.8.1.250/32")) })
	time.Sleep(50 * time.Millisecond)
	after := n.w.Counters()
	if reads := after.Reads - before.Reads; reads > 100 {
		t.Errorf("%d readings for one burst of 500 changes", reads)
	}
	time.Sleep(100 * time.Millisecond)
	if late := n.w.Counters().Reads - after.Reads; late > 5 { // an event or two of the link itself
		t.Errorf("%d more readings long after the burst", late)
	}

	b.settled(t)
	time.Sleep(50 * time.Millisecond)
	before = n.w.Counters()
	ip(t, "link", "set", "eth0", "txqueuelen", "77") // an event, but nothing that matters
	eventually(t, "another reading", func() bool { return n.w.Counters().Reads > before.Reads })
	time.Sleep(50 * time.Millisecond)

	for _, on := range []bool{true, false} {
		sysctl(t, "net/ipv6/conf/eth0/forwarding", map[bool]string{true: "1", false: "0"}[on])
		n.firstSince(t, time.Time{}, "IPv6 forwarding", func(s host.State) bool { return s.Link("eth0").Forwarding6 == on })
	}
	ip(t, "link", "set", "eth0", "address", "02:00:00:00:12:34")
	n.firstSince(t, time.Time{}, "the new MAC", func(s host.State) bool { return s.Link("eth0").MAC == [6]byte{2, 0, 0, 0, 0x12, 0x34} })
	ip(t, "link", "set", "eth0p", "down")
	n.firstSince(t, time.Time{}, "the carrier's loss", func(s host.State) bool { l := s.Link("eth0"); return l.Up && !l.Running })
	for i, s := range n.snapshots()[1:] { // nothing was changed through n
		if s.Equal(n.snapshots()[i].State) {
			t.Errorf("snapshot %d was published without a difference", i+1)
		}
	}
}

// setFlags sets an interface up or down without the cost of a process.
func setFlags(t *testing.T, dev string, up bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	r, err := unix.NewIfreq(dev)
	must(t, err)
	must(t, unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r))
	r.SetUint16(r.Uint16() &^ unix.IFF_UP)
	if up {
		r.SetUint16(r.Uint16() | unix.IFF_UP)
	}
	must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r))
}

// slowOnce is a kernel whose first reading takes its time, as on a busy machine.
type slowOnce struct {
	host.Kernel
	once sync.Once
}

func (k *slowOnce) State() (host.State, error) {
	k.once.Do(func() { time.Sleep(300 * time.Millisecond) })
	return k.Kernel.State()
}

// TestWatcherAfterSlowReading: the pause after a long reading is bounded, a change right after it is seen soon.
func TestWatcherAfterSlowReading(t *testing.T) {
	eth0(t)
	states := make(chan host.State, 1000)
	w := host.NewWatcher(&slowOnce{Kernel: newReal(t).Netlink}, func(s host.State) { states <- s }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	<-states
	since := time.Now()
	setFlags(t, "eth0", false)
	for s := range states {
		if !s.Link("eth0").Up {
			break
		}
	}
	if took := time.Since(since); took > 500*time.Millisecond {
		t.Errorf("a change after a reading of 300 ms is seen after %v", took)
	}
}

// settled waits until duplicate address detection is over on all interfaces: nothing changes by itself any more.
func (b realBench) settled(t *testing.T) {
	t.Helper()
	eventually(t, "nothing else changes", func() bool {
		s, err := b.State()
		must(t, err)
		settled := true
		for _, l := range s.Links {
			settled = settled && !slices.ContainsFunc(l.Addrs, func(a host.Addr) bool { return a.Tentative })
		}
		return settled
	})
}

// gate is a kernel whose readings wait while it is closed, as those of a watcher that gets no processor.
type gate struct {
	host.Kernel
	mu sync.RWMutex
}

func (g *gate) State() (host.State, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Kernel.State()
}

// TestO18LostAgainBeforeTheNextReading: an address is lost and put back, and lost again before the watcher reads
// anew. It sees the same twice, the address missing, but must tell it twice.
func TestO18LostAgainBeforeTheNextReading(t *testing.T) {
	b := eth0(t)
	b.settled(t)
	real := newReal(t).Netlink
	g := &gate{Kernel: real}
	j := &journal{}
	m := host.NewManager(real, real, "", j.callbacks(), nil)
	away := make(chan struct{}, 100)
	vip := pfx("10.9.0.100/32")
	w := host.NewWatcher(g, func(s host.State) {
		if !s.Has("eth0", vip) {
			g.mu.Lock() // the next reading has to wait
			away <- struct{}{}
		}
		m.State(s)
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	wg.Go(func() { _ = w.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	has := func() bool {
		s, err := b.State()
		must(t, err)
		return s.Has("eth0", vip)
	}
	<-away // the first snapshot
	m.Configure([]host.Set{set("A", vip.String())})
	m.Want("A", true)
	eventually(t, "the address is there", has)
	time.Sleep(100 * time.Millisecond) // the manager has looked itself
	g.mu.Unlock()
	time.Sleep(100 * time.Millisecond)

	b.quick(t, "eth0", vip.String())
	<-away
	eventually(t, "the address is put back", has)
	time.Sleep(100 * time.Millisecond)
	b.quick(t, "eth0", vip.String())
	g.mu.Unlock()
	defer g.mu.Unlock()
	select {
	case <-away:
	case <-time.After(3 * time.Second):
		g.mu.Lock()
		t.Fatal("the second loss was not told")
	}
	eventually(t, "the address is put back again", has)
}

// TestWatcherOverflow: events that did not fit are made up for by reading everything.
func TestWatcherOverflow(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 1) // the kernel's least, about 2 kB
	n.run(t)
	i := index(t, b, "eth0")
	for round := range 20 {
		for j := range 200 {
			must(t, b.AddAddress(i, addr(fmt.Sprintf("10.8.%d.%d/32", round, j+1))))
		}
		if n.w.Counters().Resubscribed > 0 {
			break
		}
	}
	if n.w.Counters().Resubscribed == 0 {
		t.Fatal("no overflow; the test is worth nothing")
	}
	must(t, b.AddAddress(i, addr("10.10.10.10/32")))
	n.firstSince(t, time.Time{}, "the last address", func(s host.State) bool { return s.Has("eth0", pfx("10.10.10.10/32")) })
	must(t, exec.Command("ip", "link", "del", "eth0").Run())
	n.firstSince(t, time.Time{}, "the link's end", func(s host.State) bool { return !slices.Contains(slices.Collect(maps.Keys(s.Links)), "eth0") })
}

// TestStateIsNeverPartial reads while another socket changes addresses as fast as it can: an address that is left
// alone is in every snapshot, and a link's change shows although the addresses cannot be read in one go.
func TestStateIsNeverPartial(t *testing.T) {
	b := eth0(t)
	i := index(t, b, "eth0")
	for j := range 500 { // a dump of several messages
		must(t, b.AddAddress(i, addr(fmt.Sprintf("10.8.%d.%d/32", j/250, j%250+1))))
	}
	reader := newReal(t)
	_, err := reader.State()
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, p := range []string{"10.7.0.1/32", "10.8.0.1/32"} {
				_ = b.DelAddress(i, addr(p))
				_ = b.AddAddress(i, addr(p))
			}
		}
	})
	defer wg.Wait()
	defer cancel()
	stale := 0
	readings := 0
	for began := time.Now(); (readings < 300 || stale == 0) && time.Since(began) < 20*time.Second; readings++ {
		s, err := reader.State()
		must(t, err)
		for _, p := range []string{"10.9.0.11/24", "10.8.0.2/32", "10.8.1.250/32"} {
			if !s.Has("eth0", pfx(p)) {
				t.Fatalf("%s is missing in a snapshot", p)
			}
		}
		if s.Stale() {
			stale++
		}
	}
	t.Logf("%d of %d readings with the addresses of an earlier one", stale, readings)
	if stale == 0 {
		t.Error("no reading was interrupted; the test is worth nothing")
	}
	setFlags(t, "eth0", false)
	s, err := reader.State()
	must(t, err)
	if s.Link("eth0").Up {
		t.Error("the link's going down is not in the snapshot")
	}
}
