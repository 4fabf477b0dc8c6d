package uml_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/uml"
)

// run runs a shell script inside and returns its status and output.
func run(t *testing.T, script string, o uml.Options) (int, string) {
	t.Helper()
	var out bytes.Buffer
	o.Stdout = &out
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	code, err := uml.Run(t.Context(), []string{"sh", "-c", script}, o)
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

func TestStatusAndOutputComeBack(t *testing.T) {
	code, out := run(t, `printf 'one\ntwo'; echo ' three' >&2; exit 7`, uml.Options{})
	if code != 7 || out != "one\ntwo three\n" {
		t.Fatalf("status %d, output %q; want 7 and the three words", code, out)
	}
}

func TestKernelHasIPVSPerNamespace(t *testing.T) {
	code, out := run(t, `
		set -e
		ip netns add a; ip netns add b
		ip netns exec a ipvsadm -A -t 10.0.0.1:80 -s wlc
		ip netns exec a ipvsadm -Ln | grep -c wlc
		ip netns exec b ipvsadm -Ln | grep -c wlc || true`, uml.Options{})
	if code != 0 || out != "1\n0\n" {
		t.Fatalf("status %d, output %q; want the service in a alone", code, out)
	}
}

func TestHostFilesAreSafe(t *testing.T) {
	dir, shared := t.TempDir(), t.TempDir()
	code, out := run(t, `
		touch "$SHARED/written" && echo shared
		touch "$OTHER/written" 2>/dev/null || echo hidden
		touch /etc/vipd-uml-test 2>/dev/null || echo read-only
		echo "$WORD"; pwd`,
		uml.Options{Share: []string{shared}, Dir: shared, Env: []string{"SHARED=" + shared, "OTHER=" + dir, "WORD=it's $HOME \"x\""}})
	want := "shared\nhidden\nread-only\nit's $HOME \"x\"\n" + shared + "\n"
	if code != 0 || out != want {
		t.Fatalf("status %d, output %q; want %q", code, out, want)
	}
	if _, err := os.Stat(filepath.Join(shared, "written")); err != nil {
		t.Errorf("the shared directory did not keep the file: %v", err)
	}
	for _, p := range []string{filepath.Join(dir, "written"), "/etc/vipd-uml-test"} {
		if _, err := os.Stat(p); err == nil {
			t.Errorf("the guest wrote %s", p)
		}
	}
}

func TestTimeoutEndsTheGuest(t *testing.T) {
	start := time.Now()
	_, err := uml.Run(t.Context(), []string{"sleep", "300"}, uml.Options{Timeout: 8 * time.Second, Stdout: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "no result within 8s") {
		t.Fatalf("error %v; want a timeout", err)
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Fatalf("Run returned after %v; the limit was 8s", d)
	}
	guestsGone(t)
}

// A kernel that panics, as one whose process 1 ends does, is not waited for until the time is up.
func TestPanicEndsTheGuest(t *testing.T) {
	const limit = time.Minute
	start := time.Now()
	_, err := uml.Run(t.Context(), []string{"sh", "-c", "echo c >/proc/sysrq-trigger"}, uml.Options{Timeout: limit, Stdout: &bytes.Buffer{}})
	if err == nil || strings.Contains(err.Error(), "no result within") {
		t.Errorf("error %v; want that of a guest that ended", err)
	}
	if d := time.Since(start); d > limit/2 {
		t.Errorf("Run returned after %v", d)
	}
	guestsGone(t)
}

func TestCancelEndsTheGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	_, err := uml.Run(ctx, []string{"sleep", "300"}, uml.Options{Stdout: &bytes.Buffer{}})
	if err == nil {
		t.Fatal("a cancelled run had no error")
	}
	guestsGone(t)
}

// guestsGone checks that no process of a guest that this test started is left:
// all of them have the scratch directory's name on their command line.
func guestsGone(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Second)
	for {
		left := guests(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes of the guest are left: %v", left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// guests finds kernels whose scratch directory is below this test's TMPDIR.
func guests(t *testing.T) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range lines {
		b, err := os.ReadFile(p)
		if err == nil && bytes.Contains(b, []byte("uml_dir="+os.TempDir()+"/vipd-uml-")) {
			found = append(found, p)
		}
	}
	return found
}

// What reads the output of tests that were spread over guests must see one test
// binary: each test once, the failed one by name, one verdict.
func TestSpreadOverGuests(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []string{"fail", "crash"} {
		cmd := exec.Command("go", "tool", "test2json", exe, "-test.v=test2json", "-test.paniconexit0",
			"-test.run=^(TestAsTold|TestConsole.*|TestVerdict.*)$", "-test.testlogfile="+filepath.Join(t.TempDir(), "log"))
		cmd.Env = append(os.Environ(), "UMLTEST_SPREAD=1", "UMLTEST_TOLD="+told)
		out, err := cmd.Output()
		if err == nil {
			t.Errorf("told %q: it passes\n%s", told, out)
		}
		got := map[string][]string{}
		for line := range bytes.Lines(out) {
			var e struct{ Action, Test, Output string }
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("told %q: %q: %v", told, line, err)
			}
			if e.Action == "pass" || e.Action == "fail" {
				got[e.Test] = append(got[e.Test], e.Action)
			}
		}
		all := map[string][]string{"": {"fail"}, "TestConsolePassesWhatIsBetweenMarkers": {"pass"}, "TestConsoleWithoutEndKeepsNothingBack": {"pass"},
			"TestVerdictIsTakenAway": {"pass"}, "TestAsTold": {"fail"}}
		if told == "crash" {
			delete(all, "TestAsTold") // it has no end
		}
		if !maps.EqualFunc(got, all, slices.Equal) {
			t.Errorf("told %q: %v, want %v\n%s", told, got, all, out)
		}
	}
}

// TestAsTold fails when TestSpreadOverGuests says so.
func TestAsTold(t *testing.T) {
	switch os.Getenv("UMLTEST_TOLD") {
	case "fail":
		t.Error("as told")
	case "crash":
		go panic("as told")
		time.Sleep(time.Minute)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("UMLTEST_SPREAD") != "" {
		os.Exit(uml.Code(m, 2))
	}
	// A temporary directory of this process alone, to tell its guests from others.
	dir, err := os.MkdirTemp("", "umltest")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
