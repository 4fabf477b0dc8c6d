package netlink_test

import (
	"testing"

	"vipd/ipvs/plan/plantest"
)

// The walks of ipvs/plan against the kernel's table, whose counts are all 0. (10 walks; 200 with VIPD_LONG=1.)
func TestPlanWalks(t *testing.T) {
	c := open(t)
	for seed := range plantest.Walks(10, 200) {
		if err := plantest.Walk(seed, c, nil); err != nil {
			t.Fatal(err)
		}
	}
}
