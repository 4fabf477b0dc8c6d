package kernel

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"vipd/test/lab"
)

// poolTest are the ports of TestPool's services.
const (
	sorryPort, inhibitPort, quorumPort, staysPort, swingPort, downPort = 81, 82, 83, 84, 85, 89
)

// Which servers are in the table: sorry server, inhibit_on_failure, quorum, hysteresis. The
// pool is never empty, and clients are refused only by a server that is dead
// and not yet found so.
func TestPool(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	two := func(port uint16) []string {
		return []string{fmt.Sprintf("10.9.0.11:%d", port), fmt.Sprintf("10.9.0.12:%d", port)}
	}
	s.start(alone(
		service(on(sorryPort, "rr", "DR", fmt.Sprintf("sorry_server = \"10.9.0.13:%d\"", sorryPort)), two(sorryPort)...),
		service(on(inhibitPort, "rr", "DR", "inhibit_on_failure = true"), two(inhibitPort)...),
		service(on(quorumPort, "rr", "DR", fmt.Sprintf("quorum = 2\nsorry_server = \"10.9.0.13:%d\"", quorumPort)), two(quorumPort)...),
		service(on(staysPort, "rr", "DR", fmt.Sprintf("sorry_server = \"10.9.0.13:%d\"\nsorry_server_inhibit = true", staysPort)), two(staysPort)...),
		service(on(swingPort, "rr", "DR", fmt.Sprintf("quorum = 2\nhysteresis = 1\nsorry_server = \"10.9.0.13:%d\"", swingPort)), two(swingPort)[0]+" 2", two(swingPort)[1]),
		service(on(downPort, "rr", "DR", ""), two(downPort)...),
	))
	shortFinish(s.d[0])
	t.Run("sorry server", func(t *testing.T) { testSorry(t, s, s.serve(sorryPort, 3)) })
	t.Run("inhibit on failure", func(t *testing.T) { testInhibit(t, s, s.serve(inhibitPort, 2)) })
	t.Run("quorum", func(t *testing.T) { testQuorum(t, s, s.serve(quorumPort, 3)) })
	t.Run("sorry server that stays, and hysteresis", func(t *testing.T) { testStays(t, s, s.serve(staysPort, 3), s.serve(swingPort, 3)) })
	t.Run("no sorry server", func(t *testing.T) { testLastServers(t, s, s.serve(downPort, 2)) })
}

// name of a service of vipA in lab.Table.
func name(port int) string { return fmt.Sprintf("TCP 10.9.0.100:%d", port) }

// watchEmpty samples the kernel's table. The result ends it and tells how often
// the service had no server with a weight, in how many samples.
func watchEmpty(n *lab.Node, service string) func() (empty, samples int, err error) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	var empty, samples int
	var failed error
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
			}
			t, err := n.ProcTable()
			if err != nil {
				failed = err
				return
			}
			sum := 0
			for _, w := range t[service].Weights {
				sum += w
			}
			samples++
			if sum == 0 {
				empty++
			}
		}
	})
	return func() (int, int, error) {
		close(quit)
		wg.Wait()
		return empty, samples, failed
	}
}

// span is a time in which connections may fail.
type span struct{ from, to time.Time }

// onlyWithin fails the test for each connection that failed outside the spans:
// it ended before them or began after them.
func onlyWithin(t *testing.T, attempts []lab.Attempt, spans ...span) {
	t.Helper()
	const blur = 100 * time.Millisecond
	hit := 0
	for _, a := range lab.Failed(attempts) {
		allowed := false
		for _, s := range spans {
			allowed = allowed || a.At.Add(a.Took).After(s.from) && a.At.Before(s.to.Add(blur))
		}
		if !allowed {
			t.Errorf("a connection failed that began %v and ended %v after the first death: %v", a.At.Sub(spans[0].from), a.At.Add(a.Took).Sub(spans[0].from), a.Err)
			continue
		}
		hit++
	}
	t.Logf("%d connections, %d hit a dead server before it was out", len(attempts), hit)
}

func testSorry(t *testing.T, s *site, servers []*lab.Server) {
	d := s.d[0]
	d.WaitWeights(5*time.Second, name(sorryPort), ports(sorryPort, 1, 1))
	clients, empty := s.crowd(at(vipA(), sorryPort)), watchEmpty(d, name(sorryPort))
	var deaths []span
	for i, want := range []map[string]int{ports(sorryPort, -1, 1), ports(sorryPort, -1, -1, 1)} {
		died := time.Now()
		servers[i].Kill()
		out := d.WaitWeights(outWithin, name(sorryPort), want)
		deaths = append(deaths, span{died, out})
		time.Sleep(300 * time.Millisecond)
	}
	spans := deaths
	// What the sorry server has open goes on when others are back.
	held := s.cl.Open(at(vipA(), sorryPort), 1, 1, patience)
	for i, want := range []map[string]int{ports(sorryPort, 1, -1, 0), ports(sorryPort, 1, 1, 0)} {
		servers[i].SetMode(lab.Answer)
		back := d.WaitWeights(backWithin, name(sorryPort), want)
		t.Logf("death %v, out %v, back %v", deaths[i].from.Sub(deaths[0].from), deaths[i].to.Sub(deaths[0].from), back.Sub(deaths[0].from))
		s.talk(t, held, "r3", 300*time.Millisecond)
	}
	hangUp(held)
	attempts := clients()
	onlyWithin(t, attempts, spans...)
	n, samples, err := empty()
	if err != nil || samples < 50 || n > 0 {
		t.Errorf("the pool was empty in %d of %d samples (error %v)", n, samples, err)
	}
	sorry := lab.Filter(attempts, func(a lab.Attempt) bool { return a.Server == "r3" })
	if len(sorry) == 0 || sorry[0].At.Before(deaths[1].from) {
		t.Errorf("the sorry server answered %d connections; want some, all while no other server was left", len(sorry))
	}
}

