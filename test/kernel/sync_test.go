package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// talker is a client with many connections that say something now and then.
type talker struct {
	t     *testing.T
	conns []*talk
	quit  chan struct{}
	wg    sync.WaitGroup
}

type talk struct {
	*lab.Conn
	pause time.Duration
	said  atomic.Int64
	last  atomic.Int64 // when it was answered last, unix nanoseconds
	err   error        // read after stop
	died  time.Time
}

// answerWithin is how long an answer may take: a packet that was lost while nobody had the address is sent again after a
// time that doubles.
const answerWithin = 15 * time.Second

// talkers opens n connections for each pause; they talk until stop.
func (s *site) talkers(to netip.AddrPort, n int, pauses ...time.Duration) *talker {
	s.t.Helper()
	k := &talker{t: s.t, quit: make(chan struct{})}
	for i, c := range s.cl.Open(to, n*len(pauses), 8, patience) {
		if c.Err != nil {
			s.t.Fatalf("connection %d: %v", i, c.Err)
		}
		k.conns = append(k.conns, &talk{Conn: c, pause: pauses[i%len(pauses)]})
	}
	return k
}

// start lets them talk, spread over their pauses.
func (k *talker) start() {
	for i, c := range k.conns {
		k.wg.Go(func() {
			select {
			case <-time.After(c.pause * time.Duration(i) / time.Duration(len(k.conns))):
			case <-k.quit:
				return
			}
			for {
				server, err := c.Ask(answerWithin)
				if err == nil && server != c.Server {
					err = fmt.Errorf("%s answered a connection of %s", server, c.Server)
				}
				if err != nil {
					c.err, c.died = err, time.Now()
					return
				}
				c.said.Add(1)
				c.last.Store(time.Now().UnixNano())
				select {
				case <-time.After(c.pause):
				case <-k.quit:
					return
				}
			}
		})
	}
}

// stop ends the talking and says how many connections were lost.
func (k *talker) stop(what string) (lost int) {
	k.t.Helper()
	close(k.quit)
	k.wg.Wait()
	by := map[time.Duration]int{}
	var first error
	for _, c := range k.conns {
		if c.err == nil { // also those that have not spoken since
			_, c.err = c.Ask(answerWithin)
		}
		if c.err != nil {
			lost++
			by[c.pause]++
			if first == nil {
				first = c.err
			}
		}
		c.Close()
	}
	k.t.Logf("%s: %d of %d connections lost %v %v", what, lost, len(k.conns), by, first)
	return lost
}

// syncing is the VRRP half of a director with a sync daemon. global are lines of global_defs.
func syncing(priority int, global string, services ...string) string {
	return "[global_defs]\n" + global + "\n" + lab.VipdConf("",
		lab.Instance{Name: "A", VRID: 51, Priority: priority, Interval: brisk, VIPs: []netip.Addr{vipA()}}) + "\n" + strings.Join(services, "\n")
}

// daemons is what ipvsadm shows of a node's sync daemons.
func daemons(n *lab.Node) string {
	return strings.TrimSpace(n.Exec("ipvsadm", "-l", "--daemon"))
}

// entries counts the ESTABLISHED connections that a node's IPVS knows.
func entries(n *lab.Node) int {
	return strings.Count(n.Exec("ipvsadm", "-Lcn"), "ESTABLISHED")
}

