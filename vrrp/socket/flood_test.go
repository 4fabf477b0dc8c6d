package socket

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// TestFlood: 50,000 packets of junk a second are counted, allocate nothing and
// leave no queue behind (O16), and the adverts among them arrive.
func TestFlood(t *testing.T) {
	const n = 20_000
	w := newWire(t, 2)
	wire := w.capture(t)
	for _, v6 := range []bool{false, true} {
		e := w.serve(t, v6)
		good, junk := floodFrames(t, v6)
		wire.inject(t, junk)
		eventually(t, "the first of the junk", func() bool { return e.drops.count(packet.DropVersion) == 1 })

		before, after := runtime.MemStats{}, runtime.MemStats{}
		runtime.ReadMemStats(&before)
		start := time.Now()
		for i := range n {
			frame := junk
			if i%1000 == 500 {
				frame = good
			}
			wire.inject(t, frame)
			if i%50 == 0 {
				time.Sleep(time.Until(start.Add(time.Duration(i/50) * time.Millisecond)))
			}
		}
		took := time.Since(start)
		seen := func() int {
			return e.drops.count(packet.DropVersion) + e.drops.count(packet.DropOverrun) + len(e.all())
		}
		eventually(t, "everything counted", func() bool {
			wire.inject(t, junk) // an overrun is told with the next packet
			time.Sleep(5 * time.Millisecond)
			return seen() >= n
		})
		runtime.ReadMemStats(&after)
		allocs := after.Mallocs - before.Mallocs
		t.Logf("IPv6 %v: %d packets in %v, %d overruns, %d adverts, %d allocations in the whole process",
			v6, n, took, e.drops.count(packet.DropOverrun), len(e.all()), allocs)
		if allocs > n/20 {
			t.Errorf("IPv6 %v: %d allocations for %d packets", v6, allocs, n)
		}
		// On a machine busy with other things the reader may be kept from its
		// CPU for longer than the buffer lasts: then some are lost, and counted.
		if e.drops.count(packet.DropOverrun) == 0 && len(e.all()) != n/1000 {
			t.Errorf("IPv6 %v: %d of %d adverts delivered without an overrun", v6, len(e.all()), n/1000)
		}
		during := len(e.all())
		wire.inject(t, good)
		eventually(t, "an advert after the flood", func() bool { return len(e.all()) == during+1 })
		if queues := w.receiveQueues(t); queues != 0 {
			t.Errorf("IPv6 %v: %d sockets with packets left to read", v6, queues)
		}
	}
}

// floodFrames are a good advert and one that only its version makes junk.
func floodFrames(t *testing.T, v6 bool) (good, junk []byte) {
	t.Helper()
	file := "v3-ipv4.txt"
	if v6 {
		file = "v3-ipv6.txt"
	}
	good = referenceFrames(t, file)[0].Data
	junk = bytes.Clone(good)
	payload(junk)[0] = 0x11
	return good, junk
}

// receiveQueues is the number of raw sockets in the near namespace with
// something unread.
func (w *wire) receiveQueues(t testing.TB) (n int) {
	t.Helper()
	w.near.do(t, func() error {
		for _, name := range []string{"raw", "raw6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			must(t, err)
			for line := range strings.Lines(string(text)) {
				fields := strings.Fields(line)
				if len(fields) < 5 || fields[0] == "sl" {
					continue
				}
				_, rx, _ := strings.Cut(fields[4], ":")
				if strings.Trim(rx, "0") != "" {
					n++
				}
			}
		}
		return nil
	})
	return n
}

// TestUnservedQueueIsBounded: even a socket that nobody reads holds no more
// than its buffer.
func TestUnservedQueueIsBounded(t *testing.T) {
	w := newWire(t, 2)
	for _, v6 := range []bool{false, true} {
		c := w.open(t, v6, (&drops{}).add)
		var size int
		must(t, c.raw.Control(func(fd uintptr) {
			size, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		}))
		if size != 2*receiveBuffer {
			t.Errorf("IPv6 %v: receive buffer %d", v6, size)
		}
	}
}
