package kernel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

const (
	drainPort, failPort, stickyPort = 80, 91, 92

	// countedWithin is how soon a server goes whose last connection has ended: the kernel
	// remembers that for a second here, and vipd counts once a second.
	countedWithin = 4*time.Second + slack
)

// shortFinish has the kernel of a director forget connections that have ended after a second.
func shortFinish(d *lab.Node) { d.Exec("ipvsadm", "--set", "900", "1", "300") }

// O44: a server that is taken out of the file, or drained, keeps its connections, both
// ways, takes no new ones, and goes when it has none, when its limit has passed, or at
// once when its check fails. What becomes of a server that only fails is policy.
func TestO44DrainKeepsConnections(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	failing, sticky := s.serve(failPort, 2), s.serve(stickyPort, 2)
	others := service(on(failPort, "rr", "DR", "on_failure = \"drain\""), at2(failPort)...) +
		service(on(stickyPort, "rr", "DR", "persistence_timeout = 300"), at2(stickyPort)...) +
		"[ipvs_sysctl]\nexpire_quiescent_template = 1\n"
	both, without := alone(web(vipA(), "rr", 1, 1), others), alone(service(on(drainPort, "rr", "DR", ""), "10.9.0.12:80"), others)
	vipd := s.start(both)[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1))
	shortFinish(d)

	t.Run("taken out of the file", func(t *testing.T) {
		mine := s.openAt(t, drainPort, "r1")
		vipd.Reload(without)
		d.WaitWeights(2*time.Second, tcp(vipA()), weights(0, 1))
		s.spread(t, at(vipA(), drainPort), 20, "r2")
		s.talk(t, mine, "r1", 3*time.Second)
		if r := vipd.Status().Service("tcp 10.9.0.100:80").RealServer("10.9.0.11:80"); r.State != "DRAINING" || r.Configured || r.ActiveConnections != 2 {
			t.Errorf("status of the server that leaves: %+v", r)
		}
		hangUp(mine)
		took := d.WaitWeights(countedWithin, tcp(vipA()), weights(-1, 1))
		t.Logf("gone %v after its last connection ended", time.Since(took))
		vipd.Reload(both)
		d.WaitWeights(2*time.Second, tcp(vipA()), weights(1, 1))
	})
	t.Run("drained by command, with a limit", func(t *testing.T) {
		mine := s.openAt(t, drainPort, "r1")
		began := time.Now()
		s.told(t, vipd, "at the latest at", "drain", "10.9.0.11", "--max", "4s", "--service", "tcp 10.9.0.100:80")
		d.WaitWeights(2*time.Second, tcp(vipA()), weights(0, 1))
		s.talk(t, mine, "r1", 2*time.Second)
		gone := d.WaitWeights(4*time.Second+slack, tcp(vipA()), weights(-1, 1))
		if took := gone.Sub(began); took < 4*time.Second {
			t.Errorf("it went after %v, with connections, before its limit of 4s", took)
		}
		hangUp(mine)
		s.told(t, vipd, "takes connections again", "undrain", "10.9.0.11:80")
		d.WaitWeights(2*time.Second, tcp(vipA()), weights(1, 1))
		s.spread(t, at(vipA(), drainPort), 20, "r1", "r2")
	})
	t.Run("its check fails meanwhile", func(t *testing.T) {
		s.openAt(t, drainPort, "r1")
		s.told(t, vipd, "without limit", "drain", "10.9.0.11:80", "--max", "0", "--service", "10.9.0.100:80")
		d.WaitWeights(2*time.Second, tcp(vipA()), weights(0, 1))
		s.servers[0].SetMode(lab.Refuse)
		d.WaitWeights(outWithin, tcp(vipA()), weights(-1, 1))
		s.servers[0].SetMode(lab.Answer)
		s.told(t, vipd, "takes connections again", "undrain", "10.9.0.11")
		d.WaitWeights(backWithin, tcp(vipA()), weights(1, 1))
	})
	t.Run("only fails", func(t *testing.T) {
		cut := s.openAt(t, drainPort, "r1")
		kept := s.openAt(t, failPort, "r1")
		s.servers[0].SetMode(lab.Refuse) // open connections go on
		failing[0].SetMode(lab.Refuse)
		d.WaitWeights(outWithin, name(failPort), ports(failPort, 0, 1))
		d.WaitWeights(outWithin, tcp(vipA()), weights(-1, 1))
		s.talk(t, kept, "r1", time.Second)
		if _, err := cut[0].Ask(patience); err == nil {
			t.Error("a connection to the deleted server goes on")
		}
		hangUp(kept)
		d.WaitWeights(countedWithin, name(failPort), ports(failPort, -1, 1))
		failing[0].SetMode(lab.Answer)
		s.servers[0].SetMode(lab.Answer)
		d.WaitWeights(backWithin, name(failPort), ports(failPort, 1, 1))
	})
	t.Run("a client that stays goes elsewhere", func(t *testing.T) { testSticky(t, s, vipd, sticky) })
}

