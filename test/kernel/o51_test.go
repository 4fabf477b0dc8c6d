package kernel

import (
	"fmt"
	"os"
	"testing"
	"time"

	"vipd/test/lab"
)

// O51: an edited weight is the kernel's at once while the server is healthy; while it is inhibited it stays 0, and while
// the server stands in as the sorry server 1, and the edited weight comes when it is back. 0 is 0. Reloads change
// entries in place: a connection lives through all of it.
func TestO51WeightInEveryState(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	conf := func(r1, r2 int) string {
		return alone(service("address = \"10.9.0.100:80\"\nlvs_sched = \"wrr\"\nlvs_method = \"DR\"\ninhibit_on_failure = true\nsorry_server = \"10.9.0.11:80\"\n", servers(r1, r2)...))
	}
	vipd, d := s.start(conf(2, 3))[0], s.d[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(2, 3))
	var old *lab.Conn
	for _, c := range s.cl.Open(at(vipA(), 80), 5, 1, patience) {
		if c.Server == "r1" {
			old = c
		}
	}
	if old == nil {
		t.Fatal("none of 5 connections is at r1")
	}
	reload := func(r1, r2 int) func() { return func() { vipd.Reload(conf(r1, r2)) } }
	mode := func(m lab.Mode) func() { return func() { s.servers[0].SetMode(m) } } // refuses new connections only
	for _, c := range []struct {
		name   string
		do     func()
		r1, r2 int
	}{
		{"edited while up", reload(5, 3), 5, 3},
		{"dead: inhibited", mode(lab.Refuse), 0, 3},
		{"edited while inhibited", reload(7, 4), 0, 4},
		{"back", mode(lab.Answer), 7, 4},
		{"the other one drained", reload(7, 0), 7, 0},
		{"dead: stands in as the sorry server", mode(lab.Refuse), 1, 0},
		{"edited while it stands in", reload(9, 0), 1, 0},
		{"back with the edited weight", mode(lab.Answer), 9, 0},
		{"the greatest weight", reload(9, 2147483647), 9, 2147483647},
		{"both 0: r1 stands in", reload(0, 0), 1, 0},
		{"weights again", reload(2, 3), 2, 3},
	} {
		begin := time.Now()
		c.do()
		seen := d.WaitWeights(outWithin+5*time.Second, tcp(vipA()), weights(c.r1, c.r2))
		t.Logf("%s: after %v", c.name, seen.Sub(begin))
		time.Sleep(2 * delayLoop)
		d.WaitWeights(time.Second, tcp(vipA()), weights(c.r1, c.r2))
		if who, err := old.Ask(patience); who != "r1" || err != nil {
			t.Errorf("%s: the open connection: %q, %v", c.name, who, err)
		}
	}
	if st := vipd.Status().Service("tcp 10.9.0.100:80"); st.State != "UP" || st.RealServer("10.9.0.11:80").EffectiveWeight != 2 {
		t.Errorf("status says %+v", st)
	}
}

// lvs_flush and lvs_flush_on_stop delete the services of others too, and nothing else does; a connection of an own
// service lives through a crash and the flush after it.
func TestFlush(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	conf := func(global string) string { return "[global_defs]\n" + global + "\n" + alone(web(vipA(), "rr", 1)) }
	foreign := func(port int) string {
		d.Exec("ipvsadm", "-A", "-t", fmt.Sprintf("10.9.0.200:%d", port), "-s", "rr")
		d.Exec("ipvsadm", "-a", "-t", fmt.Sprintf("10.9.0.200:%d", port), "-r", fmt.Sprintf("10.9.0.12:%d", port), "-g")
		return fmt.Sprintf("TCP 10.9.0.200:%d", port)
	}
	there := func(when, service string, want bool) {
		t.Helper()
		if _, ok := d.Table()[service]; ok != want {
			t.Errorf("%s: the service of others is there: %v, want %v", when, ok, want)
		}
	}
	first := foreign(80)
	vipd := s.start(conf(""))[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1))
	conn := s.cl.Open(at(vipA(), 80), 1, 1, patience)[0]
	vipd.Stop(10 * time.Second)
	there("without lvs_flush and lvs_flush_on_stop", first, true)

	vipd.Again()
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1))
	conn.Close()
	conn = s.cl.Open(at(vipA(), 80), 1, 1, patience)[0]
	vipd.Kill()
	if err := os.WriteFile(vipd.ConfigFile, []byte(conf("lvs_flush = true\nlvs_flush_on_stop = true")), 0o600); err != nil {
		t.Fatal(err)
	}
	vipd.Again()
	d.WaitWeights(5*time.Second, first, nil)
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1))
	if who, err := conn.Ask(patience); who != "r1" || err != nil {
		t.Errorf("the connection from before the crash: %q, %v", who, err)
	}
	second := foreign(81)
	time.Sleep(3 * time.Second) // a look at the kernel
	vipd.Reload(conf("lvs_flush = true\nlvs_flush_on_stop = true\nrs_init_notifies = true"))
	time.Sleep(time.Second)
	there("after a reload", second, true)
	vipd.Stop(10 * time.Second)
	if got := d.Table(); len(got) != 0 {
		t.Errorf("after the stop: %v", got)
	}
}
