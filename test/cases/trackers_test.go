package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// tells waits until the newest adverts of a VRID carry a priority; 0: until there
// are none. It returns when that was first so.
func tells(t *testing.T, seen *lab.Capture, vrid uint8, priority int, limit time.Duration) time.Time {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		list := seen.Adverts(vrid)
		n := len(list)
		switch {
		case priority == 0 && n > 0 && (list[n-1].Priority == 0 || time.Since(list[n-1].At) > 5*quick):
			return list[n-1].At
		case priority > 0 && n > 0 && int(list[n-1].Priority) == priority && time.Since(list[n-1].At) < 2*quick:
			first := list[n-1]
			for i := n - 1; i >= 0 && list[i].Priority == first.Priority; i-- {
				first = list[i]
			}
			return first.At
		}
		if time.Now().After(end) {
			last := "none"
			if n > 0 {
				last = fmt.Sprintf("priority %d, %v ago", list[n-1].Priority, time.Since(list[n-1].At))
			}
			t.Fatalf("VRID %d: no advert of priority %d within %v; the last: %s", vrid, priority, limit, last)
		}
	}
}

// trackedBy makes a configuration of one instance, A with VRID 51 and priority 100,
// with lines in it and tables after it.
func trackedBy(tables string, lines ...string) string {
	i := one("A", 51, `["10.9.0.100"]`, lines...)
	i.Priority = 100
	return lab.VipdConf("", i) + tables
}

