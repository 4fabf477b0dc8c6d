package plan_test

import (
	"testing"

	"vipd/ipvs/ipvstest"
	"vipd/ipvs/plan/plantest"
)

// After any order of results, overrides, reloads, time and connections the table is as planned, no change touches another
// service or empties a pool, and no connection is cut off that need not be. (300 walks; 10,000 with VIPD_LONG=1.)
func TestWalks(t *testing.T) {
	for seed := range plantest.Walks(300, 10_000) {
		k := ipvstest.New()
		if err := plantest.Walk(seed, k, k.SetConnections); err != nil {
			t.Fatal(err)
		}
	}
}
