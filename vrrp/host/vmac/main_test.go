package vmac_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const inNamespace = "VIPD_VMAC_TEST_NAMESPACE"

// TestMain runs all tests in a network namespace of their own, by starting this binary again inside one.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		fmt.Fprintf(os.Stderr, "making a network namespace for the tests: %v; run them as root\n", err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}
