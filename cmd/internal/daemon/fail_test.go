package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// childEnv names the directory of a test process that runs a daemon.
const childEnv = "VIPD_TEST_DAEMON"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(runBroken(dir))
	}
	os.Exit(m.Run())
}

// TestFailedPartGivesEverythingUp: when a part of the daemon fails, here its timer,
// the addresses and services are given up and the reason is returned. It runs in a
// network namespace of its own.
func TestFailedPartGivesEverythingUp(t *testing.T) {
	dir := t.TempDir()
	conf := "[vrrp_instance.A]\ninterface = \"e0\"\nvirtual_router_id = 51\nversion = 3\npriority = 255\nadvert_int = 0.1\n" +
		"virtual_ipaddress = [\"10.9.0.100\"]\nnotify = \"/bin/sh -c 'echo $3 >>" + dir + "/notified' x\"\n"
	if err := os.WriteFile(filepath.Join(dir, "vipd.toml"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `ip link add e0 type veth peer name e1
ip addr add 10.9.0.1/24 dev e0
ip link set e0 up
ip link set e1 up
"$0" || echo "exit status $?"
ip -o addr show dev e0`
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-n", "sh", "-ec", script, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.WaitDelay = time.Second
	b, err := cmd.CombinedOutput()
	out := string(b)
	if err != nil {
		t.Fatalf("running a daemon in a namespace (needs root and util-linux): %v\n%s", err, out)
	}
	for _, want := range []string{"the address is there", "Run: waiting in the VRRP router: setting a timerfd", "exit status 1", "10.9.0.1/24"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out, "10.9.0.100/32") {
		t.Error("the address stays")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "notified")); err != nil || string(b) != "MASTER\nSTOP\n" {
		t.Errorf("notified of %q (%v), want MASTER and STOP", b, err)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// runBroken runs a daemon until it is MASTER, takes its timer away and wakes it.
func runBroken(dir string) int {
	hup := make(chan os.Signal, 1)
	go func() {
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if out, err := exec.Command("ip", "-o", "addr", "show", "dev", "e0").Output(); err == nil && strings.Contains(string(out), "10.9.0.100/32") {
				break
			}
		}
		fmt.Println("the address is there")
		if err := breakTimer(); err != nil {
			fmt.Println(err)
		}
		hup <- syscall.SIGHUP
	}()
	log, err := zap.NewDevelopment()
	if err != nil {
		fmt.Println(err)
		return 3
	}
	opts := Options{ConfigFile: filepath.Join(dir, "vipd.toml"), Socket: filepath.Join(dir, "s"), StateDir: filepath.Join(dir, "state")}
	if err := Run(context.Background(), opts, hup, make(chan struct{}), log); err != nil {
		fmt.Println("Run:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// breakTimer puts another file in the place of the process's timer.
func breakTimer() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, e := range entries {
		var fd int
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && strings.Contains(target, "timerfd") {
			return unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC)
		}
	}
	return errors.New("this process has no timer")
}
