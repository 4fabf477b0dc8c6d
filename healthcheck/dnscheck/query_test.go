package dnscheck

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// FuzzJudge: no packet does more than fail, what it says is one line, and only an
// answer to this query with NOERROR passes.
func FuzzJudge(f *testing.F) {
	q, err := newQuery("www.example.com.", "A", nil)
	if err != nil {
		f.Fatal(err)
	}
	wants, err := newQuery("www.example.com.", "A", []string{"192.0.2.1"})
	if err != nil {
		f.Fatal(err)
	}
	m := new(dns.Msg)
	m.SetQuestion("www.example.com.", dns.TypeA)
	m.Id, m.Response = 7, true
	rr, _ := dns.NewRR("www.example.com. 60 IN A 192.0.2.1")
	m.Answer = []dns.RR{rr}
	packed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed, false)
	f.Add(packed[:20], true)
	f.Add([]byte{0, 7, 0x80, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0xc0, 12}, false)
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		for _, q := range []*query{q, wants} {
			detail, mine, err := q.judge(7, packet, tcp)
			if strings.ContainsAny(detail, "\r\n") || err != nil && strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("%q, %v", detail, err)
			}
			if !mine || err != nil {
				continue
			}
			got := new(dns.Msg)
			if err := got.Unpack(packet); err != nil && !got.Truncated || got.Id != 7 || !got.Response || got.Rcode != dns.RcodeSuccess {
				t.Fatalf("%v passed", got)
			}
			if q == wants && len(got.Answer) == 0 {
				t.Fatalf("%v passed without the record", got)
			}
		}
	})
}
