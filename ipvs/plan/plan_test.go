package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/plan"
)

// scenario is a virtual service that the commands of a file change step by step:
//
//	service [quorum=N] [sorry=ADDRESS:PORT]   starts anew; input: one server a line, "ADDRESS:PORT [weight=N] [inhibit]"
//	health ADDRESS:PORT=up|down|unknown …
//	weight ADDRESS:PORT=N …
//	set [quorum=N] [hysteresis=N] [sorry=ADDRESS:PORT|none] [sorry_inhibit=true|false] [standby=true|false]
//	set [min_up=SHARE] [drain_max=TIME] [protocol=tcp|udp] [persistence=TIME]
//	drain ADDRESS:PORT=forever|TIME|off …
//	pass-time TIME
//	count [ADDRESS:PORT=ACTIVE+INACTIVE …]    the kernel's table is read, with these connections
//	restart                                   what is known is forgotten, but for the kernel's table
//
// Servers have more words: "drain_failed", "slow_start=TIME". Each command prints the operations from the table before to
// the one after, then the state: "ADDRESS=WEIGHT", with "leaving", "kept" or "ramping".
type scenario struct {
	service plan.Service
	table   ipvs.Table
	memory  plan.Memory
	now     time.Time
	found   ipvs.Snapshot
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenario{}
		datadriven.RunTest(t, path, s.run)
	})
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.found = ipvs.Snapshot{}
	switch d.Cmd {
	case "service":
		*s = scenario{table: ipvs.Table{}, now: time.Unix(0, 0)}
		s.service = plan.Service{Service: ipvs.Service{
			Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"}}
		s.set(t, d)
		for line := range strings.Lines(d.Input) {
			s.service.Servers = append(s.service.Servers, parseServer(t, line))
		}
	case "set":
		s.set(t, d)
	case "health":
		s.each(t, d, func(r *plan.Server, v string) {
			r.Health, r.Since = map[string]plan.Health{"up": plan.Up, "down": plan.Down, "unknown": plan.Unknown}[v], s.now
		})
	case "drain":
		s.each(t, d, func(r *plan.Server, v string) { r.Drain = s.drain(t, v) })
	case "pass-time":
		s.now = s.now.Add(span(t, d.CmdArgs[0].Key))
	case "count":
		s.found = ipvs.Snapshot{Table: s.table.Clone(), Connections: map[ipvs.Target]ipvs.Connections{}}
		for a := range s.table[s.service.Key].Destinations {
			s.found.Connections[ipvs.Target{Service: s.service.Key, Destination: a}] = ipvs.Connections{}
		}
		for _, a := range d.CmdArgs {
			active, inactive, _ := strings.Cut(a.SingleVal(t), "+")
			s.found.Connections[ipvs.Target{Service: s.service.Key, Destination: netip.MustParseAddrPort(a.Key)}] = ipvs.Connections{
				Active: uint32(number(t, active)), Inactive: uint32(number(t, inactive))}
		}
	case "restart":
		s.memory = plan.Remember(s.table)
	case "weight":
		s.each(t, d, func(r *plan.Server, v string) { r.Weight = number(t, v) })
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return s.step()
}

func (s *scenario) set(t *testing.T, d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		switch v := a.SingleVal(t); a.Key {
		case "min_up":
			share, err := strconv.ParseFloat(v, 64)
			if err != nil {
				t.Fatal(err)
			}
			s.service.MinUp = share
		case "persistence":
			s.service.Persistence = span(t, v)
		case "drain_max":
			s.service.DrainMax = span(t, v)
		case "protocol":
			s.service.Key = ipvs.AddressKey(map[string]ipvs.Protocol{"tcp": ipvs.TCP, "udp": ipvs.UDP}[v], s.service.Address)
		case "quorum":
			s.service.Quorum = number(t, v)
		case "sorry":
			s.service.Sorry = nil
			if v != "none" {
				s.service.Sorry = &plan.Sorry{Address: netip.MustParseAddrPort(v), Method: ipvs.NAT}
			}
		case "hysteresis":
			s.service.Hysteresis = number(t, v)
		case "sorry_inhibit":
			s.service.Sorry.Inhibit = v == "true"
		case "standby":
			s.service.Standby = v == "true"
		default:
			d.Fatalf(t, "unknown setting %s", a.Key)
		}
	}
}

func (s *scenario) each(t *testing.T, d *datadriven.TestData, f func(*plan.Server, string)) {
	for _, a := range d.CmdArgs {
		found := false
		for i := range s.service.Servers {
			if s.service.Servers[i].Address.String() == a.Key {
				f(&s.service.Servers[i], a.SingleVal(t))
				found = true
			}
		}
		if !found {
			d.Fatalf(t, "no server %s", a.Key)
		}
	}
}

func (s *scenario) step() string {
	out := plan.Desired(plan.Input{Services: []plan.Service{s.service}, Now: s.now, Before: s.memory, Found: s.found, ReadAt: s.now.Add(time.Nanosecond)})
	s.memory = out.After
	var b strings.Builder
	for _, op := range ipvs.Diff(s.table, out.Table, func(ipvs.Key) bool { return true }) {
		fmt.Fprintln(&b, strings.TrimPrefix(op.String(), "ipvsadm "))
	}
	s.table = out.Table
	st := out.Services[0]
	s.service.WasUp = st.State == plan.StateUp
	fmt.Fprintf(&b, "%s, live weight %d:", st.State, st.LiveWeight)
	for _, r := range append(st.Servers, st.Others...) {
		switch {
		case r.Present:
			fmt.Fprintf(&b, " %s=%d", r.Address, r.Weight)
		default:
			fmt.Fprintf(&b, " %s out", r.Address)
		}
		for word, on := range map[string]bool{" leaving": r.Leaving, " kept": r.Kept, " ramping": r.Ramping} {
			if on {
				b.WriteString(word)
			}
		}
	}
	b.WriteString("\n")
	if !out.Next.IsZero() {
		fmt.Fprintf(&b, "again in %v\n", out.Next.Sub(s.now))
	}
	return b.String()
}

func (s *scenario) drain(t *testing.T, v string) *plan.Drain {
	switch v {
	case "off":
		return nil
	case "forever":
		return &plan.Drain{}
	}
	return &plan.Drain{Until: s.now.Add(span(t, v))}
}

func span(t *testing.T, v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func parseServer(t *testing.T, line string) plan.Server {
	words := strings.Fields(line)
	r := plan.Server{Address: netip.MustParseAddrPort(words[0]), Method: ipvs.DR, Weight: 1}
	for _, w := range words[1:] {
		if v, ok := strings.CutPrefix(w, "weight="); ok {
			r.Weight = number(t, v)
		} else if v, ok := strings.CutPrefix(w, "slow_start="); ok {
			r.SlowStart = span(t, v)
		} else if w == "inhibit" {
			r.Inhibit = true
		} else if w == "drain_failed" {
			r.DrainFailed = true
		} else {
			t.Fatalf("unknown word %q in %q", w, line)
		}
	}
	return r
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestO51WeightProperty is case O51: whatever happened before, in the table a healthy server of a service that is not SORRY
// has its configured weight, a failed one is absent or has weight 0, and only a needed sorry server is there.
func TestO51WeightProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plan.Service{Service: ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"}}
		s.Quorum = rapid.IntRange(0, 4).Draw(t, "quorum")
		for i := range rapid.IntRange(0, 4).Draw(t, "servers") {
			s.Servers = append(s.Servers, plan.Server{
				Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(i)}), 80), Method: ipvs.DR,
				Weight: rapid.IntRange(0, 3).Draw(t, "weight"), Inhibit: rapid.Bool().Draw(t, "inhibit"),
				Health: rapid.SampledFrom([]plan.Health{plan.Unknown, plan.Up, plan.Down}).Draw(t, "health"),
				Upper:  uint32(rapid.IntRange(0, 9).Draw(t, "upper")), Tunnel: rapid.SampledFrom(ipvstest.Tunnels()).Draw(t, "tunnel"),
			})
		}
		s.More = []ipvs.Key{ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:81")), ipvs.MarkKey(7, false)}[:rapid.IntRange(0, 2).Draw(t, "more")]
		if rapid.Bool().Draw(t, "sorry") {
			s.Sorry = &plan.Sorry{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(rapid.IntRange(0, 5).Draw(t, "sorry is"))}), 80)}
		}
		out := plan.Desired(plan.Input{Services: []plan.Service{s}})
		pool, st := out.Table[s.Key].Destinations, out.Services[0]
		live := 0
		for _, r := range s.Servers {
			if r.Health != plan.Down {
				live += r.Weight
			}
		}
		want := plan.StateUp
		if live < max(s.Quorum, 1) {
			if want = plan.StateDown; s.Sorry != nil {
				want = plan.StateSorry
			}
		}
		if st.State != want || st.LiveWeight != live {
			t.Fatalf("state %s, live weight %d; want %s, %d", st.State, st.LiveWeight, want, live)
		}
		sorry := st.State == plan.StateSorry
		if sorry {
			if d, ok := pool[s.Sorry.Address]; !ok || d.Weight != 1 {
				t.Fatalf("sorry server missing: %v", pool)
			}
		}
		seen := map[netip.AddrPort]bool{}
		for i, r := range s.Servers {
			seen[r.Address] = true
			d, ok := pool[r.Address]
			switch {
			case sorry && r.Address == s.Sorry.Address: // checked above
			case r.Health != plan.Down && !sorry && (!ok || d.Weight != r.Weight):
				t.Fatalf("%v is %v in the table, want weight %d", r, d, r.Weight)
			case (r.Health == plan.Down || sorry) && d.Weight != 0:
				t.Fatalf("%v still has weight %d", r, d.Weight)
			case r.Health == plan.Down && ok != r.Inhibit:
				t.Fatalf("%v: present %v", r, ok)
			case ok != st.Servers[i].Present || d.Weight != st.Servers[i].Weight:
				t.Fatalf("%v is %v in the table but reported as %v", r, d, st.Servers[i])
			}
		}
		for i, r := range s.Servers {
			if d, ok := pool[r.Address]; ok && st.Servers[i].Present && !(sorry && r.Address == s.Sorry.Address) && (d.Upper != r.Upper || d.Tunnel != r.Tunnel) {
				t.Fatalf("%v is %v in the table", r, d)
			}
		}
		for _, k := range s.More {
			if p := out.Table[k]; p.Service.Scheduler != s.Scheduler || !maps.Equal(p.Destinations, pool) {
				t.Fatalf("%s has %v, and the first service %v", k, p, pool)
			}
		}
		if len(out.Table) != 1+len(s.More) {
			t.Fatalf("%d services", len(out.Table))
		}
		for a := range pool {
			if !seen[a] && (!sorry || a != s.Sorry.Address) {
				t.Fatalf("%s is in the table uninvited", a)
			}
		}
	})
}

