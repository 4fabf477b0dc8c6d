package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sh makes a command of a shell script.
func sh(text string, timeout time.Duration) Command {
	return Command{Argv: []string{"/bin/sh", "-c", text}, Env: Environment(), Timeout: timeout}
}

// gone waits until the process whose id is in the file has ended.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") && !child(string(stat)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d of %s is still there", pid, pidFile)
}

// child tells whether a zombie is ours to reap; those of others are init's.
func child(stat string) bool {
	_, rest, _ := strings.Cut(stat, ") ")
	f := strings.Fields(rest)
	return len(f) > 1 && f[1] == strconv.Itoa(os.Getpid())
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		script, want, output string
		exit                 int
	}{
		{"echo one; echo two", "exit status 0", "two", 0},
		{"echo bad >&2; exit 7", "exit status 7", "bad", 7},
		{"kill -9 $$", "signal: killed", "", -1},
		{`printf 'a\033[1mb\377c\n\n'`, "exit status 0", "a[1mbc", 0},
		{"read x && exit 1; echo eof", "exit status 0", "eof", 0}, // standard input is empty
		{`echo "$HOME:$LC_ALL:$(pwd)"`, "exit status 0", ":C:/", 0},
	} {
		out := Run(t.Context(), sh(c.script, 5*time.Second))
		if out.String() != c.want || out.Exit != c.exit || out.Output != c.output || out.OK() != (c.exit == 0) || out.TimedOut {
			t.Errorf("%q: %s, exit %d, output %q; want %s, %d, %q", c.script, out, out.Exit, out.Output, c.want, c.exit, c.output)
		}
	}
}

func TestCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/nonexistent/check": os.ErrNotExist, plain: os.ErrPermission} {
		out := Run(t.Context(), Command{Argv: []string{path}})
		if !errors.Is(out.Err, want) || out.OK() || out.Exit != -1 || !strings.Contains(out.String(), path) {
			t.Errorf("%s: %v, want %v", path, out.Err, want)
		}
	}
	if out := Run(t.Context(), Command{}); out.OK() {
		t.Error("a command without a program is good")
	}
}

func TestTimeoutEndsTheGroup(t *testing.T) {
	dir := t.TempDir()
	expired := 0
	c := sh("cd "+dir+"; sleep 60 & echo $! > child; echo $$ > self; echo waiting; wait", 500*time.Millisecond)
	c.Expired = func() { expired++ }
	out := Run(t.Context(), c)
	if !out.TimedOut || out.OK() || out.String() != "timeout after 500ms" || expired != 1 || out.Output != "waiting" {
		t.Errorf("%+v, expired %d times", out, expired)
	}
	if out.Duration < 500*time.Millisecond || out.Duration > 1500*time.Millisecond {
		t.Errorf("took %v, want little more than 500ms", out.Duration)
	}
	gone(t, filepath.Join(dir, "child"))
	gone(t, filepath.Join(dir, "self"))
}

func TestIgnoringTermIsKilled(t *testing.T) {
	dir := t.TempDir()
	c := sh("trap '' TERM; echo $$ > "+dir+"/self; while :; do sleep 0.05; done", 300*time.Millisecond)
	said := time.Time{}
	c.Expired = func() {
		if said.IsZero() {
			said = time.Now()
		}
	}
	out := Run(t.Context(), c)
	if !out.TimedOut || out.Duration < Grace || out.Duration > Grace+2*time.Second {
		t.Errorf("%+v", out)
	}
	if late := said.Sub(out.Started); late < 300*time.Millisecond || late > time.Second {
		t.Errorf("timeout said after %v, not when it happened", late)
	}
	gone(t, filepath.Join(dir, "self"))
}

