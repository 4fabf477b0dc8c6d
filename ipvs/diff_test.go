package ipvs_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
)

func web() ipvs.Service {
	return ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"}.Normal()
}

func server(n, weight int) ipvs.Destination { return ipvstest.Server(web(), n, ipvs.DR, weight) }

func table(s ipvs.Service, dests ...ipvs.Destination) ipvs.Table {
	t := ipvs.Table{}
	t.AddService(s)
	for _, d := range dests {
		t.AddDestination(s.Key, d)
	}
	return t
}

func all(ipvs.Key) bool  { return true }
func none(ipvs.Key) bool { return false }

// TestDiffText: each change alone is the one operation that it should be, in order where it takes several.
func TestDiffText(t *testing.T) {
	edited := web()
	edited.Scheduler, edited.Persistence, edited.Granularity = "wrr", 360*time.Second, 24
	tunnel := server(1, 1)
	tunnel.Method = ipvs.TUN
	for _, c := range []struct {
		name       string
		have, want ipvs.Table
		ops        string
	}{
		{"nothing", table(web(), server(1, 1)), table(web(), server(1, 1)), ""},
		{"new", ipvs.Table{}, table(web(), server(2, 1), server(1, 1)), `
ipvsadm -A -t 10.9.0.100:80 -s wlc
ipvsadm -a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 1
ipvsadm -a -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 1`},
		{"gone", table(web(), server(1, 1)), ipvs.Table{}, `
ipvsadm -D -t 10.9.0.100:80`},
		{"service edited in place", table(web(), server(1, 1)), table(edited, server(1, 1)), `
ipvsadm -E -t 10.9.0.100:80 -s wrr -p 360 -M 255.255.255.0`},
		{"weight", table(web(), server(1, 1), server(2, 1)), table(web(), server(1, 1), server(2, 7)), `
ipvsadm -e -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 7`},
		{"weight 0", table(web(), server(1, 1), server(2, 1)), table(web(), server(1, 1), server(2, 0)), `
ipvsadm -e -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 0`},
		{"method", table(web(), server(1, 1)), table(web(), tunnel), `
ipvsadm -e -t 10.9.0.100:80 -r 10.9.1.1:80 -i -w 1`},
		{"sorry server in", table(web(), server(1, 1), server(2, 1)), table(web(), server(9, 1)), `
ipvsadm -a -t 10.9.0.100:80 -r 10.9.1.9:80 -g -w 1
ipvsadm -d -t 10.9.0.100:80 -r 10.9.1.1:80
ipvsadm -d -t 10.9.0.100:80 -r 10.9.1.2:80`},
		{"swap by weight", table(web(), server(1, 1), server(2, 0)), table(web(), server(1, 0), server(2, 1)), `
ipvsadm -e -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 1
ipvsadm -e -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			for _, op := range ipvs.Diff(c.have, c.want, all) {
				b.WriteString("\n" + op.String())
			}
			if b.String() != c.ops {
				t.Errorf("got%s\nwant%s", b.String(), c.ops)
			}
		})
	}
}

// TestDiffForeign: what is not ours stays; the twin is ours and goes.
func TestDiffForeign(t *testing.T) {
	have := table(web(), server(1, 1))
	if ops := ipvs.Diff(have, ipvs.Table{}, none); len(ops) != 0 {
		t.Errorf("foreign service touched: %v", ops)
	}
	if ops := ipvs.Diff(have, ipvs.Table{}, all); len(ops) != 1 {
		t.Errorf("own service not deleted: %v", ops)
	}
}

func TestOpString(t *testing.T) {
	v6 := ipvs.Service{Key: ipvs.AddressKey(ipvs.UDP, netip.MustParseAddrPort("[2001:db8::100]:53")), Scheduler: "rr", Flags: ipvs.FlagOnePacket}
	persistent := ipvs.Service{Key: ipvs.MarkKey(7, true), Scheduler: "sh", Flags: ipvs.FlagSched1 | ipvs.FlagSched2, Persistence: 1500 * time.Millisecond, Granularity: 64}
	sctp := ipvs.Service{Key: ipvs.AddressKey(ipvs.SCTP, netip.MustParseAddrPort("10.9.0.100:36412")), Scheduler: "lc"}
	sip := ipvs.Service{Key: ipvs.AddressKey(ipvs.UDP, netip.MustParseAddrPort("10.9.0.100:5060")), Scheduler: "wrr", Persistence: time.Minute, Engine: "sip"}
	limits := ipvs.Destination{Address: netip.MustParseAddrPort("10.9.1.1:8080"), Method: ipvs.NAT, Weight: 3, Upper: 10, Lower: 5}
	gue := ipvs.Destination{Address: netip.MustParseAddrPort("[2001:db8::1]:0"), Method: ipvs.TUN, Weight: 1, Tunnel: ipvs.Tunnel{Type: 1, Port: 6080, Flags: 1}}
	for want, op := range map[string]ipvs.Op{
		"ipvsadm -A -u 10.9.0.100:5060 -s wrr -p 60 --pe sip":                                     {Kind: ipvs.AddService, Service: sip},
		"ipvsadm -A -u [2001:db8::100]:53 -s rr --ops":                                            {Kind: ipvs.AddService, Service: v6},
		"ipvsadm -E -f 7 -6 -s sh -p 2 -M 64 -b flag-1,flag-2":                                    {Kind: ipvs.EditService, Service: persistent},
		"ipvsadm -D --sctp-service 10.9.0.100:36412":                                              {Kind: ipvs.DelService, Service: sctp},
		"ipvsadm -a -t 10.9.0.100:80 -r 10.9.1.1:8080 -m -w 3 -x 10 -y 5":                         {Kind: ipvs.AddDestination, Service: web(), Destination: limits},
		"ipvsadm -e -f 7 -6 -r [2001:db8::1]:0 -i -w 1 --tun-type gue --tun-port 6080 --tun-csum": {Kind: ipvs.EditDestination, Service: persistent, Destination: gue},
		"ipvsadm -d -f 7 -6 -r [2001:db8::1]:0":                                                   {Kind: ipvs.DelDestination, Service: persistent, Destination: gue},
	} {
		if got := op.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestKeyText(t *testing.T) {
	for _, want := range []string{"tcp 10.9.0.100:80", "udp [2001:db8::1]:53", "sctp 10.9.0.100:0", "fwmark 7 inet", "fwmark 4294967295 inet6"} {
		k, err := ipvs.ParseKey(want)
		if err != nil || k.String() != want {
			t.Errorf("%q: %v, %v", want, k, err)
		}
	}
	for _, bad := range []string{"", "tcp", "tcp 10.9.0.100", "icmp 10.9.0.100:80", "fwmark 0 inet", "fwmark 7", "fwmark 7 inet4", "fwmark 4294967296 inet"} {
		if k, err := ipvs.ParseKey(bad); err == nil {
			t.Errorf("%q is accepted as %v", bad, k)
		}
	}
	mapped := ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("[::ffff:10.9.0.100]:80"))
	if mapped != web().Key {
		t.Errorf("the mapped form is another key: %v", mapped)
	}
}

func TestNormal(t *testing.T) {
	s := web()
	s.Granularity = 24
	if n := s.Normal(); n.Granularity != 32 {
		t.Errorf("granularity without persistence is %d, want 32: it means nothing", n.Granularity)
	}
	s.Persistence = time.Millisecond
	if n := s.Normal(); n.Granularity != 24 || n.Persistence != time.Second {
		t.Errorf("got %v, want whole seconds and /24", n)
	}
}

// tables draws small tables over few keys, so that two of them often meet, with everything that services and servers can be.
func tables(t *rapid.T, label string) ipvs.Table {
	out := ipvs.Table{}
	for i, s := range ipvstest.Services()[:4] {
		if !rapid.Bool().Draw(t, fmt.Sprint(label, " has ", i)) {
			continue
		}
		s = ipvstest.DrawService(t, s)
		out.AddService(s)
		for n := range rapid.IntRange(0, 4).Draw(t, "servers") {
			out.AddDestination(s.Key, ipvstest.DrawServer(t, s, 1+(n+len(label))%5))
		}
	}
	return out
}

// TestDiffProperty: the operations lead from have to want on a strict kernel; a pool usable in both is so all the way;
// nothing that need not change is touched; nothing foreign is; no service in both tables is deleted.
func TestDiffProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := tables(t, "have"), tables(t, "want table")
		foreign := map[ipvs.Key]bool{}
		for k := range have {
			if _, ok := want[k]; !ok && rapid.Bool().Draw(t, "foreign") {
				foreign[k] = true
			}
		}
		now := ipvstest.New()
		for _, op := range ipvs.Diff(ipvs.Table{}, have, none) {
			now.Edit(op)
		}
		now.Observe(func(op ipvs.Op, err error, _, after ipvs.Pool) {
			k := op.Service.Key
			if err != nil {
				t.Fatalf("%s: %v", op, err)
			}
			if foreign[k] {
				t.Fatalf("%s touches a foreign service", op)
			}
			if _, ok := want[k]; ok && op.Kind == ipvs.DelService {
				t.Fatalf("%s deletes a wanted service", op)
			}
			if have[k].Usable() && want[k].Usable() && !after.Usable() {
				t.Fatalf("%s empties the pool", op)
			}
		})
		ops := ipvs.Diff(have, want, func(k ipvs.Key) bool { return !foreign[k] })
		now.Apply(ops)
		for k := range foreign {
			want[k] = have[k]
		}
		if !now.Table().Equal(want) {
			t.Fatalf("from\n%s\nto\n%s\nwant\n%s", have, now, want)
		}
		touched := map[ipvs.Target]bool{}
		removing := false
		for _, op := range ops {
			if touched[op.Target()] {
				t.Fatalf("%s: touched twice", op)
			}
			touched[op.Target()] = true
			if removing && !op.Removes() {
				t.Fatalf("%s comes after a removal", op)
			}
			removing = op.Removes()
		}
	})
}

// many makes a table of services with servers each.
func many(services, servers int) ipvs.Table {
	t := make(ipvs.Table, services)
	for i := range services {
		s := ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)), Scheduler: "wlc"}
		t.AddService(s)
		for n := range servers {
			t.AddDestination(s.Key, ipvs.Destination{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(n >> 8), byte(n)}), 80), Method: ipvs.DR, Weight: 1})
		}
	}
	return t
}

// TestDiffCountsAtScale: one change among 10,000 servers is one operation, none is none.
func TestDiffCountsAtScale(t *testing.T) {
	have := many(100, 100)
	want := have.Clone()
	if ops := ipvs.Diff(have, want, all); len(ops) != 0 {
		t.Fatalf("%d operations for no change", len(ops))
	}
	k := want.Keys()[50]
	d := want[k].Destinations[netip.MustParseAddrPort("10.2.0.7:80")]
	d.Weight = 9
	want.AddDestination(k, d)
	if ops := ipvs.Diff(have, want, all); len(ops) != 1 || ops[0].Destination != d {
		t.Fatalf("operations for one change: %v", ops)
	}
}

func BenchmarkDiff10000(b *testing.B) {
	for _, shape := range []struct{ services, servers int }{{100, 100}, {10000, 1}, {1, 10000}} {
		have := many(shape.services, shape.servers)
		want := have.Clone()
		b.Run(fmt.Sprintf("%dx%d", shape.services, shape.servers), func(b *testing.B) {
			for b.Loop() {
				if ops := ipvs.Diff(have, want, all); len(ops) != 0 {
					b.Fatal(len(ops))
				}
			}
		})
	}
}