func BenchmarkDesired10000(b *testing.B) {
	var in plan.Input
	for i := range 100 {
		s := plan.Service{Service: ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 80)), Scheduler: "wlc"}}
		for n := range 100 {
			s.Servers = append(s.Servers, plan.Server{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(n)}), 80), Weight: 1})
		}
		in.Services = append(in.Services, s)
	}
	for b.Loop() {
		plan.Desired(in)
	}
}

// TestGroupPorts: a server without a port of its own has that of each service of a group, one with a port has it in all.
func TestGroupPorts(t *testing.T) {
	s := plan.Service{
		Service: ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"},
		More:    []ipvs.Key{ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:443")), ipvs.MarkKey(7, false)},
		Servers: []plan.Server{{Address: netip.MustParseAddrPort("10.9.1.1:0"), Method: ipvs.DR, Weight: 1}, {Address: netip.MustParseAddrPort("10.9.1.2:8080"), Method: ipvs.NAT, Weight: 1}},
		Sorry:   &plan.Sorry{Address: netip.MustParseAddrPort("10.9.1.9:0"), Method: ipvs.DR},
	}
	const want = `-A -t 10.9.0.100:80 -s wlc
-a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 1
-a -t 10.9.0.100:80 -r 10.9.1.2:8080 -m -w 1
-A -t 10.9.0.100:443 -s wlc
-a -t 10.9.0.100:443 -r 10.9.1.1:443 -g -w 1
-a -t 10.9.0.100:443 -r 10.9.1.2:8080 -m -w 1
-A -f 7 -s wlc
-a -f 7 -r 10.9.1.1:0 -g -w 1
-a -f 7 -r 10.9.1.2:8080 -m -w 1
`
	if got := plan.Desired(plan.Input{Services: []plan.Service{s}}).Table.String(); got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
	s.Quorum = 3
	const sorry = `-A -t 10.9.0.100:80 -s wlc
-a -t 10.9.0.100:80 -r 10.9.1.9:80 -g -w 1
-A -t 10.9.0.100:443 -s wlc
-a -t 10.9.0.100:443 -r 10.9.1.9:443 -g -w 1
-A -f 7 -s wlc
-a -f 7 -r 10.9.1.9:0 -g -w 1
`
	if got := plan.Desired(plan.Input{Services: []plan.Service{s}}).Table.String(); got != sorry {
		t.Errorf("below the quorum the table is\n%swant\n%s", got, sorry)
	}
}

// TestGroupRamp: a server of a group goes on with its slow start when a reload puts a new service before the others.
func TestGroupRamp(t *testing.T) {
	web := ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80"))
	s := plan.Service{
		Service: ipvs.Service{Key: web, Scheduler: "wlc"},
		Servers: []plan.Server{{Address: netip.MustParseAddrPort("10.9.1.1:0"), Weight: 100, SlowStart: 10 * time.Second}},
	}
	now := time.Unix(1000, 0)
	out := plan.Desired(plan.Input{Services: []plan.Service{s}, Now: now, Before: plan.Remember(ipvs.Table{web: {}})})
	for i, want := range []int{10, 20} {
		now = now.Add(time.Second)
		s.Key, s.More = ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort(fmt.Sprintf("10.9.0.100:%d", 90+i))), append(s.More, s.Key)
		out = plan.Desired(plan.Input{Services: []plan.Service{s}, Now: now, Before: out.After})
		for k, p := range out.Table {
			for a, d := range p.Destinations {
				if d.Weight != want {
					t.Errorf("%s: %s has weight %d, want %d", k, a, d.Weight, want)
				}
			}
		}
	}
}

