package cases

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// groupMembers are the instances of the sync groups: of both families, on both LANs.
func groupMembers(priority int, interval time.Duration) []lab.Instance {
	return []lab.Instance{
		{Name: "A", VRID: 61, Priority: priority, Interval: interval, VIPs: []netip.Addr{mustAddr("10.9.0.61")}},
		{Name: "B", VRID: 62, Priority: priority, Interval: interval, Interface: "eth1", VIPs: []netip.Addr{mustAddr("fe80::62"), mustAddr("2001:db8:8::62")}},
		{Name: "C", VRID: 63, Priority: priority, Interval: interval, Interface: "eth1", VIPs: []netip.Addr{mustAddr("10.8.0.63")}},
	}
}

// groupVIP is the address of a member that its owners are known by.
func groupVIP(i lab.Instance) netip.Addr { return i.VIPs[len(i.VIPs)-1] }

// grouped writes the first n members for vipd, all in group G; lines are of the group.
func grouped(priority int, interval time.Duration, n int, lines ...string) string {
	members := groupMembers(priority, interval)[:n]
	names := make([]string, n)
	for i, m := range members {
		names[i] = fmt.Sprintf("%q", m.Name)
	}
	return lab.VipdConf("", members...) + "\n[vrrp_sync_group.G]\ngroup = [" + strings.Join(names, ", ") + "]\n" + strings.Join(lines, "\n") + "\n"
}

// groupWatch samples the owners of the members' addresses.
type groupWatch struct {
	members []lab.Instance
	logs    []*lab.OwnerLog
}

func watchGroup(l *lab.Lab, n int) *groupWatch {
	w := &groupWatch{members: groupMembers(1, 0)[:n]}
	for _, m := range w.members {
		w.logs = append(w.logs, l.WatchOwners(groupVIP(m), 10*time.Millisecond))
	}
	return w
}

// owned waits until a director alone has the addresses of all members.
func (w *groupWatch) owned(l *lab.Lab, name string, limit time.Duration) {
	for _, m := range w.members {
		l.WaitOwner(groupVIP(m), limit, name)
	}
}

// owns reports whether a director had the address at a time.
func owns(list []lab.Ownership, name string, at time.Time) bool {
	for _, p := range list {
		if !at.Before(p.From) && at.Before(p.To) {
			return slices.Contains(p.Owners, name)
		}
	}
	return false
}

// apart stops the sampling and returns for how long at most a director had some of the
// addresses and not the others.
func (w *groupWatch) apart(t *testing.T, name string) time.Duration {
	t.Helper()
	var all [][]lab.Ownership
	begin, end := time.Time{}, time.Now()
	for _, o := range w.logs {
		list := o.Stop()
		if err := o.Err(); err != nil {
			t.Error(err)
		}
		all = append(all, list)
		if from := list[0].From; from.After(begin) {
			begin = from
		}
		if to := list[len(list)-1].To; to.Before(end) {
			end = to
		}
	}
	var longest time.Duration
	var since time.Time
	for at := begin; at.Before(end); at = at.Add(5 * time.Millisecond) {
		n := 0
		for _, list := range all {
			if owns(list, name, at) {
				n++
			}
		}
		switch {
		case n == 0 || n == len(all):
			since = time.Time{}
		case since.IsZero():
			since = at
		default:
			longest = max(longest, at.Sub(since))
		}
	}
	return longest
}

// together is how long members may be in different states: 100 ms, and what a busy
// machine adds to the sampling.
const together = 400 * time.Millisecond

