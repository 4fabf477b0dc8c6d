package socket

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
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

// serve opens a Conn and serves it until the test ends.
func (w *wire) serve(t testing.TB, v6 bool) *endpoint {
	t.Helper()
	e := &endpoint{done: make(chan error, 1)}
	e.Conn = w.open(t, v6, e.drops.add)
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.done <- e.Serve(ctx, e.deliver)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	return e
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
