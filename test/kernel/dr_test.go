package kernel

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// Two directors, active-active, LVS-DR: the shares of 600 real connections (with
// VIPD_LONG=1, 2,000) are those of the scheduler, through either director, and each goes through the
// director that owns the VIP.
func TestDRShares(t *testing.T) {
	s := newSite(t, 2)
	services := []string{web(vipA(), "rr", 1, 1, 1), web(vipB(), "wrr", 3, 2, 1)}
	s.start(pair(0, calm, services...), pair(1, calm, services...))
	for _, d := range s.d {
		d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
		d.WaitWeights(5*time.Second, tcp(vipB()), weights(3, 2, 1))
	}

	n := 600
	if os.Getenv("VIPD_LONG") == "1" {
		n = 2000
	}
	for _, c := range []struct {
		name         string
		vip          netip.Addr
		owner, other *lab.Node
		want         map[string]int
	}{
		{"rr through d1", vipA(), s.d[0], s.d[1], map[string]int{"r1": n / 3, "r2": n / 3, "r3": n / 3}},
		{"wrr through d2", vipB(), s.d[1], s.d[0], map[string]int{"r1": n / 2, "r2": n / 3, "r3": n / 6}},
	} {
		began := time.Now()
		got, err := s.cl.Spread(at(c.vip, 80), n, 8, 5*time.Second)
		t.Logf("%s: %v of %d connections in %v", c.name, got, n, time.Since(began))
		shares(t, got, err, c.want)
		// The kernel adds its figures up every 2 s.
		s.Eventually(10*time.Second, c.name+": all connections went through "+c.owner.Name, func() bool {
			return scheduled(c.owner, tcp(c.vip)) == n
		})
		if k := scheduled(c.other, tcp(c.vip)); k != 0 {
			t.Errorf("%s: %s scheduled %d connections, want none", c.name, c.other.Name, k)
		}
	}
}

// scheduled is how many connections a service of the node's kernel has had.
func scheduled(n *lab.Node, service string) int {
	for line := range strings.Lines(n.Exec("ipvsadm", "-Ln", "--stats", "--exact")) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0]+" "+f[1] == service {
			if k, err := strconv.Atoi(f[2]); err == nil {
				return k
			}
		}
	}
	return -1
}

// A real server that dies is out of the kernel's table within delay_loop +
// timeout and the configured retry, gets nothing from then on, and comes back
// when it is healthy. While it is in the table connections to it fail; none does
// before its death, after its removal or at its return.
func TestDRServerKilled(t *testing.T) {
	s := newSite(t, 1)
	s.start(alone(web(vipA(), "rr", 1, 1, 1)))
	unblock(s.r[1]) // the first call loads what it needs, which takes seconds
	for _, c := range []struct {
		name         string
		kill, revive func() time.Time
	}{
		{"process killed", func() time.Time { at := time.Now(); s.servers[1].Kill(); return at },
			func() time.Time { s.servers[1].SetMode(lab.Answer); return time.Now() }},
		{"link cut", func() time.Time { return s.r[1].PortDown(0) },
			func() time.Time { s.r[1].PortUp(0); s.waitPort(s.r[1]); return time.Now() }},
		{"packets dropped", func() time.Time { return block(s.r[1]) },
			func() time.Time { unblock(s.r[1]); return time.Now() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.d[0].WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
			seen := s.r[1].Capture()
			client := s.crowd(at(vipA(), 80))
			time.Sleep(700 * time.Millisecond)

			killed := c.kill()
			dead := time.Now()
			out := s.d[0].WaitWeights(2*outWithin, tcp(vipA()), weights(1, -1, 1))
			t.Logf("out %v after it was killed", out.Sub(killed))
			if took := out.Sub(dead); took > outWithin {
				t.Errorf("out of the table after %v, want at most %v", took, outWithin)
			}
			// What the director has sent before waits for the server's processor, which is the only one.
			settled := out.Add(300*time.Millisecond + seen.Stalled(out, out.Add(time.Second)))
			time.Sleep(time.Until(settled.Add(time.Second)))
			if n := syns(seen, settled); n > 0 {
				t.Errorf("%d connections were sent to the dead server after it was out", n)
			}

			reviving := time.Now()
			revived := c.revive()
			back := s.d[0].WaitWeights(2*backWithin, tcp(vipA()), weights(1, 1, 1))
			t.Logf("back %v after it was revived", back.Sub(revived))
			if took := back.Sub(revived); took > backWithin {
				t.Errorf("back in the table after %v, want at most %v", took, backWithin)
			}
			time.Sleep(time.Second)
			judgeKill(t, client(), killed, out, reviving, back)
		})
	}
}

