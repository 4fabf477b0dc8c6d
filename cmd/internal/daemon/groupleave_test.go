package daemon

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/vrrp/host"
)

// groupKeys are the services of grouped(80, 443).
func groupKeys() [3]ipvs.Key {
	at := func(port uint16) ipvs.Key {
		return ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(netip.MustParseAddr("10.9.0.100"), port))
	}
	return [3]ipvs.Key{at(80), at(443), ipvs.MarkKey(7, false)}
}

// in are the weights of a server in the services of grouped(80, 443), at the port of each; -1 for one that is out.
func (f *fakeTable) in(last byte) (out [3]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, k := range groupKeys() {
		out[i] = -1
		if d, ok := f.want[k].Destinations[netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), k.Address.Port())]; ok {
			out[i] = d.Weight
		}
	}
	return out
}

// connected has a server hold so many connections of each service, and others none.
func (f *fakeTable) connected(last byte, counts [3]uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = map[ipvs.Target]ipvs.Connections{}
	for i, k := range groupKeys() {
		for _, l := range []byte{21, 22, 99} {
			t := ipvs.Target{Service: k, Destination: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, l}), k.Address.Port())}
			f.counts[t] = ipvs.Connections{}
			if l == last {
				f.counts[t] = ipvs.Connections{Active: counts[i]}
			}
		}
	}
}

// withGroup runs a balancer with one group in a bubble.
func withGroup(t *testing.T, v conf.VirtualServer, f func(b *balancer, checks *fakeChecks, table *fakeTable)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		checks, table := &fakeChecks{}, &fakeTable{}
		b := newBalancer(checks, table, func(string) {}, zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		v.Name, v.DrainMax = "group web tcp", time.Minute
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
		f(b, checks, table)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (f *fakeTable) expect(t *testing.T, when string, last byte, want [3]int) {
	t.Helper()
	synctest.Wait()
	if got := f.in(last); got != want {
		t.Errorf("%s: server %d has the weights %v, want %v", when, last, got, want)
	}
}

// shown is the status of the only service.
func shown(b *balancer, table *fakeTable) status.VirtualServer {
	v := b.View()
	st, _ := table.Refresh(context.Background())
	return serviceStatus(v.services[0], v, 0, st)
}

// TestGroupDrain: a drained server leaves each service of its group when that has no connection of it, and is shown as
// draining until the last has none. A single service of the group cannot be chosen.
func TestGroupDrain(t *testing.T) {
	withGroup(t, grouped(80, 443), func(b *balancer, _ *fakeChecks, table *fakeTable) {
		table.connected(21, [3]uint32{1, 1, 0})
		for _, one := range []string{"tcp 10.9.0.100:443", "10.9.0.100:443", "fwmark 7 inet"} {
			if text, err := b.Order(control.Order{Action: control.Drain, Server: "10.0.0.21", Service: one}); err == nil || !strings.Contains(err.Error(), `--service "group web tcp"`) {
				t.Errorf("drain in %s: %q, %v", one, text, err)
			}
		}
		for server, want := range map[string]string{"10.0.0.21:80": "10.0.0.21 in group web tcp has no port of its own", "10.0.0.29:80": "there are: 10.0.0.21, 10.0.0.22"} {
			if text, err := b.Order(control.Order{Action: control.Drain, Server: server}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("drain of %s: %q, %v; want %q", server, text, err, want)
			}
		}
		table.expect(t, "after a wrong order", 21, [3]int{1, 1, 1})
		b.mustOrder(t, control.Order{Action: control.Drain, Service: "web"}, "10.0.0.21 in group web tcp: takes no new connections")
		table.expect(t, "drained", 21, [3]int{0, 0, 0})
		began := shown(b, table).RealServers[0].Since
		time.Sleep(2 * countEvery)
		table.expect(t, "where nobody is connected", 21, [3]int{0, 0, -1})
		table.connected(21, [3]uint32{0, 1, 0})
		time.Sleep(2 * countEvery)
		table.expect(t, "where nobody is connected any more", 21, [3]int{-1, 0, -1})
		if r := shown(b, table).RealServers[0]; r.State != "DRAINING" || !r.Leaving || !r.Since.Equal(began) || r.Since.IsZero() || r.ActiveConnections != 1 {
			t.Errorf("status of the server that leaves: %+v, and it began at %v", r, began)
		}
		table.expect(t, "the other", 22, [3]int{1, 1, 1})
		table.connected(21, [3]uint32{})
		time.Sleep(2 * countEvery)
		table.expect(t, "without connections", 21, [3]int{-1, -1, -1})
		b.mustOrder(t, control.Order{Action: control.Undrain, Service: "group web tcp"}, "takes connections again")
		table.expect(t, "undrained", 21, [3]int{1, 1, 1})
		seven := 7
		b.mustOrder(t, control.Order{Action: control.Weight, Weight: &seven, Service: "web"}, "weight 7")
		table.expect(t, "with a weight", 21, [3]int{7, 7, 7})
	})
}

// TestGroupServerWithAPort: a server of the group that is given a port of its own by a reload stays where it has that
// port already, leaves the other services, and is no longer shown as leaving then.
func TestGroupServerWithAPort(t *testing.T) {
	withGroup(t, grouped(80, 443), func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.connected(21, [3]uint32{1, 1, 1})
		next := grouped(80, 443)
		next.DrainMax = time.Minute
		next.RealServers[0].Address = netip.MustParseAddrPort("10.0.0.21:80")
		if err := b.Configure([]conf.VirtualServer{next}); err != nil {
			t.Fatal(err)
		}
		table.expect(t, "reloaded", 21, [3]int{1, 0, 0})
		if n := len(shown(b, table).RealServers); n != 3 {
			t.Errorf("%d servers are shown, want both and the one that leaves", n)
		}
		table.connected(21, [3]uint32{1, 0, 0})
		time.Sleep(2 * countEvery)
		table.expect(t, "without connections elsewhere", 21, [3]int{1, -1, -1})
		if n := len(shown(b, table).RealServers); n != 2 {
			t.Errorf("%d servers are shown, want 2", n)
		}
	})
}

// TestGroupSorry: below the quorum all services of a group have the sorry server, at their own ports; it leaves each of
// them when its connections there have ended.
func TestGroupSorry(t *testing.T) {
	v := grouped(80, 443)
	v.Quorum, v.Sorry = 2, &conf.Sorry{Address: netip.MustParseAddrPort("10.0.0.99:0"), Method: "DR"}
	withGroup(t, v, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.expect(t, "above the quorum", 99, [3]int{-1, -1, -1})
		checks.set(t, check21, false)
		b.HealthChanged()
		table.expect(t, "below the quorum", 99, [3]int{1, 1, 1})
		table.expect(t, "below the quorum", 22, [3]int{0, 0, 0}) // as long as it has connections
		table.connected(99, [3]uint32{0, 2, 0})
		checks.set(t, check21, true)
		b.HealthChanged()
		time.Sleep(2 * countEvery)
		table.expect(t, "above it again", 22, [3]int{1, 1, 1})
		table.expect(t, "above it again", 99, [3]int{-1, 0, -1})
		all := shown(b, table).RealServers
		if r := all[len(all)-1]; len(all) != 3 || r.Address != "10.0.0.99:443" || !r.Sorry || !r.Leaving || !r.Present || r.ActiveConnections != 2 {
			t.Errorf("status of the sorry server: %+v", r)
		}
	})
}

