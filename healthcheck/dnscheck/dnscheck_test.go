package dnscheck_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/dnscheck"
)

func newChecker(t testing.TB, cfg dnscheck.Config) *dnscheck.Checker {
	t.Helper()
	c, err := dnscheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check makes one attempt with a deadline of 500 ms.
func check(t testing.TB, cfg dnscheck.Config) healthcheck.Result {
	t.Helper()
	return checktest.Attempt(t, newChecker(t, cfg), 500*time.Millisecond)
}

// reply makes the answer to a query: nil says nothing.
type reply func(q *dns.Msg) [][]byte

// pack is a message as bytes.
func pack(t testing.TB, m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return b
}

// with is a good answer with changes.
func with(t testing.TB, change func(m *dns.Msg)) reply {
	return func(q *dns.Msg) [][]byte {
		m := new(dns.Msg)
		m.SetReply(q)
		change(m)
		return [][]byte{pack(t, m)}
	}
}

// holding is an answer with records.
func holding(t testing.TB, records ...string) reply {
	return with(t, func(m *dns.Msg) {
		for _, text := range records {
			rr, err := dns.NewRR(text)
			if err != nil {
				t.Error(err)
			}
			m.Answer = append(m.Answer, rr)
		}
	})
}

// serve is a name server over UDP and TCP on one port.
func serve(t testing.TB, udp, tcp reply) netip.AddrPort {
	t.Helper()
	addr := checktest.Serve(t, nil, func(c net.Conn) {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		_, _ = io.ReadFull(c, message)
		q := new(dns.Msg)
		if err := q.Unpack(message); err != nil || tcp == nil {
			return
		}
		for _, b := range tcp(q) {
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
		}
		_, _ = io.Copy(io.Discard, c)
	})
	checktest.ServePackets(t, addr, func(b []byte) [][]byte {
		q := new(dns.Msg)
		if err := q.Unpack(b); err != nil || udp == nil {
			return nil
		}
		return udp(q)
	})
	return addr
}

// TestConformance: over TCP the servers go wrong as those of other checks do, over
// UDP nobody is there.
func TestConformance(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, dnscheck.Config{Target: addr, TCP: true})
	})
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, dnscheck.Config{Target: addr})
	})
}

