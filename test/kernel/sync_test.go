package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

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

// O48: what the kernel never says is in status: another sync id, a silent director, no interface, another number of ports;
// two groups with opposite masters have both roles on both directors.
func TestO48WhatTheKernelDoesNotSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	config := func(i int, daemon string) string {
		return "[global_defs]\nsync_delay = 0\nlvs_sync_daemon = \"" + daemon + "\"\n" + pair(i, brisk, web(vipA(), "rr", 1, 1, 1), web(vipB(), "rr", 1, 1, 1))
	}
	for _, d := range s.d {
		d.Sysctl("net/ipv4/vs/sync_ports", "2")
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
	s.d[1].Sysctl("net/ipv4/vs/sync_ports", "1")
	vipds[1].Reload(config(1, "eth0 id 5"))
	alarm(vipds[0], "nothing is heard", false, 90*time.Second)
	alarm(vipds[0], "10.9.0.2 is heard on group 224.0.0.81, but not on port 8849", true, 15*time.Second)
	alarm(vipds[1], "ALARM: sync", false, time.Second)

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
