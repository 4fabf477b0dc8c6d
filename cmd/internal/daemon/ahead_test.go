package daemon

import (
	"context"
	"net/netip"
	"testing"

	"vipd/conf"
	"vipd/ipvs"
)

// Services that a reload brings are in the table before anything else of it happens, but for those that are on standby;
// servers with alpha wait. What was there stays, also what goes with the reload. When the reload fails, all is as before.
func TestAhead(t *testing.T) {
	b, checks, table := newTestBalancer(t, server(80))
	b.places = newWhereabouts(&fakeAddresses{}, b.Moved, b.log)
	checks.set(t, check21, false)
	b.HealthChanged()
	settled := 0
	ahead := func(servers ...conf.VirtualServer) {
		b.Ahead(t.Context(), servers, func(context.Context) error { settled++; return nil })
	}
	has := func(port uint16, last byte) bool {
		pool := table.want[ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(server(80).Address.Addr(), port))]
		_, in := pool.Destinations[netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), 80)]
		return in
	}
	changed := server(80)
	changed.Scheduler = "wlc"
	ahead(changed)
	if settled != 0 || len(table.want) != 1 {
		t.Errorf("a service that changes was handled ahead: table %v", table.want)
	}
	standby, fresh := onPort(82), onPort(81)
	standby.ActiveOn, fresh.RealServers[0].Checks[0].Alpha = "VI_1", true
	for _, failed := range []bool{true, false} {
		ahead(fresh, standby)
		if has(80, 21) || !has(80, 22) || has(81, 21) || !has(81, 22) || len(table.want) != 2 {
			t.Errorf("ahead of the reload: table %v", table.want)
		}
		if failed {
			if b.Stay(); len(table.want) != 1 || has(80, 21) || !has(80, 22) {
				t.Errorf("after one that failed: table %v", table.want)
			}
			continue
		}
		if err := b.Configure([]conf.VirtualServer{fresh, standby}); err != nil {
			t.Fatal(err)
		}
		if len(table.want) != 1 || has(81, 21) || !has(81, 22) {
			t.Errorf("after the reload: table %v", table.want)
		}
	}
	if settled != 2 {
		t.Errorf("waited %d times, want 2", settled)
	}
	first := newBalancer(&fakeChecks{}, &fakeTable{}, func(string) {}, b.log)
	first.Ahead(t.Context(), []conf.VirtualServer{server(80)}, func(context.Context) error { t.Error("waited at the start"); return nil })
}
