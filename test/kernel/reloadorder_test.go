package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// TestReloadServicesBeforeAddresses: a reload that brings an address and its services to a MASTER has the services first, and
// one that takes both away has the address go first: no client is refused.
func TestReloadServicesBeforeAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	for _, r := range s.r[:2] {
		r.HoldVIP(lastVIP())
	}
	s.serve(activePort, 2)
	config := func(vips []netip.Addr, services string) string {
		return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: vips}) + "\n" + web(vipA(), "rr", 1, 1) + services
	}
	more := fmt.Sprintf(`
[virtual_server_group.web]
address = ["10.9.0.128-143 %[1]d", "10.9.0.160/28 %[1]d", "10.9.0.200 %[1]d"]
`, activePort) + checked("group = \"web\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n",
		fmt.Sprintf("[virtual_server.TCP_CHECK]\nconnect_port = %d\n", activePort), "10.9.0.11", "10.9.0.12")
	with, without := config([]netip.Addr{vipA(), lastVIP()}, more), config([]netip.Addr{vipA()}, "")
	vipd := s.start(without)[0]
	for _, c := range []string{with, without} {
		clients := s.hammer(at(lastVIP(), activePort))
		time.Sleep(100 * time.Millisecond)
		vipd.Reload(c)
		s.Eventually(10*time.Second, "the reload is done", func() bool {
			return s.d[0].Has(lastVIP()) == (c == with) && len(s.d[0].Table()) == map[bool]int{true: 34, false: 1}[c == with]
		})
		time.Sleep(300 * time.Millisecond)
		all, answered, refused := clients()
		t.Logf("with it %v: %d connections, %d answered, %d refused", c == with, all, answered, refused)
		if refused > 0 || c == with && answered == 0 {
			t.Errorf("with it %v: %d of %d connections were refused, %d answered", c == with, refused, all, answered)
		}
	}
}
