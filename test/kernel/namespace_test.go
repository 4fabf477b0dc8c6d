package kernel

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// net_namespace_ipvs: the table of a director is in another namespace than the rest
// of it, by name, or with true in the one that it was started in.
//
// Claim: its services are there and nowhere else, checks come from the director's
// namespace, a dead server leaves that table, and the stop empties it.
func TestTableInAnotherNamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	director, tables := s.d[0], s.d[1]
	config := alone(web(vipA(), "rr", 1, 1))
	for _, c := range []struct {
		name  string
		start func() *lab.Daemon
	}{
		{"by name", func() *lab.Daemon {
			return director.Vipd(fmt.Sprintf("net_namespace_ipvs = %q\n", tables.NS) + config)
		}},
		{"that of the start", func() *lab.Daemon {
			return tables.Vipd(fmt.Sprintf("net_namespace = %q\nnet_namespace_ipvs = true\n", director.NS) + config)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.servers[0].AcceptedFrom(director.Addr())
			v := c.start()
			s.WaitOwner(vipA(), 10*time.Second, "d1")
			weightsAre := func(limit time.Duration, want map[string]int) {
				t.Helper()
				s.Eventually(limit, fmt.Sprintf("the table of %s has %v", tables.Name, want), func() bool {
					return maps.Equal(tables.Table()[tcp(vipA())].Weights, want)
				})
			}
			weightsAre(5*time.Second, weights(1, 1))
			s.servers[1].SetMode(lab.Refuse)
			weightsAre(outWithin, weights(1))
			s.servers[1].SetMode(lab.Answer)
			weightsAre(backWithin, weights(1, 1))
			if own := director.Table(); len(own) > 0 {
				t.Errorf("the director's own namespace has a table: %v", own)
			}
			if s.servers[0].AcceptedFrom(director.Addr()) == before {
				t.Error("no check came from the director's namespace")
			}
			if n := s.servers[0].AcceptedFrom(tables.Addr()); n > 0 {
				t.Errorf("%d checks came from the namespace of the table", n)
			}
			if out, err := v.Ctl("status"); err != nil || strings.Contains(out, "NOT IN THE KERNEL") || strings.Contains(out, "ALARM") {
				t.Errorf("status (%v):\n%s", err, out)
			}
			v.Stop(5 * time.Second)
			weightsAre(time.Second, nil)
		})
	}
}

// Mail of services and servers has the subjects and words that Debian's keepalived
// (2.2.7) sends for the same services when both servers die and one comes back.
func TestServiceMail(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	relay := s.cl.MailRelay(25)
	config := alone(
		strings.Replace(web(vipA(), "rr", 1, 1), "[virtual_server.TCP_CHECK]", "smtp_alert = true\n[virtual_server.TCP_CHECK]", 1),
		checked("fwmark = 7\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", "[virtual_server.TCP_CHECK]\nconnect_port = 80\n", "10.9.0.11"))
	s.start("[global_defs]\nrouter_id = \"R1\"\nnotification_email = \"ops@example.com\"\nsmtp_server = \"10.9.0.9\"\n" + config)
	const vs = "[10.9.0.100]:tcp:80"
	rs := func(last int, service, state string) string {
		port := map[bool]string{true: ":tcp:80", false: ":none:0"}[service == vs]
		result := map[string]string{"UP": "succeed", "DOWN": "failed"}[state]
		return fmt.Sprintf("[R1] Realserver [10.9.0.%d]%s of virtual server %s - %s | => TCP CHECK %s on service <=", last, port, service, state, result)
	}
	var want []string
	expect := func(what string, more ...string) {
		t.Helper()
		want = append(want, more...)
		s.Eventually(outWithin+5*time.Second, "the mail of "+what, func() bool {
			got := map[string]int{}
			for _, m := range relay.Mails() {
				first, _, _ := strings.Cut(m.Body, "\r\n")
				got[m.Subject+" | "+first]++
			}
			left := map[string]int{}
			for _, w := range want {
				left[w]++
			}
			return maps.Equal(got, left)
		})
	}
	virtual := func(state, text string) string {
		return "[R1] Virtualserver " + vs + " - " + state + " | => " + text + " <="
	}
	expect("the start", virtual("UP", "Starting with quorum up 1+0=1 <= 2")) // the other service does not ask for it
	s.servers[0].SetMode(lab.Refuse)
	expect("the first death", rs(11, vs, "DOWN"), rs(11, "FWM 7", "DOWN"))
	s.servers[1].SetMode(lab.Refuse)
	expect("the second death", rs(12, vs, "DOWN"), virtual("DOWN", "Lost quorum 1+0=1 <= 0"))
	s.servers[0].SetMode(lab.Answer)
	expect("the return", rs(11, vs, "UP"), rs(11, "FWM 7", "UP"), virtual("UP", "Gained quorum 1+0=1 <= 1"))
}
