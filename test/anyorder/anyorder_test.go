// Package anyorder runs the walks of cmd/internal/daemon against the kernel's IPVS table.
package anyorder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

// TestMain builds the tests of the daemon, which know its inside, and runs where IPVS is.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if !uml.Inside() {
		bin, err := walks()
		if err == nil {
			defer os.Remove(bin)
			// As vipd itself is built: most of it is in the cache then. Beside it run tests that judge milliseconds.
			cmd := exec.Command("nice", "go", "test", "-c", "-trimpath", "-vet=off", "-o", bin, "vipd/cmd/internal/daemon")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			var out []byte
			if out, err = cmd.CombinedOutput(); err != nil {
				err = fmt.Errorf("building the tests of the daemon: %w\n%s", err, out)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return uml.Code(m, 1, "ip_vs_rr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_sed")
}

// walks is the test binary of the daemon: beside this one, which the guest sees, too.
func walks() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the test binary: %w", err)
	}
	return filepath.Join(filepath.Dir(exe), "daemon.walks"), nil
}

// TestAnyOrderInTheKernel is TestAnyOrder of cmd/internal/daemon against the kernel's table. (10 sequences; 200 with
// VIPD_LONG=1 or VIPD_EXACT=1.)
func TestAnyOrderInTheKernel(t *testing.T) {
	bin, err := walks()
	if err != nil {
		t.Fatal(err)
	}
	long := os.Getenv("VIPD_LONG")
	if os.Getenv("VIPD_EXACT") == "1" {
		long = "1"
	}
	p := lab.New(t, "d1").Node("d1").Start("walks", "env", "VIPD_WALKS=kernel", "VIPD_LONG="+long, bin, "-test.v", "-test.run=^TestAnyOrder$")
	if code := p.Wait(10 * time.Minute); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.Log())
		return
	}
	t.Log(p.Log())
}
