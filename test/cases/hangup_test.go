package cases

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// A SIGHUP while the daemon starts, here while it waits for its configuration, does not
// end it: the configuration is read again as soon as it serves.
func TestHangupBeforeTheConfiguration(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	v := l.Node("d1").Vipd(sole(`["10.9.0.100"]`))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	v.Stop(3 * time.Second)
	file, err := os.OpenFile(v.ConfigFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	v.Again()
	isVipd(t, v)
	time.Sleep(300 * time.Millisecond)
	v.Signal(syscall.SIGHUP)
	time.Sleep(100 * time.Millisecond)
	if log := v.Log(); strings.Contains(log, "vipd started") {
		t.Fatalf("it did not wait for its configuration:\n%s", log)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	for end := time.Now().Add(5 * time.Second); !strings.Contains(v.Log(), "reloaded"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no reload:\n%s", v.Log())
		}
	}
	v.Signal(syscall.SIGTERM)
	ended(t, v, 0, 2*time.Second, lab.VIP())
}

// Started with SIGHUP ignored (nohup), the daemon outlives it in its first
// microseconds too, when no program can have a handler yet, and answers it from then on.
func TestHangupFromTheFirstMoment(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	v := l.Node("d1").VipdIn(`trap "" HUP`, sole(`["10.9.0.100"]`))
	isVipd(t, v)
	for range 200 {
		v.Signal(syscall.SIGHUP)
		time.Sleep(100 * time.Microsecond)
	}
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	v.Reload(sole(`["10.9.0.101"]`))
	l.WaitOwner(mustAddr("10.9.0.101"), 5*time.Second, "d1")
	v.Signal(syscall.SIGTERM)
	ended(t, v, 0, 2*time.Second, lab.VIP(), mustAddr("10.9.0.101"))
}

// Commands other than the daemon end by SIGHUP, as any program of a terminal that closes.
func TestHangupEndsOtherCommands(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "vipd.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whoever runs the tests may have been told to ignore the signal (nohup).
	c := exec.Command("env", "--default-signal=HUP", lab.VipdBin(t), "check", "-c", pipe)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	late := time.AfterFunc(5*time.Second, func() { _ = c.Process.Kill() })
	defer late.Stop()
	_ = c.Process.Signal(syscall.SIGHUP)
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP {
		t.Errorf("vipd check ended with %v, not by the signal", err)
	}
}

// isVipd waits until the process is the daemon, not the shell that starts it.
func isVipd(t *testing.T, v *lab.Daemon) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", v.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(comm)) == "vipd" {
			return
		}
	}
	t.Fatal("the shell did not become vipd")
}
