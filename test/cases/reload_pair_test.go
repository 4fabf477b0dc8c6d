package cases

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// reloadPair is d1 as MASTER with priority 200 and d2 as BACKUP with 100.
func reloadPair(t *testing.T) (l *lab.Lab, v1, v2 *lab.Daemon, seen *lab.Capture) {
	t.Helper()
	l = lab.New(t, "d1", "d2", "cl")
	seen = l.Node("cl").Capture()
	v1 = l.Node("d1").Vipd(withPriority(200))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	v2 = l.Node("d2").Vipd(withPriority(100))
	v2.WaitState("A", "BACKUP", 10*time.Second)
	return l, v1, v2, seen
}

func withPriority(p int, lines ...string) string {
	i := one("A", 51, `["10.9.0.100"]`, lines...)
	i.Priority = p
	return lab.VipdConf("", i)
}

// takeover waits until a node alone has the VIP and fails when there were two
// owners, or none, for longer than a handover takes, or when it came too late.
func takeover(t *testing.T, l *lab.Lab, seen *lab.Capture, owners *lab.OwnerLog, to string, since time.Time, limit time.Duration) {
	t.Helper()
	l.WaitOwner(lab.VIP(), 5*time.Second, to)
	owners.Stop()
	for n, what := range map[int]string{0: "no owner", 2: "two owners"} {
		if d := owners.Longest(n); d > 400*time.Millisecond { // an election takes longer
			t.Errorf("%s of the VIP for %v", what, d)
		}
	}
	first := seen.WaitAdvert(time.Second, 51, l.Node(to).Addr(), since)
	if took := first.At.Sub(since); took > limit {
		t.Errorf("%s took over after %v, want at most %v", to, took, limit)
	}
}

// The operator moves the VIP by editing priorities. A priority raised over the
// peer's takes over within a down timer; one lowered below it is told at once, and
// the peer takes over within its down timer. nopreempt holds a raised one back, and
// its removal lets it go.
func TestReloadMovesTheVIPByPriority(t *testing.T) {
	t.Parallel()
	const late = 400 * time.Millisecond
	l, v1, v2, seen := reloadPair(t)
	d1, d2 := l.Node("d1"), l.Node("d2")

	owners := l.WatchOwners(lab.VIP(), 2*time.Millisecond)
	at := reloaded(l, v2, withPriority(250))
	takeover(t, l, seen, owners, "d2", at, downTimer(quick, 250)+late)

	owners = l.WatchOwners(lab.VIP(), 2*time.Millisecond)
	at = reloaded(l, v2, withPriority(100))
	told := seen.WaitAdvert(time.Second, 51, d2.Addr(), at)
	for told.Priority != 100 {
		told = seen.WaitAdvert(time.Second, 51, d2.Addr(), told.At.Add(1))
	}
	if took := told.At.Sub(at); took > 150*time.Millisecond {
		t.Errorf("the lowered priority was told after %v, want at once", took)
	}
	takeover(t, l, seen, owners, "d1", at, downTimer(quick, 200)+late)

	reloaded(l, v2, withPriority(250, "nopreempt", "state BACKUP"))
	from := time.Now()
	time.Sleep(2 * downTimer(quick, 250))
	silent(t, seen, 51, d2.Addr(), from)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	owners = l.WatchOwners(lab.VIP(), 2*time.Millisecond)
	at = reloaded(l, v2, withPriority(250))
	takeover(t, l, seen, owners, "d2", at, downTimer(quick, 250)+late)
	calm(t, v1)
	calm(t, v2)
}

