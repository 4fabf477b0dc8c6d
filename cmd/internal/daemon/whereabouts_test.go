package daemon

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/ipvs"
	"vipd/vrrp/host"
)

// fakeAddresses are the addresses of instances; they go when the test says so.
type fakeAddresses struct {
	mu      sync.Mutex
	present bool
	wanted  bool
}

func (f *fakeAddresses) Want(_ string, present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = present
	f.present = f.present || present
}

func (f *fakeAddresses) Status() []host.InstanceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []host.InstanceStatus{{Instance: "VI_1", Wanted: f.wanted, Addresses: []host.AddressStatus{{Present: f.present}}}}
}

func (f *fakeAddresses) isWanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}

func (f *fakeAddresses) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present = false
}

// placed is a balancer whose first service is at 10.9.0.100, with its places.
func placed(t *testing.T, change func(*conf.VirtualServer)) (*balancer, *whereabouts, *fakeAddresses, *fakeChecks, *fakeTable) {
	t.Helper()
	v := server(80)
	change(&v)
	checks, table, addresses := &fakeChecks{}, &fakeTable{}, &fakeAddresses{}
	b := newBalancer(checks, table, func(string) {}, zap.NewNop())
	p := newWhereabouts(addresses, b.Moved, zap.NewNop())
	b.places = p
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	return b, p, addresses, checks, table
}

func running(t *testing.T, p *whereabouts) {
	go func() {
		if err := p.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
}

// With active_on the service is there from when the instance wants its addresses until they are gone, and not a second
// longer if they stay. The checks do not care.
func TestActiveOnMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, addresses, checks, table := placed(t, func(v *conf.VirtualServer) { v.ActiveOn = "VI_1" })
		running(t, p)
		is := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if table.has(22) != want || len(checks.states) != 2 {
				t.Errorf("%s: in the table %v, %d checks", when, table.has(22), len(checks.states))
			}
		}
		is("at the start", false)
		p.Want("VI_2", true)
		is("when another instance is MASTER", false)
		p.Want("VI_1", true)
		is("as MASTER", true)
		checks.set(t, check21, false)
		b.HealthChanged()
		if table.has(21) {
			t.Error("a dead server is in the table")
		}
		p.Want("VI_1", false)
		time.Sleep(goneWithin / 2)
		is("as BACKUP with addresses", true)
		addresses.remove()
		time.Sleep(2 * goneEvery)
		is("without addresses", false)
		checks.set(t, check21, true)
		b.HealthChanged()
		is("as BACKUP", false)
		p.Want("VI_1", true)
		p.Want("VI_1", false)
		p.Want("VI_1", true)
		time.Sleep(2 * goneWithin)
		is("as MASTER again", true)
		if !table.has(21) {
			t.Error("what the checks found while on standby does not count")
		}
		p.Want("VI_1", false)
		time.Sleep(goneWithin + 2*goneEvery)
		is("as BACKUP with addresses that stay", false)
	})
}

// With active_on the addresses come when the table has the services, or after a while without; where no service follows
// the instance they come at once; and not at all when it is no more MASTER by then.
func TestServicesBeforeAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, addresses, _, table := placed(t, func(v *conf.VirtualServer) { v.ActiveOn = "VI_1" })
		takes, asked := time.Duration(0), 0
		p.settled = func(ctx context.Context) error {
			if asked++; !table.has(22) {
				t.Error("asked for the services before they were wanted")
			}
			select {
			case <-ctx.Done():
			case <-time.After(takes):
			}
			return ctx.Err()
		}
		running(t, p)
		synctest.Wait()
		for _, c := range []struct{ takes, want time.Duration }{{0, 0}, {30 * time.Millisecond, 30 * time.Millisecond}, {time.Minute, comeWithin}} {
			takes = c.takes
			began := time.Now()
			p.Want("VI_1", true)
			p.Want("VI_1", true)
			time.Sleep(c.want - 1)
			if c.want > 0 && addresses.isWanted() {
				t.Errorf("the services take %v: the addresses came before %v", c.takes, c.want)
			}
			time.Sleep(time.Until(began.Add(c.want)))
			if synctest.Wait(); !addresses.isWanted() {
				t.Errorf("the services take %v: no addresses after %v", c.takes, c.want)
			}
			p.Want("VI_1", true) // nothing to wait for
			p.Want("VI_1", false)
			addresses.remove()
			time.Sleep(goneWithin + 2*goneEvery)
		}
		takes = 30 * time.Millisecond
		p.Want("VI_1", true)
		time.Sleep(10 * time.Millisecond)
		p.Want("VI_1", false)
		time.Sleep(2 * comeWithin)
		if addresses.isWanted() {
			t.Error("the addresses came when the instance was no more MASTER")
		}
		was := asked
		p.Want("VI_2", true)
		if !addresses.isWanted() || asked != was {
			t.Error("the addresses of an instance without such services waited")
		}
	})
}

