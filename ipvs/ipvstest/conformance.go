package ipvstest

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// Subject is an IPVS to test.
type Subject interface {
	Read() (ipvs.Snapshot, error)
	Same(t ipvs.Table) (bool, error)
	Apply(ops []ipvs.Op) []error
}

// Services returns one service of every kind: TCP, UDP, SCTP and firewall mark, in both families.
func Services() []ipvs.Service {
	var out []ipvs.Service
	for _, a := range []string{"10.9.0.100:80", "[2001:db8::100]:80"} {
		for _, p := range []ipvs.Protocol{ipvs.TCP, ipvs.UDP, ipvs.SCTP} {
			out = append(out, ipvs.Service{Key: ipvs.AddressKey(p, netip.MustParseAddrPort(a)), Scheduler: "wlc"}.Normal())
		}
	}
	for _, v6 := range []bool{false, true} {
		out = append(out, ipvs.Service{Key: ipvs.MarkKey(7, v6), Scheduler: "rr"}.Normal())
	}
	return out
}

// Server returns the n-th (1..254) server for a service, of its family.
func Server(s ipvs.Service, n int, m ipvs.Method, weight int) ipvs.Destination {
	a := netip.AddrFrom4([4]byte{10, 9, 1, byte(n)})
	if s.IPv6 {
		a = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: byte(n)})
	}
	return ipvs.Destination{Address: netip.AddrPortFrom(a, s.Address.Port()), Method: m, Weight: weight}
}

// Conformance checks that k keeps what it is told and refuses what the kernel refuses, one change at a time and in
// batches. k must be empty and is left empty.
func Conformance(t *testing.T, k Subject) {
	t.Helper()
	for _, s := range Services() {
		t.Run(s.Key.String(), func(t *testing.T) {
			t.Run("life", func(t *testing.T) { life(t, k, s) })
			t.Run("errors", func(t *testing.T) { refusals(t, k, s) })
		})
	}
	t.Run("batch", func(t *testing.T) { batch(t, k) })
}

// tester applies changes to the subject and to a model, which must stay equal.
type tester struct {
	*testing.T
	k     Subject
	model ipvs.Table
}

func (c *tester) apply(ops ...ipvs.Op) {
	c.Helper()
	for i, err := range c.k.Apply(ops) {
		if err != nil {
			c.Fatalf("%s: %v", ops[i], err)
		}
		c.model.Apply(ops[i])
	}
	c.check()
}

func (c *tester) check() {
	c.Helper()
	got, err := c.k.Read()
	if err != nil {
		c.Fatal(err)
	}
	if !got.Table.Equal(c.model) {
		c.Fatalf("table is\n%s\nwant\n%s\n%#v\n%#v", got.Table, c.model, got.Table, c.model)
	}
	if same, err := c.k.Same(c.model); err != nil || !same {
		c.Fatalf("Same says %v, %v for\n%s", same, err, c.model)
	}
	for key, p := range c.model {
		other := c.model.Clone()
		delete(other, key)
		if same, err := c.k.Same(other); err != nil || !same {
			c.Fatalf("Same does not pass over another's service %s: %v, %v", key, same, err)
		}
		c.sees(key, p)
	}
}

// sees checks that Same notices every attribute of a service, and of one of its servers, that is not as it should be.
func (c *tester) sees(key ipvs.Key, p ipvs.Pool) {
	c.Helper()
	notices := func(what string, change func(ipvs.Table)) {
		c.Helper()
		other := c.model.Clone()
		change(other)
		if same, err := c.k.Same(other); err != nil || same {
			c.Fatalf("Same does not see %s of %s: %v", what, key, err)
		}
	}
	for what, change := range map[string]func(*ipvs.Service){
		"the scheduler":   func(s *ipvs.Service) { s.Scheduler += "x" },
		"one-packet":      func(s *ipvs.Service) { s.Flags ^= ipvs.FlagOnePacket },
		"a flag":          func(s *ipvs.Service) { s.Flags ^= ipvs.FlagSched1 },
		"the last flag":   func(s *ipvs.Service) { s.Flags ^= ipvs.FlagSched3 },
		"the engine":      func(s *ipvs.Service) { s.Engine += "x" },
		"the persistence": func(s *ipvs.Service) { s.Persistence += 7 * time.Second },
	} {
		notices(what, func(t ipvs.Table) { s := p.Service; change(&s); t.AddService(s) })
	}
	if len(p.Destinations) > 4 {
		return // once is enough
	}
	for a, d := range p.Destinations {
		for what, change := range map[string]func(*ipvs.Destination){
			"the weight":      func(d *ipvs.Destination) { d.Weight++ },
			"the upper limit": func(d *ipvs.Destination) { d.Upper++ },
			"the lower limit": func(d *ipvs.Destination) { d.Lower++ },
			"the tunnel":      func(d *ipvs.Destination) { d.Tunnel.Type ^= 1 },
			"the tunnel port": func(d *ipvs.Destination) { d.Tunnel.Port++ },
			"the checksum":    func(d *ipvs.Destination) { d.Tunnel.Flags ^= 1 },
		} {
			notices(what+" of "+a.String(), func(t ipvs.Table) { change(&d); t.AddDestination(key, d) })
		}
		break
	}
}