// A MASTER is called otherwise, and its name goes to a BACKUP, a new one or one that was there: nobody comes to have an
// address that is another's, and nobody is without for an instant.
func TestReloadGivesANameAway(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	named := func(first, second string, priority int) string {
		master, backup := one(first, 51, `["10.9.0.100"]`), one(second, 53, `["10.9.0.105"]`)
		backup.Priority = priority
		return lab.VipdConf("", master, backup)
	}
	theirs := mustAddr("10.9.0.105")
	v1 := l.Node("d1").Vipd(sole(`["10.9.0.100"]`))
	v2 := l.Node("d2").Vipd(lab.VipdConf("", one("B", 53, `["10.9.0.105"]`)))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	l.WaitOwner(theirs, 15*time.Second, "d2")
	changes := l.Node("d1").MonitorPaths()
	from := len(changes.Log())
	for _, conf := range []string{named("Z", "A", 100), named("A", "Z", 100)} {
		reloaded(l, v1, conf)
		time.Sleep(2 * downTimer(quick, 100))
		if has := l.Owners(theirs); !slices.Equal(has, []string{"d2"}) {
			t.Errorf("%v is on %v", theirs, has)
		}
	}
	if out := changes.Log()[from:]; strings.Contains(out, "[ADDR]") {
		t.Errorf("the reloads changed addresses of d1:\n%s", out)
	}
	calm(t, v1)
	calm(t, v2)
}

// An interface that does not exist is a fault of the instance, not of the
// configuration: the reload goes through, the VIP leaves the old interface, the
// reason is told, and the instance starts when the interface comes.
func TestReloadToAnInterfaceThatDoesNotExist(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()
	v := d1.Vipd(withPriority(200))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	away := one("A", 51, `["10.9.0.100"]`)
	away.Interface = "lan9"
	at := reloaded(l, v, lab.VipdConf("", away))
	l.WaitOwner(lab.VIP(), time.Second)
	if a := seen.WaitAdvert(time.Second, 51, d1.Addr(), at); a.Priority != 0 {
		t.Errorf("the last advert on the old interface has priority %d, want 0", a.Priority)
	}
	if i := v.Status().Instance("A"); i.State != "FAULT" || i.Reason != "lan9 does not exist" {
		t.Errorf("status says %s (%s)", i.State, i.Reason)
	}
	reloaded(l, v, lab.VipdConf("", away, one("B", 52, `["10.9.0.101"]`))) // another reload changes nothing
	d1.IP("link add lan9 type veth peer name lan9peer")
	d1.IP("link set lan9peer up")
	d1.IP("addr add 10.7.0.1/24 dev lan9")
	d1.IP("link set lan9 up")
	l.Eventually(3*time.Second, "the VIP is on lan9", func() bool { return kernelHas(d1, lab.VIP()) == "10.9.0.100/32 lan9 lan9" })
	reloaded(l, v, withPriority(200))
	l.Eventually(3*time.Second, "the VIP is on eth0", func() bool { return kernelHas(d1, lab.VIP()) == "10.9.0.100/32 eth0 eth0" })
	calm(t, v)
}