// O48: the director's link is cut with 200 connections that say something every 50 ms, 2 s and 20 s: none is lost. It
// comes back empty with the higher priority: it waits until it has learned the connections, says so, and none is lost
// again. A planned stop loses none either.
func TestO48ConnectionsOutliveTheirDirector(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	const global = `lvs_sync_daemon = "eth0 A id 5"`
	services := []string{web(vipA(), "rr", 1, 1, 1)}
	configs := []string{syncing(200, global, services...), syncing(100, global, services...)}
	vipds := []*lab.Daemon{s.d[0].Vipd(configs[0])}
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	vipds = append(vipds, s.d[1].Vipd(configs[1]))
	for _, d := range s.d[:2] {
		d.WaitWeights(10*time.Second, tcp(vipA()), weights(1, 1, 1))
	}
	s.Eventually(10*time.Second, "master and backup run", func() bool {
		return strings.HasPrefix(daemons(s.d[0]), "master sync daemon (mcast=eth0, syncid=5") && !strings.Contains(daemons(s.d[0]), "backup") && strings.HasPrefix(daemons(s.d[1]), "backup sync daemon (mcast=eth0, syncid=5")
	})
	if got := s.d[0].ReadSysctl("net/ipv4/vs/sync_threshold"); strings.Join(strings.Fields(got), " ") != "3 0" {
		t.Errorf("sync_threshold is %q", got)
	}
	before := daemons(s.d[0]) + daemons(s.d[1])
	vipds[0].Reload(configs[0] + "\n# reloaded\n")
	vipds[0].WaitLog("reloaded", 5*time.Second)
	if after := daemons(s.d[0]) + daemons(s.d[1]); after != before {
		t.Errorf("a reload changed the daemons:\n%s\n%s", before, after)
	}

	clients := s.talkers(at(vipA(), 80), 67, 50*time.Millisecond, 2*time.Second, 20*time.Second)
	clients.start()
	s.Eventually(20*time.Second, "d2 knows the connections", func() bool { return entries(s.d[1]) >= len(clients.conns) })
	cut := s.d[0].PortDown(0)
	s.WaitOwner(vipA(), 10*time.Second, "d2")
	vipds[0].Kill()
	t.Logf("d2 has the address %v after the cut", time.Since(cut))
	time.Sleep(5 * time.Second)

	// A director with an empty table and the higher priority comes: it is d1 after a boot, for all that others see.
	again := s.d[2].Vipd(configs[0])
	back := time.Now()
	s.Eventually(15*time.Second, "status tells why it waits", func() bool {
		st, err := again.Ctl("status")
		return err == nil && strings.Contains(st, "sync_delay: its connections are being learned")
	})
	s.WaitOwner(vipA(), 60*time.Second, "d3")
	if took := time.Since(back); took < 30*time.Second {
		t.Errorf("it took over after %v, before it could know the connections", took)
	}
	time.Sleep(3 * time.Second)

	stopped := again.Signal(syscall.SIGTERM)
	if code := again.Wait(15 * time.Second); code != 0 {
		t.Errorf("the exit status is %d", code)
	}
	t.Logf("d3 has ended %v after the signal", time.Since(stopped))
	if left := daemons(s.d[2]); left != "" {
		t.Errorf("left: %s", left)
	}
	if got := s.d[2].ReadSysctl("net/ipv4/vs/sync_threshold"); strings.Join(strings.Fields(got), " ") != "3 50" {
		t.Errorf("sync_threshold is %q after the stop", got)
	}
	time.Sleep(5 * time.Second)
	if lost := clients.stop("cut, return and stop"); lost > 0 {
		t.Errorf("%d connections are lost", lost)
	}
}

// O48: what the kernel never says is in status: another sync id, a silent director, no interface; two groups with
// opposite masters have both roles on both directors.
func TestO48WhatTheKernelDoesNotSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	config := func(i int, daemon string) string {
		return "[global_defs]\nsync_delay = 0\nlvs_sync_daemon = \"" + daemon + "\"\n" + pair(i, brisk, web(vipA(), "rr", 1, 1, 1), web(vipB(), "rr", 1, 1, 1))
	}
	vipds := s.start(config(0, "eth0 id 5"), config(1, "eth0 id 5"))
	s.Eventually(10*time.Second, "both roles run on both", func() bool {
		return strings.Count(daemons(s.d[0])+daemons(s.d[1]), "syncid=5") == 4
	})
	alarm := func(d *lab.Daemon, text string, want bool, limit time.Duration) {
		t.Helper()
		var last string
		s.Eventually(limit, fmt.Sprintf("an alarm %q: %v", text, want), func() bool {
			st, err := d.Ctl("status")
			last = st
			return err == nil && strings.Contains(st, text) == want
		})
		if t.Failed() {
			t.Log(last)
		}
	}
	alarm(vipds[0], "heard", true, 15*time.Second)
	alarm(vipds[0], "ALARM: sync", false, time.Second)
	vipds[1].Reload(config(1, "eth0 id 6"))
	alarm(vipds[0], "sends sync id 6, this director has 5", true, 15*time.Second)
	alarm(vipds[1], "sends sync id 5, this director has 6", true, 15*time.Second)
	vipds[1].Reload(config(1, "eth1 id 5"))
	alarm(vipds[0], "nothing is heard from it on eth0", true, 90*time.Second)
	vipds[1].Reload(config(1, "eth9 id 5"))
	alarm(vipds[1], "there is no interface eth9", true, 15*time.Second)
	vipds[1].Reload(config(1, "eth0 id 5"))
	alarm(vipds[0], "ALARM: sync", false, 90*time.Second)

	// What a crash leaves is taken over as it is; without lvs_sync_daemon it is stopped.
	before := daemons(s.d[1])
	vipds[1].Kill()
	vipds[1].Again()
	vipds[1].WaitLog("vipd started", 10*time.Second)
	s.WaitOwner(vipB(), 60*time.Second, "d2")
	if after := daemons(s.d[1]); after != before {
		t.Errorf("after a crash:\n%s\nbefore:\n%s", after, before)
	}
	vipds[1].Reload(pair(1, brisk, web(vipA(), "rr", 1, 1, 1)))
	s.Eventually(10*time.Second, "the daemons are stopped", func() bool { return daemons(s.d[1]) == "" })
}

