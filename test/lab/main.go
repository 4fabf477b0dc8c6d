package lab

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"vipd/test/uml"
)

// Main is for the TestMain of packages that start vipd and need IPVS: it builds
// vipd (unless VIPD_BIN names one), then runs the tests where IPVS is, see
// uml.Main. It does not return.
func Main(m *testing.M, modules ...string) { MainIn(m, 1, modules...) }

// MainIn is Main with the tests spread over up to so many user-mode kernels.
func MainIn(m *testing.M, guests int, modules ...string) {
	os.Exit(withVipd(func() int { return uml.Code(m, guests, modules...) }))
}

// InParallel has n tests run at once where -parallel does not say otherwise.
// Sites wait for most of their time, so n may exceed the number of processors.
// Call it first in TestMain.
func InParallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		fmt.Fprintln(os.Stderr, "lab: setting the number of tests in parallel:", err)
		os.Exit(1)
	}
}

// MainHost is Main for packages that run in namespaces of any kernel.
func MainHost(m *testing.M) { os.Exit(withVipd(m.Run)) }

// withVipd runs fn with VIPD_BIN set.
func withVipd(fn func() int) int {
	serveHTTP()
	if os.Getenv(uml.EnvVipd) != "" {
		return fn()
	}
	dir, err := os.MkdirTemp("", "vipd-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: making a directory for vipd:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "vipd")
	if err := Build(bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(uml.EnvVipd, bin); err != nil {
		fmt.Fprintln(os.Stderr, "lab: setting "+uml.EnvVipd+":", err)
		return 1
	}
	return fn()
}

// Build builds the static vipd binary into a file.
func Build(bin string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, "vipd/cmd/vipd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lab: building vipd: %w\n%s", err, out)
	}
	return nil
}
