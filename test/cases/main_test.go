// Package cases holds reports of users of VRRP and IPVS directors, each retold
// as a test: the fault is provoked in a site of network namespaces, and judged
// by what is on the wire and in the kernels, never by what vipd says of itself.
//
// A test is named after its case (O01, O02, …); its comment has the claim.
package cases

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"vipd/test/lab"
)

// inParallel is how many cases run at once. They wait for most of their time,
// so this is more than there are processors; -parallel has the last word.
const inParallel = "8"

// TestMain builds vipd once for all cases.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", inParallel); err != nil {
			fmt.Fprintln(os.Stderr, "cases: setting the number of tests in parallel:", err)
			os.Exit(1)
		}
	}
	lab.MainHost(m)
}
