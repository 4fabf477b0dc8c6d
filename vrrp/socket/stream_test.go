package socket

import (
	"testing"
	"time"
)

// TestStream: only readings of few adverts, one soon after the other, are one.
func TestStream(t *testing.T) {
	start := time.Now()
	const patience = 20 * time.Millisecond
	for _, c := range []struct {
		name          string
		gap, patience time.Duration
		packets       int
		want, again   bool // after a pause, from the first advert
	}{
		{"a burst of single adverts", time.Millisecond, patience, 1, true, false},
		{"many of them", time.Millisecond, patience, 3, true, true},
		{"with naps between", patience + time.Millisecond, patience, 4, true, true},
		{"no patience", time.Millisecond, shortestNap - 1, 3, false, false},
		{"a master with an interval of 40 ms", 40 * time.Millisecond, patience, 1, false, false},
		{"full readings", time.Millisecond, patience, batchSize, false, true},
		{"deadlines", time.Millisecond, patience, 0, false, false},
	} {
		s := stream{}
		for i := range 3 * streamLong {
			s.now = start.Add(time.Duration(i) * c.gap)
			if i == streamLong-1 && s.flows(c.patience) {
				t.Errorf("%s: flows after %d", c.name, i)
			}
			s.nap = c.gap - time.Millisecond
			if c.want == false {
				s.nap = 0
			}
			s.heard(c.packets)
		}
		if s.flows(c.patience) != c.want {
			t.Errorf("%s: flows is %t", c.name, !c.want)
		}
		s.now = s.now.Add(streamGap + time.Millisecond)
		if s.heard(1); s.flows(c.patience) != c.again {
			t.Errorf("%s: after a pause flows is %t", c.name, !c.again)
		}
	}
}

// TestNoNapInAFlood: nor soon after it, however little the next readings find.
func TestNoNapInAFlood(t *testing.T) {
	s := stream{now: time.Now()}
	for range floodLong {
		s.heard(batchSize)
	}
	for began := s.now; s.now.Sub(began) <= floodPause; s.now = s.now.Add(time.Millisecond) {
		if s.heard(1); s.flows(time.Second) {
			t.Fatalf("a nap %v after a flood", s.now.Sub(began))
		}
	}
	if s.heard(1); !s.flows(time.Second) {
		t.Error("no nap long after the flood")
	}
}

// TestBurstIsNoFlood: the adverts of a neighbour with hundreds of virtual routers, which send all at once, second by
// second, are awaited in a nap, and what is more than one reading holds is read without another. From the second time on
// the first advert is enough for that, and when as many have come as the last time, nothing more is awaited.
func TestBurstIsNoFlood(t *testing.T) {
	s := stream{now: time.Now()}
	for second := range 5 {
		singles := 1
		if second == 0 {
			singles = streamLong + 1
		}
		for i := range singles {
			if s.heard(1); s.flows(time.Second) != (i == singles-1) {
				t.Fatalf("second %d, after %d readings: flows is %t", second, i+1, i < singles-1)
			}
			s.now = s.now.Add(20 * time.Microsecond)
		}
		s.nap, s.now = 20*time.Millisecond, s.now.Add(20*time.Millisecond)
		for range floodLong - 1 {
			if s.heard(batchSize); s.flows(time.Second) {
				t.Fatal("a nap although more is waiting")
			}
		}
		left := streamLong + 4 - singles
		if s.heard(left - 1); !s.flows(time.Second) {
			t.Fatalf("second %d: no nap although not all have come", second)
		}
		if s.heard(1); s.flows(time.Second) != (second == 0) {
			t.Fatalf("second %d: after the burst was read flows is %t", second, second > 0)
		}
		s.now = s.now.Add(time.Second)
	}
}

// streaming returns a poller that takes naps for ever, if nothing arrives.
func streaming(t testing.TB) *Poller {
	p := newPoller(t)
	p.stream = stream{length: streamLong, last: time.Now()}
	return p
}

