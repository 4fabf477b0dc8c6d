package notify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"vipd/cmd/internal/notify/notifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sh(text string, args ...string) Command {
	return Command{Argv: append([]string{"/bin/sh", "-c", text, "sh"}, args...)}
}

func open(t *testing.T, timeout time.Duration, log *zap.Logger) *Runner {
	t.Helper()
	r := New(timeout, NewFIFOs(log), log)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 3000 {
		if cond() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 15 s: %s", what)
}

// idle tells whether nothing runs or waits.
func (r *Runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queues {
		if q.busy {
			return false
		}
	}
	return true
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func event(name, state string) Event {
	return Event{Kind: "INSTANCE", Name: name, State: state, Priority: 150}
}

// The specific command gets its own arguments only, the general one comes
// after it with four more.
func TestArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	r := open(t, 0, zap.NewNop())
	text := `echo "$0 $*" >> ` + file
	cmd := func(word string, args ...string) Command {
		return Command{Argv: append([]string{"/bin/sh", "-c", text, word}, args...), Secure: true}
	}
	r.Configure("INSTANCE", map[string]Commands{
		"VI": {Any: cmd("any", "x y"), Master: cmd("master", "m"), Backup: cmd("backup"), Fault: cmd("fault"), Stop: cmd("stop", ""),
			Deleted: cmd("deleted"), LowerPri: cmd("lower", "l")},
		"V2": {Any: cmd("second")},
	})
	for _, s := range []string{"MASTER", "BACKUP", "FAULT", MasterPriority, BackupPriority, LowerPri, Deleted, "STOP"} {
		r.Notify(event("VI", s))
	}
	r.Notify(event("unknown", "MASTER"))
	until(t, "all ran", func() bool { return len(lines(t, file)) == 11 && r.idle() })
	r.Notify(event("V2", "MASTER"))
	until(t, "all ran", func() bool { return len(lines(t, file)) == 12 && r.idle() })
	want := []string{
		"master m", "any x y INSTANCE VI MASTER 150",
		"backup ", "any x y INSTANCE VI BACKUP 150",
		"fault ", "any x y INSTANCE VI FAULT 150",
		"lower l",
		"deleted ", "any x y INSTANCE VI DELETED 150",
		"stop ", "any x y INSTANCE VI STOP 150",
		"second INSTANCE V2 MASTER 150",
	}
	for i, got := range lines(t, file) {
		if strings.TrimSpace(got) != strings.TrimSpace(want[i]) {
			t.Errorf("line %d: %q, want %q", i, got, want[i])
		}
	}
	if s := r.Status(); len(s) != 2 || s[1].Done != 11 || s[1].Failed != 0 || s[1].LastExit != "exit status 0" {
		t.Errorf("status %+v", s)
	}
}

// Case O33: commands that take random times run one at a time and in order,
// the latest state last; instances do not wait for each other.
func TestO33OrderIsKept(t *testing.T) {
	dir := t.TempDir()
	r := open(t, 0, zap.NewNop())
	text := `cd ` + dir + `; mkdir "lock$2" || { echo twice >> "$2"; exit 1; }
		sleep 0.0$(($(od -An -N1 -tu1 /dev/urandom) % 50))
		echo "$3" >> "$2"; rmdir "lock$2"`
	names := []string{"A", "B", "C"}
	commands := map[string]Commands{}
	for _, n := range names {
		commands[n] = Commands{Any: sh(text)}
	}
	r.Configure("INSTANCE", commands)
	var want []string
	for i := range 50 {
		state := []string{"MASTER", "BACKUP"}[i%2]
		want = append(want, state)
		for _, n := range names {
			r.Notify(event(n, state))
		}
	}
	until(t, "all ran", r.idle)
	for _, n := range names {
		if got := lines(t, filepath.Join(dir, n)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", n, got)
		}
	}
}

// A command that hangs is killed when its time is up; meanwhile others run.
func TestStuckCommand(t *testing.T) {
	dir := t.TempDir()
	core, logs := observer.New(zap.WarnLevel)
	r := open(t, 2*time.Second, zap.New(core))
	r.Configure("INSTANCE", map[string]Commands{
		"STUCK": {Master: sh("cd " + dir + "; echo begun > begun; sleep 60 & wait"), Backup: sh("echo next > " + dir + "/next")},
		"OTHER": {Any: sh("echo ran > " + dir + "/other")},
	})
	began := time.Now()
	r.Notify(event("STUCK", "MASTER"))
	r.Notify(event("STUCK", "BACKUP"))
	until(t, "it hangs", func() bool { return lines(t, dir+"/begun")[0] == "begun" })
	r.Notify(event("OTHER", "MASTER"))
	until(t, "the other one ran", func() bool { return lines(t, dir+"/other")[0] == "ran" })
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("the other instance waited %v", took)
	}
	if got := lines(t, dir+"/next")[0]; got != "" {
		t.Error("the next command did not wait")
	}
	until(t, "the next one ran", func() bool { return lines(t, dir+"/next")[0] == "next" && r.idle() })
	if s := r.Status()[1]; s.Name != "STUCK" || s.Failed != 1 || s.Done != 1 {
		t.Errorf("status %+v", s)
	}
	if logs.Len() != 1 || logs.All()[0].ContextMap()["err"] != "timeout after 2s" {
		t.Errorf("log %v", logs.All())
	}
}

