// Package kernel holds the tests that need what most build machines' kernels do
// not have: IPVS and tunnels. They run in the user-mode kernel where the host has
// not all of them.
package kernel

import (
	"testing"

	"vipd/test/lab"
)

// TestMain builds vipd once and runs the tests where the modules are: in two
// user-mode kernels, each with one processor. They wait for half of their time, so
// more than one at once keeps it busy.
func TestMain(m *testing.M) {
	lab.InParallel(2)
	lab.MainIn(m, 2, "8021q", "bonding", "ipip", "ip_gre", "sit", "ip6_tunnel", "ip6_gre", "fou", "fou6", "ip_vs_pe_sip", "iptable_mangle", "xt_mark",
		"ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_sh", "ip_vs_mh", "ip_vs_dh",
		"ip_vs_sed", "ip_vs_nq", "ip_vs_fo", "ip_vs_ovf", "ip_vs_lblc", "ip_vs_lblcr")
}