// TestPlanKeepsPools: what nothing has changed is not made anew, and a plan never writes to what it shares with the one
// before.
func TestPlanKeepsPools(t *testing.T) {
	service := func(port uint16) plan.Service {
		return plan.Service{
			Service: ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(netip.MustParseAddr("10.9.0.100"), port)), Scheduler: "wlc"},
			Servers: []plan.Server{{Address: netip.MustParseAddrPort("10.9.1.1:80"), Weight: 1}, {Address: netip.MustParseAddrPort("10.9.1.2:80"), Weight: 1}},
			Sorry:   &plan.Sorry{Address: netip.MustParseAddrPort("10.9.1.9:80")},
		}
	}
	in := plan.Input{Services: []plan.Service{service(80), service(81)}, Now: time.Unix(1000, 0)}
	before := plan.Desired(in)
	shared := func(a, b ipvs.Table, i int) bool {
		k := in.Services[i].Key
		return reflect.ValueOf(a[k].Destinations).Pointer() == reflect.ValueOf(b[k].Destinations).Pointer()
	}
	for _, change := range []func(s *plan.Service){
		func(s *plan.Service) { s.Scheduler = "rr" },
		func(s *plan.Service) { s.Servers[0].Weight = 2 },
		func(s *plan.Service) { s.Servers = s.Servers[:1] },
		func(s *plan.Service) { s.Quorum = 3 },
		func(s *plan.Service) { s.Sorry.Inhibit = true },
		func(s *plan.Service) { s.Servers[0].Drain = &plan.Drain{} },
		func(s *plan.Service) { s.Standby = true },
	} {
		text := before.Table.String()
		in.Services = []plan.Service{service(80), service(81)}
		change(&in.Services[1])
		in.Before = before.After
		after := plan.Desired(in)
		if !shared(before.Table, after.Table, 0) || before.Table.String() != text {
			t.Errorf("the first service was made anew, or the table before was changed:\n%s", before.Table)
		}
		if after.Table.Equal(before.Table) {
			t.Errorf("the second service did not change:\n%s", after.Table)
		}
	}
}
