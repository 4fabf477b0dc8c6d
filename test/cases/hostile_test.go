package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// One of the addresses belongs on an interface that does not exist when its instance
// becomes MASTER: the others are served, the lack is told, and made good as soon as
// there is such an interface.
func TestVIPWithoutInterface(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	d1.Unplug(1)
	v := d1.Vipd(sole(`["10.9.0.100", "10.8.0.100 dev eth1"]`))
	l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
	v.WaitLog("WARN a virtual address is not added: its interface does not exist.*10.8.0.100/32.*eth1", time.Second)
	want := "A: 10.8.0.100/32 waits for interface eth1, which does not exist"
	if got := v.Status().Alarms; !slices.Equal(got, []string{want}) {
		t.Errorf("alarms %q, want %q", got, want)
	}
	from := d1.Plug(1)
	l.WaitOwner(mustAddr("10.8.0.100"), time.Second, "d1")
	if got := v.Status().Alarms; len(got) > 0 {
		t.Errorf("alarms %q with the interface there", got)
	}
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	transitions(t, v, "A", "INIT -> BACKUP", "BACKUP -> MASTER")
	calm(t, v)
}

// Thousands of addresses are taken out of the configuration while they are being
// added: not one is left behind, though readings of the kernel meanwhile miss some.
func TestReloadTakesManyAddressesAway(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	var list []string
	for i := range 10_000 {
		list = append(list, fmt.Sprintf("\"10.100.%d.%d\"", i/200, 1+i%200))
	}
	few := sole(`["10.9.0.100"]`)
	many := sole(`["10.9.0.100"]`, "virtual_ipaddress_excluded ["+strings.Join(list, ", ")+"]")
	v := d1.Vipd(few)
	l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
	count := func() int { return strings.Count(d1.Sh("ip -o -4 addr show dev eth0"), " 10.100.") }
	for round := range 4 {
		v.Reload(many)
		for end := time.Now().Add(10 * time.Second); count() < 1000*(1+round) && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		v.Reload(few)
		left := -1
		for end := time.Now().Add(20 * time.Second); left != 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			left = count()
		}
		if left != 0 {
			t.Fatalf("round %d: %d addresses are left 20 s after the reload", round, left)
		}
	}
	l.WaitOwner(lab.VIP(), time.Second, "d1")
	transitions(t, v, "A", "INIT -> BACKUP", "BACKUP -> MASTER")
	calm(t, v)
}
