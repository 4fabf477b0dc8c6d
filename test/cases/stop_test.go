package cases

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// notifying are settings that write a line for each notification, after a command
// that may take its time.
func notifying(l *lab.Lab, before string) (file string, lines []string) {
	file = filepath.Join(l.Dir(), "notified")
	lines = []string{`notify /bin/sh -c '` + before + `echo "$@" >>` + file + `' any`}
	for _, s := range []string{"master", "backup", "fault"} {
		lines = append(lines, "notify_"+s+` /bin/sh -c 'echo `+s+` "$@" >>`+file+`' own x`)
	}
	return file, lines
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(b)))
}

// Notifications of an instance come in the order of its transitions, the one for
// the state before the general one, with keepalived's words. Those of the end come
// too: at the stop of the daemon and when a reload removes the instance.
func TestNotificationsInOrder(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	file, lines := notifying(l, "")
	both := func(names ...string) string {
		var list []lab.Instance
		for i, n := range names {
			var own []string
			for _, line := range lines {
				own = append(own, strings.ReplaceAll(line, "own x", "own "+n))
			}
			list = append(list, one(n, uint8(51+i), fmt.Sprintf(`["10.9.0.%d"]`, 100+i), own...))
		}
		return lab.VipdConf("", list...)
	}
	v := d1.Vipd(both("A", "B"))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	reloaded(l, v, both("A"))
	d1.LinkDown(0)
	v.WaitState("A", "FAULT", 2*time.Second)
	d1.LinkUp(0)
	v.WaitState("A", "MASTER", 5*time.Second)
	v.Stop(3 * time.Second)
	want := map[string][]string{
		"A": {"backup A", "INSTANCE A BACKUP 200", "master A", "INSTANCE A MASTER 200", "fault A", "INSTANCE A FAULT 200",
			"backup A", "INSTANCE A BACKUP 200", "master A", "INSTANCE A MASTER 200", "INSTANCE A STOP 200"},
		"B": {"backup B", "INSTANCE B BACKUP 200", "master B", "INSTANCE B MASTER 200",
			"fault B", "INSTANCE B FAULT 200"}, // keepalived's word for a removal
	}
	got := map[string][]string{}
	for _, line := range readLines(t, file) {
		fields := strings.Fields(line)
		name := fields[1]
		got[name] = append(got[name], strings.Join(fields, " "))
	}
	for name, w := range want {
		if !slices.Equal(got[name], w) {
			t.Errorf("%s was notified of\n%q, want\n%q", name, got[name], w)
		}
	}
	calm(t, v)
}

// The notification of the stop gets its second, but not more: the daemon neither
// kills a script that is about to end nor waits for one that hangs.
func TestStopWaitsForItsNotification(t *testing.T) {
	t.Parallel()
	for name, sleep := range map[string]float64{"done": 0.6, "hangs": 30} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1")
			file, lines := notifying(l, fmt.Sprintf(`test $3 = STOP && sleep %g; `, sleep))
			v := l.Node("d1").Vipd(lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, lines...)))
			v.WaitState("A", "MASTER", 15*time.Second)
			at := v.Signal(syscall.SIGTERM)
			l.WaitOwner(lab.VIP(), 500*time.Millisecond) // it does not wait for the script
			if out, err := v.Ctl("reload"); err == nil || !strings.Contains(out, "vipd is stopping") {
				t.Errorf("a reload during the stop: %q (%v)", out, err)
			}
			if code := v.Wait(3 * time.Second); code != 0 {
				t.Errorf("exit status %d", code)
			}
			took := time.Since(at)
			stopped := slices.Contains(readLines(t, file), "INSTANCE A STOP 200\n")
			if done := sleep < 1; stopped != done || took > 2*time.Second {
				t.Errorf("after %v the script of the stop has ended: %v, want %v", took, stopped, done)
			}
			if cut := strings.Contains(v.Log(), "notifications were cut off"); cut == stopped {
				t.Errorf("the log tells that a script was cut off: %v", cut)
			}
		})
	}
}

// ended waits for a daemon's end and looks at what it left.
func ended(t *testing.T, v *lab.Daemon, code int, limit time.Duration, vips ...netip.Addr) {
	t.Helper()
	if got := v.Wait(limit); got != code {
		t.Errorf("exit status %d, want %d; log:\n%s", got, code, v.Log())
	}
	for _, a := range vips {
		if has := kernelHas(v.Node, a); has != "" {
			t.Errorf("left in the kernel: %s", has)
		}
	}
	if _, err := os.Stat(v.Socket); err == nil {
		t.Errorf("left behind: %s", v.Socket)
	}
}