// at2 are r1 and r2 on a port.
func at2(port uint16) []string {
	return []string{fmt.Sprintf("10.9.0.11:%d", port), fmt.Sprintf("10.9.0.12:%d", port)}
}

// openAt opens connections through a service until one server has two, and returns these.
func (s *site) openAt(t *testing.T, port uint16, server string) []*lab.Conn {
	t.Helper()
	var mine []*lab.Conn
	for _, c := range s.cl.Open(at(vipA(), port), 4, 1, patience) {
		if c.Server == server {
			mine = append(mine, c)
		} else {
			c.Close()
		}
	}
	if len(mine) != 2 {
		t.Fatalf("%d of 4 connections are at %s, want 2", len(mine), server)
	}
	return mine
}

// talk has connections ask their server again and again for a time.
func (s *site) talk(t *testing.T, conns []*lab.Conn, server string, long time.Duration) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for _, c := range conns {
			if who, err := c.Ask(patience); who != server || err != nil {
				t.Fatalf("an open connection to %s answers %q, %v", server, who, err)
			}
		}
	}
}

func hangUp(conns []*lab.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// told gives vipd an order, which must be answered so.
func (s *site) told(t *testing.T, vipd *lab.Daemon, answer string, args ...string) {
	t.Helper()
	if out, err := vipd.Ctl(args...); err != nil || !strings.Contains(out, answer) {
		t.Fatalf("vipd %s: %q, %v; want %q", strings.Join(args, " "), out, err, answer)
	}
}

// testSticky: with expire_quiescent_template a client of persistence_timeout leaves a
// drained server with its next connection, while the open one goes on; without, the kernel
// sends it there still, and status says so.
func testSticky(t *testing.T, s *site, vipd *lab.Daemon, servers []*lab.Server) {
	d := s.d[0]
	first := s.cl.Open(at(vipA(), stickyPort), 1, 1, patience)
	old := first[0].Server
	other := map[string]string{"r1": "r2", "r2": "r1"}[old]
	address := map[string]string{"r1": "10.9.0.11", "r2": "10.9.0.12"}[old]
	if other == "" {
		t.Fatalf("nobody answers: %v", first[0].Err)
	}
	s.spread(t, at(vipA(), stickyPort), 6, old)
	want := ports(stickyPort, 1, 1)
	want[fmt.Sprintf("%s:%d", address, stickyPort)] = 0
	s.told(t, vipd, "takes no new connections", "drain", address, "--service", name(stickyPort)[4:])
	d.WaitWeights(2*time.Second, name(stickyPort), want)
	s.spread(t, at(vipA(), stickyPort), 6, other)
	s.talk(t, first, old, time.Second)

	// The twin: the sysctl off, the drain of the other one, which a connection keeps there.
	held := s.cl.Open(at(vipA(), stickyPort), 1, 1, patience)
	s.talk(t, held, other, 200*time.Millisecond)
	s.told(t, vipd, "takes connections again", "undrain", address)
	d.WaitWeights(2*time.Second, name(stickyPort), ports(stickyPort, 1, 1))
	d.Sysctl("net/ipv4/vs/expire_quiescent_template", "0")
	otherAddress := map[string]string{"10.9.0.11": "10.9.0.12", "10.9.0.12": "10.9.0.11"}[address]
	s.told(t, vipd, "takes no new connections", "drain", otherAddress, "--service", name(stickyPort)[4:])
	s.spread(t, at(vipA(), stickyPort), 6, other)
	s.talk(t, held, other, 500*time.Millisecond)
	if out, err := vipd.Ctl("status"); err != nil || !strings.Contains(out, "net.ipv4.vs.expire_quiescent_template is 0; set it to 1") {
		t.Errorf("status does not name the sysctl: %v\n%s", err, out)
	}
	if n := servers[0].Open() + servers[1].Open(); n == 0 {
		t.Error("no server has an open connection: the test proves nothing")
	}
}
