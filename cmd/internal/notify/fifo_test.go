package notify

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"vipd/cmd/internal/notify/notifytest"
	"vipd/vrrp/track/process"
)

// newFIFOs makes a writer that is closed at the end of the test.
func newFIFOs(t *testing.T, log *zap.Logger) *FIFOs {
	t.Helper()
	f := NewFIFOs(log)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *FIFOs) one() FIFOStatus { return f.Status()[0] }

// Each class goes to the pipes that want it, in keepalived's words, in order.
func TestFIFOLines(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	f := newFIFOs(t, zap.NewNop())
	f.Configure([]FIFOConfig{{Path: at("all"), Classes: VRRP | LVS}, {Path: at("vrrp"), Classes: VRRP}, {Path: at("lvs"), Classes: LVS}})
	if info, err := os.Stat(at("all")); err != nil || info.Mode() != fs.ModeNamedPipe|0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	r := New(0, f, zap.NewNop())
	defer r.Close(t.Context())
	r.Notify(Event{Kind: "INSTANCE", Name: "VI_1", State: "MASTER", Priority: 100})
	f.Write(LVS, "VS [192.0.2.1]:tcp:80 UP")
	r.Notify(Event{Kind: "GROUP", Name: "G", State: "BACKUP"})
	r.Notify(Event{Kind: "INSTANCE", Name: "VI_1", State: LowerPri, Priority: 100})
	vrrp := []string{`INSTANCE "VI_1" MASTER 100`, `GROUP "G" BACKUP 0`, `INSTANCE "VI_1" MASTER_RX_LOWER_PRI 100`}
	for path, want := range map[string][]string{
		"all": {vrrp[0], "VS [192.0.2.1]:tcp:80 UP", vrrp[1], vrrp[2]}, "vrrp": vrrp, "lvs": {"VS [192.0.2.1]:tcp:80 UP"},
	} {
		if got := notifytest.Lines(t, at(path), len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("pipes left: %v", left)
	}
}

// A reader that comes late and reads slowly gets every line in order; when the
// queue is full the oldest go, counted and logged.
func TestFIFOSlowReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	core, logs := observer.New(zap.WarnLevel)
	f := newFIFOs(t, zap.New(core))
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP}})
	const many = 5000 // more than a pipe holds, less than the queue
	for i := range many {
		f.Write(VRRP, fmt.Sprintf("line %06d of some length", i))
	}
	for i, got := range notifytest.Lines(t, path, many) {
		if want := fmt.Sprintf("line %06d of some length", i); got != want {
			t.Fatalf("line %d is %q", i, got)
		}
	}
	until(t, "all are written", func() bool { s := f.one(); return s.Written == many && s.Waiting == 0 })
	if s := f.one(); s.Dropped != 0 || logs.Len() != 0 {
		t.Errorf("status %+v, log %v", s, logs.All())
	}
	const flood = FIFOQueue + 6000
	for i := range flood {
		f.Write(VRRP, fmt.Sprintf("flood %06d", i))
	}
	s := f.one()
	if s.Dropped == 0 || s.Dropped > flood-FIFOQueue || logs.FilterMessageSnippet("was dropped").Len() == 0 {
		t.Fatalf("status %+v, log %v", s, logs.All())
	}
	got := notifytest.Lines(t, path, flood-int(s.Dropped))
	if !slices.IsSorted(got) || got[len(got)-1] != fmt.Sprintf("flood %06d", flood-1) {
		t.Errorf("out of order, or the last is %q", got[len(got)-1])
	}
}