// SIGTERM while reloads are under way: priority 0 is the last word of every
// instance, and nothing stays.
func TestStopDuringReload(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	seen := l.Node("cl").Capture()
	a := two(`["10.9.0.100", "10.9.0.101"]`, `["10.9.0.102"]`)
	b := two(`["10.9.0.101/24"]`, `["10.9.0.102 label eth0:b", "10.9.0.100"]`)
	v := l.Node("d1").Vipd(a)
	for round := range 12 {
		if round > 0 {
			v.Again()
		}
		for _, ip := range []string{"10.9.0.100", "10.9.0.101", "10.9.0.102"} {
			l.WaitOwner(mustAddr(ip), 15*time.Second, "d1")
		}
		conf := a
		if round%2 == 0 {
			conf = b
		}
		v.Reload(conf)
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		at := v.Signal(syscall.SIGTERM)
		v.Signal(syscall.SIGHUP)
		ended(t, v, 0, 3*time.Second, mustAddr("10.9.0.100"), mustAddr("10.9.0.101"), mustAddr("10.9.0.102"))
		if took := time.Since(at); took > time.Second {
			t.Errorf("round %d: the stop took %v", round, took)
		}
		for _, vrid := range []uint8{51, 52} {
			list := seen.Adverts(vrid)
			if last := list[len(list)-1]; last.Priority != 0 {
				t.Errorf("round %d: the last advert of VRID %d has priority %d", round, vrid, last.Priority)
			}
		}
	}
	calm(t, v)
}

// A second SIGTERM ends the daemon at once, whatever it waits for; addresses that
// were removed before that stay removed.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	_, lines := notifying(l, `test $3 = STOP && sleep 30; `)
	v := l.Node("d1").Vipd(lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, lines...)))
	v.WaitState("A", "MASTER", 15*time.Second)
	v.Signal(syscall.SIGTERM)
	l.WaitOwner(lab.VIP(), 500*time.Millisecond)
	at := v.Signal(syscall.SIGINT)
	ended(t, v, 0, time.Second, lab.VIP())
	if took := time.Since(at); took > 500*time.Millisecond {
		t.Errorf("the end came %v after the second signal", took)
	}
	if !strings.Contains(v.Log(), "stopping at once") {
		t.Error("the log does not tell that the stop was cut short")
	}
}

// A stop in FAULT has nothing to give up, and says nothing on the network.
func TestStopInFault(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	file, lines := notifying(l, "")
	v := d1.Vipd(lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, append(lines, `track_interface ["eth1"]`)...)))
	v.WaitState("A", "MASTER", 15*time.Second)
	d1.PortDown(1)
	l.WaitOwner(lab.VIP(), 2*time.Second)
	from := time.Now()
	at := v.Stop(3 * time.Second)
	if took := time.Since(at); took > time.Second {
		t.Errorf("the stop took %v", took)
	}
	ended(t, v, 0, time.Second, lab.VIP())
	silent(t, seen, 51, d1.Addr(), from)
	if got := readLines(t, file); got[len(got)-1] != "INSTANCE A STOP 200\n" {
		t.Errorf("the last notification is %q", got[len(got)-1])
	}
	calm(t, v)
}

