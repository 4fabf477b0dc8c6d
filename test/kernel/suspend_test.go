package kernel

import (
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// With ha_suspend only the director with the address checks. The other one begins when it takes over, and finds then
// what died before.
func TestHASuspend(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	web := service("address = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\nha_suspend = true\n", servers(1, 1)...)
	d := s.start(pair(0, brisk, web), pair(1, brisk, web))
	for _, n := range s.d {
		n.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1))
	}
	s.servers[1].Kill()
	s.d[0].WaitWeights(outWithin, tcp(vipA()), weights(1, -1))
	checks := func(n *lab.Node) int { return s.servers[0].AcceptedFrom(n.Addr()) }
	one, two := checks(s.d[0]), checks(s.d[1]) // at the start either may have had the address
	time.Sleep(4 * delayLoop)
	if checks(s.d[1]) != two || checks(s.d[0]) == one {
		t.Errorf("r1 was checked %d times by the director without the address, and %d times by the other", checks(s.d[1])-two, checks(s.d[0])-one)
	}
	s.d[1].WaitWeights(time.Second, tcp(vipA()), weights(1, 1)) // it has not seen r2 die
	if st, err := d[1].Ctl("status"); err != nil || !strings.Contains(st, "checks suspended") {
		t.Errorf("status: %v\n%s", err, st)
	}

	d[0].Stop(15 * time.Second)
	s.WaitOwner(vipA(), 15*time.Second, "d2")
	s.d[1].WaitWeights(outWithin, tcp(vipA()), weights(1, -1))
	s.spread(t, at(vipA(), 80), 6, "r1")
	d[0].Again()
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	s.Eventually(5*time.Second, "the checks of d2 end", func() bool {
		n := checks(s.d[1])
		time.Sleep(4 * delayLoop)
		return checks(s.d[1]) == n
	})
	s.d[1].WaitWeights(time.Second, tcp(vipA()), weights(1, -1)) // as it was when the address went
}
