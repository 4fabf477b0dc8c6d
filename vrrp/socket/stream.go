package socket

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A neighbour with hundreds of virtual routers sends its adverts one by one, with some
// milliseconds between them. To wake up for each of them is most of the work of a
// BACKUP. While such a stream lasts, the Poller therefore reads it as seldom as its
// owner's patience allows, as a network card does that moderates its interrupts.
// Deadlines and Wake end a nap at once, and adverts have the time of their arrival
// from the kernel: what is late is but the answer to them.
//
// One that sends them all at once is quiet until the next time. Of as many as before the
// last pause, the first one is reason enough for a nap, and the last one for none.
const (
	shortestNap = time.Millisecond
	streamGap   = 20 * time.Millisecond // a pause longer than a nap by this ends a stream
	streamLong  = 4                     // readings on end that make one
	burstMany   = 32                    // adverts without a pause that are likely to come again in the same way
	napSockets  = 4                     // with more of them, to mute all costs more than it spares
	floodLong   = 16                    // readings on end that are full: more than a neighbour's burst (512 adverts)
	floodPause  = time.Second           // after that many: no nap for so long
)

// stream sees whether adverts come one by one on end.
type stream struct {
	now    time.Time     // of the reading that is under way
	last   time.Time     // of the last reading that found any
	nap    time.Duration // before it
	length int
	came   int       // adverts since the last pause
	burst  int       // adverts before it, since the one before
	full   int       // readings on end that held all they could
	flood  time.Time // of the last one of a flood
}

// heard counts a reading at s.now that found n packets.
func (s *stream) heard(n int) {
	if n == 0 {
		return
	}
	switch {
	case s.now.Sub(s.last) > s.nap+streamGap:
		s.burst, s.came, s.length = s.came, 0, 0
		if s.burst >= burstMany {
			s.length = streamLong
		}
	case n < batchSize && s.length < streamLong:
		s.length++
	}
	s.last, s.nap, s.came = s.now, 0, s.came+n
	if n < batchSize {
		s.full = 0
		return
	}
	if s.full++; s.full >= floodLong {
		s.length, s.flood = 0, s.now
	}
}

// flows reports whether a nap is worth while. After a full reading more is waiting, and
// after as many adverts as the last time none.
func (s *stream) flows(patience time.Duration) bool {
	return patience >= shortestNap && s.length >= streamLong && s.full == 0 && s.came != s.burst && s.last.Sub(s.flood) > floodPause
}

// nap waits for a deadline or Wake, but no longer than d. The sockets are muted for it:
// else each advert would wake the runtime's poller up, which watches all.
func (p *Poller) nap(d time.Duration) {
	conns := *p.conns.Load()
	if len(conns) > napSockets {
		return
	}
	for _, c := range conns {
		_ = c.conn.in.Control(c.mute) // an error means that it is closed
	}
	p.stream.nap = d
	// A deadline of the runtime's would cost the waking of another thread.
	p.alarm.Value = unix.NsecToTimespec(int64(d))
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(p.fds.alarm), 0, uintptr(unsafe.Pointer(&p.alarm)), 0, 0, 0); errno == 0 {
		_ = p.rawQuiet.Read(p.lookQuiet) // it fails after Close alone
	}
	for _, c := range conns {
		_ = c.conn.in.Control(c.hear)
	}
}

// change sets what a socket that is read is watched for. It may be removed already.
func (p *Poller) change(fd uintptr, id int32, events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: id}
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fds.epoll), unix.EPOLL_CTL_MOD, fd, uintptr(unsafe.Pointer(&ev)), 0, 0)
}
