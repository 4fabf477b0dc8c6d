package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// trouble is something that is wrong when the daemon starts.
type trouble struct {
	name, reason string
	begin, end   func(n *lab.Node)
}

func troubles() []trouble {
	base := func(n *lab.Node, do string) { n.IP("addr " + do + " 10.9.0.1/24 dev eth0") }
	return []trouble{
		{"interface down", "eth0 is down", func(n *lab.Node) { n.LinkDown(0) }, func(n *lab.Node) { n.LinkUp(0) }},
		{"no carrier", "eth0 has no carrier", func(n *lab.Node) { n.PortDown(0) }, func(n *lab.Node) { n.PortUp(0) }},
		{"no interface", "eth0 does not exist", func(n *lab.Node) { n.Unplug(0) }, func(n *lab.Node) { n.Plug(0) }},
		{"no address", "eth0 has no IPv4 address", func(n *lab.Node) { base(n, "del") }, func(n *lab.Node) { base(n, "add") }},
		{"tracked interface down", "eth1 is down", func(n *lab.Node) { n.LinkDown(1) }, func(n *lab.Node) { n.LinkUp(1) }},
	}
}

// A daemon that finds its interface unusable at start waits in FAULT, silently and
// with the reason, and starts when the trouble is over.
func TestStartInTrouble(t *testing.T) {
	t.Parallel()
	for _, tr := range troubles() {
		t.Run(strings.ReplaceAll(tr.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "cl")
			d1, seen := l.Node("d1"), l.Node("cl").Capture()
			tr.begin(d1)
			v := d1.Vipd(sole(`["10.9.0.100"]`, `track_interface ["eth1"]`))
			v.WaitState("A", "FAULT", 5*time.Second)
			if got := v.Status().Instance("A").Reason; got != tr.reason {
				t.Errorf("the reason is %q, want %q", got, tr.reason)
			}
			from := time.Now()
			time.Sleep(2 * downTimer(quick, 200))
			silent(t, seen, 51, d1.Addr(), from)
			l.WaitOwner(lab.VIP(), 0)
			tr.end(d1)
			l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
			steady(t, seen, 51, d1.Addr(), 200, quick, time.Now())
			transitions(t, v, "A", "INIT -> FAULT", "FAULT -> BACKUP", "BACKUP -> MASTER")
			calm(t, v)
		})
	}
}

// transitions fails unless the log has, within a second, exactly these transitions
// of an instance, each with a reason.
func transitions(t *testing.T, v *lab.Daemon, instance string, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		got = nil
		for line := range strings.Lines(v.Log()) {
			if !strings.Contains(line, fmt.Sprintf(`"instance": %q`, instance)) || !strings.Contains(line, " -> ") ||
				strings.Contains(line, "effective priority") {
				continue
			}
			f := strings.Fields(line)
			got = append(got, strings.Join(f[2:5], " "))
			if strings.Contains(line, `"reason": ""`) || !strings.Contains(line, `"reason": "`) {
				t.Errorf("a transition without a reason: %s", line)
			}
		}
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the log has the transitions %v, want %v", got, want)
			return
		}
	}
}

// The VIP is on the interface when the daemon starts, with the prefix length of the
// LAN: somebody's by hand, or its only address. It is no base to send from, it is not
// removed, and the operator is told.
func TestStartWithTheVIPAsBase(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"beside": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "cl")
			d1 := l.Node("d1")
			if alone {
				d1.IP("addr del 10.9.0.1/24 dev eth0")
			}
			d1.IP("addr add 10.9.0.100/24 dev eth0")
			v := d1.Vipd(sole(`["10.9.0.100"]`))
			state := "MASTER"
			if alone {
				state = "FAULT"
			}
			v.WaitState("A", state, 5*time.Second)
			v.WaitLog("WARN .*10.9.0.100/24 on eth0", time.Second)
			v.Stop(3 * time.Second)
			if has := kernelHas(d1, lab.VIP()); has != "10.9.0.100/24 eth0 eth0" {
				t.Errorf("the kernel has %q afterwards", has)
			}
			calm(t, v)
		})
	}
}