func TestResults(t *testing.T) {
	good := with(t, func(*dns.Msg) {})
	a := holding(t, "www.example.com. 60 IN A 192.0.2.1", "www.example.com. 60 IN A 192.0.2.2")
	www := dnscheck.Config{Name: "www.example.com", Type: "A"}
	wants := func(kind string, answer ...string) dnscheck.Config {
		return dnscheck.Config{Name: "www.example.com", Type: kind, Answer: answer}
	}
	raw := func(packets ...string) reply {
		return func(*dns.Msg) (all [][]byte) {
			for _, p := range packets {
				all = append(all, []byte(p))
			}
			return all
		}
	}
	then := func(first, second reply) reply {
		return func(q *dns.Msg) [][]byte { return append(first(q), second(q)...) }
	}
	tests := []struct {
		name string
		cfg  dnscheck.Config
		udp  reply
		tcp  reply
		ok   bool
		want string
	}{
		{"defaults", dnscheck.Config{}, good, nil, true, ". SOA: NOERROR, 0 records"},
		{"one record", wants("AAAA"), holding(t, "www.example.com. 60 IN AAAA 2001:db8::1"), nil, true, "www.example.com. AAAA: NOERROR, 1 record"},
		{"over TCP", dnscheck.Config{TCP: true}, nil, good, true, ". SOA: NOERROR, 0 records"},
		{"wanted records", wants("A", "192.0.2.2", "192.0.2.1"), a, nil, true, "www.example.com. A: NOERROR, 2 records"},
		{"a record is missing", wants("A", "192.0.2.1", "192.0.2.3"), a, nil, false, "www.example.com. A: the answer lacks 192.0.2.3, it has 192.0.2.1, 192.0.2.2"},
		{"no record at all", wants("A", "192.0.2.1"), good, nil, false, "www.example.com. A: the answer lacks 192.0.2.1, it has none"},
		{"behind a CNAME", wants("A", "192.0.2.1"), holding(t, "www.example.com. 60 IN CNAME x.example.com.", "x.example.com. 60 IN A 192.0.2.1"), nil, true, "www.example.com. A: NOERROR, 2 records"},
		{"names in any case", wants("MX", "10 MAIL.example.com."), holding(t, "www.example.com. 60 IN MX 10 mail.example.com."), nil, true, "www.example.com. MX: NOERROR, 1 record"},
		{"TXT", wants("TXT", `"a b" "c;d"`), holding(t, `www.example.com. 60 IN TXT "a b" "c;d"`), nil, true, "www.example.com. TXT: NOERROR, 1 record"},
		{"SERVFAIL", www, with(t, func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure }), nil, false, "www.example.com. A: SERVFAIL"},
		{"NXDOMAIN", www, with(t, func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }), nil, false, "www.example.com. A: NXDOMAIN"},
		{"REFUSED over TCP", dnscheck.Config{TCP: true}, nil, with(t, func(m *dns.Msg) { m.Rcode = dns.RcodeRefused }), false, ". SOA: REFUSED"},
		{"truncated is an answer", www, with(t, func(m *dns.Msg) { m.Truncated = true }), nil, true, "www.example.com. A: NOERROR, 0 records"},
		{"truncated, and its content matters", wants("A", "192.0.2.2"), with(t, func(m *dns.Msg) { m.Truncated = true }), a, true, "www.example.com. A: NOERROR, 2 records"},
		{"truncated, and nobody over TCP", wants("A", "192.0.2.2"), with(t, func(m *dns.Msg) { m.Truncated = true }), nil, false, "www.example.com. A: the server closed the connection"},
		{"no answer", www, nil, nil, false, "www.example.com. A: no answer within 500ms"},
		{"only noise", www, raw("", "x", "not a message at all, but long enough"), nil, false, "www.example.com. A: no answer within 500ms; 3 packets were none"},
		{"noise, then the answer", www, then(raw("", "x", strings.Repeat("y", 5000)), good), nil, true, "www.example.com. A: NOERROR, 0 records"},
		{"another id, then the answer", www, then(with(t, func(m *dns.Msg) { m.Id++ }), good), nil, true, "www.example.com. A: NOERROR, 0 records"},
		{"another question, then the answer", www, then(with(t, func(m *dns.Msg) { m.Question[0].Name = "evil.example." }), good), nil, true, "www.example.com. A: NOERROR, 0 records"},
		{"the query sent back", www, func(q *dns.Msg) [][]byte { return [][]byte{pack(t, q)} }, nil, false, "www.example.com. A: no answer within 500ms; 1 packets were none"},
		{"an answer that ends too early", www, func(q *dns.Msg) [][]byte { return [][]byte{a(q)[0][:40]} }, nil, false, "www.example.com. A: the answer cannot be read: "},
		{"another id over TCP", dnscheck.Config{TCP: true}, nil, with(t, func(m *dns.Msg) { m.Id++ }), false, ". SOA: what came over TCP is no answer to it"},
		{"closed over TCP", dnscheck.Config{TCP: true}, nil, nil, false, ". SOA: the server closed the connection"},
		{"mute over TCP", dnscheck.Config{TCP: true}, nil, func(*dns.Msg) [][]byte { return nil }, false, ". SOA: no answer within 500ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Target = serve(t, tt.udp, tt.tcp)
			r := check(t, tt.cfg)
			if r.OK != tt.ok || !strings.HasPrefix(r.Detail, tt.want) || !strings.HasSuffix(tt.want, ": ") && r.Detail != tt.want || r.LocalFault {
				t.Errorf("got %+v\nwant %v %q", r, tt.ok, tt.want)
			}
		})
	}
}

