package firewall_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

const inNamespace = "VIPD_FIREWALL_TEST_NAMESPACE"

// TestMain runs all tests in a network namespace of their own, by starting this binary again inside one.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) == "" {
		os.Exit(again())
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "setting lo up: %v: %s; the tests need ip(8) from iproute2\n", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	switch {
	case err == nil:
		return 0
	case cmd.ProcessState != nil:
		return max(1, cmd.ProcessState.ExitCode())
	}
	fmt.Fprintf(os.Stderr, "making a network namespace for the tests: %v; run them as root\n", err)
	return 1
}