// The reader of the log is stuck and the pipe full: failover, reload and stop go on.
func TestStuckLog(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	pipe := filepath.Join(l.Dir(), "log")
	v := d1.VipdIn(fmt.Sprintf("mkfifo %[1]s; exec 3<>%[1]s; dd if=/dev/zero bs=4096 count=16 2>/dev/null >&3; exec 2>%[1]s", pipe),
		two(`["10.9.0.100"]`, `["10.9.0.101"]`), "--log-level", "debug")
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	for i := range 20 {
		if out, err := v.Ctl("reload"); err != nil {
			t.Fatalf("reload %d: %v: %s", i, err, out)
		}
	}
	from := time.Now()
	time.Sleep(5 * quick)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	at := v.Signal(syscall.SIGTERM)
	l.WaitOwner(lab.VIP(), 500*time.Millisecond)
	ended(t, v, 0, 5*time.Second, lab.VIP(), mustAddr("10.9.0.101"))
	if took := time.Since(at); took > 4*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// Who reads the log went away: the protocol, reloads and the stop go on without.
func TestLogWithoutReader(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	pipe := filepath.Join(l.Dir(), "log")
	v := d1.VipdIn(fmt.Sprintf("mkfifo %[1]s; head -c 1 <%[1]s >/dev/null & exec 2>%[1]s >&2", pipe), sole(`["10.9.0.100"]`), "--log-level", "debug")
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	from := time.Now()
	for i := range 5 {
		if out, err := v.Ctl("reload"); err != nil {
			t.Fatalf("reload %d: %v: %s", i, err, out)
		}
		time.Sleep(quick)
	}
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	v.Signal(syscall.SIGTERM)
	ended(t, v, 0, 5*time.Second, lab.VIP())
}

// The configuration is on a file system that hangs, here by a lease, for whose end
// the kernel has others wait: a reload waits for it, but neither the protocol nor a
// stop does.
func TestStopWhileTheConfigurationHangs(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	v := d1.Vipd(sole(`["10.9.0.100"]`))
	v.WaitState("A", "MASTER", 15*time.Second)
	file, err := os.OpenFile(v.ConfigFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	from := v.Signal(syscall.SIGHUP)
	time.Sleep(3 * quick)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	v.Signal(syscall.SIGTERM)
	ended(t, v, 0, time.Second, lab.VIP())
	for _, kind := range []int{unix.F_UNLCK, unix.F_WRLCK} { // anew: nobody waits for this one yet
		if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, kind); err != nil {
			t.Fatal(err)
		}
	}
	v.Again() // the start waits too
	l.Eventually(10*time.Second, "the start waits for the configuration", func() bool {
		kind, err := unix.FcntlInt(file.Fd(), unix.F_GETLEASE, 0)
		return err == nil && kind != unix.F_WRLCK
	})
	v.Signal(syscall.SIGTERM)
	if code := v.Wait(3 * time.Second); code != 1 {
		t.Errorf("exit status of a start that was broken off: %d, want 1", code)
	}
}

// SIGTERM while a thousand addresses are being added: not one stays.
func TestStopDuringTakeover(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprintf("\"10.9.%d.%d\"", 10+i/200, 1+i%200))
	}
	i := one("A", 51, `["10.9.0.100"]`, "virtual_ipaddress_excluded ["+strings.Join(list, ", ")+"]")
	i.Interval = 50 * time.Millisecond
	v := d1.Vipd(lab.VipdConf("", i))
	for round := range 8 {
		if round > 0 {
			v.Again()
		}
		l.WaitOwner(lab.VIP(), 5*time.Second, "d1")
		time.Sleep(time.Duration(round) * 5 * time.Millisecond)
		at := v.Signal(syscall.SIGTERM)
		ended(t, v, 0, 3*time.Second, lab.VIP())
		took := time.Since(at)
		left := 0
		for _, a := range d1.Addresses() {
			if a.Dev == "eth0" && a.Prefix.Addr().Is4() {
				left++
			}
		}
		if left != 1 || took > time.Second {
			t.Errorf("round %d: %d addresses after the stop, want the base alone; it took %v", round, left, took)
		}
	}
	calm(t, v)
}

// SIGTERM at any moment of the start, of an owner that claims its addresses at once:
// nothing stays.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	v := l.Node("d1").Vipd(withPriority(255))
	for round := range 16 {
		if round > 0 {
			v.Again()
		}
		time.Sleep(time.Duration(round) * 5 * time.Millisecond)
		v.Signal(syscall.SIGTERM)
		code := v.Wait(3 * time.Second)
		if has := kernelHas(v.Node, lab.VIP()); has != "" {
			t.Errorf("round %d: exit status %d, left in the kernel: %s", round, code, has)
		}
		// -1: the signal came before the program could hear it; 1: before it had
		// read its configuration.
		if code != 0 && code != -1 && (code != 1 || !strings.Contains(v.Log(), "vipd is stopping")) {
			t.Errorf("round %d: exit status %d:\n%s", round, code, v.Log())
		}
	}
}

// The interface goes away in the moment of the stop, and with it the addresses: that
// is no error.
func TestStopWithoutInterface(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	v := d1.Vipd(two(`["10.9.0.100"]`, `["10.9.0.101 dev eth1"]`))
	for round := range 6 {
		if round > 0 {
			v.Again()
		}
		l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
		l.WaitOwner(mustAddr("10.9.0.101"), 15*time.Second, "d1")
		d1.Unplug(0)
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		at := v.Signal(syscall.SIGTERM)
		ended(t, v, 0, 3*time.Second, lab.VIP(), mustAddr("10.9.0.101"))
		if took := time.Since(at); took > time.Second {
			t.Errorf("round %d: the stop took %v", round, took)
		}
		calm(t, v)
		d1.Plug(0)
	}
}
