package track

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig runs scripts and remembers the results.
type rig struct {
	*Scripts
	values
	dir string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	r.Scripts = New(func(name string, ok bool) { r.take(name, ok) }, zap.NewNop())
	t.Cleanup(func() { r.noneLeft(t) })
	running(t, r.Run)
	return r
}

// script makes a Config for a shell script that runs in the rig's directory.
func (r *rig) script(name, text string) Config {
	return Config{
		Name: name, Argv: []string{"/bin/sh", "-c", "cd " + r.dir + "; " + text},
		Interval: 50 * time.Millisecond, Timeout: 2 * time.Second, Rise: 1, Fall: 1,
	}
}

// noneLeft fails when a process works in the rig's directory.
func (r *rig) noneLeft(t *testing.T) {
	t.Helper()
	var left []string
	for range 100 {
		left = nil
		procs, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range procs {
			if dir, err := os.Readlink(p); err == nil && strings.HasPrefix(dir, r.dir) {
				left = append(left, p)
			}
		}
		if left == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("processes left behind: %v", left)
}

func (r *rig) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) status(name string) Status {
	for _, s := range r.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

// until waits for a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 1000 {
		if cond() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 5 s: %s", what)
}

func TestVerdictIsToldOnChangeOnly(t *testing.T) {
	r := newRig(t)
	r.write(t, "exit", "0")
	c := r.script("web", "read x < exit; echo says $x; exit $x")
	c.Rise, c.Fall = 3, 2
	r.Configure([]Config{c})
	r.want(t, "web=true")
	until(t, "several runs", func() bool { return r.status("web").Runs > 5 })
	r.write(t, "exit", "3")
	r.want(t, "web=true", "web=false")
	s := r.status("web")
	if s.OK || !s.Known || s.LastExit != "exit status 3" || s.Output != "says 3" || s.Failures < 2 || s.LastRun.IsZero() || s.Duration <= 0 {
		t.Errorf("status %+v", s)
	}
	r.write(t, "exit", "0")
	r.want(t, "web=true", "web=false", "web=true")
	if s := r.status("web"); s.Rise != 3 || s.Fall != 0 {
		t.Errorf("status %+v", s)
	}
}

// Case O30: a run that hangs is a failure when its time is up; the next one
// comes on schedule and finds the script good again.
func TestO30HangingScript(t *testing.T) {
	r := newRig(t)
	r.write(t, "hang", "")
	c := r.script("web", "[ -e hang ] || exit 0; sleep 60 & wait")
	c.Timeout, c.Fall = 400*time.Millisecond, 2
	began := time.Now()
	r.Configure([]Config{c})
	r.want(t, "web=false")
	if took := time.Since(began); took < 400*time.Millisecond || took > 2*time.Second {
		t.Errorf("failure after %v, want 400ms", took)
	}
	until(t, "a second timeout", func() bool { return r.status("web").Timeouts >= 2 })
	s := r.status("web")
	if s.LastExit != "timeout after 400ms" || s.Skipped == 0 {
		t.Errorf("status %+v", s)
	}
	if err := os.Remove(filepath.Join(r.dir, "hang")); err != nil {
		t.Fatal(err)
	}
	r.want(t, "web=false", "web=true")
}

// Case O30: neither ignoring SIGTERM nor a child that keeps the output open
// stops the schedule.
func TestO30StubbornScripts(t *testing.T) {
	r := newRig(t)
	term := r.script("term", "trap '' TERM; [ -e once ] && exit 0; touch once; while :; do sleep 0.05; done")
	term.Timeout = 500 * time.Millisecond
	out := r.script("out", "sleep 2 & exit 0")
	r.Configure([]Config{term, out})
	until(t, "the killed script runs again", func() bool { return r.status("term").OK })
	until(t, "runs with an open output", func() bool { return r.status("out").Runs >= 5 })
	if s := r.status("out"); !s.OK || s.Failures != 0 || s.Duration > 1500*time.Millisecond {
		t.Errorf("status %+v", s)
	}
	if s := r.status("term"); s.Timeouts != 1 {
		t.Errorf("status %+v", s)
	}
	r.Configure(nil)                    // no more of them
	time.Sleep(2500 * time.Millisecond) // the children that sleep end by themselves
}

