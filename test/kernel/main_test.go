// Package kernel holds the tests that need what most build machines' kernels do
// not have: IPVS, VLAN, bonding and tunnels. They run in the user-mode kernel
// where the host has not all of them.
package kernel

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"vipd/test/lab"
)

// inParallel is how many tests run at once. They wait for most of their time,
// so this is more than the one processor; -parallel has the last word.
const inParallel = "2"

// TestMain builds vipd once and runs the tests where the modules are.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", inParallel); err != nil {
			fmt.Fprintln(os.Stderr, "kernel: setting the number of tests in parallel:", err)
			os.Exit(1)
		}
	}
	lab.Main(m, "8021q", "bonding", "ipip", "iptable_mangle", "xt_mark",
		"ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_sh", "ip_vs_mh", "ip_vs_dh",
		"ip_vs_sed", "ip_vs_nq", "ip_vs_fo", "ip_vs_ovf", "ip_vs_lblc", "ip_vs_lblcr")
}