func life(t *testing.T, k Subject, s ipvs.Service) {
	c := &tester{T: t, k: k, model: ipvs.Table{}}
	c.check()
	op := func(kind ipvs.OpKind, d ipvs.Destination) ipvs.Op {
		return ipvs.Op{Kind: kind, Service: ipvs.Service{Key: s.Key}, Destination: d}
	}
	c.apply(ipvs.Op{Kind: ipvs.AddService, Service: s})
	for i, m := range []ipvs.Method{ipvs.NAT, ipvs.TUN, ipvs.DR} {
		c.apply(op(ipvs.AddDestination, Server(s, i+1, m, i)))
	}
	c.apply(op(ipvs.EditDestination, Server(s, 1, ipvs.DR, 65535)), op(ipvs.EditDestination, Server(s, 3, ipvs.NAT, 0)))
	limited := Server(s, 2, ipvs.TUN, 3)
	for _, limits := range [][2]uint32{{100, 50}, {100, 100}, {40, 0}, {1 << 31, 7}, {0, 0}} {
		limited.Upper, limited.Lower = limits[0], limits[1]
		c.apply(op(ipvs.EditDestination, limited))
	}
	for _, tunnel := range Tunnels() {
		limited.Tunnel = tunnel
		c.apply(op(ipvs.EditDestination, limited))
	}

	p := s
	p.Persistence, p.Scheduler = 360*time.Second, "wrr"
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: p.Normal()})
	p.Granularity = 24
	if p.IPv6 {
		p.Granularity = 64
	}
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: p.Normal()})
	p.Persistence, p.Scheduler, p.Flags = 0, "sh", ipvs.FlagSched2
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: p.Normal()})
	for flags := ipvs.Flags(0); flags <= ipvs.FlagsAll; flags += ipvs.FlagOnePacket {
		p.Flags = flags
		c.apply(ipvs.Op{Kind: ipvs.EditService, Service: p.Normal()})
	}
	engine(c, p)

	c.apply(op(ipvs.DelDestination, Server(s, 2, 0, 0)))
	c.apply(ipvs.Op{Kind: ipvs.DelService, Service: ipvs.Service{Key: s.Key}})
	c.apply(ipvs.Op{Kind: ipvs.AddService, Service: s}, op(ipvs.AddDestination, Server(s, 9, ipvs.DR, 1)))
	c.apply(ipvs.Op{Kind: ipvs.DelService, Service: ipvs.Service{Key: s.Key}})
}

// engine shows that a service keeps its persistence engine whatever else is changed, by single changes and in batches.
func engine(c *tester, s ipvs.Service) {
	s.Persistence, s.Scheduler, s.Flags, s.Engine = time.Minute, "rr", 0, "sip"
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: s.Normal()})
	s.Persistence = 2 * time.Minute
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: s.Normal()})
	batch := ipvs.Op{Kind: ipvs.EditService, Service: s.Normal()}
	batch.Service.Scheduler = "wrr"
	c.apply(batch, ipvs.Op{Kind: ipvs.EditDestination, Service: ipvs.Service{Key: s.Key}, Destination: Server(s, 3, ipvs.NAT, 5)})
	s.Engine = ""
	c.apply(ipvs.Op{Kind: ipvs.EditService, Service: s.Normal()})
}

// Tunnels returns every encapsulation there is.
func Tunnels() []ipvs.Tunnel {
	return []ipvs.Tunnel{
		{Type: ipvs.GUE, Port: 6080}, {Type: ipvs.GUE, Port: 6080, Flags: ipvs.TunnelChecksum}, {Type: ipvs.GUE, Port: 65535, Flags: ipvs.TunnelRemoteChecksum},
		{Type: ipvs.GRE}, {Type: ipvs.GRE, Flags: ipvs.TunnelChecksum}, {Type: ipvs.IPIP},
	}
}

