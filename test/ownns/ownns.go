// Package ownns runs the tests of a package in a network namespace of their own,
// where they may change what they like.
package ownns

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// inside tells the test binary that it is in the namespace.
const inside = "VIPD_TESTS_OWN_NAMESPACE"

// Main is for TestMain: it starts this test binary again inside a new namespace whose
// loopback is up, and fails when the tests leave a goroutine. It does not return.
func Main(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(again())
	}
	if err := os.Unsetenv(inside); err != nil { // not for the programs that tests start
		fmt.Fprintln(os.Stderr, "ownns:", err)
		os.Exit(1)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "ownns: setting lo up: %v: %s; the tests need ip(8) from iproute2\n", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// again runs this binary in a new namespace and returns its exit status.
func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	switch {
	case err == nil:
		return 0
	case cmd.ProcessState != nil:
		return max(1, cmd.ProcessState.ExitCode())
	}
	fmt.Fprintf(os.Stderr, "ownns: making a network namespace for the tests: %v; run them as root\n", err)
	return 1
}