// TestNobodyThere: an ICMP error is a failure at once.
func TestNobodyThere(t *testing.T) {
	addr := checktest.Refused(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	r := newChecker(t, dnscheck.Config{Target: addr}).Check(ctx)
	if r.OK || r.LocalFault || !strings.Contains(r.Detail, addr.String()+": connection refused") || time.Since(start) > 5*time.Second {
		t.Errorf("%+v after %v", r, time.Since(start))
	}
}

// TestUnreachable: so is one of a router, that the host or the net is away, which the kernel tells only who asks for it.
// The twin, whose packets are dropped, waits for its whole time.
func TestUnreachable(t *testing.T) {
	for verdict, want := range map[string]string{
		"reject with icmp type host-unreachable": "ask 127.0.0.1:53: no route to host",
		"reject with icmp type net-unreachable":  "ask 127.0.0.1:53: network is unreachable",
		"drop":                                   ". SOA: no answer within 300ms",
	} {
		t.Run(verdict, func(t *testing.T) {
			checktest.InNamespace(t, func() {
				checktest.NFT(t, "add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in udp dport 53 "+verdict)
				r := checktest.Attempt(t, newChecker(t, dnscheck.Config{Target: netip.MustParseAddrPort("127.0.0.1:53")}), 300*time.Millisecond)
				if r.OK || r.LocalFault || r.Detail != want {
					t.Errorf("got %+v, want %q", r, want)
				}
			})
		})
	}
}

// TestQuery: what a server gets.
func TestQuery(t *testing.T) {
	got := make(chan *dns.Msg, 2)
	note := func(q *dns.Msg) [][]byte {
		got <- q
		return with(t, func(*dns.Msg) {})(q)
	}
	addr := serve(t, note, note)
	for _, tcp := range []bool{false, true} {
		if r := check(t, dnscheck.Config{Target: addr, TCP: tcp, Name: "www.example.com.", Type: "SRV"}); !r.OK {
			t.Fatalf("%+v", r)
		}
		q := <-got
		if q.Question[0] != (dns.Question{Name: "www.example.com.", Qtype: dns.TypeSRV, Qclass: dns.ClassINET}) || !q.RecursionDesired || q.Response || len(q.Extra) > 0 {
			t.Errorf("TCP %v: %v", tcp, q)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:53")
	for _, tt := range []struct {
		cfg  dnscheck.Config
		want string
	}{
		{dnscheck.Config{}, "making DNS_CHECK: invalid AddrPort is no address with a port"},
		{dnscheck.Config{Target: target, Type: "AX"}, `making DNS_CHECK: type "AX" is not known`},
		{dnscheck.Config{Target: target, Name: "a..b"}, `making DNS_CHECK: name "a..b." is no domain name`},
		{dnscheck.Config{Target: target, Type: "A", Answer: []string{"x"}}, `making DNS_CHECK: answer "x" is no record of type A`},
		{dnscheck.Config{Target: target, Type: "A", Answer: []string{"192.0.2.1\n. IN A 192.0.2.2"}}, `making DNS_CHECK: answer "192.0.2.1\n. IN A 192.0.2.2" is not the text of one record`},
	} {
		if _, err := dnscheck.New(tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	target := netip.MustParseAddrPort("10.0.0.1:53")
	seen := map[string]bool{}
	for _, c := range []dnscheck.Config{{Target: target}, {Target: netip.MustParseAddrPort("10.0.0.1:54")}, {Target: target, TCP: true}, {Target: target, Type: "A"},
		{Target: target, Name: "a"}, {Target: target, Type: "A", Answer: []string{"192.0.2.1"}}, {Target: target, Source: healthcheck.Source{Interface: "eth0"}}} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
	if a, b := (dnscheck.Config{Target: target}).Key(), (dnscheck.Config{Target: target, Name: ".", Type: "SOA"}).Key(); a != b {
		t.Errorf("the defaults in words: %q, without: %q", b, a)
	}
}
