package socket

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// anchor is one moment on both clocks: Go's, whose monotonic reading is not to
// be had, and the kernel's. To read them anew for every deadline would put any
// pause between the two readings into the deadline.
type anchor struct {
	at   time.Time
	mono int64 // nanoseconds of CLOCK_MONOTONIC
}

// newAnchor reads both clocks a few times and keeps the tightest pair.
func newAnchor() (best anchor, err error) {
	width := int64(math.MaxInt64)
	for range 16 {
		var before, after unix.Timespec
		if err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
			return best, err
		}
		at := time.Now()
		if err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
			return best, err
		}
		if w := after.Nano() - before.Nano(); w < width {
			width, best = w, anchor{at, before.Nano() + w/2}
		}
	}
	return best, nil
}

// monotonic is t in nanoseconds of CLOCK_MONOTONIC.
func (a anchor) monotonic(t time.Time) int64 { return a.mono + int64(t.Sub(a.at)) }