func refusals(t *testing.T, k Subject, s ipvs.Service) {
	odd := Services()[0]
	if !s.IPv6 {
		odd = Services()[3]
	}
	unknown := s
	unknown.Scheduler = "nosuch"
	unknownEngine := s
	unknownEngine.Engine = "nosuch"
	key := ipvs.Service{Key: s.Key}
	here, gone := Server(s, 1, ipvs.DR, 1), Server(s, 2, ipvs.DR, 1)
	crossed, portless := here, here
	crossed.Upper, crossed.Lower = 5, 6
	portless.Method, portless.Tunnel.Type = ipvs.TUN, ipvs.GUE
	before := []struct {
		op   ipvs.Op
		want error
	}{
		{ipvs.Op{Kind: ipvs.EditService, Service: s}, unix.ESRCH},
		{ipvs.Op{Kind: ipvs.DelService, Service: key}, unix.ESRCH},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: here}, unix.ESRCH},
		{ipvs.Op{Kind: ipvs.EditDestination, Service: key, Destination: here}, unix.ESRCH},
		{ipvs.Op{Kind: ipvs.DelDestination, Service: key, Destination: here}, unix.ESRCH},
		{ipvs.Op{Kind: ipvs.AddService, Service: unknown}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.AddService, Service: unknownEngine}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.AddService, Service: s}, nil},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: crossed}, unix.ERANGE},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: portless}, unix.EINVAL},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: here}, nil},
		{ipvs.Op{Kind: ipvs.EditDestination, Service: key, Destination: crossed}, unix.ERANGE},
		{ipvs.Op{Kind: ipvs.EditDestination, Service: key, Destination: portless}, unix.EINVAL},
		{ipvs.Op{Kind: ipvs.EditService, Service: unknownEngine}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.AddService, Service: s}, unix.EEXIST},
		{ipvs.Op{Kind: ipvs.EditService, Service: unknown}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: here}, unix.EEXIST},
		{ipvs.Op{Kind: ipvs.EditDestination, Service: key, Destination: gone}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.DelDestination, Service: key, Destination: gone}, unix.ENOENT},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: Server(odd, 3, ipvs.DR, 1)}, unix.EINVAL},
		{ipvs.Op{Kind: ipvs.AddDestination, Service: key, Destination: Server(odd, 3, ipvs.TUN, 1)}, nil},
		{ipvs.Op{Kind: ipvs.DelService, Service: key}, nil},
	}
	ops := make([]ipvs.Op, 0, len(before))
	for _, b := range before {
		if got := k.Apply([]ipvs.Op{b.op})[0]; !errors.Is(got, b.want) || b.want == nil && got != nil {
			t.Errorf("%s: %v, want %v", b.op, got, b.want)
		}
		ops = append(ops, b.op)
	}
	for i, got := range k.Apply(ops) {
		if want := before[i].want; !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("in a batch: %s: %v, want %v", ops[i], got, want)
		}
	}
	(&tester{T: t, k: k, model: ipvs.Table{}}).check()
}

// batch makes enough changes for several batches, some of which fail.
func batch(t *testing.T, k Subject) {
	c := &tester{T: t, k: k, model: ipvs.Table{}}
	s := Services()[0]
	ops := []ipvs.Op{{Kind: ipvs.AddService, Service: s}}
	for i := range 240 {
		ops = append(ops, ipvs.Op{Kind: ipvs.AddDestination, Service: ipvs.Service{Key: s.Key}, Destination: Server(s, i+1, ipvs.DR, 1)})
		if i%50 == 0 {
			ops = append(ops, ops[len(ops)-1])
		}
	}
	refused := 0
	for i, err := range k.Apply(ops) {
		switch {
		case err == nil:
			c.model.Apply(ops[i])
		case errors.Is(err, unix.EEXIST) && i > 0 && ops[i] == ops[i-1]:
			refused++
		default:
			t.Errorf("%s: %v", ops[i], err)
		}
	}
	if want := 5; refused != want {
		t.Errorf("%d changes were refused, want %d", refused, want)
	}
	if n := len(c.model[s.Key].Destinations); n != 240 {
		t.Errorf("%d servers, want 240", n)
	}
	c.check()
	c.apply(ipvs.Op{Kind: ipvs.DelService, Service: ipvs.Service{Key: s.Key}})
}
