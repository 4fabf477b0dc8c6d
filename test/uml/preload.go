package uml

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed preload/xstate.c
var xstateSource []byte

// ErrCompiler is returned on a CPU with AMX when there is no C compiler.
var ErrCompiler = errors.New("uml: this CPU has AMX, whose registers are larger than User Mode Linux 6.1 expects; " +
	"the work-around needs a C compiler: apt-get install gcc libc6-dev")

// xstatePreload returns the library to load into the kernel on CPUs with AMX,
// built in dir, and "" where none is needed. See preload/xstate.c.
func xstatePreload(dir string) (string, error) {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("uml: reading the CPU's features: %w", err)
	}
	if !strings.Contains(string(cpu), " amx_tile") {
		return "", nil
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", ErrCompiler
	}
	src, lib := filepath.Join(dir, "xstate.c"), filepath.Join(dir, "xstate.so")
	if err := os.WriteFile(src, xstateSource, 0o644); err != nil {
		return "", fmt.Errorf("uml: writing the register work-around: %w", err)
	}
	if out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		return "", fmt.Errorf("uml: building the register work-around: %w\n%s", err, out)
	}
	return lib, nil
}
