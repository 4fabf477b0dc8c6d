package socket

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func newPoller(t testing.TB) *Poller {
	t.Helper()
	p, err := NewPoller()
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// waited is how long a Wait took.
func waited(t testing.TB, p *Poller, until time.Time) time.Duration {
	t.Helper()
	start := time.Now()
	must(t, p.Wait(until, 0))
	return time.Since(start)
}

func TestPollerWaits(t *testing.T) {
	p := newPoller(t)
	for _, d := range []time.Duration{-time.Hour, 0, time.Nanosecond, 3 * time.Millisecond, 20 * time.Millisecond} {
		deadline := time.Now().Add(d)
		for range 10 { // it may return early, but not again and again
			must(t, p.Wait(deadline, 0))
			if !time.Now().Before(deadline) {
				break
			}
		}
		if early := time.Until(deadline); early > 0 {
			t.Errorf("a deadline %v ahead: returned %v early", d, early)
		}
	}
}

// TestPollerReplacesDeadlines: only the last one counts, later or earlier.
func TestPollerReplacesDeadlines(t *testing.T) {
	p := newPoller(t)
	p.Wake()
	must(t, p.Wait(time.Now().Add(20*time.Millisecond), 0))
	if took := waited(t, p, time.Now().Add(60*time.Millisecond)); took < 55*time.Millisecond {
		t.Errorf("the replaced deadline ended the wait after %v", took)
	}
	p.Wake()
	must(t, p.Wait(time.Now().Add(time.Hour), 0))
	if took := waited(t, p, time.Now().Add(10*time.Millisecond)); took > 5*time.Second {
		t.Errorf("waited for %v", took)
	}
	// The same one again, after it has fired.
	at := time.Now().Add(10 * time.Millisecond)
	must(t, p.Wait(at, 0))
	must(t, p.Wait(at, 0))
	if time.Now().Before(at) {
		t.Error("a deadline that has passed counts no more")
	}
}

// TestPollerWakes: whether it came before Wait or during it, and once.
func TestPollerWakes(t *testing.T) {
	p := newPoller(t)
	for range 3 {
		p.Wake()
		p.Wake()
		if took := waited(t, p, time.Now().Add(10*time.Second)); took > 5*time.Second {
			t.Fatalf("a Wake before Wait was lost: waited for %v", took)
		}
		if took := waited(t, p, time.Now().Add(30*time.Millisecond)); took < 25*time.Millisecond {
			t.Errorf("a Wake ended a second Wait, after %v", took)
		}
		woken := make(chan struct{})
		go func() {
			defer close(woken)
			time.Sleep(10 * time.Millisecond)
			p.Wake()
		}()
		if took := waited(t, p, time.Now().Add(10*time.Second)); took > 5*time.Second {
			t.Fatalf("a Wake during Wait was lost: waited for %v", took)
		}
		<-woken
	}
}

// TestPollerNoWakeIsLost: each of many, from another thread, ends some Wait that
// began before it or begins after it.
func TestPollerNoWakeIsLost(t *testing.T) {
	p := newPoller(t)
	const n = 20_000
	items := make(chan int, 1)
	go func() {
		for i := range n {
			items <- i
			p.Wake()
		}
	}()
	for got := 0; got < n; {
		select {
		case <-items:
			got++
			continue
		default:
		}
		if took := waited(t, p, time.Now().Add(5*time.Second)); took > 4*time.Second {
			t.Fatalf("the Wake for item %d was lost", got)
		}
	}
}

func TestPollerClose(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, err := NewPoller()
	must(t, err)
	must(t, p.Close())
	if err := p.Wait(time.Now().Add(time.Hour), 0); err == nil {
		t.Error("Wait after Close succeeds")
	}
}

// TestPollerWaitDoesNotAllocate, with a deadline and with an advert to read.
func TestPollerWaitDoesNotAllocate(t *testing.T) {
	w := newWire(t, 2)
	wire, c, p := w.capture(t), w.open(t, false, (&drops{}).add), newPoller(t)
	heard := 0
	must(t, p.Add(c, func(r *Received) { heard++; r.Release() }))
	frame := referenceFrames(t, "v3-ipv4.txt")[0].Data
	wire.inject(t, frame)
	must(t, p.Wait(time.Now().Add(time.Second), 0))
	if n := testing.AllocsPerRun(100, func() { must(t, p.Wait(time.Now().Add(50*time.Microsecond), 0)) }); n != 0 {
		t.Errorf("%v allocations for a deadline", n)
	}
	before := heard
	if n := testing.AllocsPerRun(100, func() {
		wire.inject(t, frame)
		must(t, p.Wait(time.Now().Add(time.Second), 0))
	}); n > 1 { // of the injecting
		t.Errorf("%v allocations for an advert", n)
	}
	if heard == before {
		t.Error("no advert was read")
	}
}

// TestPollerKeepsDeadlinesInAFlood: a full queue does not keep Wait.
func TestPollerKeepsDeadlinesInAFlood(t *testing.T) {
	w := newWire(t, 2)
	wire, c, p := w.capture(t), w.open(t, false, (&drops{}).add), newPoller(t)
	heard := 0
	must(t, p.Add(c, func(r *Received) { heard++; r.Release() }))
	frame := referenceFrames(t, "v3-ipv4.txt")[0].Data
	for range 5 * batchSize {
		wire.inject(t, frame)
	}
	if must(t, p.Wait(time.Now(), 0)); heard > batchSize {
		t.Errorf("%d adverts before a deadline, want at most %d", heard, batchSize)
	}
	for range 10 {
		must(t, p.Wait(time.Now(), 0))
	}
	if heard != 5*batchSize {
		t.Errorf("%d of %d adverts read in the end", heard, 5*batchSize)
	}
}

// TestPollerPanic: a fault in what handles one socket's adverts ends the reading
// of that socket alone, and its owner hears why.
func TestPollerPanic(t *testing.T) {
	w := newWire(t, 2)
	wire, p := w.capture(t), poll(t)
	bad, good := w.open(t, false, (&drops{}).add), &endpoint{done: make(chan error, 1)}
	good.Conn = w.open(t, true, good.drops.add)
	good.serve(t)
	must(t, p.Add(bad, func(*Received) { panic("a fault") }))
	wire.inject(t, bytes.Clone(referenceFrames(t, "v3-ipv4.txt")[0].Data))
	if err := bad.Watch(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: a fault") {
		t.Errorf("its owner hears: %v", err)
	}
	wire.inject(t, referenceFrames(t, "v3-ipv6.txt")[0].Data)
	eventually(t, "the other socket's advert", func() bool { return len(good.all()) == 1 })
}

// TestPollerRemove: a socket that was removed is not read, one that is closed is
// no trouble.
func TestPollerRemove(t *testing.T) {
	w := newWire(t, 2)
	wire, p := w.capture(t), poll(t)
	gone, stays := w.open(t, false, (&drops{}).add), &endpoint{done: make(chan error, 1)}
	stays.Conn = w.open(t, false, stays.drops.add)
	must(t, p.Add(stays.Conn, stays.deliver))
	must(t, p.Add(gone, func(r *Received) { t.Error("read after Remove"); r.Release() }))
	p.Remove(gone)
	wire.inject(t, referenceFrames(t, "v3-ipv4.txt")[0].Data)
	eventually(t, "the advert by the other socket", func() bool { return len(stays.all()) == 1 })
	must(t, p.Add(gone, func(r *Received) { r.Release() }))
	must(t, gone.Close())
	p.Remove(gone)
	ctx, cancel := context.WithTimeout(t.Context(), 2*aliveInterval)
	defer cancel()
	if err := gone.Watch(ctx); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed socket: %v", err)
	}
	if err := p.Add(gone, nil); err == nil {
		t.Error("a closed socket can be added")
	}
	p.Remove(stays.Conn)
}

