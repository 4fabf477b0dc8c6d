package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/test/lab"
)

// show plays the scenes.
func (s *site) show() {
	s.status()
	s.traffic()
	s.directorDies()
	s.directorReturns()
	s.serverDies()
	s.serverLeaves()
	s.summary()
}

// status shows both directors' own words.
func (s *site) status() {
	s.headline("vipd status")
	for i, d := range s.daemon {
		out, err := d.Ctl("status")
		if err != nil {
			s.Fatalf("status of d%d: %v", i+1, err)
		}
		s.say("d%d:", i+1)
		fmt.Println(indent(out))
	}
}

// traffic shows how connections are spread.
func (s *site) traffic() {
	s.headline("600 TCP connections to each service")
	for _, c := range []struct {
		name, plan string
		vip        netip.Addr
	}{{"A", "rr 1:1:1", vipA()}, {"B", "wrr 3:2:1", vipB()}} {
		shares, err := s.cl.Spread(netip.AddrPortFrom(c.vip, servicePort), 600, 4, 2*time.Second)
		if err != nil {
			s.Errorf("a connection to %s failed: %v", c.name, err)
		}
		s.note("shares of "+c.name+" ("+c.plan+")", "%s", showShares(shares))
	}
}

// showShares prints counts in the order of names.
func showShares(shares map[string]int) string {
	var parts []string
	for _, name := range sortedKeys(shares) {
		label := name
		if label == "" {
			label = "failed"
		}
		parts = append(parts, fmt.Sprintf("%s %d", label, shares[name]))
	}
	return strings.Join(parts, ", ")
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// pingInterval is short enough to measure with and long enough to leave the one
// CPU of a user-mode kernel to the directors.
const pingInterval = 5 * time.Millisecond

// watch pings both VIPs while fn plays, and returns the
// longest outage of each.
func (s *site) watch(fn func()) (a, b time.Duration) {
	pa, pb := s.cl.Ping(pingInterval, vipA()), s.cl.Ping(pingInterval, vipB())
	time.Sleep(500 * time.Millisecond)
	fn()
	time.Sleep(500 * time.Millisecond)
	a, _ = lab.Outage(pa.Stop())
	b, _ = lab.Outage(pb.Stop())
	return a, b
}

// directorDies takes the power of d1.
func (s *site) directorDies() {
	s.headline("d1 loses its power: cables dead, process gone")
	seen := s.cl.Capture()
	var cut time.Time
	a, b := s.watch(func() {
		cut = s.d[0].PortDown(0)
		s.d[0].PortDown(1)
		s.daemon[0].Kill()
		s.lab.Eventually(10*time.Second, "d2 owns both addresses", func() bool { return s.d[1].Has(vipA()) && s.d[1].Has(vipB()) })
	})
	seen.Close()
	adverts := seen.Adverts(51)
	last, ok1 := lab.LastBefore(lab.From(adverts, s.d[0].Addr()), cut.Add(10*time.Millisecond))
	first, ok2 := lab.FirstAfter(lab.From(adverts, s.d[1].Addr()), cut)
	if ok1 && ok2 {
		want := 3*advertInterval + advertInterval*(256-100)/256
		s.note("A: d1's last advert to d2's first", "%v (the protocol's timer is %v)", ms(first.At.Sub(last.At)), ms(want))
	}
	if g, ok := lab.FirstAfter(seen.GARPs(vipA()), cut); ok && ok2 {
		s.note("A: that advert to the first gratuitous ARP", "%v", ms(g.At.Sub(first.At)))
	}
	s.note("d1 dies: outage of A for the client", "%v", ms(a))
	s.note("d1 dies: longest gap of B (not concerned)", "%v", ms(b))
	shares, err := s.cl.Spread(netip.AddrPortFrom(vipA(), servicePort), 150, 4, 2*time.Second)
	if err != nil {
		s.Errorf("a connection through d2 failed: %v", err)
	}
	s.note("A through d2", "%s", showShares(shares))
}

// directorReturns starts d1 as a machine that has booted: without VIPs and with
// an empty table.
func (s *site) directorReturns() {
	s.headline("d1 comes back and takes A home")
	s.d[0].Sh("ip addr del 10.9.0.100/32 dev eth0 2>/dev/null || true; ipvsadm -C")
	a, b := s.watch(func() {
		s.d[0].PortUp(0)
		s.d[0].PortUp(1)
		s.daemon[0].Again()
		s.lab.WaitOwner(vipA(), 10*time.Second, "d1")
	})
	s.note("d1 returns: longest gap of A for the client", "%v", ms(a))
	s.note("d1 returns: longest gap of B", "%v", ms(b))
	s.lab.Eventually(10*time.Second, "d1 has three servers again", func() bool { return s.inTable(s.d[0], vipA()) == 3 })
}

// serverDies kills the service on r2 while a client keeps connecting.
func (s *site) serverDies() {
	s.headline("r2 dies and comes back, while a client connects all the time")
	load := s.startLoad(netip.AddrPortFrom(vipA(), servicePort))
	time.Sleep(500 * time.Millisecond)
	died := time.Now()
	s.servers[1].Kill()
	s.lab.Eventually(10*time.Second, "r2 is out of d1's table", func() bool { return s.inTable(s.d[0], vipA()) == 2 })
	out := time.Now()
	s.note("r2 dies: out of the table after", "%v (check every %v)", ms(out.Sub(died)), checkInterval)
	time.Sleep(time.Second)
	back := time.Now()
	s.servers[1].SetMode(lab.Answer)
	s.lab.Eventually(10*time.Second, "r2 is in d1's table again", func() bool { return s.inTable(s.d[0], vipA()) == 3 })
	s.note("r2 returns: in the table after", "%v", ms(time.Since(back)))
	time.Sleep(500 * time.Millisecond)
	tries := load.stop()
	before := counts(tries, died, out)
	s.note("connections while r2 was dead but listed", "%d, of which %d failed", before.all, before.failed)
	after := counts(tries, out.Add(50*time.Millisecond), back)
	s.note("connections while r2 was out", "%d, of which %d failed", after.all, after.failed)
}

// serverLeaves drains r3 by command: its connections go on, it gets no others, and goes with the last one.
func (s *site) serverLeaves() {
	s.headline("r3 is to be repaired: vipd drain 10.9.0.13 --service 10.9.0.100:80")
	to := netip.AddrPortFrom(vipA(), servicePort)
	var held []*lab.Conn
	for _, c := range s.cl.Open(to, 60, 4, 2*time.Second) {
		if c.Server == "r3" {
			held = append(held, c)
		} else {
			c.Close()
		}
	}
	s.tell("drain", "10.9.0.13", "--service", to.String())
	s.d[0].WaitWeights(5*time.Second, fmt.Sprintf("TCP %v", to), map[string]int{"10.9.0.11:80": 1, "10.9.0.12:80": 1, "10.9.0.13:80": 0})
	shares, err := s.cl.Spread(to, 200, 4, 2*time.Second)
	if err != nil {
		s.Errorf("a connection during the drain failed: %v", err)
	}
	answered := 0
	for _, c := range held {
		if name, err := c.Ask(2 * time.Second); err == nil && name == "r3" {
			answered++
		}
	}
	s.note("r3 drains: its connections that still talk to it", "%d of %d", answered, len(held))
	s.note("r3 drains: new connections", "%s", showShares(shares))
	ended := time.Now()
	for _, c := range held {
		c.Close()
	}
	s.lab.Eventually(15*time.Second, "r3 is out of d1's table", func() bool { return s.inTable(s.d[0], vipA()) == 2 })
	s.note("r3 drains: removed after its last connection closed", "%v (the kernel remembers closed ones for 1s)", ms(time.Since(ended)))
	s.tell("undrain", "10.9.0.13")
	s.lab.Eventually(5*time.Second, "r3 is in d1's table again", func() bool { return s.inTable(s.d[0], vipA()) == 3 })
}

// tell gives d1's vipd a command, and shows its answer.
func (s *site) tell(words ...string) {
	out, err := s.daemon[0].Ctl(words...)
	if err != nil {
		s.Fatalf("vipd %s: %v %s", strings.Join(words, " "), err, out)
	}
	fmt.Println(indent(out))
}

// ms rounds for the reader.
func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// summary prints the table.
func (s *site) summary() {
	s.headline("what was measured")
	width := 0
	for _, r := range s.results {
		width = max(width, len(r[0]))
	}
	for _, r := range s.results {
		s.say("%-*s  %s", width, r[0], r[1])
	}
	fmt.Println()
}
