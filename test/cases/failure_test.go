package cases

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// small mounts a file system of one page, already full, as the state directory.
const small = `mkdir -p $STATE; mount -t tmpfs -o size=4096 none $STATE; dd if=/dev/zero of=$STATE/fill bs=4096 count=1 2>/dev/null`

// A full state directory costs the memory of leftovers, nothing else, and that is
// told once; when there is room again, so is that.
func TestStateDirectoryFull(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	v := d1.VipdIn(small, two(`["10.9.0.100"]`, `["10.9.0.101"]`))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	reloaded(l, v, two(`["10.9.0.100", "10.9.0.102"]`, `["10.9.0.101"]`))
	l.WaitOwner(mustAddr("10.9.0.102"), time.Second, "d1")
	const complaint = "cannot remember which addresses were added"
	if n := strings.Count(v.Log(), complaint); n != 1 {
		t.Errorf("%d complaints about the state directory, want 1", n)
	}
	d1.Exec("nsenter", "-t", fmt.Sprint(v.Pid()), "-m", "rm", v.StateDir+"/fill")
	reloaded(l, v, two(`["10.9.0.100"]`, `["10.9.0.101"]`))
	v.WaitLog("remembering added addresses works again", time.Second)
	at := v.Signal(syscall.SIGTERM)
	ended(t, v, 0, 3*time.Second, lab.VIP(), mustAddr("10.9.0.101"))
	if took := time.Since(at); took > time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// A state directory that cannot hold the lock is refused at start, with the reason.
func TestStateDirectoryReadOnly(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	v := l.Node("d1").VipdIn(`mkdir -p $STATE; mount -t tmpfs -o ro none $STATE`, two(`["10.9.0.100"]`, `["10.9.0.101"]`))
	ended(t, v, 1, 5*time.Second)
	l.Eventually(time.Second, "the log names the reason and the directory", func() bool {
		return strings.Contains(v.Log(), "read-only file system") && strings.Contains(v.Log(), v.StateDir)
	})
}

// The kernel refuses an address: adverts and the other addresses go on, the refusal
// is in the log once and in status, and the address comes as soon as it may.
func TestKernelRefusesAnAddress(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	d1.Sysctl("net/ipv6/conf/eth1/disable_ipv6", "1")
	v := d1.Vipd(lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, `virtual_ipaddress_excluded ["10.9.0.102", "2001:db8:8::100 dev eth1", "10.9.0.101"]`)))
	for _, a := range []string{"10.9.0.100", "10.9.0.101", "10.9.0.102"} {
		l.WaitOwner(mustAddr(a), 15*time.Second, "d1")
	}
	from := time.Now()
	time.Sleep(2 * time.Second)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	if n := strings.Count(v.Log(), "ERROR"); n != 1 {
		t.Errorf("%d lines of errors, want 1:\n%s", n, v.Log())
	}
	if out, err := v.Ctl("status"); err != nil || !strings.Contains(out, "2001:db8:8::100") || !strings.Contains(out, "permission denied") {
		t.Errorf("vipd status shows neither the address nor the reason (%v):\n%s", err, out)
	}
	if a := address(t, v, "A", "2001:db8:8::100"); a {
		t.Error("status says that the refused address is there")
	}
	d1.Sysctl("net/ipv6/conf/eth1/disable_ipv6", "0")
	l.WaitOwner(mustAddr("2001:db8:8::100"), 3*time.Second, "d1")
	v.Signal(syscall.SIGTERM)
	ended(t, v, 0, 3*time.Second, lab.VIP(), mustAddr("2001:db8:8::100"))
}

// address is what status says of an address.
func address(t *testing.T, v *lab.Daemon, instance, addr string) (present bool) {
	t.Helper()
	for _, a := range v.Status().Instance(instance).Addresses {
		if strings.HasPrefix(a.Address, addr+"/") {
			return a.Present
		}
	}
	t.Errorf("status of %s does not name %s", instance, addr)
	return false
}

// Status shows the kernel, not the wish: an untracked address that somebody removed
// is not there, and is not put back.
func TestStatusShowsTheKernel(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	v := d1.Vipd(sole(`["10.9.0.100", "10.9.0.101 no_track"]`))
	l.WaitOwner(mustAddr("10.9.0.101"), 15*time.Second, "d1")
	if !address(t, v, "A", "10.9.0.100") || !address(t, v, "A", "10.9.0.101") {
		t.Error("an address that is there is missing in status")
	}
	d1.RemoveAddress(mustAddr("10.9.0.101"))
	l.Eventually(time.Second, "status says that the address is gone", func() bool { return !address(t, v, "A", "10.9.0.101") })
	time.Sleep(500 * time.Millisecond)
	l.WaitOwner(mustAddr("10.9.0.101"), 0)
	if i := v.Status().Instance("A"); i.State != "MASTER" || !address(t, v, "A", "10.9.0.100") {
		t.Errorf("after the loss of an untracked address: %+v", i)
	}
	reloaded(l, v, sole(`["10.9.0.100", "10.9.0.101"]`))
	calm(t, v)
}

