package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O51: the weight in the kernel is the configured one when a server is healthy, 0 when it
// is inhibited, after every order of events; reloads and commands change it in place.
func TestO51WeightsApply(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	conf := func(more string, w ...int) string {
		return alone(service(on(80, "wrr", "DR", "inhibit_on_failure = true\n"+more), servers(w...)...))
	}
	vipd := s.start(conf("", 3, 5))[0]
	expect := func(what string, limit time.Duration, w ...int) {
		t.Helper()
		d.WaitWeights(limit, tcp(vipA()), weights(w...))
		t.Log(what)
	}
	expect("start", 5*time.Second, 3, 5)
	vipd.Reload(conf("", 7, 5))
	expect("edited while up", 2*time.Second, 7, 5)
	s.servers[0].SetMode(lab.Refuse)
	expect("inhibited", outWithin, 0, 5)
	vipd.Reload(conf("", 9, 5))
	s.Never(time.Second, "the weight of an inhibited server is not 0", func() bool { return d.Table()[tcp(vipA())].Weights["10.9.0.11:80"] != 0 })
	s.servers[0].SetMode(lab.Answer)
	expect("edited while inhibited, and back", backWithin, 9, 5)
	vipd.Reload(conf("", 0, 5))
	expect("0", 2*time.Second, 0, 5)
	s.spread(t, at(vipA(), 80), 10, "r2")
	vipd.Reload(conf("", 4, 5))
	expect("from 0", 2*time.Second, 4, 5)

	s.told(t, vipd, "weight 20", "weight", "10.9.0.11", "20")
	expect("by command", 2*time.Second, 20, 5)
	vipd.Reload(conf("", 6, 5))
	s.Never(500*time.Millisecond, "a reload undoes a command", func() bool { return d.Table()[tcp(vipA())].Weights["10.9.0.11:80"] != 20 })
	s.told(t, vipd, "weight 6, as configured", "weight", "10.9.0.11", "default")
	expect("as configured", 2*time.Second, 6, 5)

	sorry := "sorry_server = \"10.9.0.11:80\""
	vipd.Reload(conf(sorry, 6, 5))
	s.servers[0].SetMode(lab.Refuse)
	s.servers[1].SetMode(lab.Refuse)
	expect("SORRY: the sorry server is r1", 2*outWithin, 1, 0)
	vipd.Reload(conf(sorry, 8, 2))
	s.servers[1].SetMode(lab.Answer)
	expect("edited in SORRY, r2 back", backWithin, 0, 2)
	s.servers[0].SetMode(lab.Answer)
	expect("r1 back", backWithin, 8, 2)
}

// What servers were told survives a restart and a crash, and is shown with who and when;
// slow_start and min_up do what they say; a bad record is set aside.
func TestOverridesAndReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	slow := s.serve(93, 2)
	floor := s.serve(94, 3)
	conf := alone(web(vipA(), "rr", 1, 1, 1),
		service(on(93, "wrr", "DR", "slow_start = \"5s\"\nweight = 100"), at2(93)...),
		service(on(94, "rr", "DR", "min_up = 0.6"), append(at2(94), "10.9.0.13:94")...),
		"[ipvs_sysctl]\nexpire_nodest_conn = 1\nconn_reuse_mode = 0\nsync_refresh_period = 20\n")
	conf = "[global_defs]\nlvs_sync_daemon = \"eth0 A\"\n" + conf
	vipd := s.start(conf)[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
	t.Run("settings are set", func(t *testing.T) { expectSettings(t, d, "1", "0", "3 0", "20") })
	t.Run("told", func(t *testing.T) {
		s.told(t, vipd, "takes no new connections", "drain", "10.9.0.11:80")
		s.told(t, vipd, "maintenance", "maintenance", "10.9.0.12:80", "on", "--max", "1h")
		s.told(t, vipd, "weight 9", "weight", "10.9.0.13:80", "9")
		d.WaitWeights(countedWithin, tcp(vipA()), weights(-1, -1, 9))
		if out, err := vipd.Ctl("drain", "10.9.0.99"); err == nil || !strings.Contains(out+err.Error(), "no virtual_server has the real server 10.9.0.99; there are: 10.9.0.11:80") {
			t.Errorf("a server that is not there: %q, %v", out, err)
		}
	})
	again := func(t *testing.T) {
		d.WaitWeights(15*time.Second, tcp(vipA()), weights(-1, -1, 9))
		s.Eventually(5*time.Second, "status answers", func() bool { _, err := vipd.TryStatus(); return err == nil })
		out, err := vipd.Ctl("status")
		for _, want := range []string{"10.9.0.11:80: drain by root", "10.9.0.12:80: maintenance by root", "10.9.0.13:80: weight 9 by root", "MAINTENANCE", "DRAINING"} {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("status lacks %q: %v\n%s", want, err, out)
			}
		}
	}
	t.Run("shown", again)
	t.Run("after a crash", func(t *testing.T) {
		vipd.Kill()
		vipd.Again()
		again(t)
		expectSettings(t, d, "1", "0", "3 0", "20")
	})
	t.Run("after a restart", func(t *testing.T) {
		vipd.Stop(10 * time.Second)
		expectSettings(t, d, "0", "1", "3 50", "0")
		vipd.Again()
		again(t)
	})
	t.Run("a bad record is set aside", func(t *testing.T) {
		vipd.Stop(10 * time.Second)
		d.Sh("echo broken >" + vipd.StateDir + "/overrides.json")
		vipd.Again()
		d.WaitWeights(15*time.Second, tcp(vipA()), weights(1, 1, 1))
		if b := d.Exec("cat", vipd.StateDir+"/overrides.json.bad"); b != "broken\n" {
			t.Errorf("set aside: %q", b)
		}
		if alarms := fmt.Sprint(vipd.Status().Alarms); !strings.Contains(alarms, "overrides.json.bad") {
			t.Errorf("alarms %s", alarms)
		}
	})
	t.Run("settings change with a reload", func(t *testing.T) {
		vipd.Reload(strings.Replace(conf, "conn_reuse_mode = 0\n", "", 1))
		s.Eventually(5*time.Second, "conn_reuse_mode is as it was", func() bool { return d.ReadSysctl("net/ipv4/vs/conn_reuse_mode") == "1" })
		expectSettings(t, d, "1", "1", "3 0", "20")
	})
	t.Run("slow start", func(t *testing.T) { testSlowStart(t, s, slow, func() {}) })
	t.Run("slow start with a crash", func(t *testing.T) {
		testSlowStart(t, s, slow, func() {
			vipd.Kill()
			vipd.Again()
		})
	})
	t.Run("min_up", func(t *testing.T) { testMinUp(t, s, vipd, floor) })
}

