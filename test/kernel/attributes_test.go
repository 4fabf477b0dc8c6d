package kernel

import (
	"fmt"
	"testing"
	"time"
)

// attributeTests: what services and servers can have beside scheduler and method, seen by what a client meets, on ports
// from 9320.
func attributeTests() []serviceTest {
	const sh, shPort, mhPort, limited = 9320, 9321, 9322, 9323
	three := func(port uint16, scheduler, flags string, several bool) serviceTest {
		var list []string
		for i := range 3 {
			list = append(list, fmt.Sprintf("10.9.0.%d:%d", 11+i, port))
		}
		return serviceTest{scheduler + " " + flags, service(on(port, scheduler, "DR", flags), list...),
			func(s *site) { s.serve(port, 3) },
			func(t *testing.T, s *site) {
				s.d[0].WaitWeights(5*time.Second, name(int(port)), ports(port, 1, 1, 1))
				got, err := s.cl.Spread(at(vipA(), port), 40, 2, patience)
				if err != nil || (len(got) > 1) != several {
					t.Errorf("one client was served by %v (%v), want several servers: %v", got, err, several)
				}
			}}
	}
	limits := service1(limited, "rr", "DR", "", "uthreshold = 2\nlthreshold = 1")
	return []serviceTest{
		three(sh, "sh", "", false),
		three(shPort, "sh", "sh-port = true\nsh-fallback = true", true),
		three(mhPort, "mh", "mh-port = true", true),
		{"uthreshold", limits, func(s *site) { s.serve(limited, 2) }, func(t *testing.T, s *site) {
			s.d[0].WaitWeights(5*time.Second, name(limited), ports(limited, 1, 1))
			got := map[string]int{}
			for _, c := range s.cl.Open(at(vipA(), limited), 8, 1, patience) {
				got[c.Server]++
			}
			if got["r1"] != 2 || got["r2"] != 6 {
				t.Errorf("with uthreshold 2 at r1 eight connections are at %v, want 2 and 6", got)
			}
		}},
	}
}

// call sends a packet of a SIP call from a socket of its own and returns who answered.
func (s *site) call(t *testing.T, port uint16, id int) string {
	t.Helper()
	text := fmt.Sprintf("INVITE sip:a@b SIP/2.0\r\nCall-ID: %08d@example.org\r\n\r\n", id)
	for name, n := range datagrams(t, s.cl, at(vipA(), port), 1, text) {
		if n == 1 {
			return name
		}
	}
	return ""
}

// calls: the packets of a call go to one server whatever port they come from. It returns the same for later, when
// something else of the service was changed.
func (s *site) calls(t *testing.T, port uint16) (again func(when string)) {
	servers := map[string]int{}
	at := map[int]string{}
	for id := range 12 {
		at[id] = s.call(t, port, id)
		servers[at[id]]++
	}
	if servers["r1"] < 2 || servers["r2"] < 2 {
		t.Fatalf("twelve calls are at %v, want some at both servers", servers)
	}
	again = func(when string) {
		t.Helper()
		for id, name := range at {
			if now := s.call(t, port, id); now != name {
				t.Errorf("%s: call %d is at %q, and was at %q", when, id, now, name)
			}
		}
	}
	again("from another port")
	return again
}