// TestGroupPlaces: with active_on all services of a group come and go with the instance; with ha_suspend its checks run
// while one of its addresses is here.
func TestGroupPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, addresses, checks, table := placed(t, func(v *conf.VirtualServer) {
			*v = grouped(80, 443)
			v.Members = append(v.Members, conf.Service{Address: netip.MustParseAddrPort("10.9.0.101:80")})
			v.ActiveOn, v.HASuspend = "VI_1", true
		})
		running(t, p)
		is := func(when string, services, n int) {
			t.Helper()
			synctest.Wait()
			if len(table.want) != services || len(checks.states) != n {
				t.Errorf("%s: %d services and %d checks, want %d and %d", when, len(table.want), len(checks.states), services, n)
			}
		}
		at := func(address string) {
			p.State(&host.State{Links: map[string]*host.Link{"eth0": {Addrs: []host.Addr{{Prefix: netip.MustParsePrefix(address)}}}}})
		}
		is("at the start", 0, 0)
		p.Want("VI_1", true)
		is("as MASTER", 4, 0)
		at("10.9.0.101/32")
		is("with one of the addresses", 4, 2)
		at("10.9.0.102/32")
		is("with another address", 4, 0)
		p.Want("VI_1", false)
		addresses.remove()
		time.Sleep(2 * goneEvery)
		is("as BACKUP", 0, 0)
	})
}
