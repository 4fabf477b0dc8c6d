package kernel

import (
	"fmt"
	"testing"
	"time"

	"vipd/test/lab"
)

// O39: a check that changes with a reload decides from then on; one that does
// not change keeps its verdict and its counters, whatever moves around it.
func TestO39CheckChangedByReload(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	conf := func(check string, list ...string) string {
		return alone(checked("address = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", check, list...))
	}
	good := "[virtual_server.TCP_CHECK]\n"
	dead := "[virtual_server.TCP_CHECK]\nconnect_port = 81\n"
	http := func(codes string) string {
		return fmt.Sprintf("[virtual_server.HTTP_GET]\nurl = [{ path = \"/\", status_code = %q }]\n", codes)
	}
	vipd := s.start(conf(good, servers(1, 1)...))[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1))
	for _, srv := range s.servers {
		srv.HTTP(404, "none")
	}

	for _, c := range []struct {
		name, check string
		want        map[string]int
		limit       time.Duration
	}{
		{"up, then a dead port", dead, weights(), outWithin},
		{"down, then a good port", good, weights(1, 1), backWithin},
		{"another type that fails", http("200"), weights(), outWithin},
		{"the same with a status that fits", http("404"), weights(1, 1), backWithin},
		{"back to the first type", good, weights(1, 1), backWithin},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := vipd.Reload(conf(c.check, servers(1, 1)...))
			seen := d.WaitWeights(c.limit+slack, tcp(vipA()), c.want)
			t.Logf("in the table after %v", seen.Sub(at))
		})
	}

	t.Run("rename and reorder", func(t *testing.T) { testReorder(t, s, vipd, conf, good) })
	t.Run("counters survive", func(t *testing.T) { testCounters(t, s, vipd) })
}

// testReorder moves the servers of a service around, one of them down, and
// renames it: a dead server must not come in for an instant, a good one not go.
func testReorder(t *testing.T, s *site, vipd *lab.Daemon, conf func(string, ...string) string, check string) {
	d := s.d[0]
	s.servers[0].Kill()
	vipd.Reload(conf(check, servers(1, 1)...))
	d.WaitWeights(outWithin+slack, tcp(vipA()), weights(-1, 1))

	quit, wrong := make(chan struct{}), make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
			}
			table, err := d.ProcTable()
			p := table[tcp(vipA())]
			_, bad := p.Weights["10.9.0.11:80"]
			if _, ok := p.Weights["10.9.0.12:80"]; err != nil || bad || !ok {
				select {
				case wrong <- fmt.Sprint(table, err):
				default:
				}
			}
		}
	}()
	own := "address = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n"
	for _, c := range []string{
		conf(check, "10.9.0.12:80", "10.9.0.11:80"),
		conf(check, "10.9.0.13:80", "10.9.0.12:80", "10.9.0.11:80"),
		alone(web(vipB(), "rr", 1), checked("name = \"renamed\"\n"+own, check, "10.9.0.11:80", "10.9.0.12:80")),
		conf(check, "10.9.0.11:80", "10.9.0.12:80"),
	} {
		vipd.Reload(c)
		time.Sleep(400 * time.Millisecond)
	}
	close(quit)
	<-done
	select {
	case w := <-wrong:
		t.Errorf("while the configuration was rearranged the table was %s; want r2 in and r1 out all the time", w)
	default:
	}
	s.servers[0].SetMode(lab.Answer)
	d.WaitWeights(backWithin, tcp(vipA()), weights(1, 1))
}

// testCounters kills a server and reloads more often than its retries come: the
// failures already seen must count.
func testCounters(t *testing.T, s *site, vipd *lab.Daemon) {
	d := s.d[0]
	conf := func(i int) string {
		return alone(
			checked("address = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n",
				"[virtual_server.TCP_CHECK]\nretry = 2\ndelay_before_retry = \"500ms\"\n", servers(1, 1)...),
			web(vipB(), "rr", 1+i%2))
	}
	vipd.Reload(conf(0))
	time.Sleep(2*delayLoop + time.Second/2)
	d.WaitWeights(backWithin, tcp(vipA()), weights(1, 1))
	s.servers[0].Kill()
	died := time.Now()
	for i := 1; time.Since(died) < 10*time.Second; i++ {
		vipd.Reload(conf(i))
		time.Sleep(150 * time.Millisecond)
		if t, err := d.ProcTable(); err == nil && len(t[tcp(vipA())].Weights) == 1 {
			break
		}
	}
	if took, limit := time.Since(died), delayLoop+2*500*time.Millisecond+2*slack; took > limit {
		t.Errorf("out after %v with a reload every 150 ms, want at most %v", took, limit)
	}
	d.WaitWeights(slack, tcp(vipA()), weights(-1, 1))
}
