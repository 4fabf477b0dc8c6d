package host_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"vipd/vrrp/host"
)

// TestWatcherOwnChanges: while vipd itself adds addresses the watcher reads now and then, not at each event, and what
// was added shows soon. What somebody else does meanwhile is seen at once.
func TestWatcherOwnChanges(t *testing.T) {
	b := eth0(t)
	n := newNode(t, "", 0)
	n.run(t)
	i := index(t, b, "eth0")
	time.Sleep(200 * time.Millisecond)

	// A change alone shows although the kernel sends no event of it.
	before := n.w.Counters()
	must(t, n.k.AddAddress(i, addr("10.7.0.1/32")))
	n.firstSince(t, time.Time{}, "the address", func(s host.State) bool { return s.Has("eth0", pfx("10.7.0.1/32")) })
	must(t, n.k.DelAddress(i, addr("10.7.0.1/32")))
	since := time.Now()
	n.firstSince(t, since, "the address's end", func(s host.State) bool { return !s.Has("eth0", pfx("10.7.0.1/32")) })
	if reads := n.w.Counters().Reads - before.Reads; reads > 4 {
		t.Errorf("%d readings for two changes", reads)
	}

	// Before there are many addresses: with thousands a reading takes its time.
	for j := range 5 {
		must(t, n.k.AddAddress(i, addr(fmt.Sprintf("10.5.0.%d/32", j+1))))
	}
	var others []time.Duration
	for j := range 5 {
		time.Sleep(100 * time.Millisecond)
		must(t, n.k.DelAddress(i, addr(fmt.Sprintf("10.5.0.%d/32", j+1))))
		since := time.Now()
		p := fmt.Sprintf("10.6.0.%d/32", j+1)
		must(t, b.AddAddress(i, addr(p)))
		others = append(others, n.firstSince(t, since, p, func(s host.State) bool { return s.Has("eth0", pfx(p)) }))
	}
	t.Logf("changes of others seen after %v", others)
	if best := slices.Min(others); best > 14*time.Millisecond {
		t.Errorf("a change of somebody else, just after one of vipd's own, is seen after %v at best", best)
	}

	time.Sleep(100 * time.Millisecond)
	before = n.w.Counters()
	began := time.Now()
	for j := range 2000 {
		must(t, n.k.AddAddress(i, addr(fmt.Sprintf("10.8.%d.%d/32", j/250, j%250+1))))
	}
	took := time.Since(began)
	reads := n.w.Counters().Reads - before.Reads
	t.Logf("%d readings while 2000 addresses were added in %v", reads, took)
	if most := uint64(took/(15*time.Millisecond)) + 1; reads > most {
		t.Errorf("%d readings while addresses were added in %v, want at most %d", reads, took, most)
	}
	n.firstSince(t, time.Time{}, "the last address", func(s host.State) bool { return s.Has("eth0", pfx("10.8.7.250/32")) })
}