// TestPollerReadsAClosedSocket: one that was closed when it was about to be read is a
// closed one to its owner, too.
func TestPollerReadsAClosedSocket(t *testing.T) {
	w, p := newWire(t, 2), newPoller(t)
	c := w.open(t, false, (&drops{}).add)
	must(t, p.Add(c, func(r *Received) { r.Release() }))
	for _, entry := range *p.conns.Load() {
		must(t, c.Close())
		p.receive(entry)
	}
	if err := c.Watch(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its owner hears: %v", err)
	}
}

// BenchmarkLateness compares the poller with the standard library's timer: how
// long after a deadline, some milliseconds ahead, the waiting goroutine runs.
func BenchmarkLateness(b *testing.B) {
	measure := func(b *testing.B, wait func(deadline time.Time)) {
		rng := rand.New(rand.NewPCG(1, 2))
		var late []time.Duration
		for b.Loop() {
			deadline := time.Now().Add(2*time.Millisecond + time.Duration(rng.IntN(3_000_000)))
			wait(deadline)
			late = append(late, time.Since(deadline))
		}
		slices.Sort(late)
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		b.ReportMetric(us(late[len(late)/2]), "p50-us")
		b.ReportMetric(us(late[len(late)*99/100]), "p99-us")
		b.ReportMetric(us(late[len(late)-1]), "max-us")
	}
	b.Run("poller", func(b *testing.B) {
		p := newPoller(b)
		measure(b, func(deadline time.Time) {
			for time.Now().Before(deadline) {
				must(b, p.Wait(deadline, 0))
			}
		})
	})
	b.Run("timer", func(b *testing.B) {
		timer := time.NewTimer(time.Hour)
		measure(b, func(deadline time.Time) {
			timer.Reset(time.Until(deadline))
			<-timer.C
		})
	})
}