// Case O30: a script that alternates stays good below fall.
func TestO30AlternatingScript(t *testing.T) {
	r := newRig(t)
	flip := "if [ -e %[1]s ]; then rm %[1]s; exit 1; fi; touch %[1]s"
	calm := r.script("calm", fmt.Sprintf(flip, "a"))
	calm.Fall = 2
	nervous := r.script("nervous", fmt.Sprintf(flip, "b"))
	r.Configure([]Config{calm, nervous})
	until(t, "runs", func() bool { return r.status("calm").Runs >= 8 && r.status("nervous").Runs >= 8 })
	flips := 0
	for _, g := range r.got() {
		if g == "calm=false" {
			t.Error("calm fell below its count")
		}
		if strings.HasPrefix(g, "nervous") {
			flips++
		}
	}
	if flips < 8 {
		t.Errorf("nervous told %d verdicts in 8 runs", flips)
	}
}

func TestNeverTwoRunsAtOnce(t *testing.T) {
	r := newRig(t)
	c := r.script("slow", "mkdir lock || { touch twice; exit 1; }; sleep 0.17; rmdir lock")
	r.Configure([]Config{c})
	until(t, "runs", func() bool { return r.status("slow").Runs >= 4 })
	s := r.status("slow")
	if _, err := os.Stat(filepath.Join(r.dir, "twice")); err == nil || s.Skipped < 6 || s.Failures != 0 {
		t.Errorf("two runs at once: %v; status %+v", err == nil, s)
	}
}

func TestCannotStartIsAFailure(t *testing.T) {
	r := newRig(t)
	r.Configure([]Config{{Name: "typo", Argv: []string{"/no/such/script"}, Interval: 50 * time.Millisecond, Rise: 1, Fall: 1}})
	r.want(t, "typo=false")
	if s := r.status("typo"); !strings.Contains(s.LastExit, "/no/such/script: no such file or directory") {
		t.Errorf("status %+v", s)
	}
}

func TestInitFail(t *testing.T) {
	r := newRig(t)
	c := r.script("web", "exit 0")
	c.InitFail, c.Rise = true, 2
	r.Configure([]Config{c})
	r.want(t, "web=false", "web=true")
	if s := r.status("web"); s.Rise != 2 || s.Failures != 0 {
		t.Errorf("status %+v", s)
	}
}

// A reload leaves an unchanged script alone, a run in progress too.
func TestReload(t *testing.T) {
	r := newRig(t)
	long := r.script("long", "echo x >> starts; sleep 0.5; exit 0")
	long.Interval = time.Hour
	gone := r.script("gone", "touch began; sleep 60")
	r.Configure([]Config{long, gone})
	until(t, "both run", func() bool { return r.status("long").Running && r.status("gone").Running })
	until(t, "gone has begun", func() bool { _, err := os.Stat(filepath.Join(r.dir, "began")); return err == nil })
	for range 10 {
		long.Argv = slices.Clone(long.Argv)
		r.Configure([]Config{long})
		time.Sleep(10 * time.Millisecond)
	}
	r.want(t, "long=true")
	until(t, "the other is forgotten", func() bool { return len(r.Status()) == 1 })
	if b, err := os.ReadFile(filepath.Join(r.dir, "starts")); err != nil || string(b) != "x\n" {
		t.Errorf("starts %q, %v; want one", b, err)
	}
	// A changed one runs at once and keeps its verdict until then.
	long.Argv = []string{"/bin/sh", "-c", "exit 1"}
	long.Fall = 2
	long.Interval = 100 * time.Millisecond
	r.Configure([]Config{long})
	until(t, "a failure", func() bool { return r.status("long").Failures >= 1 })
	r.want(t, "long=true", "long=false")
	if s := r.status("long"); s.Failures < 2 {
		t.Errorf("fell at the first failure: %+v", s)
	}
}

// TestConfigureTellsAgain: who was told may have forgotten the verdict meanwhile,
// when two reloads in a row took the script out and in again.
func TestConfigureTellsAgain(t *testing.T) {
	r := newRig(t)
	c := r.script("web", "exit 0")
	c.Interval = time.Hour
	r.Configure([]Config{c})
	r.want(t, "web=true")
	for range 3 {
		before := r.repeats()
		r.Configure(nil)
		r.Configure([]Config{c})
		until(t, "the verdict is told again", func() bool { return r.repeats() > before })
	}
}
