package socket

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A neighbour with hundreds of virtual routers sends its adverts one by one, with a
// millisecond between them. To wake up for each of them is most of the work of a
// BACKUP. While such a stream lasts, the Poller therefore reads it every napTime at
// most, as a network card does that moderates its interrupts. Deadlines and Wake end
// a nap at once, and adverts have the time of their arrival from the kernel: what is
// late is but the answer to them.
const (
	napTime    = 4 * time.Millisecond
	streamGap  = 8 * time.Millisecond // a longer pause ends a stream
	streamLong = 8                    // readings on end that make one
	streamFull = batchSize / 2        // with more at once there is no time to lose
)

// stream sees whether adverts come one by one on end.
type stream struct {
	allowed bool // another processor can run the other goroutines meanwhile
	now     time.Time
	last    time.Time // of the last reading
	length  int
}

// heard counts a reading at s.now that found n packets.
func (s *stream) heard(n int) {
	switch {
	case n == 0:
		return
	case n >= streamFull || s.now.Sub(s.last) > streamGap:
		s.length = 0
	case s.length < streamLong:
		s.length++
	}
	s.last = s.now
}

// flows reports whether a nap is worth while.
func (s *stream) flows() bool { return s.allowed && s.length >= streamLong }

// nap waits for a deadline or Wake, but no longer than napTime. It is not told to the
// scheduler: it is shorter than a time slice.
func (p *Poller) nap() {
	var events [2]unix.EpollEvent
	// An error is as good as an end of the nap.
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fds.quiet), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(napTime/time.Millisecond), 0, 0)
}