// A reload that cannot be done changes nothing and says why, to whoever asked.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	l, v1, _, seen := reloadPair(t)
	d1, d2 := l.Node("d1"), l.Node("d2")
	from := time.Now()
	refuse := func(want string) {
		t.Helper()
		out, err := v1.Ctl("reload")
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("vipd reload says %q (%v), want an error with %q", out, err, want)
		}
		v1.Signal(syscall.SIGHUP)
		v1.WaitLog("ERROR reload refused, the running configuration stays: .*"+want, 2*time.Second)
	}
	write := func(text string) {
		if err := os.WriteFile(v1.ConfigFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(withPriority(300))
	refuse("priority")
	write(withPriority(200)[:40])
	refuse("vipd.toml")
	write("")
	refuse("neither a vrrp_instance nor a virtual_server")
	if err := os.Remove(v1.ConfigFile); err != nil {
		t.Fatal(err)
	}
	refuse("vipd.toml")
	d1.Exec("mkfifo", v1.ConfigFile) // nobody writes to it
	refuse("a pipe, socket or device")
	d1.Exec("ln", "-sf", "/dev/zero", v1.ConfigFile)
	refuse("a pipe, socket or device")
	d1.Exec("rm", v1.ConfigFile)
	d1.Exec("truncate", "-s", "1G", v1.ConfigFile)
	refuse("larger than 16 MB")
	write("x = " + strings.Repeat("[", 3_000_000))
	refuse("more than 64 deep")
	time.Sleep(quick) // the last SIGHUP was served
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	silent(t, seen, 51, d2.Addr(), from)
	write(withPriority(201))
	if out, err := v1.Ctl("reload"); err != nil || !strings.Contains(out, "priority") {
		t.Errorf("vipd reload of a good file says %q (%v)", out, err)
	}
}

// Two hundred reloads that each change much, with refused ones and storms of
// SIGHUP in between: the instance that stays does not notice, and the daemon holds
// no more memory, descriptors or goroutines than before.
func TestReloadStorm(t *testing.T) {
	t.Parallel()
	const rounds = 200
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()
	conf := func(round int) string {
		list := []lab.Instance{one("A", 51, `["10.9.0.100"]`)}
		list[0].Extra = append(list[0].Extra, fmt.Sprintf("garp_master_repeat %d", 1+round%5))
		switch round % 4 {
		case 1:
			list = append(list, one("B", uint8(60+round%7), `["10.9.0.101", "10.9.0.102 dev eth1"]`))
		case 2:
			b := one("B", 61, `["10.8.0.101"]`, `track_script ["chk"]`)
			b.Interface = "eth1"
			list = append(list, b, one("C", 70, `["10.9.0.103"]`, `track_interface ["eth1 weight -10"]`))
		case 3:
			list = append(list, one("C", 70, `["10.9.0.104/24 label eth0:c"]`, "version 2", "advert_int 1"))
			list[1].Extra = append(list[1].Extra[:0:0], `virtual_ipaddress ["10.9.0.104/24 label eth0:c"]`)
		}
		text := lab.VipdConf("", list...) + fmt.Sprintf("[vrrp_script.chk]\nscript = \"/bin/sleep %d\"\ninterval = 1\ntimeout = 20\n", round%3)
		return text
	}
	v := d1.Vipd(conf(0))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	owners := l.WatchOwners(lab.VIP(), 2*time.Millisecond)
	reload := func(round int) {
		t.Helper()
		if err := os.WriteFile(v.ConfigFile, []byte(conf(round)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := v.Ctl("reload"); err != nil {
			t.Fatalf("reload %d: %v: %s", round, err, out)
		}
	}
	for round := range 20 { // what is kept for good is there
		reload(round)
	}
	reload(0)
	time.Sleep(time.Second)
	use := func() [3]int64 {
		s := v.Status()
		count := func(key string) int64 { n, _ := s.Counters[key].(float64); return int64(n) }
		return [3]int64{v.Memory() >> 10, count("process_descriptors"), count("process_goroutines")}
	}
	before, from := use(), time.Now()
	for round := range rounds {
		reload(round)
		if round%20 == 0 {
			if err := os.WriteFile(v.ConfigFile, []byte("nonsense = "), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				v.Signal(syscall.SIGHUP)
			}
			time.Sleep(10 * time.Millisecond) // or the next file is read
		}
	}
	reload(0)
	took := time.Since(from)
	time.Sleep(time.Second)
	after := use()
	t.Logf("%d reloads in %v; KiB, descriptors, goroutines: %v before, %v after", rounds, took, before, after)
	if before[1] == 0 || before[2] == 0 {
		t.Fatalf("status has no counters of descriptors and goroutines: %v", v.Status().Counters)
	}
	if after[0] > before[0]*5/4+4096 || after[1] > before[1]+1 || after[2] > before[2]+1 {
		t.Errorf("the daemon grew: KiB, descriptors, goroutines: %v before, %v after", before, after)
	}
	owners.Stop()
	if gone := owners.Longest(0); gone > 0 {
		t.Errorf("the VIP that stayed was away for %v", gone)
	}
	adverts := lab.Between(lab.From(seen.Adverts(51), d1.Addr()), from, time.Now())
	if gap, at := lab.LongestGap(adverts); gap > quick+150*time.Millisecond+seen.Stalled(at, at.Add(gap)) {
		t.Errorf("advert gap of %v, %v after the start; not sent: %v, lost by the capture: %d",
			gap, at.Sub(from), v.Status().Counters["vrrp_adverts_failed"], seen.Lost())
	}
	for _, a := range []string{"10.9.0.101", "10.9.0.102", "10.8.0.101", "10.9.0.103", "10.9.0.104"} {
		if has := kernelHas(d1, mustAddr(a)); has != "" {
			t.Errorf("left in the kernel: %s", has)
		}
	}
	if strings.Contains(v.Log(), "panic") {
		t.Error("the daemon panicked")
	}
}
