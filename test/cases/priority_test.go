package cases

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// scheduled is how the kernel schedules one thread.
type scheduled struct {
	policy, priority uint32
	nice             int32
	reset            bool
	cpus             int
}

// threads reads how all threads of a process are scheduled.
func threads(t *testing.T, pid int) (list []scheduled) {
	t.Helper()
	dirs, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no threads of process %d (%v)", pid, err)
	}
	for _, d := range dirs {
		tid, _ := strconv.Atoi(filepath.Base(d))
		a, err := unix.SchedGetAttr(tid, 0)
		if err != nil {
			continue // ended meanwhile
		}
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err != nil {
			continue
		}
		list = append(list, scheduled{a.Policy, a.Priority, a.Nice, a.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0, set.Count()})
	}
	return list
}

func count(list []scheduled, ok func(scheduled) bool) int { return len(lab.Filter(list, ok)) }

func realTime(s scheduled) bool { return s.policy == unix.SCHED_RR }

// vrrp_rt_priority, vrrp_cpu_affinity and vrrp_priority hold for all threads of vipd,
// and no priority for what it starts; a reload changes them and takes them away.
func TestPriority(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()
	told := l.Dir() + "/told"
	script := program(t, `echo $(cut -d' ' -f19,40,41 /proc/self/stat) $(grep -i realtime.timeout /proc/self/limits) >>`+told)
	conf := func(words string) string {
		return "[global_defs]\n" + words + lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()},
			Extra: []string{"notify " + script}})
	}
	v := d1.Vipd(conf("vrrp_rt_priority = 37\nvrrp_rlimit_rttime = 500000\nvrrp_cpu_affinity = 0\n"))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	// A thread that ends may be one from which a command was started.
	l.Eventually(3*time.Second, "every thread has priority 37 and one processor", func() bool {
		list := threads(t, v.Pid())
		return count(list, func(s scheduled) bool { return realTime(s) && s.priority == 37 && !s.reset && s.cpus == 1 }) == len(list)
	})
	heard := func(want string) {
		t.Helper()
		l.Eventually(5*time.Second, "the notify command has run", func() bool { b, _ := os.ReadFile(told); return strings.Contains(string(b), "\n") })
		b, err := os.ReadFile(told)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.TrimSpace(line) != want {
				t.Errorf("a notify command is scheduled as %q, want %q: no nice value, no real-time priority, policy 0 and no limit", line, want)
			}
		}
		os.Remove(told)
	}
	heard("0 0 0 Max realtime timeout unlimited unlimited us")

	from := time.Now()
	v.Reload(conf("vrrp_priority = -7\n"))
	l.Eventually(3*time.Second, "every thread has the nice value instead, and all processors", func() bool {
		list := threads(t, v.Pid())
		return count(list, func(s scheduled) bool { return !realTime(s) && s.nice == -7 && s.cpus > 1 }) == len(list)
	})
	time.Sleep(quick)
	steady(t, seen, 51, d1.Addr(), 200, quick, from)
	if a := v.Status().Alarms; len(a) > 0 {
		t.Errorf("alarms: %q", a)
	}
	d1.LinkDown(0)
	heard("0 0 0 Max realtime timeout unlimited unlimited us")
	d1.LinkUp(0)
	v.Reload(conf(""))
	usual := threads(t, os.Getpid())[0].nice // whoever runs the tests may have been nice
	l.Eventually(10*time.Second, "every thread is as usual", func() bool {
		list := threads(t, v.Pid())
		return count(list, func(s scheduled) bool { return !realTime(s) && s.nice == usual && s.cpus > 1 }) == len(list)
	})
}

// What the machine refuses is said with its remedy, and vipd runs on: without the
// capabilities, and with a processor that is not there.
func TestPriorityRefused(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	file := l.Dir() + "/vipd.toml"
	text := "[global_defs]\nvrrp_rt_priority = 50\nvrrp_priority = -10\nvrrp_cpu_affinity = 1023\nvrrp_no_swap = true\n" +
		lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}})
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := l.Node("d1").Start("vipd", "setpriv", "--bounding-set=-sys_nice,-ipc_lock", "--inh-caps=-sys_nice,-ipc_lock", "prlimit", "--memlock=0",
		lab.VipdBin(t), "run", "-c", file, "--socket", l.Dir()+"/sock", "--state-dir", l.Dir()+"/state")
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	out, err := l.Node("d1").Try(lab.VipdBin(t), "status", "--socket", l.Dir()+"/sock")
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"vrrp_rt_priority is not in force: operation not permitted; vipd needs the capability CAP_SYS_NICE",
		"vrrp_priority is not in force: permission denied; vipd needs the capability CAP_SYS_NICE",
		"vrrp_cpu_affinity is not in force: invalid argument; name processors that this machine has",
		"vrrp_no_swap is not in force: operation not permitted; vipd needs the capability CAP_IPC_LOCK",
	} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("the log lacks %q", want)
		}
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q", want)
		}
	}
	if n := count(threads(t, p.Pid()), realTime); n != 0 {
		t.Errorf("%d real-time threads", n)
	}
}

// vrrp_no_swap locks what vipd uses, not what its runtime reserves; when a thread
// computes for longer than vrrp_rlimit_rttime, vipd loses its real-time priority and
// goes on.
func TestPriorityLimits(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	v := l.Node("d1").Vipd("[global_defs]\nvrrp_no_swap = true\nvrrp_rt_priority = 50\n" +
		lab.VipdConf("", lab.Instance{Priority: 200, Interval: quick, VIPs: []netip.Addr{lab.VIP()}}))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	locked := 0
	for line := range strings.Lines(string(b)) {
		if n, _ := fmt.Sscanf(line, "VmLck: %d kB", &locked); n == 1 {
			break
		}
	}
	if resident := v.Memory(); locked == 0 || resident > 60<<20 {
		t.Errorf("%d KiB locked, %d KiB resident", locked, resident>>10)
	}
	l.Eventually(time.Second, "real-time priority", func() bool { return count(threads(t, v.Pid()), realTime) > 3 })
	v.Signal(syscall.SIGXCPU) // as the kernel does
	v.WaitLog("vrrp_rt_priority is not in force: a thread computed for longer than vrrp_rlimit_rttime", 3*time.Second)
	l.Eventually(time.Second, "no thread has real-time priority", func() bool { return count(threads(t, v.Pid()), realTime) == 0 })
	if a := v.Status().Alarms; len(a) != 1 {
		t.Errorf("alarms: %q", a)
	}
	if _, err := v.Ctl("reload"); err != nil {
		t.Error(err)
	}
	l.Eventually(time.Second, "the reload gives it back", func() bool { return count(threads(t, v.Pid()), realTime) > 3 })
	if a := v.Status().Alarms; len(a) != 0 {
		t.Errorf("alarms: %q", a)
	}
}