// A child that keeps the output open does not hold the answer up.
func TestChildHoldsOutput(t *testing.T) {
	dir := t.TempDir()
	out := Run(t.Context(), sh("sleep 3 & echo $! > "+dir+"/child; echo done; exit 0", 2*time.Second))
	if !out.OK() || out.Exit != 0 || out.Output != "done" || out.Duration > time.Second {
		t.Errorf("%+v", out)
	}
	out = Run(t.Context(), sh("sleep 3 & exit 4", 2*time.Second))
	if out.Exit != 4 || out.OK() || out.Duration > time.Second {
		t.Errorf("%+v", out)
	}
}

func TestMuchOutputIsBounded(t *testing.T) {
	out := Run(t.Context(), sh("i=0; while [ $i -lt 20000 ]; do echo line $i of quite some text; i=$((i+1)); done", 10*time.Second))
	if !out.OK() || out.Output != "line 19999 of quite some text" {
		t.Errorf("%+v", out)
	}
	out = Run(t.Context(), sh("head -c 5000 /dev/zero | tr '\\0' x", 5*time.Second))
	if !out.OK() || len(out.Output) != 200 {
		t.Errorf("a line of 5000 bytes became %d", len(out.Output))
	}
}

func TestContextKills(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	out := Run(ctx, sh("trap '' TERM; cd "+dir+"; sleep 60 & echo $! > child; wait; sleep 60", 30*time.Second))
	if !out.Stopped || out.OK() || out.TimedOut || out.Duration > 1500*time.Millisecond {
		t.Errorf("%+v", out)
	}
	gone(t, filepath.Join(dir, "child"))
	if out := Run(ctx, sh("exit 0", time.Second)); !out.Stopped || out.OK() {
		t.Errorf("started after the end: %+v", out)
	}
}

// A script that does not begin with #! runs as shells and execvp(3) run it, with its
// arguments; a program that is none fails.
func TestScriptWithoutInterpreterLine(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"script": "echo \"$# $2\"\nexit 3\n", "empty": "", "binary": "\x7fELF\x00\x00\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string) Outcome {
		return Run(context.Background(), Command{Argv: []string{filepath.Join(dir, name), "a", "b c"}, Env: Environment(), Timeout: 10 * time.Second})
	}
	if out := run("script"); out.Exit != 3 || out.Output != "2 b c" {
		t.Errorf("a script: %s with %q, want exit status 3 with both arguments", out, out.Output)
	}
	if out := run("empty"); out.Err != nil || out.Exit != 0 {
		t.Errorf("an empty script: %s", out)
	}
	if out := run("binary"); out.Err == nil || out.Exit == 0 {
		t.Errorf("a broken program: %s, want a failure", out)
	}
}

// TestFileSystemHangs: while nothing is known of the program its time passes all the same, again and again, and
// it is not run when the answer comes too late; the end of the context ends the wait.
func TestFileSystemHangs(t *testing.T) {
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprintf("secure %v", secure), func(t *testing.T) { hangs(t, secure) })
	}
}

func hangs(t *testing.T, secure bool) {
	mark := filepath.Join(t.TempDir(), "ran")
	answer := make(chan error)
	c := sh("echo >"+mark, 20*time.Millisecond)
	c.Secure, c.look = secure, func(string, bool, uint32) error { return <-answer }
	expired := 0
	c.Expired = func() {
		if expired++; expired == 3 {
			close(answer)
		}
	}
	out := Run(t.Context(), c)
	if _, err := os.Stat(mark); err == nil || !out.TimedOut || out.OK() || expired < 3 || !strings.Contains(out.String(), "did not answer") {
		t.Errorf("expired %d times, then %+v; it was run: %v", expired, out, err == nil)
	}
	answer = make(chan error)
	defer close(answer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c.Expired = nil
	if out = Run(ctx, c); !out.Stopped || out.OK() || out.Duration > time.Second {
		t.Errorf("at the end of the context: %+v", out)
	}
	c.Timeout, c.look = 10*time.Second, nil
	if out = Run(t.Context(), c); !out.OK() {
		t.Errorf("with an answer: %+v", out)
	}
}
