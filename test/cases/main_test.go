// Package cases holds reports of users of VRRP and IPVS directors, each retold
// as a test: the fault is provoked in a site of network namespaces, and judged
// by what is on the wire and in the kernels, never by what vipd says of itself.
//
// A test is named after its case (O01, O02, …); its comment has the claim.
package cases

import (
	"testing"

	"vipd/test/lab"
)

// TestMain builds vipd once for all cases.
func TestMain(m *testing.M) {
	lab.InParallel(10)
	lab.MainHost(m)
}
