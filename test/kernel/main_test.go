// Package kernel holds the tests that need what most build machines' kernels do
// not have: IPVS, VLAN and bonding. They run in the user-mode kernel where the
// host has not all of them.
package kernel

import (
	"testing"

	"vipd/test/lab"
)

// TestMain builds vipd once and runs the tests where the modules are.
func TestMain(m *testing.M) { lab.Main(m, "8021q", "bonding") }
