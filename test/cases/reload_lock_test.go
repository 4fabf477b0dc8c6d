package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// The kernel has one lock for all changes of interfaces and addresses, and opening a
// VRRP socket needs it. Somebody who holds it for long (a driver that resets its
// card, a container that goes with all its interfaces) must not make adverts late,
// also while a reload brings an instance with a socket of its own. It is not run in
// parallel: the lock stops the other sites, too.
func TestReloadWhileTheKernelIsLocked(t *testing.T) {
	const interval = 50 * time.Millisecond
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	conf := func(other bool) string {
		list := []lab.Instance{one("A", 51, `["10.9.0.100"]`)}
		list[0].Interval = interval
		if other {
			b := one("B", 52, `["10.8.0.101"]`)
			b.Interface = "eth1"
			list = append(list, b)
		}
		return lab.VipdConf("", list...)
	}
	v := d1.Vipd(conf(false))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	var locked, worst time.Duration
	for round := range 2 {
		// In a namespace of its own, so that d1 has no event of it.
		box := l.AddHost(fmt.Sprintf("box%d", round), 40+round)
		var lines []string
		for i := range 900 {
			lines = append(lines, fmt.Sprintf("link add v%d group 7 type veth peer name w%d group 7", i, i))
		}
		box.Sh("ip -batch - <<'EOL'\n" + strings.Join(lines, "\n") + "\nEOL")
		from := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			_, _ = box.Try("sh", "-c", "ip link set group 7 up; ip link set group 7 down")
			done <- time.Since(began)
		}()
		for i := range 20 {
			v.Reload(conf((i+round)%2 == 0))
			time.Sleep(20 * time.Millisecond)
		}
		locked = max(locked, <-done)
		gap, _ := lab.LongestGap(lab.Between(seen.Adverts(51), from, time.Now()))
		worst = max(worst, gap-seen.Stalled(from, time.Now()))
	}
	t.Logf("the lock was held for up to %v; the longest advert gap was %v", locked, worst)
	if locked < 3*interval {
		t.Fatalf("the lock was held for %v only: the test proves nothing", locked)
	}
	if most := max(3*interval, locked/2); worst > most { // who waits for the lock is late by all of it
		t.Errorf("advert gap of %v, want at most %v", worst, most)
	}
	calm(t, v)
}