// expectSettings compares what [ipvs_sysctl] asks for, and what lvs_sync_daemon needs.
func expectSettings(t *testing.T, d *lab.Node, nodest, reuse, threshold, refresh string) {
	t.Helper()
	var got []string
	for _, name := range []string{"expire_nodest_conn", "conn_reuse_mode", "sync_threshold", "sync_refresh_period"} {
		got = append(got, strings.Join(strings.Fields(d.ReadSysctl("net/ipv4/vs/"+name)), " "))
	}
	if want := []string{nodest, reuse, threshold, refresh}; !slices.Equal(got, want) {
		t.Errorf("expire_nodest_conn, conn_reuse_mode, sync_threshold and sync_refresh_period are %q, want %q", got, want)
	}
}

// testSlowStart: a server that returns comes to its weight in steps, which go on after what is done half-way.
func testSlowStart(t *testing.T, s *site, servers []*lab.Server, halfWay func()) {
	d := s.d[0]
	d.WaitWeights(10*time.Second, name(93), ports(93, 100, 100))
	servers[0].Kill()
	d.WaitWeights(outWithin, name(93), ports(93, -1, 100))
	servers[0].SetMode(lab.Answer)
	began := d.WaitWeights(backWithin, name(93), ports(93, 1, 100))
	var steps []int
	var away time.Duration
	for last := 1; last < 100; time.Sleep(20 * time.Millisecond) {
		if last == 50 {
			from := time.Now()
			halfWay()
			halfWay, away = func() {}, time.Since(from)
		}
		table, err := d.ProcTable()
		if err != nil {
			t.Fatal(err)
		}
		w := table[name(93)].Weights["10.9.0.11:93"]
		if w < last {
			t.Fatalf("the weight fell from %d to %d", last, w)
		}
		if w > last {
			steps = append(steps, w)
		}
		if last = w; time.Since(began) > 15*time.Second {
			t.Fatalf("steps %v after 15s, and not at 100", steps)
		}
	}
	took := time.Since(began)
	t.Logf("steps %v in %v", steps, took)
	if len(steps) < 8 || took < 4500*time.Millisecond || took > 5*time.Second+away+slack {
		t.Errorf("steps %v in %v, want ten in 5s", steps, took)
	}
}

func testMinUp(t *testing.T, s *site, vipd *lab.Daemon, servers []*lab.Server) {
	d := s.d[0]
	d.WaitWeights(10*time.Second, name(94), ports(94, 1, 1, 1))
	servers[0].Kill()
	d.WaitWeights(outWithin, name(94), ports(94, -1, 1, 1))
	servers[1].Kill()
	vipd.WaitLog("a failed server stays in: min_up", outWithin)
	d.WaitWeights(slack, name(94), ports(94, -1, 1, 1))
	if alarms := fmt.Sprint(vipd.Status().Alarms); !strings.Contains(alarms, "10.9.0.12:94: its check fails, and it takes connections all the same") {
		t.Errorf("alarms %s", alarms)
	}
	servers[0].SetMode(lab.Answer)
	d.WaitWeights(backWithin, name(94), ports(94, 1, -1, 1))
}