func TestFullQueueDropsTheOldest(t *testing.T) {
	dir := t.TempDir()
	core, logs := observer.New(zap.WarnLevel)
	r := open(t, 0, zap.New(core))
	file := filepath.Join(dir, "log")
	r.Configure("INSTANCE", map[string]Commands{"VI": {
		Master: sh("touch " + dir + "/begun; while ! [ -e " + dir + "/go ]; do sleep 0.02; done"),
		Any:    sh(`echo "$4" >> ` + file),
	}})
	r.Notify(event("VI", "MASTER"))
	until(t, "it waits", func() bool { _, err := os.Stat(dir + "/begun"); return err == nil })
	for i := range QueueMax + 3 {
		e := event("VI", "BACKUP")
		e.Priority = i
		r.Notify(e)
	}
	s := r.Status()[0]
	if s.Queued != QueueMax || s.Dropped != 3 || s.Running == "" {
		t.Errorf("status %+v", s)
	}
	if logs.Len() != 2 { // the first and the second
		t.Errorf("%d log lines", logs.Len())
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the oldest are gone", func() bool { return len(lines(t, file)) > 2 })
	if got := lines(t, file)[:3]; !slices.Equal(got, []string{"150", "3", "4"}) {
		t.Errorf("ran %v, want those of priority 150, 3, 4", got)
	}
}

// Close lets short commands end and kills long ones; nothing is left.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	r := New(0, NewFIFOs(zap.NewNop()), zap.NewNop())
	r.Configure("INSTANCE", map[string]Commands{"VI": {Any: sh("sleep 0.2; echo $3 >> " + dir + "/log")}})
	r.Notify(event("VI", "BACKUP"))
	r.Notify(event("VI", "STOP"))
	if err := r.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := fmt.Sprint(lines(t, dir+"/log")); got != "[BACKUP STOP]" {
		t.Errorf("ran %s", got)
	}
	r.Notify(event("VI", "MASTER"))
	if !r.idle() {
		t.Error("a closed runner takes events")
	}

	r = New(0, NewFIFOs(zap.NewNop()), zap.NewNop())
	r.Configure("INSTANCE", map[string]Commands{"VI": {Any: sh("trap '' TERM; sleep 60; echo no >> " + dir + "/log2")}})
	r.Notify(event("VI", "BACKUP"))
	r.Notify(event("VI", "STOP"))
	began := time.Now()
	err := r.Close(t.Context())
	if took := time.Since(began); took < CloseWait || took > CloseWait+time.Second {
		t.Errorf("Close took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "cut off VI: ") || !strings.Contains(err.Error(), "and 1 events") {
		t.Errorf("Close: %v", err)
	}
	if s := r.Status()[0]; s.Dropped != 1 || s.Running != "" || s.Queued != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestReloadKeepsWaitingEvents(t *testing.T) {
	dir := t.TempDir()
	r := open(t, 0, zap.NewNop())
	r.Configure("INSTANCE", map[string]Commands{"VI": {Any: sh("sleep 0.1; echo old >> " + dir + "/log")}})
	r.Notify(event("VI", "MASTER"))
	r.Notify(event("VI", "BACKUP"))
	r.Configure("INSTANCE", map[string]Commands{"VI": {Any: sh("echo new >> " + dir + "/log")}})
	r.Notify(event("VI", "MASTER"))
	until(t, "all ran", func() bool { return r.idle() && len(lines(t, dir+"/log")) == 3 })
	if got := fmt.Sprint(lines(t, dir+"/log")); got != "[old old new]" {
		t.Errorf("ran %s", got)
	}
}

// stumbling is a log in which the first line that says something panics.
type stumbling struct {
	zapcore.Core
	text string
	fell *atomic.Bool
}

func (s stumbling) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, s)
}

