package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// O43: a real server of LVS-DR that lacks the virtual address answers checks of its
// own address, and swallows its share of the clients. With check_path = "vip" the
// check goes the way of a client and takes it out, on the director that has the
// address and on the one that has not, and lets it in again when it has the address.
func TestO43BlackHole(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	const patient = 20 * time.Second // what decides, not when, is the question
	conf := func(i int, path string) string {
		one := func(vip netip.Addr, check string) string {
			own := fmt.Sprintf("address = \"%v:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\ncheck_path = %q\n", vip, path)
			return strings.Replace(checked(own, check, servers(1, 1, 1)...), `connect_timeout = "700ms"`, `connect_timeout = "2s"`, 1)
		}
		return pair(i, calm,
			one(vipA(), "TCP_CHECK = { send = \"who\\n\", expect = \"^r[0-9]\\n$\" }\n"),
			one(vipB(), "HTTP_GET = { url = [{ path = \"/\" }] }\n"))
	}
	daemons := s.start(conf(0, "server"), conf(1, "server"))
	both := func(limit time.Duration, want map[string]int) {
		t.Helper()
		for _, d := range s.d {
			for _, vip := range []netip.Addr{vipA(), vipB()} {
				d.WaitWeights(limit, tcp(vip), want)
			}
		}
	}
	both(patient, weights(1, 1, 1))

	hold := func(verb string) {
		for _, vip := range []netip.Addr{vipA(), vipB()} {
			s.r[0].IP(fmt.Sprintf("addr %s %v/32 dev vips", verb, vip))
		}
	}
	hold("del")
	stays(t, s.d[0], tcp(vipA()), weights(1, 1, 1))
	got, err := s.cl.Spread(at(vipA(), 80), 30, 10, patience)
	if got["r1"] != 0 || got[""] < 5 || err == nil {
		t.Errorf("without the address on r1, and checks that do not see it: %v, %v; want a third lost", got, err)
	}

	for i, d := range daemons {
		d.Reload(conf(i, "vip"))
	}
	both(patient, weights(-1, 1, 1))
	for _, vip := range []netip.Addr{vipA(), vipB()} {
		if got, err := s.cl.Spread(at(vip, 80), 30, 10, patience); err != nil || got["r2"] < 10 || got["r3"] < 10 {
			t.Errorf("clients of %v: %v, %v; want 15 each for r2 and r3", vip, got, err)
		}
	}
	for _, d := range daemons {
		if text, err := d.Ctl("status", "--json"); err != nil || !strings.Contains(text, "via 10.9.0.11: no answer within 2s") {
			t.Errorf("status does not say why r1 is out: %v", err)
		}
	}
	// It is long enough for a check that others' resets disturb to fail.
	stays(t, s.d[1], tcp(vipA()), weights(-1, 1, 1))

	hold("add")
	both(patient, weights(1, 1, 1))
	if got, err := s.cl.Spread(at(vipA(), 80), 30, 10, patience); err != nil || got["r1"] < 5 {
		t.Errorf("with the address on r1 again: %v, %v", got, err)
	}
}