// With ha_suspend checks run while the address is here; what they found holds until they run again.
func TestHASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, _, checks, table := placed(t, func(v *conf.VirtualServer) { v.HASuspend = true })
		running(t, p)
		at := func(addrs ...string) {
			l := &host.Link{}
			for _, a := range addrs {
				l.Addrs = append(l.Addrs, host.Addr{Prefix: netip.MustParsePrefix(a)})
			}
			p.State(&host.State{Links: map[string]*host.Link{"eth0": l}})
			synctest.Wait()
		}
		is := func(when string, n int, in21 bool) {
			t.Helper()
			if len(checks.states) != n || table.has(21) != in21 || !table.has(22) {
				t.Errorf("%s: %d checks, table %v", when, len(checks.states), table.want)
			}
			if v := b.View(); (v.services[0].held != nil) != (n == 0) {
				t.Errorf("%s: held %v", when, v.services[0].held)
			}
		}
		is("before anything is known of the host", 0, true)
		at("10.9.0.99/32")
		is("without the address", 0, true)
		at("10.9.0.99/32", "10.9.0.100/32")
		is("with the address", 2, true)
		checks.set(t, check21, false)
		b.HealthChanged()
		is("when a server failed", 2, false)
		at("10.9.0.99/32")
		is("when the address has gone", 0, false)
		if err := b.Configure([]conf.VirtualServer{*b.services[0].conf}); err != nil {
			t.Fatal(err)
		}
		is("after a reload", 0, false)
		at("10.9.0.100/32")
		is("when it is back", 2, false)
		if st := checks.states[check21]; !st.Inherited || st.Healthy {
			t.Errorf("the check begins with %+v", st)
		}
		checks.set(t, check21, true)
		b.HealthChanged()
		is("when the server is back", 2, true)
	})
}

// A service that a crashed vipd had UP between the two limits of its hysteresis is UP after the restart; one that was in
// its sorry state is not.
func TestHysteresisOutlivesACrash(t *testing.T) {
	for _, sorry := range []bool{false, true} {
		v := server(80)
		v.Quorum, v.Hysteresis = 2, 1
		v.Sorry = &conf.Sorry{Address: netip.MustParseAddrPort("10.0.0.99:80"), Method: "DR"}
		found := ipvs.Table{}
		found.AddService(planService(&v).Service)
		in := v.RealServers[0].Address
		if sorry {
			in = v.Sorry.Address
		}
		found.AddDestination(serviceKeys(&v)[0], ipvs.Destination{Address: in, Method: ipvs.DR, Weight: 1})
		checks, table := &fakeChecks{}, &fakeTable{}
		b := newBalancer(checks, table, func(string) {}, zap.NewNop())
		b.Found(found)
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
		if table.has(99) != sorry || table.has(21) == sorry {
			t.Errorf("sorry %v: table %v", sorry, table.want)
		}
		if i := slices.IndexFunc(v.RealServers, func(r conf.RealServer) bool { return r.Address == in }); i >= 0 && b.services[0].servers[i].now == healthcheck.Down {
			t.Errorf("sorry %v: what was in counts as down", sorry)
		}
	}
}

// After a crash servers with alpha that the kernel has stay in; the others, and all at a first start, wait for a check.
func TestAlphaAfterACrash(t *testing.T) {
	for _, crash := range []bool{false, true} {
		v := server(80)
		for i := range v.RealServers {
			v.RealServers[i].Checks[0].Alpha = true
		}
		found := ipvs.Table{}
		if crash {
			found.AddService(planService(&v).Service)
			found.AddDestination(serviceKeys(&v)[0], ipvs.Destination{Address: v.RealServers[1].Address, Method: ipvs.DR, Weight: 1})
		}
		table := &fakeTable{}
		b := newBalancer(&fakeChecks{}, table, func(string) {}, zap.NewNop())
		b.Found(found)
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
		if table.has(21) || table.has(22) != crash {
			t.Errorf("crash %v: table %v", crash, table.want)
		}
	}
}