// TestNapEndsWithDeadline: and not before.
func TestNapEndsWithDeadline(t *testing.T) {
	p := streaming(t)
	for range 50 {
		deadline := time.Now().Add(2 * time.Millisecond)
		for time.Now().Before(deadline) {
			must(t, p.Wait(deadline, 4*time.Millisecond))
		}
		if late := time.Since(deadline); late > time.Second {
			t.Fatalf("late by %v", late)
		}
	}
	began := time.Now()
	must(t, p.Wait(began.Add(30*time.Millisecond), 4*time.Millisecond))
	if took := time.Since(began); took < 25*time.Millisecond {
		t.Errorf("a wait of 30 ms ended after %v", took)
	}
}

// TestNapEndsWithWake: it is not slept through.
func TestNapEndsWithWake(t *testing.T) {
	p := streaming(t)
	for range 3 { // what the kernel still has to tell ends the first one
		go func() {
			time.Sleep(5 * time.Millisecond)
			p.Wake()
		}()
		began := time.Now()
		must(t, p.Wait(began.Add(10*time.Second), 5*time.Second))
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a Wake was noticed after %v", took)
		}
	}
}

// TestNapReadsAll: what came during a nap is read after it, with the time of its
// arrival.
func TestNapReadsAll(t *testing.T) {
	w := newWire(t, 2)
	wire, c, p := w.capture(t), w.open(t, false, (&drops{}).add), streaming(t)
	var at []time.Time
	must(t, p.Add(c, func(r *Received) { at = append(at, r.At); r.Release() }))
	time.Sleep(50 * time.Millisecond) // the kernel begins to look at the clock some time after it was asked
	const n = 40
	began, frame := time.Now(), referenceFrames(t, "v3-ipv4.txt")[0].Data
	var sent time.Time // the last one
	go func() {
		for range n {
			wire.inject(t, frame)
			time.Sleep(time.Millisecond)
		}
		p.Wake()
	}()
	readings := 0
	for end := began.Add(20 * time.Second); len(at) < n && time.Now().Before(end); readings++ {
		must(t, p.Wait(end, 4*time.Millisecond))
	}
	sent = time.Now()
	if len(at) != n {
		t.Fatalf("%d of %d adverts read", len(at), n)
	}
	for i, a := range at {
		if a.Before(began.Add(-time.Millisecond)) || a.After(sent) || i > 0 && a.Before(at[i-1].Add(-time.Millisecond)) {
			t.Errorf("advert %d: arrived after %v, the one before after %v", i, a.Sub(began), at[max(i-1, 0)].Sub(began))
		}
	}
	t.Logf("%d adverts in %d readings", n, readings)
}

// TestArrival: an advert that waited counts from its arrival; one that waited for
// long, as in a process that was frozen, from its reading.
func TestArrival(t *testing.T) {
	w := newWire(t, 2)
	frames := map[bool][]byte{false: referenceFrames(t, "v3-ipv4.txt")[0].Data, true: referenceFrames(t, "v3-ipv6.txt")[0].Data}
	for v6, frame := range frames {
		wire, c, p := w.capture(t), w.open(t, v6, (&drops{}).add), newPoller(t)
		var got time.Time
		must(t, p.Add(c, func(r *Received) { got = r.At; r.Release() }))
		read := func(wait time.Duration) (after, age time.Duration) {
			began := time.Now()
			wire.inject(t, frame)
			time.Sleep(wait)
			got = time.Time{}
			for range 100 {
				if must(t, p.Wait(time.Now().Add(time.Second), 0)); !got.IsZero() {
					break
				}
			}
			return got.Sub(began), time.Since(got)
		}
		ok := false
		for range 5 { // a busy machine may be late itself
			if after, age := read(believed / 2); after < believed/4 && age >= believed/4 {
				ok = true
				break
			}
		}
		if !ok {
			t.Errorf("IPv6 %t: an advert that waited for %v does not count from its arrival", v6, believed/2)
		}
		if after, _ := read(2 * believed); after < 2*believed {
			t.Errorf("IPv6 %t: an advert that waited for %v counts from %v after it was sent", v6, 2*believed, after)
		}
	}
}