// A number in a file moves the priority: written in place, by a rename over it,
// missing, with a weight, and as a fault; a reload keeps it.
func TestTrackFile(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	file := filepath.Join(l.Dir(), "load")
	conf := func(weight string) string {
		return trackedBy(fmt.Sprintf("[vrrp_track_file.load]\nfile = %q\ninit_file = 4\nweight = %s\n", file, weight), `track_file ["load"]`)
	}
	v := d1.Vipd(conf("-2"))
	tells(t, seen, 51, 92, 5*time.Second) // init_file has made it
	put := func(text string) time.Time {
		t.Helper()
		at := time.Now()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}
	at := put("20\n")
	if took := tells(t, seen, 51, 60, 5*time.Second).Sub(at); took > 500*time.Millisecond {
		t.Errorf("told %v after the file was written", took)
	}
	if err := os.WriteFile(file+".new", []byte("-10"), 0o644); err != nil {
		t.Fatal(err)
	}
	at = time.Now()
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	if took := tells(t, seen, 51, 120, 5*time.Second).Sub(at); took > 500*time.Millisecond+quick {
		t.Errorf("told %v after another file took its place", took)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	tells(t, seen, 51, 100, 5*time.Second)
	put("30")
	tells(t, seen, 51, 40, 5*time.Second)
	v.Reload(conf("-3"))
	tells(t, seen, 51, 10, 5*time.Second)
	put("84")
	tells(t, seen, 51, 1, 5*time.Second) // -252: as low as it gets
	put("85")
	tells(t, seen, 51, 0, 5*time.Second)
	l.WaitOwner(lab.VIP(), time.Second)
	v.WaitState("A", "FAULT", time.Second)
	if got := v.Status().Instance("A").Reason; got != "file load holds 85, with its weight -255" {
		t.Errorf("the reason is %q", got)
	}
	put("nonsense")
	tells(t, seen, 51, 100, 5*time.Second)
	out, err := v.Ctl("status")
	if err != nil || !strings.Contains(out, "load") || !strings.Contains(out, `"nonsense" is no whole number`) {
		t.Errorf("status (%v):\n%s", err, out)
	}
	calm(t, v)
}

// Processes that run, too many, too few, and the delay that a restart is given.
func TestTrackProcess(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	// A name that no process of another test has.
	name := fmt.Sprintf("vp%d", time.Now().UnixNano()%1e10)
	program := filepath.Join(l.Dir(), name)
	d1.Sh("cp $(command -v sleep) " + program)
	table := fmt.Sprintf("[vrrp_track_process.web]\nprocess = %q\nweight = 20\nquorum_max = 2\nterminate_delay = 1.5\n"+
		"[vrrp_track_process.line]\nprocess = \"%s 7\"\nparam_match = \"initial\"\nweight = 3\n", name, program)
	v := d1.Vipd(trackedBy(table, `track_process ["web", "line"]`))
	tells(t, seen, 51, 100, 5*time.Second)
	first := d1.Start("probe", program, "71")
	tells(t, seen, 51, 123, 5*time.Second)
	second := d1.Start("probe2", program, "60")
	third := d1.Start("probe3", program, "60")
	tells(t, seen, 51, 103, 5*time.Second) // three are too many
	third.Kill()
	tells(t, seen, 51, 123, 5*time.Second)
	// A restart within terminate_delay changes nothing.
	began := time.Now()
	second.Kill()
	first.Kill()
	time.Sleep(200 * time.Millisecond)
	again := d1.Start("probe4", program, "60")
	time.Sleep(2 * time.Second)
	for _, a := range lab.Between(seen.Adverts(51), began.Add(quick), time.Now()) {
		if a.Priority != 120 && a.Priority != 123 {
			t.Errorf("priority %d during a restart", a.Priority)
		}
	}
	at := again.Kill()
	if took := tells(t, seen, 51, 100, 6*time.Second).Sub(at); took < 1400*time.Millisecond {
		t.Errorf("told %v after the end, before terminate_delay", took)
	}
	if out, err := v.Ctl("status"); err != nil || !strings.Contains(out, "kernel events") && !strings.Contains(out, "polling /proc") {
		t.Errorf("status does not say how processes are counted (%v):\n%s", err, out)
	}
	calm(t, v)
}

// O30 (ka#535, ka#946, ka#2289, ka#1371): a script that hangs, ignores SIGTERM,
// leaves a child that holds its output, alternates, or runs while the machine is
// busy. A timeout is a failure, the whole group is killed, the next run comes on
// schedule, no zombie is left.
func TestO30TimedOutScript(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	dir := l.Dir()
	scripts := []struct{ name, text, keys string }{
		{"hang", "[ -e hang ] || exit 0; sleep 61 & sleep 61", "fall = 2\nrise = 2\n"},
		{"term", "[ -e hang ] || exit 0; trap '' TERM; while :; do sleep 0.1; done", "fall = 1\n"},
		{"hold", "sleep 3 & exit 0", ""},
		{"flip", "if [ -e flip ]; then rm flip; exit 1; else touch flip; exit 0; fi", "fall = 2\nrise = 2\n"},
	}
	var list []lab.Instance
	tables := ""
	for n, s := range scripts {
		file := filepath.Join(dir, s.name+".sh")
		if err := os.WriteFile(file, []byte("#!/bin/sh\ncd "+dir+"\n"+s.text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		i := one(strings.ToUpper(s.name), uint8(61+n), fmt.Sprintf(`["10.9.0.%d"]`, 61+n), fmt.Sprintf(`track_script ["%s weight -40"]`, s.name))
		i.Priority = 100
		list = append(list, i)
		tables += fmt.Sprintf("[vrrp_script.%s]\nscript = %q\ninterval = 0.2\ntimeout = 0.8\n%s", s.name, file, s.keys)
	}
	v := d1.Vipd(lab.VipdConf("", list...) + tables)
	for n := range scripts {
		tells(t, seen, uint8(61+n), 100, 5*time.Second)
	}
	busy := d1.Start("busy", "sh", "-c", "while :; do :; done & while :; do :; done")
	at := time.Now()
	d1.Sh("touch " + dir + "/hang")
	if took := tells(t, seen, 61, 60, 8*time.Second).Sub(at); took < 1500*time.Millisecond {
		t.Errorf("two timeouts of 0.8 s after %v", took)
	}
	tells(t, seen, 62, 60, 8*time.Second)
	time.Sleep(3 * time.Second) // beyond TERM, 2 s, KILL
	d1.Sh("rm " + dir + "/hang")
	tells(t, seen, 61, 100, 8*time.Second)
	tells(t, seen, 62, 100, 8*time.Second)
	for _, vrid := range []uint8{63, 64} {
		for _, a := range lab.Between(seen.Adverts(vrid), at, time.Now()) {
			if a.Priority != 100 {
				t.Errorf("VRID %d told priority %d, though its script did not fail twice", vrid, a.Priority)
				break
			}
		}
	}
	busy.Kill()
	if out := d1.Sh("ps -o pid=,ppid=,stat=,args= --ppid " + fmt.Sprint(v.Pid()) + " | grep ' Z' || true"); out != "" {
		t.Errorf("zombies: %s", out)
	}
	if out, err := v.Ctl("status"); err != nil || !strings.Contains(out, "exit status") {
		t.Errorf("status (%v):\n%s", err, out)
	}
	v.Stop(5 * time.Second)
	if out := d1.Sh("pgrep -f '" + dir + "/[ht][ae][nr][gm].sh' || true"); out != "" {
		t.Errorf("processes left: %s", out)
	}
	calm(t, v)
}

// Scripts run as the user they are told, and one that others can change is not run
// but fails, with a text that says what to do; without script security it is run.
func TestScriptUserAndSecurity(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1, seen := l.Node("d1"), l.Node("cl").Capture()
	dir, err := os.MkdirTemp("", "vipd-scripts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "check.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n[ $(id -u) = 65534 ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := func(global, keys string) string {
		return "[global_defs]\n" + global + trackedBy(fmt.Sprintf("[vrrp_script.chk]\nscript = %q\ninterval = 0.1\nweight = 30\n%s", file, keys), `track_script ["chk"]`)
	}
	v := d1.Vipd(conf("", ""))
	tells(t, seen, 51, 100, 5*time.Second) // as root the script fails
	v.Reload(conf("script_user = \"nobody nogroup\"\n", ""))
	tells(t, seen, 51, 130, 5*time.Second)
	v.Reload(conf("", "user = \"root\"\n"))
	tells(t, seen, 51, 100, 5*time.Second)
	v.Reload(conf("", "user = \"nobody\"\n"))
	tells(t, seen, 51, 130, 5*time.Second)
	if err := os.Chmod(file, 0o777); err != nil {
		t.Fatal(err)
	}
	tells(t, seen, 51, 100, 5*time.Second)
	refused := "refused: " + file + " can be written by everybody; chmod o-w " + file
	if out, err := v.Ctl("status"); err != nil || !strings.Contains(out, refused) {
		t.Errorf("status (%v) does not say %q:\n%s", err, refused, out)
	}
	if out, err := d1.Try(lab.VipdBin(t), "check", "-c", v.ConfigFile); err != nil || !strings.Contains(out, refused) {
		t.Errorf("check (%v) does not say %q:\n%s", err, refused, out)
	}
	v.Reload(conf("enable_script_security = false\n", "user = \"nobody\"\n"))
	tells(t, seen, 51, 130, 5*time.Second)
	v.Reload(conf("", "user = \"nobody-here\"\n"))
	tells(t, seen, 51, 100, 5*time.Second)
	v.WaitLog(`looking up the user \\"nobody-here\\"`, time.Second)
	calm(t, v)
}
