package kernel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O41: eight services over the same two servers ask each of them once an interval,
// and all of them act on the answer.
func TestO41SharedChecks(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	const services = 8
	var list []string
	for i := range services {
		list = append(list, checked(on(uint16(8000+i), "rr", "NAT", ""), "[virtual_server.TCP_CHECK]\n", "10.9.0.11:80", "10.9.0.12:80"))
	}
	s.start(alone(list...))
	every := func(want map[string]int, limit time.Duration) {
		t.Helper()
		for i := range services {
			d.WaitWeights(limit, name(8000+i), want)
		}
	}
	every(weights(1, 1), 10*time.Second)
	before, began := s.servers[0].AcceptedFrom(d.Addr()), time.Now()
	time.Sleep(10 * delayLoop)
	asked := s.servers[0].AcceptedFrom(d.Addr()) - before
	if most := int(time.Since(began)/delayLoop) + 2; asked < 2 || asked > most {
		t.Errorf("asked %d times in %v, want once each %v", asked, time.Since(began), delayLoop)
	}
	s.servers[0].Kill()
	every(weights(-1, 1), outWithin)
	s.servers[0].SetMode(lab.Answer)
	every(weights(1, 1), backWithin)
}

// A server that recovers is back within one interval, with many pages too; with rise
// and fall after so many of them, and with alpha not before its first check.
func TestRecovery(t *testing.T) {
	t.Parallel()
	const interval = time.Second
	s := newSite(t, 1)
	d := s.d[0]
	timed := strings.Replace(timing, `delay_loop = "300ms"`, "delay_loop = 1", 1)
	get := "[virtual_server.HTTP_GET]\nurl = [{ path = \"/1\" }, { path = \"/2\" }, { path = \"/3\" }, { path = \"/4\" }]\n"
	make := func(port uint16, more, check string) string {
		return strings.Replace(checked(on(port, "rr", "NAT", more), check, "10.9.0.11:80", "10.9.0.12:80"), timing, timed, 1)
	}
	const pages, slow = 8001, 8002
	s.start(alone(make(pages, "", get), make(slow, "rise = 3\nfall = 2", "[virtual_server.TCP_CHECK]\nretry = 0\n")))
	cycle := func(port int, out, back time.Duration) {
		t.Helper()
		d.WaitWeights(10*time.Second, name(port), weights(1, 1))
		died := time.Now()
		s.servers[0].Kill()
		gone := d.WaitWeights(out, name(port), weights(-1, 1))
		time.Sleep(interval / 3)
		returned := time.Now()
		s.servers[0].SetMode(lab.Answer)
		seen := d.WaitWeights(back, name(port), weights(1, 1))
		t.Logf("port %d: out after %v, back after %v", port, gone.Sub(died), seen.Sub(returned))
		if took := seen.Sub(returned); port == slow && took < 2*interval {
			t.Errorf("back after %v, though rise is 3 and delay_loop %v", took, interval)
		}
		if took := gone.Sub(died); port == slow && took < interval {
			t.Errorf("out after %v, though fall is 2 and delay_loop %v", took, interval)
		}
	}
	for range 3 {
		cycle(pages, interval+retryDelay+slack, interval+slack/2) // not one interval a page
	}
	cycle(slow, 2*interval+slack, 3*interval+slack)
}

// alpha: servers that have not passed a check yet are not in the table.
func TestAlpha(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	s.servers[1].Kill()
	service := checked(on(80, "rr", "DR", "alpha = true"), "[virtual_server.TCP_CHECK]\n", servers(1, 1)...)
	ever := make(chan string, 1)
	quit := make(chan struct{})
	go func() {
		defer close(ever)
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
			}
			table, err := d.ProcTable()
			if _, in := table[tcp(vipA())].Weights["10.9.0.12:80"]; err == nil && in {
				ever <- fmt.Sprint(table)
				return
			}
		}
	}()
	vipd := d.Vipd(alone(service))
	vipd.WaitState("A", "MASTER", 10*time.Second)
	d.WaitWeights(10*time.Second, tcp(vipA()), weights(1))
	time.Sleep(2 * delayLoop)
	close(quit)
	if table, was := <-ever; was {
		t.Errorf("a server that never passed its check was in the table: %s", table)
	}
}
