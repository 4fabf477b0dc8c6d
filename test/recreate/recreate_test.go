package recreate_test

import (
	"testing"
	"time"

	"vipd/test/lab"
	"vipd/test/recreate"
)

// noise is how late things may be: all nodes share the user-mode kernel's one CPU.
const noise = 1500 * time.Millisecond

// TestMain runs the tests where VLAN and bonding are.
func TestMain(m *testing.M) {
	lab.InParallel(4)
	lab.Main(m, "8021q", "bonding")
}

// O20 with a VLAN interface (see TestO20InterfaceDeletedAndRecreated in
// test/cases for the claim).
func TestO20InterfaceDeletedAndRecreatedVLAN(t *testing.T) {
	t.Parallel()
	k := recreate.Kind{
		Name: "eth0.7", Noise: noise,
		Make: func(n *lab.Node) { n.IP("link add link eth0 name eth0.7 type vlan id 7") },
		Del:  func(n *lab.Node) { n.IP("link del eth0.7") },
	}
	t.Run("recreated", func(t *testing.T) { t.Parallel(); recreate.Run(t, k) })
	t.Run("absent at start", func(t *testing.T) { t.Parallel(); recreate.Later(t, k) })
}

// O20 with a bond; its cable stays.
func TestO20InterfaceDeletedAndRecreatedBond(t *testing.T) {
	t.Parallel()
	k := recreate.Kind{
		Name: "bond0", Noise: noise,
		Make: func(n *lab.Node) {
			n.Sh("ip link add bond0 type bond mode active-backup miimon 50; ip link set eth0 down; ip addr flush dev eth0; ip link set eth0 master bond0; ip link set bond0 up")
		},
		Del: func(n *lab.Node) { n.IP("link del bond0") },
	}
	t.Run("recreated", func(t *testing.T) { t.Parallel(); recreate.Run(t, k) })
	t.Run("absent at start", func(t *testing.T) { t.Parallel(); recreate.Later(t, k) })
}
