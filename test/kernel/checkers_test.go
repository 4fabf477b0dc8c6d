package kernel

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vipd/test/lab"
)

// kindTest is one kind of check: a server that it watches and what is wrong with it
// for a time.
type kindTest struct {
	name, check string
	good, bad   func(net.Conn)
}

// mail is a mail server that greets and answers with these codes.
func mail(greeting, answer string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, greeting+"-mail\r\n"+greeting+" go on\r\n")
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if _, err := io.WriteString(c, answer+" so be it\r\n"); err != nil {
				return
			}
		}
	}
}

// Every kind of check takes a server out that answers wrongly and no other, and
// brings it back within an interval. Judged by the kernel's table.
func TestKindsOfCheck(t *testing.T) {
	t.Parallel()
	get := func(page string) string { return "[virtual_server.real_server.HTTP_GET]\nurl = [{ " + page + " }]\n" }
	list := []kindTest{
		{"regex", get(`regex = "^all good$", regex_options = "caseless"`), say("HTTP/1.0 200 OK\r\n\r\nAll good\n"), say("HTTP/1.0 200 OK\r\n\r\nall bad\n")},
		{"regex_no_match", get(`regex = "error", regex_no_match = true`), say("HTTP/1.0 200 OK\r\n\r\nfine\n"), say("HTTP/1.0 200 OK\r\n\r\nan error\n")},
		{"SMTP greeting", "[virtual_server.real_server.SMTP_CHECK]\n", mail("220", "250"), mail("554", "250")},
		{"SMTP HELO", "[virtual_server.real_server.SMTP_CHECK]\nhelo_name = \"d1\"\n", mail("220", "250"), mail("220", "550")},
		{"DNS over TCP", "[virtual_server.real_server.DNS_CHECK]\nprotocol = \"TCP\"\ndelay_before_retry = \"100ms\"\n", dnsOver(dns.RcodeSuccess), dnsOver(dns.RcodeRefused)},
	}
	s := newSite(t, 1)
	d, r := s.d[0], s.r[0]
	code := new(atomic.Int32) // of the name server over UDP
	nameServer(t, r, 7053, code)
	config := "[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"NAT\"\n" + timing
	var running []*lab.Server
	all := map[string]int{}
	for i, k := range list {
		port := uint16(7001 + i)
		srv := r.Serve(port, k.name)
		srv.Handle(k.good)
		running = append(running, srv)
		address := fmt.Sprintf("10.9.0.11:%d", port)
		config += fmt.Sprintf("[[virtual_server.real_server]]\naddress = %q\n%s", address, k.check)
		all[address] = 1
	}
	const overUDP = "10.9.0.11:7053"
	config += fmt.Sprintf("[[virtual_server.real_server]]\naddress = %q\n[virtual_server.real_server.DNS_CHECK]\ntype = \"A\"\nname = \"www.example.com\"\nanswer = \"192.0.2.1\"\n", overUDP)
	all[overUDP] = 1
	s.start(alone(config))
	const service = "TCP 10.9.0.100:80"
	d.WaitWeights(10*time.Second, service, all)
	without := func(address string) map[string]int {
		rest := map[string]int{}
		for a := range all {
			if a != address {
				rest[a] = 1
			}
		}
		return rest
	}
	for i, k := range list {
		running[i].Handle(k.bad)
		d.WaitWeights(outWithin, service, without(fmt.Sprintf("10.9.0.11:%d", 7001+i)))
		running[i].Handle(k.good)
		d.WaitWeights(backWithin, service, all)
	}
	code.Store(dns.RcodeServerFailure)
	d.WaitWeights(outWithin, service, without(overUDP))
	code.Store(dns.RcodeSuccess)
	d.WaitWeights(backWithin, service, all)
}

// dnsOver answers one query of a TCP connection with a code.
func dnsOver(code int) func(net.Conn) {
	return func(c net.Conn) {
		conn := &dns.Conn{Conn: c}
		if q, err := conn.ReadMsg(); err == nil {
			_ = conn.WriteMsg(new(dns.Msg).SetRcode(q, code))
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

// nameServer answers queries for an address over UDP with a code, until the test ends.
func nameServer(t *testing.T, n *lab.Node, port uint16, code *atomic.Int32) {
	t.Helper()
	var pc net.PacketConn
	err := n.Go(func() (err error) {
		pc, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 2048)
		for {
			count, from, err := pc.ReadFrom(buffer)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buffer[:count]) != nil {
				continue
			}
			m := new(dns.Msg).SetRcode(q, int(code.Load()))
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IP{192, 0, 2, 1}}}
			if b, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
}