func testInhibit(t *testing.T, s *site, servers []*lab.Server) {
	d := s.d[0]
	d.WaitWeights(5*time.Second, name(inhibitPort), ports(inhibitPort, 1, 1))
	var old []*lab.Conn
	for _, c := range s.cl.Open(at(vipA(), inhibitPort), 4, 1, patience) {
		if c.Server == "r1" {
			old = append(old, c)
		}
	}
	if len(old) != 2 {
		t.Fatalf("%d of 4 connections are at r1, want 2", len(old))
	}
	servers[0].SetMode(lab.Refuse) // open connections go on
	d.WaitWeights(outWithin, name(inhibitPort), ports(inhibitPort, 0, 1))
	s.spread(t, at(vipA(), inhibitPort), 10, "r2")
	for _, c := range old {
		if who, err := c.Ask(patience); who != "r1" || err != nil {
			t.Errorf("an open connection to the inhibited server: %q, %v", who, err)
		}
	}
	servers[0].SetMode(lab.Answer)
	d.WaitWeights(backWithin, name(inhibitPort), ports(inhibitPort, 1, 1))
	s.spread(t, at(vipA(), inhibitPort), 10, "r1", "r2")
}

func testQuorum(t *testing.T, s *site, servers []*lab.Server) {
	d := s.d[0]
	d.WaitWeights(5*time.Second, name(quorumPort), ports(quorumPort, 1, 1))
	open := s.openAt(t, quorumPort, "r1")
	servers[1].Kill()
	d.WaitWeights(outWithin, name(quorumPort), ports(quorumPort, 0, -1, 1)) // r1 alone is no quorum
	s.spread(t, at(vipA(), quorumPort), 10, "r3")
	s.talk(t, open, "r1", time.Second) // but its connections go on
	servers[1].SetMode(lab.Answer)
	d.WaitWeights(backWithin+countedWithin, name(quorumPort), ports(quorumPort, 1, 1))
	s.talk(t, open, "r1", time.Second)
	hangUp(open)
	s.spread(t, at(vipA(), quorumPort), 10, "r1", "r2")
}

// With sorry_server_inhibit the sorry server stays in with weight 0. With a hysteresis of 1 a quorum of 2 is reached at 3
// and lost below 1.
func testStays(t *testing.T, s *site, stays, swings []*lab.Server) {
	d := s.d[0]
	var held []*lab.Conn
	for _, step := range []struct {
		name          string
		server        int
		mode          lab.Mode
		stays, swings map[string]int
		from, swung   []string // who answers
	}{
		{"start", 0, lab.Answer, ports(staysPort, 1, 1, 0), ports(swingPort, 2, 1), []string{"r1", "r2"}, []string{"r1", "r2"}},
		{"r1 dies", 0, lab.Refuse, ports(staysPort, -1, 1, 0), ports(swingPort, -1, 1), []string{"r2"}, []string{"r2"}},
		{"r2 dies", 1, lab.Refuse, ports(staysPort, -1, -1, 1), ports(swingPort, -1, -1, 1), []string{"r3"}, []string{"r3"}},
		{"r1 is back", 0, lab.Answer, ports(staysPort, 1, -1, 0), ports(swingPort, -1, -1, 1), []string{"r1"}, []string{"r3"}},
		{"r2 is back", 1, lab.Answer, ports(staysPort, 1, 1, 0), ports(swingPort, 2, 1), []string{"r1", "r2"}, []string{"r1", "r2"}},
	} {
		stays[step.server].SetMode(step.mode)
		swings[step.server].SetMode(step.mode)
		d.WaitWeights(outWithin, name(staysPort), step.stays)
		if step.name == "r1 is back" {
			time.Sleep(2 * delayLoop) // it is up in the other service, too, and out
		}
		d.WaitWeights(outWithin+countedWithin, name(swingPort), step.swings)
		s.spread(t, at(vipA(), staysPort), 6, step.from...)
		s.spread(t, at(vipA(), swingPort), 6, step.swung...)
		if t.Failed() {
			t.Fatalf("after %s", step.name)
		}
		if step.name == "r2 dies" {
			held = s.cl.Open(at(vipA(), staysPort), 1, 1, patience)
		}
	}
	s.talk(t, held, "r3", time.Second)
	hangUp(held)
	s.Never(2*time.Second, "the sorry server is gone", func() bool {
		table, err := d.ProcTable()
		_, in := table[name(staysPort)].Weights[fmt.Sprintf("10.9.0.13:%d", staysPort)]
		return err == nil && !in
	})
}

// Without a sorry server the service stays, with what is left.
func testLastServers(t *testing.T, s *site, servers []*lab.Server) {
	d := s.d[0]
	d.WaitWeights(5*time.Second, name(downPort), ports(downPort, 1, 1))
	servers[0].Kill()
	servers[1].Kill()
	d.WaitWeights(outWithin, name(downPort), ports(downPort))
	servers[0].SetMode(lab.Answer)
	d.WaitWeights(backWithin, name(downPort), ports(downPort, 1))
	s.spread(t, at(vipA(), downPort), 10, "r1")
}
