package kernel

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// shareTest: what each server gets of many connections is what the weights say, within 2 % under rr and wrr. Under wlc
// and sed, which look at the connections that are open, it is within 10 %, of connections that stay open for a while.
type shareTest struct {
	scheduler string
	weights   []int
	open      int // connections that are open at once; 0: they are closed at once
	percent   int
}

// shareTests are services on ports from 9300. (600 connections; 10,000 with VIPD_LONG=1.)
func shareTests() []serviceTest {
	n := 600
	if os.Getenv("VIPD_LONG") == "1" {
		n = 10_000
	}
	var out []serviceTest
	for i, c := range []shareTest{
		{"rr", []int{1, 1, 1}, 0, 2}, {"wrr", []int{3, 2, 1}, 0, 2}, {"wlc", []int{3, 2, 1}, n / 4, 10}, {"sed", []int{3, 2, 1}, n / 4, 10},
	} {
		port := uint16(9300 + i)
		var servers []string
		for j, w := range c.weights {
			servers = append(servers, fmt.Sprintf("10.9.0.%d:%d %d", 11+j, port, w))
		}
		out = append(out, serviceTest{
			"shares under " + c.scheduler, service(on(port, c.scheduler, "DR", ""), servers...),
			func(s *site) { s.serve(port, 3) }, func(t *testing.T, s *site) { c.test(t, s, port, n) },
		})
	}
	return out
}

func (c shareTest) test(t *testing.T, s *site, port uint16, n int) {
	to, began := at(vipA(), port), time.Now()
	s.d[0].WaitWeights(5*time.Second, name(int(port)), ports(port, c.weights...))
	got := map[string]int{}
	if c.open == 0 {
		var err error
		if got, err = s.cl.Spread(to, n, 8, 5*time.Second); err != nil {
			t.Errorf("%d connections failed, the first: %v", got[""], err)
		}
	} else {
		for range n / c.open {
			for _, k := range s.cl.Open(to, c.open, 8, 5*time.Second) {
				got[k.Server]++
				defer k.Close()
			}
		}
	}
	t.Logf("%v of %d connections in %v", got, n, time.Since(began).Round(time.Millisecond))
	sum := 0
	for _, w := range c.weights {
		sum += w
	}
	for j, w := range c.weights {
		want := n * w / sum
		if diff := got[s.r[j].Name] - want; diff*100 > want*c.percent+100 || -diff*100 > want*c.percent+100 {
			t.Errorf("%s answered %d connections, want %d within %d %%", s.r[j].Name, got[s.r[j].Name], want, c.percent)
		}
	}
}