// waitPort waits until the switch forwards to the node again.
func (s *site) waitPort(n *lab.Node) {
	s.t.Helper()
	s.Eventually(10*time.Second, "the switch forwards to "+n.Name, func() bool {
		_, err := n.Try("ping", "-c1", "-W1", s.cl.Addr().String())
		return err == nil
	})
}

// crowd starts clients, several because one waits long for a dead server. The
// result ends them and returns their attempts in order.
func (s *site) crowd(to netip.AddrPort) func() []lab.Attempt {
	var clients []*lab.Steady
	for range 4 {
		clients = append(clients, s.cl.Steady(to, 40*time.Millisecond, patience))
	}
	return func() []lab.Attempt {
		var all []lab.Attempt
		for _, c := range clients {
			all = append(all, c.Stop()...)
		}
		slices.SortFunc(all, func(a, b lab.Attempt) int { return a.At.Compare(b.At) })
		return all
	}
}

// judgeKill looks at what the clients saw of the death of r2.
func judgeKill(t *testing.T, attempts []lab.Attempt, killed, out, reviving, back time.Time) {
	t.Helper()
	// What was begun just before an instant may belong to what follows it.
	const blur = 100 * time.Millisecond
	hit := 0
	for _, a := range lab.Failed(attempts) {
		if a.At.Add(a.Took).Before(killed) || a.At.After(out.Add(blur)) {
			t.Errorf("a connection failed that began %v after the death and %v after the removal: %v", a.At.Sub(killed), a.At.Sub(out), a.Err)
			continue
		}
		hit++
	}
	if hit == 0 {
		t.Error("no connection hit the dead server: the test proves nothing")
	}
	count := func(from, to time.Time) int {
		return len(lab.Filter(lab.Between(attempts, from, to), func(a lab.Attempt) bool { return a.Server == "r2" }))
	}
	// One that was begun before its return and answered after it was late.
	late := len(lab.Filter(lab.Between(attempts, out.Add(blur), reviving), func(a lab.Attempt) bool { return a.Server == "r2" && a.At.Add(a.Took).After(reviving) }))
	before, meanwhile, after := count(time.Time{}, killed), count(out.Add(blur), reviving)-late, count(back, time.Now())
	t.Logf("%d connections, %d failed; r2 answered %d before, %d while out, %d after", len(attempts), hit, before, meanwhile, after)
	if before == 0 || meanwhile != 0 || after == 0 {
		t.Errorf("r2 answered %d connections before its death, %d while it was out, %d after its return; want some, none, some", before, meanwhile, after)
	}
}

// block has a node drop all that comes to its port 80, as a machine that hangs.
func block(n *lab.Node) time.Time {
	at := time.Now()
	n.Exec("iptables-legacy", "-A", "INPUT", "-p", "tcp", "--dport", "80", "-j", "DROP")
	return at
}

func unblock(n *lab.Node) { n.Exec("iptables-legacy", "-F", "INPUT") }

