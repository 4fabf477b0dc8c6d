package kernel

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// A director that is stopped takes its addresses and services out of its
// kernel, leaves services of others alone, and its peer has the group at once.
// No connection is refused, whenever a client tries.
func TestDRDirectorStops(t *testing.T) {
	s := newSite(t, 2)
	services := []string{web(vipA(), "rr", 1, 1, 1), web(vipB(), "wrr", 3, 2, 1)}
	daemons := s.start(pair(0, calm, services...), pair(1, calm, services...))
	for _, d := range s.d {
		d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
		d.WaitWeights(5*time.Second, tcp(vipB()), weights(3, 2, 1))
	}
	d1, d2 := s.d[0], s.d[1]
	d1.Sh("ipvsadm -A -u 192.0.2.1:53 -s wlc; ipvsadm -a -u 192.0.2.1:53 -r 192.0.2.9:53 -i -w 3")
	seen, client := s.cl.Capture(), s.crowd(at(vipA(), 80))
	time.Sleep(time.Second)

	stopped := daemons[0].Signal(syscall.SIGTERM)
	if code := daemons[0].Wait(5 * time.Second); code != 0 {
		t.Errorf("the exit status is %d, want 0", code)
	}
	if took := time.Since(stopped); took > time.Second+slack {
		t.Errorf("stopping took %v, want at most 1 s", took)
	}
	if left := d1.Table().String(); strings.TrimSpace(left) != "UDP 192.0.2.1:53 wlc { 192.0.2.9:53 Tunnel 3; }" {
		t.Errorf("left in the kernel's table: %s; want the foreign service alone", left)
	}
	if d1.Has(vipA()) || d1.Has(vipB()) {
		t.Error("a VIP is left on d1")
	}
	first := seen.WaitAdvert(5*time.Second, 51, d2.Addr(), stopped)
	if took := first.At.Sub(stopped); took > calm+slack { // the skew alone
		t.Errorf("d2 sent its first advert for A after %v, want at most the skew time", took)
	}
	time.Sleep(1500 * time.Millisecond)
	attempts := client()
	// Connections that were open while the group moved are lost with it; no other
	// is reset, and none is ever refused.
	refused := lab.Filter(attempts, func(a lab.Attempt) bool {
		moving := a.At.Before(first.At.Add(100*time.Millisecond)) && a.At.Add(a.Took).After(stopped)
		return errors.Is(a.Err, syscall.ECONNREFUSED) || errors.Is(a.Err, syscall.ECONNRESET) && !moving
	})
	if len(refused) > 0 {
		t.Errorf("%d of %d connections were refused or reset, the first began %v after the stop: %v",
			len(refused), len(attempts), refused[0].At.Sub(stopped), refused[0].Err)
	}
	// While d1 waits for its successor, its services serve.
	waiting := lab.Filter(lab.Between(attempts, stopped, first.At), func(a lab.Attempt) bool { return a.At.Add(a.Took).Before(first.At) })
	for _, a := range waiting {
		if a.Err != nil {
			t.Errorf("a connection %v after the stop, before d2 took over: %v", a.At.Sub(stopped), a.Err)
		}
	}
	if len(waiting) == 0 {
		t.Error("no connection was tried between the stop and the takeover")
	}
	served := lab.Filter(lab.Between(attempts, first.At.Add(200*time.Millisecond), time.Now()), func(a lab.Attempt) bool { return a.Err == nil })
	if len(served) < 10 {
		t.Errorf("%d connections after the take-over, want more", len(served))
	}
	if d2.Table().String() == "" || !d2.Has(vipA()) || !d2.Has(vipB()) {
		t.Error("d2 has not all of it")
	}
}
