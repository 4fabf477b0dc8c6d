package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// namespace makes a named namespace with a name of the test's own; it needs root.
func namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("vipd%d-%s", os.Getpid(), strings.ToLower(t.Name()[4:]))
	ip(t, "netns", "add", name)
	t.Cleanup(func() { ip(t, "netns", "del", name) })
	return name
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s (run the tests as root, with iproute2)", strings.Join(args, " "), err, out)
	}
}

// What Do runs is in the namespace, what it opened stays there, and the rest of the
// process is where it was.
func TestDo(t *testing.T) {
	name := namespace(t)
	ip(t, "-n", name, "link", "add", "inside", "type", "veth", "peer", "name", "other")
	var listener net.Listener
	err := Do(Path(name), func() (err error) {
		if in, err := Inside(Path(name)); err != nil || !in {
			t.Errorf("Inside says %v (%v) inside", in, err)
		}
		if _, err := net.InterfaceByName("inside"); err != nil {
			t.Errorf("no interface of the namespace: %v", err)
		}
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if in, err := Inside(Path(name)); err != nil || in {
		t.Errorf("Inside says %v (%v) outside", in, err)
	}
	if _, err := net.InterfaceByName("inside"); err == nil {
		t.Error("the test is in the namespace now")
	}
	if c, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		c.Close()
		t.Error("the socket is outside")
	}
	wrong := errors.New("wrong")
	if err := Do(Path(name), func() error { return wrong }); err != wrong {
		t.Errorf("Do returned %v", err)
	}
}

// What cannot be entered is told with what to do.
func TestMissing(t *testing.T) {
	name := namespace(t)
	none := Path(name + "-not")
	for _, err := range []error{Do(none, func() error { t.Error("it ran"); return nil }), Enter(name+"-not", nil)} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make it first (ip netns add "+name+"-not)") || !strings.Contains(err.Error(), "there are: ") {
			t.Errorf("said %v", err)
		}
	}
	if _, err := Inside(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Inside says %v", err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Do(plain, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "the file is not a namespace") {
		t.Errorf("of a plain file: %v", err)
	}
}

// TestEnter starts this test anew in a namespace, and lets it look around there.
func TestEnter(t *testing.T) {
	const mark = "VIPD_TEST_ENTER"
	if name := os.Getenv(mark); name != "" {
		entered(t, name)
		return
	}
	name := namespace(t)
	ip(t, "-n", name, "link", "add", "inside", "type", "veth", "peer", "name", "other")
	file := filepath.Join(etc, name, "hostname")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.RemoveAll(filepath.Dir(file))
		_ = os.Remove(etc) // unless somebody else uses it
	})
	for path, text := range map[string]string{file: "inside\n", filepath.Join(etc, name, "no-such-file"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestEnter$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("entered as process %d", cmd.Process.Pid)) {
		t.Errorf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile("/etc/hostname"); err != nil || string(b) == "inside\n" {
		t.Errorf("the machine's own file is %q (%v)", b, err)
	}
	if _, err := os.Stat("/sys/class/net/inside"); err == nil {
		t.Error("the machine's own /sys is the namespace's")
	}
}

// entered goes in, and checks that it is.
func entered(t *testing.T, name string) {
	if in, err := Inside(Path(name)); err != nil {
		t.Fatal(err)
	} else if !in {
		t.Fatal(Enter(name, func() error { return nil }))
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads (%v)", len(threads), err)
	}
	here, err := os.Stat(Path(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range threads {
		if is, err := os.Stat(f); err == nil && !os.SameFile(is, here) {
			t.Errorf("%s is outside", f)
		}
	}
	if _, err := os.Stat("/sys/class/net/inside"); err != nil {
		t.Errorf("/sys is not the namespace's: %v", err)
	}
	if b, err := os.ReadFile("/etc/hostname"); err != nil || string(b) != "inside\n" {
		t.Errorf("/etc/hostname is %q (%v)", b, err)
	}
	if w := Warning(); !strings.Contains(w, "no-such-file") || strings.Contains(w, "\n") {
		t.Errorf("the warning is %q", w)
	}
	if got := Entered(); got != name {
		t.Errorf("Entered says %q", got)
	}
	first := First()
	if in, err := Inside(first); err != nil || in || !strings.HasPrefix(first, "/proc/self/fd/") {
		t.Errorf("the first namespace is %s, and inside it: %v (%v)", first, in, err)
	}
	if again := First(); again != one {
		t.Errorf("asked again, it is %s", again)
	}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "VIPD_NETNS") {
			t.Errorf("%s is left", e)
		}
	}
	fmt.Printf("entered as process %d\n", os.Getpid())
}