// Killed at any moment of a takeover or reload, the daemon that is started next
// leaves exactly the addresses of its own configuration in the kernel.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	many := func(from, to int, as string) string {
		var list []string
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprintf("%q", fmt.Sprintf("10.9.1.%d%s", i, as)))
		}
		i := one("A", 51, `["10.9.0.100"]`, "virtual_ipaddress_excluded ["+strings.Join(list, ", ")+"]")
		i.Interval = 50 * time.Millisecond
		return lab.VipdConf("", i)
	}
	confs := []string{many(1, 60, ""), many(30, 90, ""), many(30, 90, "/24"), many(1, 10, " label eth0:x")}
	have := func() (list []string) {
		for _, a := range d1.Addresses() {
			if a.Dev == "eth0" && a.Prefix.Addr().Is4() {
				list = append(list, a.Prefix.String())
			}
		}
		slices.Sort(list)
		return list
	}
	wants := make([][]string, len(confs))
	for i, c := range confs { // what a daemon that was never killed makes of it
		v := d1.Vipd(c)
		l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
		time.Sleep(200 * time.Millisecond)
		wants[i] = have()
		v.Stop(3 * time.Second)
	}
	before := have()
	v := d1.Vipd(confs[0])
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		if round%2 == 0 { // within the takeover: it comes 160 ms after the start
			time.Sleep(150*time.Millisecond + time.Duration(rnd.IntN(60_000))*time.Microsecond)
		} else {
			v.WaitState("A", "MASTER", 5*time.Second)
			v.Reload(confs[rnd.IntN(len(confs))])
			time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
		}
		v.Kill()
		next := rnd.IntN(len(confs))
		if err := os.WriteFile(v.ConfigFile, []byte(confs[next]), 0o600); err != nil {
			t.Fatal(err)
		}
		v.Again()
		v.WaitLog("vipd started", 5*time.Second) // signals before that would end it
		if round%2 == 0 {
			continue // kill it again in its takeover
		}
		v.WaitState("A", "MASTER", 5*time.Second)
		l.Eventually(2*time.Second, "the kernel has what is configured", func() bool { return slices.Equal(have(), wants[next]) })
	}
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	v.Stop(3 * time.Second)
	if got := have(); !slices.Equal(got, before) {
		t.Errorf("after the stop the kernel has %v, want %v", got, before)
	}
	calm(t, v)
}

// Two daemons in one namespace, with directories and instances of their own, leave
// each other's addresses and state alone: at reload, stop, kill and start.
func TestTwoDaemonsSideBySide(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	v1 := d1.Vipd(lab.VipdConf("", one("A", 51, `["10.9.0.100"]`)))
	v2 := d1.VipdNamed("other", "", lab.VipdConf("", one("B", 52, `["10.9.0.101"]`)))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	l.WaitOwner(mustAddr("10.9.0.101"), 15*time.Second, "d1")
	time.Sleep(300 * time.Millisecond) // the first burst is over
	owners, from := l.WatchOwners(lab.VIP(), 2*time.Millisecond), time.Now()
	reloaded(l, v2, lab.VipdConf("", one("B", 52, `["10.9.0.101", "10.9.0.102"]`)))
	v2.Kill()
	v2again := d1.VipdNamed("other", "", lab.VipdConf("", one("B", 52, `["10.9.0.102"]`)))
	l.WaitOwner(mustAddr("10.9.0.102"), 15*time.Second, "d1")
	l.WaitOwner(mustAddr("10.9.0.101"), time.Second)
	v2again.Stop(3 * time.Second)
	ended(t, v2again, 0, time.Second, mustAddr("10.9.0.102"))
	owners.Stop()
	if gone := owners.Longest(0); gone > 0 {
		t.Errorf("the other daemon's address was away for %v", gone)
	}
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	if n := len(lab.Between(seen.Announcements(lab.VIP()), from, time.Now())); n > 0 {
		t.Errorf("%d announcements of the other daemon's address", n)
	}
	third := d1.Start("third", lab.VipdBin(t), "run", "-c", v1.ConfigFile, "--socket", v1.Socket, "--state-dir", v1.StateDir)
	if code := third.Wait(3 * time.Second); code != 1 || !strings.Contains(third.Log(), "another vipd (pid "+fmt.Sprint(v1.Pid())) {
		t.Errorf("a second daemon on the same state directory: exit status %d, %q", code, third.Log())
	}
	l.WaitOwner(lab.VIP(), 0, "d1")
	calm(t, v1)
	calm(t, v2again)
}