// A pipe that was replaced is written anew; something else in its place is said,
// and lines wait for the operator.
func TestFIFOReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	f := newFIFOs(t, zap.New(core))
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP}})
	f.Write(VRRP, "first")
	if s := f.one(); !strings.HasSuffix(s.Problem, "is no FIFO; remove it, vipd makes one") || s.Waiting != 1 || logs.Len() != 1 {
		t.Errorf("status %+v, log %v", s, logs.All())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until(t, "the line is written", func() bool { return f.one().Written == 1 })
	if got := notifytest.Lines(t, path, 1); got[0] != "first" {
		t.Errorf("%q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.Write(VRRP, "second")
	until(t, "the line is written", func() bool { return f.one().Written == 2 && f.one().Problem == "" })
	if got := notifytest.Lines(t, path, 1); got[0] != "second" {
		t.Errorf("%q", got)
	}
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP | LVS}}) // changed: a new one in its place
	f.Write(LVS, "third")
	if got := notifytest.Lines(t, path, 1); got[0] != "third" {
		t.Errorf("%q", got)
	}
	f.Configure(nil)
	if _, err := os.Stat(path); err == nil || len(f.Status()) != 0 {
		t.Error("the pipe is still there")
	}
}

// The reader gets the path as its last argument, runs as its user, is started
// again when it ends, and reads the last line before it is ended.
func TestFIFOScript(t *testing.T) {
	dir, err := os.MkdirTemp("", "vipd-fifo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	nobody, err := process.Lookup("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o1777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "fifo")
	f := newFIFOs(t, zap.NewNop())
	script := sh(`echo "start $(id -u) $1" >> `+dir+`/log; exec < "$2"; while read line; do echo "$line" >> `+dir+`/log; [ "$line" = quit ] && exit 3; done; echo end >> `+dir+`/log`, "arg")
	script.User = &nobody
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP, Owner: &nobody, Script: script}})
	f.Write(VRRP, "one")
	until(t, "the reader has it", func() bool { return slices.Contains(lines(t, dir+"/log"), "one") })
	f.Write(VRRP, "quit")
	until(t, "it is started again", func() bool { return len(lines(t, dir+"/log")) == 4 })
	f.Write(VRRP, "two")
	until(t, "it has the pipe open", func() bool { return slices.Contains(lines(t, dir+"/log"), "two") })
	f.Write(VRRP, "last")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"start 65534 arg", "one", "quit", "start 65534 arg", "two", "last", "end"}
	if got := lines(t, dir+"/log"); !slices.Equal(got, want) {
		t.Errorf("the reader saw %q, want %q", got, want)
	}
}

// A stop does not wait for a reader that is not there.
func TestFIFOCloseIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	f := NewFIFOs(zap.NewNop())
	f.Configure([]FIFOConfig{{Path: path, Classes: VRRP, Script: sh("trap '' TERM; while :; do sleep 0.1; done")}})
	for range 9000 {
		f.Write(VRRP, "a line that is long enough to fill the pipe soon")
	}
	began := time.Now()
	err := f.Close()
	if took := time.Since(began); took > CloseWait+2*time.Second {
		t.Errorf("took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "lines were not written, nobody reads it") {
		t.Errorf("%v", err)
	}
}

// A command that cannot be run as its user, or that others could change, is a
// failure that is said.
func TestCommandThatMayNotRun(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	r := open(t, 0, zap.New(core))
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(bad, 0o777); err != nil {
		t.Fatal(err)
	}
	r.Configure("INSTANCE", map[string]Commands{"VI": {
		Any:    Command{Argv: []string{bad}, Secure: true},
		Master: Command{Argv: []string{"/bin/true"}, UserErr: "no such user"},
	}})
	r.Notify(event("VI", "MASTER"))
	until(t, "both have failed", func() bool { return r.idle() && logs.Len() == 2 })
	if text := fmt.Sprint(logs.All()[0].ContextMap(), logs.All()[1].ContextMap()); !strings.Contains(text, "no such user") || !strings.Contains(text, "refused: "+bad) {
		t.Errorf("log: %s", text)
	}
	if err := Once(t.Context(), Command{Argv: []string{"/bin/sh", "-c", "echo why; exit 4"}}, time.Second); err == nil || !strings.HasSuffix(err.Error(), "exit status 4 (why)") {
		t.Errorf("%v", err)
	}
	if err := Once(t.Context(), Command{Argv: []string{"/bin/sleep", "30"}}, 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "timeout after 100ms") {
		t.Errorf("%v", err)
	}
}
