package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// tracked is one instance that tracks script chk, with the script.
func tracked(l *lab.Lab, priority int, nopreempt bool, track string) string {
	i := one("A", 51, `["10.9.0.100"]`, track)
	i.Priority, i.NoPreempt = priority, nopreempt
	return lab.VipdConf("", i) + fmt.Sprintf("\n[vrrp_script.chk]\nscript = \"/usr/bin/test -e %s/ok\"\ninterval = 0.1\n", l.Dir())
}

// O31: a check fails, the priority falls by its weight, and the VIP stays: the fall
// is smaller than the difference of the priorities, or the other director has
// nopreempt.
//
// Claim: vipd check warns of nopreempt with weights and says what to compare. A check
// without weight always moves the VIP, with nopreempt too.
func TestO31WeightAndNopreempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, track   string
		weight, moves bool
	}{
		{"103/100 weight -2", `track_script ["chk weight -2"]`, true, false},
		{"weight -200", `track_script ["chk weight -100"]`, true, false},
		{"no weight", `track_script ["chk"]`, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "d2")
			d1, d2 := l.Node("d1"), l.Node("d2")
			d1.Sh("touch " + l.Dir() + "/ok")
			v1 := d1.Vipd(tracked(l, 103, true, c.track))
			l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
			v2 := d2.Vipd(tracked(l, 100, true, `track_interface ["eth1"]`)) // the script runs on d1 only
			v2.WaitState("A", "BACKUP", 5*time.Second)
			time.Sleep(2 * quick)
			out, err := d1.Try(lab.VipdBin(t), "check", "-c", v1.ConfigFile)
			const warning = "the weight of chk may never move the addresses"
			if err != nil || strings.Contains(out, warning) != c.weight || c.weight && !strings.Contains(out, "compare both") {
				t.Errorf("vipd check (%v):\n%s", err, out)
			}
			d1.Sh("rm " + l.Dir() + "/ok")
			if c.moves {
				l.WaitOwner(lab.VIP(), 5*time.Second, "d2")
				return
			}
			v1.WaitLog("effective priority 103 -> ", 3*time.Second)
			time.Sleep(2 * time.Second)
			if got := l.Owners(lab.VIP()); !slices.Equal(got, []string{"d1"}) {
				t.Errorf("owned by %v: the warning is wrong", got)
			}
		})
	}
}

// O32: after a reload that adds a tracked interface the priority is 111 instead of
// 100; scripts count as failed after it.
//
// Claim: over 20 reloads that add and take out trackers with weights, and change the
// priority with them, every advert has a priority that a fresh start would have, and
// the results of scripts survive.
func TestO32PriorityAfterReload(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	d1.LinkDown(1)
	script := func(name, command string) string {
		return fmt.Sprintf("\n[vrrp_script.%s]\nscript = [\"/bin/sh\", \"-c\", %q]\ninterval = 0.3\ntimeout = 10\n", name, command)
	}
	conf := func(priority int, lines ...string) string {
		return withPriority(priority, lines...) + script("good", "sleep 0.1") + script("bad", "sleep 0.1; exit 1")
	}
	// Each leads to 150.
	shapes := []string{
		conf(150),
		conf(160, `track_interface ["eth1 weight -10"]`),
		conf(130, `track_script ["good weight 20", "bad weight 50"]`),
		conf(170, `track_script ["good weight 20", "bad weight -40"]`),
		conf(155, `track_script ["bad weight -5"]`, `track_interface ["eth0 weight -7", "eth1 weight 9"]`),
		conf(100, `track_script ["good weight 50 "]`),
	}
	v := d1.Vipd(shapes[3])
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	time.Sleep(time.Second)
	from := time.Now()
	for round := range 20 {
		// Both scripts stay tracked, so no result may be lost: 170 + 20 - 40, then
		// 140 + 30 - 20.
		next := shapes[3]
		if round%2 == 0 {
			next = conf(140, `track_script ["good weight 30", "bad weight -20"]`, `track_interface ["eth1 weight 70"]`)
		}
		reloaded(l, v, next)
		time.Sleep(time.Duration(round*17) * time.Millisecond)
	}
	time.Sleep(2 * quick)
	for _, a := range lab.Between(seen.Adverts(51), from, time.Now()) {
		if a.Priority != 150 {
			t.Errorf("an advert with priority %d during reloads that all lead to 150", a.Priority)
		}
	}
	for i, shape := range shapes { // those that come anew need a result first
		reloaded(l, v, shape)
		time.Sleep(1500 * time.Millisecond)
		list := seen.Adverts(51)
		if last := list[len(list)-1]; last.Priority != 150 {
			t.Errorf("shape %d: priority %d on the wire, want 150", i, last.Priority)
		}
		if got := v.Status().Instances[0].EffectivePriority; got != 150 {
			t.Errorf("shape %d: effective priority %d in status, want 150", i, got)
		}
	}
	transitions(t, v, "A", "INIT -> BACKUP", "BACKUP -> MASTER")
	calm(t, v)
}

// O33: MASTER and then BACKUP within milliseconds: the scripts run side by side, and
// the effect that stays is MASTER's.
//
// Claim: the calls of an instance are serial and in order, the latest state last,
// however long each takes; elections do not wait for them.
func TestO33NotificationsNeverOverlap(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	file := l.Dir() + "/order"
	notify := `notify /bin/sh -c 'echo begin $3 >>` + file + `; sleep 0.$(tr -dc 0-3 </dev/urandom | head -c 1); echo end $3 >>` + file + `' x`
	v := d1.Vipd(sole(`["10.9.0.100"]`, notify))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	want := []string{"BACKUP", "MASTER"}
	for range 25 {
		d1.PortDown(0)
		v.WaitState("A", "FAULT", 3*time.Second)
		up := d1.PortUp(0)
		v.WaitState("A", "MASTER", 3*time.Second)
		if took := time.Since(up); took > 2*time.Second {
			t.Errorf("with notifications waiting the election took %v", took)
		}
		want = append(want, "FAULT", "BACKUP", "MASTER")
	}
	l.Eventually(30*time.Second, "all notifications", func() bool { return len(readLines(t, file)) >= 2*len(want) })
	lines := readLines(t, file)
	for i, state := range want {
		if got := lines[2*i] + lines[2*i+1]; got != "begin "+state+"\nend "+state+"\n" {
			t.Fatalf("call %d: %q, want %s begun and ended", i, got, state)
		}
	}
	calm(t, v)
}