// Trackers change the priority on the wire, at once when it falls, or the state.
func TestTrackers(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	ok := l.Dir() + "/ok"
	d1.Sh("touch " + ok)
	var list []lab.Instance
	add := func(vrid uint8, line string) {
		i := one(fmt.Sprintf("I%d", vrid), vrid, fmt.Sprintf(`["10.9.0.%d"]`, vrid), line)
		i.Priority = 100
		list = append(list, i)
	}
	add(61, `track_interface ["eth1 weight 20"]`)
	add(62, `track_interface ["eth1 weight -20"]`)
	add(63, `track_interface ["eth1 weight 20 reverse"]`)
	add(64, `track_interface ["eth1 weight -20 reverse"]`)
	add(65, `track_interface ["eth1"]`)
	add(66, `track_script ["chk weight 30"]`)
	add(67, `track_script ["chk weight -30"]`)
	add(68, `track_script ["chk weight -30 reverse"]`)
	add(69, `track_script ["chk weight -253", "chk2 weight 100"]`)
	add(70, `track_script ["chk"]`)
	script := "\n[vrrp_script.%s]\nscript = \"/usr/bin/test -e %s\"\ninterval = 0.1\nfall = 2\nrise = 2\n"
	v := d1.Vipd(lab.VipdConf("", list...) + fmt.Sprintf(script, "chk", ok) + fmt.Sprintf(script, "chk2", ok))
	// What the adverts of VRID 61 to 70 say; 0: no advert.
	want := func(what string, prios ...uint8) {
		t.Helper()
		deadline := time.Now().Add(5 * time.Second)
		for {
			from := time.Now()
			time.Sleep(quick + quick/2)
			var got []uint8
			for vrid := uint8(61); vrid <= 70; vrid++ {
				list := lab.Between(seen.Adverts(vrid), from, time.Now())
				if len(list) == 0 {
					got = append(got, 0)
				} else {
					got = append(got, list[len(list)-1].Priority)
				}
			}
			if fmt.Sprint(got) == fmt.Sprint(prios) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: priorities %v, want %v", what, got, prios)
			}
		}
	}
	want("all good", 120, 100, 80, 100, 100, 130, 100, 100, 200, 100)
	d1.LinkDown(1)
	want("eth1 down", 100, 80, 100, 120, 0, 130, 100, 100, 200, 100)
	at := time.Now()
	d1.Sh("rm " + ok)
	want("scripts fail too", 100, 80, 100, 120, 0, 100, 70, 130, 1, 0)
	first, _ := lab.FirstAfter(lab.Filter(seen.Adverts(67), func(a lab.Advert) bool { return a.Priority == 70 }), at)
	before, _ := lab.LastBefore(seen.Adverts(67), first.At)
	t.Logf("the lower priority was told %v after the advert before it", first.At.Sub(before.At))
	d1.LinkUp(1)
	d1.Sh("touch " + ok)
	want("all good again", 120, 100, 80, 100, 100, 130, 100, 100, 200, 100)
	l.WaitOwner(mustAddr("10.9.0.65"), time.Second, "d1")
	for _, line := range []string{
		`WARN effective priority 120 -> 100 {"instance": "I61", "reason": "no tracker changes it any more"}`,
		`WARN effective priority 100 -> 80 {"instance": "I62", "reason": "eth1 is down (-20)"}`,
		`WARN effective priority 100 -> 70 {"instance": "I67", "reason": "script chk failed (-30)"}`,
		`INFO effective priority 70 -> 100 {"instance": "I67", "reason": "no tracker changes it any more"}`,
	} {
		if !strings.Contains(v.Log(), line) {
			t.Errorf("the log has no line %q", line)
		}
	}
	transitions(t, v, "I65", "INIT -> BACKUP", "BACKUP -> MASTER", "MASTER -> FAULT", "FAULT -> BACKUP", "BACKUP -> MASTER")
	transitions(t, v, "I70", "INIT -> BACKUP", "BACKUP -> MASTER", "MASTER -> FAULT", "FAULT -> BACKUP", "BACKUP -> MASTER")
	transitions(t, v, "I66", "INIT -> BACKUP", "BACKUP -> MASTER")
	calm(t, v)
}