// O29: a reload that adds a member drops the whole group to BACKUP; a group in FAULT
// never returns although its interface is up; a tracked interface that leaves a bridge
// leaves the members in different states.
//
// Claim: all members are equal outside of a transition. A member that joins costs the
// others no advert; after 30 flaps of one member's link the group is MASTER; FAULT ends
// for all when its cause does.
func TestO29SyncGroup(t *testing.T) {
	t.Parallel()
	const interval = 200 * time.Millisecond
	l := lab.New(t, "d1", "d2", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	seen := cl.Capture()
	d1.IP("link add trk0 type veth peer name trk1")
	d1.IP("link set trk0 up")
	d1.IP("link set trk1 up")
	const track = `track_interface = ["trk0"]`
	v1 := d1.Vipd(grouped(200, interval, 2, track))
	two := watchGroup(l, 2)
	two.owned(l, "d1", 10*time.Second)
	v2 := l.Node("d2").Vipd(grouped(100, interval, 2))
	v2.WaitState("B", "BACKUP", 5*time.Second)

	// 1: a member joins by reload, first here, then there.
	from := time.Now()
	reloaded(l, v1, grouped(200, interval, 3, track))
	l.WaitOwner(mustAddr("10.8.0.63"), 5*time.Second, "d1")
	reloaded(l, v2, grouped(100, interval, 3))
	time.Sleep(time.Second)
	steady(t, seen, 61, d1.Addr(), 200, interval, from)
	transitions(t, v1, "A", "INIT -> BACKUP", "BACKUP -> MASTER")
	transitions(t, v1, "B", "INIT -> BACKUP", "BACKUP -> MASTER")
	if got := two.apart(t, "d1"); got > together {
		t.Errorf("A and B were apart for %v", got)
	}
	all := watchGroup(l, 3)

	// 2: the link of A flaps.
	for range 30 {
		d1.PortDown(0)
		time.Sleep(time.Duration(50+rand.IntN(500)) * time.Millisecond)
		d1.PortUp(0)
		time.Sleep(time.Duration(50+rand.IntN(500)) * time.Millisecond)
	}
	all.owned(l, "d1", 10*time.Second)

	// 3: a tracked interface goes into a bridge and out of it while A is down.
	d1.PortDown(0)
	all.owned(l, "d2", 5*time.Second)
	d1.IP("link add br9 type bridge")
	d1.IP("link set br9 up")
	d1.IP("link set trk0 master br9")
	d1.IP("link set trk0 nomaster")
	time.Sleep(500 * time.Millisecond)
	d1.PortUp(0)
	all.owned(l, "d1", 5*time.Second)
	d1.IP("link set trk1 down") // trk0 loses its carrier
	all.owned(l, "d2", 5*time.Second)
	d1.IP("link set trk1 up")
	back := time.Now()
	all.owned(l, "d1", 5*time.Second)
	waitAnnouncedBy(seen, mustAddr("10.9.0.61"), d1.MAC(), back, 2*time.Second)

	for _, d := range []string{"d1", "d2"} {
		if got := all.apart(t, d); got > together {
			t.Errorf("the members on %s were apart for %v", d, got)
		}
	}

	// A member leaves: nobody moves.
	from = time.Now()
	reloaded(l, v1, grouped(200, interval, 2, track))
	time.Sleep(time.Second)
	steady(t, seen, 61, d1.Addr(), 200, interval, from)
	calm(t, v1)
	calm(t, v2)
}

// keepalivedGroup writes the members for keepalived, in group G.
func keepalivedGroup(priority int, interval time.Duration, n int) string {
	members := groupMembers(priority, interval)[:n]
	var names strings.Builder
	for _, m := range members {
		names.WriteString("        " + m.Name + "\n")
	}
	return lab.KeepalivedConf("vrrp_sync_group G {\n    group {\n"+names.String()+"    }\n}\n", members...)
}

// A pair of vipd and keepalived with one sync group, in both roles: whatever fails, all
// members move together.
func TestSyncGroupBesideKeepalived(t *testing.T) {
	t.Parallel()
	const interval = 200 * time.Millisecond
	for _, vipdFirst := range []bool{true, false} {
		name := map[bool]string{true: "vipd is better", false: "keepalived is better"}[vipdFirst]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "d2")
			d1, d2 := l.Node("d1"), l.Node("d2")
			w := watchGroup(l, 3)
			var first, second *lab.Process
			if vipdFirst {
				first = d1.Vipd(grouped(200, interval, 3)).Process
				w.owned(l, "d1", 10*time.Second)
				second = d2.Keepalived(keepalivedGroup(100, interval, 3))
			} else {
				first = d1.Keepalived(keepalivedGroup(200, interval, 3))
				w.owned(l, "d1", 10*time.Second)
				second = d2.Vipd(grouped(100, interval, 3)).Process
			}
			second.WaitLog("BACKUP", 10*time.Second)
			time.Sleep(time.Second)
			for i := range 2 { // a link of the better one, then the other
				d1.PortDown(i)
				w.owned(l, "d2", 5*time.Second)
				d1.PortUp(i)
				w.owned(l, "d1", 10*time.Second)
			}
			for i := range 2 { // the lesser one's links change nothing
				d2.PortDown(i)
				time.Sleep(time.Second)
				d2.PortUp(i)
				time.Sleep(time.Second)
				w.owned(l, "d1", time.Second)
			}
			first.Stop(10 * time.Second)
			w.owned(l, "d2", 5*time.Second)
			for _, d := range []string{"d1", "d2"} {
				// keepalived moves its members one after the other.
				if got := w.apart(t, d); got > together+300*time.Millisecond {
					t.Errorf("the members on %s were apart for %v", d, got)
				}
			}
		})
	}
}

// The commands of a group get GROUP, its name, the state and 0, once for all members.
func TestGroupNotifications(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	file := l.Dir() + "/group"
	lines := []string{fmt.Sprintf("notify = [\"/bin/sh\", \"-c\", 'echo \"$@\" >>%s', \"any\"]", file)}
	for _, s := range []string{"master", "backup", "fault"} {
		lines = append(lines, fmt.Sprintf("notify_%s = [\"/bin/sh\", \"-c\", 'echo %s \"$@\" >>%s', \"own\", \"x\"]", s, s, file))
	}
	v := d1.Vipd(grouped(200, quick, 2, lines...))
	w := watchGroup(l, 3)
	v.WaitState("A", "MASTER", 5*time.Second)
	reloaded(l, v, grouped(200, quick, 3, lines...)) // no news of the group
	l.WaitOwner(mustAddr("10.8.0.63"), 5*time.Second, "d1")
	if s := v.Status(); len(s.SyncGroups) != 1 || s.SyncGroups[0].State != "MASTER" || !slices.Equal(s.SyncGroups[0].Members, []string{"A", "B", "C"}) {
		t.Errorf("status: %+v", s.SyncGroups)
	}
	d1.LinkDown(0)
	v.WaitState("B", "FAULT", 2*time.Second)
	d1.LinkUp(0)
	w.owned(l, "d1", 5*time.Second)
	v.Stop(5 * time.Second)
	want := "backup x\nGROUP G BACKUP 0\nmaster x\nGROUP G MASTER 0\nfault x\nGROUP G FAULT 0\n" +
		"backup x\nGROUP G BACKUP 0\nmaster x\nGROUP G MASTER 0\nGROUP G STOP 0\n"
	if got := strings.Join(readLines(t, file), ""); got != want {
		t.Errorf("notifications:\n%s\nwant:\n%s", got, want)
	}
}