// survive = "mh": connections 0.3 s old outlive their director without any sync daemon.
func TestSurviveMH(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	service := service(fmt.Sprintf("address = \"%v:80\"\nsurvive = \"mh\"\nlvs_method = \"DR\"\ninhibit_on_failure = true\n", vipA()), servers(1, 1, 1)...)
	vipds := []*lab.Daemon{s.d[0].Vipd(syncing(200, "", service))}
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	vipds = append(vipds, s.d[1].Vipd(syncing(100, "", service)))
	for _, d := range s.d {
		d.WaitWeights(10*time.Second, tcp(vipA()), weights(1, 1, 1))
		s.Eventually(15*time.Second, d.Name+" takes packets in the midst", func() bool { return d.ReadSysctl("net/ipv4/vs/sloppy_tcp") == "1" })
		if got := d.Exec("ipvsadm", "-Sn"); !strings.Contains(got, "-s mh -b mh-port") {
			t.Errorf("the service of %s is %s", d.Name, got)
		}
	}
	clients := s.talkers(at(vipA(), 80), 100, 50*time.Millisecond, 2*time.Second)
	clients.start()
	time.Sleep(300 * time.Millisecond)
	s.d[0].PortDown(0)
	s.WaitOwner(vipA(), 10*time.Second, "d2")
	time.Sleep(5 * time.Second)
	if lost := clients.stop("link cut, survive = mh"); lost > 0 {
		t.Errorf("%d connections are lost", lost)
	}
	vipds[1].Stop(10 * time.Second)
	if got := s.d[1].ReadSysctl("net/ipv4/vs/sloppy_tcp"); got != "0" {
		t.Errorf("sloppy_tcp is %q after the stop", got)
	}
}

// A planned stop, with resets held back at the new director: connections younger than the sync buffer survive, too,
// because the old director goes on telling. This kernel has no nftables for IP: a rule of iptables stands for that of
// shield (whose own rules are tested where there is nftables), and status says that it is missing.
func TestShieldedStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	const global = "lvs_sync_daemon = \"eth0 A\"\nshield = true"
	service := web(vipA(), "rr", 1, 1, 1)
	vipds := []*lab.Daemon{s.d[0].Vipd(syncing(200, global, service))}
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	vipds = append(vipds, s.d[1].Vipd(syncing(100, global, service)))
	for _, d := range s.d {
		d.WaitWeights(10*time.Second, tcp(vipA()), weights(1, 1, 1))
	}
	s.Eventually(15*time.Second, "d2 says that it cannot shield", func() bool {
		st, err := vipds[1].Ctl("status")
		return err == nil && strings.Contains(st, "shield: resets cannot be held back after a takeover: ") && strings.Contains(st, "the kernel has no nftables")
	})
	s.Eventually(15*time.Second, "d1 has heard d2", func() bool {
		st, err := vipds[0].Ctl("status")
		return err == nil && strings.Contains(st, "heard")
	})
	rule := fmt.Sprintf("OUTPUT -p tcp --tcp-flags RST RST -s %v -j DROP", vipA())
	s.d[1].Sh("iptables-legacy -A " + rule)
	clients := s.talkers(at(vipA(), 80), 40, 50*time.Millisecond)
	clients.start()
	time.Sleep(300 * time.Millisecond)
	vipds[0].Signal(syscall.SIGTERM)
	s.WaitOwner(vipA(), 10*time.Second, "d2")
	time.Sleep(3 * time.Second)
	s.d[1].Sh("iptables-legacy -D " + rule)
	vipds[0].Wait(15 * time.Second)
	time.Sleep(3 * time.Second)
	if lost := clients.stop("planned stop, 0.3 s old, resets held back"); lost > 0 {
		t.Errorf("%d connections are lost", lost)
	}
}

// O47: timeouts are applied at start and reload, 0 keeps, status shows those in force, and what others change is put
// right.
func TestO47IdleConnections(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	timeouts := func() string {
		line := d.Exec("ipvsadm", "-l", "--timeout")
		_, after, _ := strings.Cut(line, ":")
		return strings.TrimSpace(after)
	}
	config := func(t string) string {
		return "[global_defs]\nlvs_timeouts = \"" + t + "\"\n" + alone(web(vipA(), "rr", 1, 1, 1))
	}
	before := timeouts()
	vipd := s.start(config("tcp 5 udp 0"))[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
	want := func(text string) {
		t.Helper()
		s.Eventually(15*time.Second, "timeouts "+text+" instead of "+before, func() bool { return timeouts() == text })
	}
	want("5 120 300")
	idle := func(pause time.Duration) error {
		c := s.cl.Open(at(vipA(), 80), 1, 1, patience)[0]
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		time.Sleep(pause)
		_, err := c.Ask(patience)
		return err
	}
	// The kernel looks at its timers in steps, and forgets up to two seconds late.
	if err := idle(9 * time.Second); err == nil {
		t.Error("a connection that was idle for longer than tcp 5 lives: the test proves nothing")
	}
	vipd.Reload(config("tcp 20 tcpfin 0"))
	want("20 120 300")
	if err := idle(8 * time.Second); err != nil {
		t.Errorf("a connection that was idle for 8 s of 20: %v", err)
	}
	d.Exec("ipvsadm", "--set", "77", "0", "0")
	want("20 120 300")
	st, err := vipd.Ctl("status")
	if err != nil || !strings.Contains(st, "tcp 20 s, tcpfin 120 s, udp 300 s") {
		t.Errorf("status: %v\n%s", err, st)
	}
	out, err := vipd.Ctl("check", "-c", vipd.ConfigFile)
	if !strings.Contains(out, "keepalive") {
		t.Errorf("check does not mention keepalive: %v\n%s", err, out)
	}
}