func (s stumbling) Write(e zapcore.Entry, f []zapcore.Field) error {
	if e.Message == s.text && s.fell.CompareAndSwap(false, true) {
		panic("a fault")
	}
	return s.Core.Write(e, f)
}

// TestFaultInOneCommand: a panic about one command ends neither the process nor the
// commands behind it.
func TestFaultInOneCommand(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	r := open(t, time.Second, zap.New(stumbling{core, "notification command failed", &atomic.Bool{}}))
	out := filepath.Join(t.TempDir(), "out")
	r.Configure("INSTANCE", map[string]Commands{"VI_1": {Master: sh("exit 1"), Backup: sh("echo $0 >> " + out)}})
	r.Notify(Event{Kind: "INSTANCE", Name: "VI_1", State: "MASTER", Priority: 100})
	r.Notify(Event{Kind: "INSTANCE", Name: "VI_1", State: "BACKUP", Priority: 100})
	until(t, "the second command ran", func() bool { return lines(t, out)[0] != "" })
	if n := logged.FilterMessageSnippet("met a fault in vipd").Len(); n != 1 {
		t.Errorf("%d lines about the fault, want 1: %v", n, logged.All())
	}
}

// TestFaultOfFIFO: a panic about one pipe does not end it, and what waits is written.
func TestFaultOfFIFO(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	path := filepath.Join(t.TempDir(), "fifo")
	fell := &atomic.Bool{}
	f := newFIFOs(t, zap.New(stumbling{core, "events for a notify FIFO wait", fell}))
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP}})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil { // nobody can read events from that
		t.Fatal(err)
	}
	f.Write(VRRP, "a line")
	until(t, "the fault", fell.Load)
	if err := os.Remove(path); err != nil { // the fault has not taken it away: it is not ours
		t.Fatal(err)
	}
	until(t, "the pipe is there again", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().Type() == os.ModeNamedPipe
	})
	if got := notifytest.Lines(t, path, 1); got[0] != "a line" {
		t.Errorf("read %q", got)
	}
	if n := logged.FilterMessageSnippet("met a fault in vipd").Len(); n != 1 {
		t.Errorf("%d lines about the fault, want 1: %v", n, logged.All())
	}
}

// Commands of services run one after the other for each of them, in order, with their environment, beside those of
// instances; nothing of it is a line of VRRP, and after Close nothing is run.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	fifos := NewFIFOs(zap.NewNop())
	r := New(0, fifos, zap.NewNop())
	say := func(word string, pause string) Command {
		c := sh("sleep " + pause + "; echo $VIPD_STATE " + word + " >>" + file)
		c.Env = []string{"VIPD_STATE=" + word}
		return c
	}
	service := func(state string) Event { return Event{Kind: Service, Name: "tcp 10.9.0.100:80", State: state} }
	r.Run(service("DOWN"), say("down", "0.3"))
	r.Run(service("nothing"))
	r.Run(service("UP"), say("up", "0"))
	until(t, "both have run", r.idle)
	if got, want := lines(t, file), []string{"down down", "up up"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if st := r.Status(); len(st) != 1 || st[0].Done != 2 || st[0].Kind != Service {
		t.Errorf("status %+v", st)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.Run(service("DOWN"), say("late", "0"))
	if !r.idle() || len(lines(t, file)) != 2 {
		t.Error("a command was run after the end")
	}
}