// A director dies: the other has both groups within the protocol's time, and
// its IPVS table, ready before, needs no change. The group that it had notices
// nothing.
func TestDRDirectorKilled(t *testing.T) {
	s := newSite(t, 2)
	services := []string{web(vipA(), "rr", 1, 1, 1), web(vipB(), "wrr", 3, 2, 1)}
	daemons := s.start(pair(0, brisk, services...), pair(1, brisk, services...))
	for _, c := range []struct {
		name    string
		machine bool // the machine dies, not only the process
	}{{"process killed", false}, {"machine dead", true}} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range s.d {
				d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
				d.WaitWeights(5*time.Second, tcp(vipB()), weights(3, 2, 1))
			}
			had := scheduled(s.d[1], tcp(vipA()))
			seen := s.cl.Capture()
			toA := s.cl.Steady(at(vipA(), 80), 20*time.Millisecond, 200*time.Millisecond)
			toB := s.cl.Steady(at(vipB(), 80), 20*time.Millisecond, patience)
			time.Sleep(time.Second)
			ready := s.d[1].Table().String()

			died := time.Now()
			if c.machine {
				s.d[0].PortDown(0)
				s.d[0].PortDown(1)
			}
			daemons[0].Kill()
			first := seen.WaitAdvert(10*time.Second, 51, s.d[1].Addr(), died)
			t.Logf("first advert of d2 for A %v after the death", first.At.Sub(died))
			if took := first.At.Sub(died); took > 4*brisk+slack { // 3 adverts and a skew below one
				t.Errorf("d2 sent its first advert for A %v after the death, want at most %v", took, 4*brisk+slack)
			}
			time.Sleep(1500 * time.Millisecond)
			a, b := toA.Stop(), toB.Stop()
			if now := s.d[1].Table().String(); now != ready {
				t.Errorf("the table of d2 changed with the takeover:\nbefore %s\nafter  %s", ready, now)
			}
			if !s.d[1].Has(vipA()) || !s.d[1].Has(vipB()) {
				t.Error("d2 has not both VIPs")
			}
			judgeTakeover(t, a, died, first.At)
			if bad := lab.Failed(b); len(bad) > 0 {
				t.Errorf("%d of %d connections to B, which stayed, failed; the first %v after the death: %v", len(bad), len(b), bad[0].At.Sub(died), bad[0].Err)
			}
			s.Eventually(10*time.Second, "connections to A go through d2", func() bool { return scheduled(s.d[1], tcp(vipA())) > had })

			// It comes back and takes its group again; its own table is right, too.
			if c.machine {
				s.d[0].PortUp(0)
				s.d[0].PortUp(1)
			}
			daemons[0].Again()
			s.WaitOwner(vipA(), 20*time.Second, "d1")
			s.d[0].WaitWeights(5*time.Second, tcp(vipB()), weights(3, 2, 1))
			if got, err := s.cl.Spread(at(vipA(), 80), 30, 2, patience); err != nil || got["r1"]+got["r2"]+got["r3"] != 30 {
				t.Errorf("after the return of d1: %v, %v", got, err)
			}
		})
	}
}

// judgeTakeover looks at what a client of the group that moved saw.
func judgeTakeover(t *testing.T, attempts []lab.Attempt, died, moved time.Time) {
	t.Helper()
	for _, a := range lab.Failed(attempts) {
		// A refusal is never right, a lost packet is while nobody has the VIP.
		if errors.Is(a.Err, syscall.ECONNREFUSED) || errors.Is(a.Err, syscall.ECONNRESET) && a.At.After(moved) {
			t.Errorf("a connection that began %v after the death was refused or reset: %v", a.At.Sub(died), a.Err)
		}
	}
	served := moved.Add(300 * time.Millisecond)
	after := lab.Between(attempts, served, time.Now())
	if bad := lab.Failed(after); len(after) < 10 || len(bad)*10 > len(after) {
		t.Errorf("%d of %d connections failed that began after %v", len(bad), len(after), served.Sub(died))
	}
	for _, a := range attempts {
		if a.Err == nil && a.At.After(died) {
			t.Logf("first new connection answered %v after the death, %v after the first advert of d2", a.At.Add(a.Took).Sub(died), a.At.Add(a.Took).Sub(moved))
			return
		}
	}
}
