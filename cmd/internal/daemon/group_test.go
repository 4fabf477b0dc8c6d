package daemon

import (
	"net/netip"
	"slices"
	"testing"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/ipvs"
)

// grouped is a virtual server of a group with services on these ports, and one firewall mark.
func grouped(ports ...uint16) conf.VirtualServer {
	v := server(80)
	v.Address, v.Group = netip.AddrPort{}, "web"
	for _, p := range ports {
		v.Members = append(v.Members, conf.Service{Address: netip.AddrPortFrom(netip.MustParseAddr("10.9.0.100"), p)})
	}
	v.Members = append(v.Members, conf.Service{FWMark: 7})
	for i := range v.RealServers {
		v.RealServers[i].Address = netip.AddrPortFrom(v.RealServers[i].Address.Addr(), 0)
	}
	return v
}

// TestGroupSharesChecks: the services of a group have one set of checks and one verdict; a server without a port of its
// own has that of each service; a reload that takes services away leaves the verdicts.
func TestGroupSharesChecks(t *testing.T) {
	b, checks, table := newTestBalancer(t, grouped(80, 443))
	const check = "TCP_CHECK 10.0.0.21:80"
	if keys := checks.keys(); len(keys) != 2 || keys[0] != check {
		t.Fatalf("checks %q", keys)
	}
	has := func(want bool, keys ...string) {
		t.Helper()
		if len(table.want) != len(keys) {
			t.Errorf("the table has %v, want %q", table.want, keys)
		}
		for _, text := range keys {
			k, err := ipvs.ParseKey(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, last := range []byte{21, 22} {
				a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), k.Address.Port())
				if _, ok := table.want[k].Destinations[a]; ok != (want || last == 22) {
					t.Errorf("%s: %s in the table: %v", text, a, ok)
				}
			}
		}
	}
	has(true, "tcp 10.9.0.100:80", "tcp 10.9.0.100:443", "fwmark 7 inet")
	checks.set(t, check, false)
	b.HealthChanged()
	has(false, "tcp 10.9.0.100:80", "tcp 10.9.0.100:443", "fwmark 7 inet")
	if err := b.Configure([]conf.VirtualServer{grouped(443, 8080)}); err != nil {
		t.Fatal(err)
	}
	has(false, "tcp 10.9.0.100:443", "tcp 10.9.0.100:8080", "fwmark 7 inet")
	checks.set(t, check, true)
	b.HealthChanged()
	has(true, "tcp 10.9.0.100:443", "tcp 10.9.0.100:8080", "fwmark 7 inet")
}

// TestGroupFound: a server that a crashed predecessor had taken out of the services of a group stays out.
func TestGroupFound(t *testing.T) {
	v := grouped(80, 443)
	found := ipvs.Table{}
	key := serviceKeys(&v)[1] // the first is new
	found.AddService(ipvs.Service{Key: key, Scheduler: "rr"})
	found.AddDestination(key, ipvs.Destination{Address: netip.MustParseAddrPort("10.0.0.22:443"), Method: ipvs.DR, Weight: 1})
	checks, table := &fakeChecks{}, &fakeTable{}
	b := newBalancer(checks, table, func(string) {}, zap.NewNop())
	b.Found(found)
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	for k, p := range table.want {
		if len(p.Destinations) != 1 {
			t.Errorf("%s has %v, want 10.0.0.22 alone", k, p.Destinations)
		}
	}
}

// TestGroupEvents: one line and one state for all services of a group.
func TestGroupEvents(t *testing.T) {
	var lines []string
	checks := &fakeChecks{}
	b := newBalancer(checks, &fakeTable{}, func(l string) { lines = append(lines, l) }, zap.NewNop())
	if err := b.Configure([]conf.VirtualServer{grouped(80, 443)}); err != nil {
		t.Fatal(err)
	}
	for _, k := range checks.keys() {
		checks.set(t, k, false)
	}
	b.HealthChanged()
	want := []string{"VS [web]:0 UP", "RS [10.0.0.21]:tcp:0 [web]:0 DOWN", "RS [10.0.0.22]:tcp:0 [web]:0 DOWN", "VS [web]:0 DOWN"}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
}

// TestEveryAttributeIsPlanned: what the configuration says of a service and its servers is in the wanted table.
func TestEveryAttributeIsPlanned(t *testing.T) {
	v := server(80)
	v.Protocol, v.Scheduler, v.OnePacket, v.Flag1, v.Flag2, v.Flag3 = "UDP", "mh", true, true, true, true
	v.Persistence, v.Granularity, v.PersistenceEngine = 60e9, 24, "sip"
	r := &v.RealServers[0]
	r.Method, r.Tunnel, r.UpperThreshold, r.LowerThreshold = "TUN", conf.Tunnel{Type: "gue", Port: 6080, Checksum: "remcsum"}, 9, 3
	v.RealServers[1].Method, v.RealServers[1].Tunnel = "TUN", conf.Tunnel{Type: "gre", Checksum: "csum"}
	_, _, table := newTestBalancer(t, v)
	const want = "-A -u 10.9.0.100:80 -s mh -p 60 -M 255.255.255.0 --ops --pe sip -b flag-1,flag-2,flag-3\n" +
		"-a -u 10.9.0.100:80 -r 10.0.0.21:80 -i -w 1 -x 9 -y 3 --tun-type gue --tun-port 6080 --tun-remcsum\n" +
		"-a -u 10.9.0.100:80 -r 10.0.0.22:80 -i -w 1 --tun-type gre --tun-csum\n"
	if got := table.want.String(); got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}
