package socket

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vipd/vrrp/packet/vectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a served Conn.
type endpoint struct {
	*Conn
	inbox
	drops drops
	done  chan error
}

func (w *wire) key(v6 bool) Key {
	k := lanKey(v6)
	k.Interface, k.Index = w.name, w.index
	return k
}

// open opens a Conn on the near end.
func (w *wire) open(t testing.TB, v6 bool, onDrop OnDrop) *Conn {
	t.Helper()
	var c *Conn
	w.near.do(t, func() (err error) {
		c, err = Open(w.key(v6), onDrop)
		return err
	})
	t.Cleanup(func() { c.Close() })
	c.SetVRIDs([]uint8{51})
	return c
}

// serve opens a Conn on the near end and has it read until the test ends.
func (w *wire) serve(t testing.TB, v6 bool) *endpoint {
	t.Helper()
	return w.served(t, func(onDrop OnDrop) *Conn { return w.open(t, v6, onDrop) })
}

// served has a Conn read until the test ends.
func (w *wire) served(t testing.TB, open func(OnDrop) *Conn) *endpoint {
	t.Helper()
	e := &endpoint{done: make(chan error, 1)}
	e.Conn = open(e.drops.add)
	e.serve(t)
	return e
}

// serve has the Conn read by a poller of its own until the test ends.
func (e *endpoint) serve(t testing.TB) {
	t.Helper()
	p := poll(t)
	must(t, p.Add(e.Conn, e.deliver))
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.done <- e.Watch(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
		p.Remove(e.Conn)
	})
}

// poll runs a poller until the test ends.
func poll(t testing.TB) *Poller {
	t.Helper()
	p, err := NewPoller()
	must(t, err)
	var stop atomic.Bool
	finished := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = p.Wait(time.Time{}, 0)
		}
		finished <- err
	}()
	t.Cleanup(func() {
		stop.Store(true)
		p.Wake()
		if err := <-finished; err != nil {
			t.Errorf("the poller ended: %v", err)
		}
		must(t, p.Close())
	})
	return p
}

// eventually waits up to 5 s for ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 5 s: %s", what)
}

// referenceFrames returns the frames of a file of packet's test data.
func referenceFrames(t testing.TB, name string) []vectors.Frame {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "packet", "testdata", "vectors", name))
	must(t, err)
	defer f.Close()
	frames, err := vectors.Parse(f)
	must(t, err)
	return frames
}

func payload(frame []byte) []byte {
	if binary.BigEndian.Uint16(frame[12:]) == etherTypeIPv6 {
		return frame[54:]
	}
	return frame[34:]
}

// withoutFlowLabel clears the flow label, which is the kernel's choice.
