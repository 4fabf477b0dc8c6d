package dnscheck

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"vipd/healthcheck"
)

// errTruncated says that the answer is longer than fits and must be asked for over
// TCP, since its content matters.
var errTruncated = errors.New("the answer is truncated")

// query is what is asked and what is wanted.
type query struct {
	question dns.Question
	packed   []byte // the message with id 0
	want     []dns.RR
}

// newQuery makes a query. The error says which part of it is wrong.
func newQuery(name, kind string, answer []string) (*query, error) {
	number, ok := dns.StringToType[kind]
	if !ok {
		return nil, fmt.Errorf("type %q is not known", kind)
	}
	if _, ok := dns.IsDomainName(name); !ok {
		return nil, fmt.Errorf("name %q is no domain name", name)
	}
	m := new(dns.Msg)
	m.SetQuestion(name, number)
	m.Id = 0
	packed, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	q := &query{question: m.Question[0], packed: packed}
	for _, text := range answer {
		rr, err := Record(kind, text)
		if err != nil {
			return nil, err
		}
		q.want = append(q.want, rr)
	}
	return q, nil
}

// Record reads what a zone file has after the type of a record.
func Record(kind, text string) (dns.RR, error) {
	if strings.ContainsAny(text, "\n\r") {
		return nil, fmt.Errorf("answer %q is not the text of one record", text)
	}
	rr, err := dns.NewRR(". 0 IN " + kind + " " + text)
	if err != nil || rr == nil {
		return nil, fmt.Errorf("answer %q is no record of type %s", text, kind)
	}
	return rr, nil
}

// String gives "www.example.com. A".
func (q *query) String() string {
	return q.question.Name + " " + dns.TypeToString[q.question.Qtype]
}

// message is the packet with an id.
func (q *query) message(id uint16) []byte {
	m := append([]byte(nil), q.packed...)
	m[0], m[1] = byte(id>>8), byte(id)
	return m
}

// judge reads a packet. Mine says that it answers this query; only then the detail
// or the error mean something.
func (q *query) judge(id uint16, packet []byte, tcp bool) (detail string, mine bool, err error) {
	const headerLen = 12
	if len(packet) < headerLen || packet[0] != byte(id>>8) || packet[1] != byte(id) || packet[2]&0x80 == 0 {
		return "", false, nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(packet); err != nil && !(m.Truncated && !tcp) {
		return "", true, fmt.Errorf("%s: the answer cannot be read: %s", q, healthcheck.OneLine(cut(err.Error())))
	}
	if len(m.Question) > 0 && !q.asked(m.Question[0]) {
		return "", false, nil
	}
	switch {
	case m.Rcode != dns.RcodeSuccess:
		return "", true, fmt.Errorf("%s: %s", q, code(m.Rcode))
	case m.Truncated && !tcp && len(q.want) > 0:
		return "", true, fmt.Errorf("%s: %w", q, errTruncated)
	}
	if missing := q.missing(m.Answer); missing != "" {
		return "", true, fmt.Errorf("%s: the answer lacks %s, it %s", q, missing, healthcheck.OneLine(cut(q.held(m.Answer))))
	}
	records := "records"
	if len(m.Answer) == 1 {
		records = "record"
	}
	return fmt.Sprintf("%s: NOERROR, %d %s", q, len(m.Answer), records), true, nil
}

// asked reports whether a question is ours.
func (q *query) asked(other dns.Question) bool {
	return strings.EqualFold(other.Name, q.question.Name) && other.Qtype == q.question.Qtype && other.Qclass == q.question.Qclass
}

// code is the name of a response code.
func code(rcode int) string {
	if name, ok := dns.RcodeToString[rcode]; ok {
		return name
	}
	return fmt.Sprintf("response code %d", rcode)
}

// missing gives the first wanted record that is not among those of an answer, "" when
// all are. Whose they are does not matter: a CNAME may lead elsewhere.
func (q *query) missing(answer []dns.RR) string {
	for _, want := range q.want {
		found := false
		for _, rr := range answer {
			if rr.Header().Rrtype != q.question.Qtype {
				continue
			}
			twin := dns.Copy(want)
			twin.Header().Name = rr.Header().Name
			found = found || dns.IsDuplicate(twin, rr)
		}
		if !found {
			return data(want)
		}
	}
	return ""
}

// held tells what records of the type an answer has.
func (q *query) held(answer []dns.RR) string {
	var texts []string
	for _, rr := range answer {
		if rr.Header().Rrtype == q.question.Qtype {
			texts = append(texts, data(rr))
		}
	}
	if len(texts) == 0 {
		return "has none"
	}
	return "has " + strings.Join(texts, ", ")
}

// data is a record without its header.
func data(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// cut keeps a text from the network to a moderate length.
func cut(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
