// Package ready waits for many descriptors, a time and requests of others in one system
// call.
package ready

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Set is what is waited for. Wait and Add are for one goroutine, Wake and Close for any.
//
// Wait parks its goroutine in the runtime's poller, as any read does, and no other call
// waits in the kernel: those go past the scheduler. A call that might wait, or a second
// goroutine that has to run first, would wake more threads than there is work for.
type Set struct {
	files  []*os.File // of the life time of fds
	fds    struct{ epoll, timer, event int }
	raw    syscall.RawConn
	look   func(fd uintptr) bool // made once: a closure for each Wait would be an allocation
	events [64]unix.EpollEvent
	found  int
	failed error
	armed  time.Time // what the timer is set to; zero: nothing
	out    []Event

	asleep, woken atomic.Bool // Wait is in the kernel, or about to be; Wake was called

	mu     sync.Mutex // guards the descriptors against being closed meanwhile
	closed bool
}

// Event says that a descriptor needs not be waited for any more.
type Event struct {
	ID  uint64
	Why healthcheck.Reason // Ready or Trouble
}

// Numbers that no descriptor of Add has.
const (
	timerID = ^uint64(0)
	eventID = timerID - 1
)

// New returns an empty set.
func New() (*Set, error) {
	s := &Set{}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.look = func(fd uintptr) bool {
		s.found, s.failed = 0, nil
		for {
			n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), 0, 0, 0)
			switch errno {
			case 0:
				s.found = int(n)
				return n > 0
			case unix.EINTR: // the runtime's poller tells of each arrival once: look again
				continue
			}
			s.failed = errno
			return true
		}
	}
	return s, nil
}

func (s *Set) open() (err error) {
	for _, d := range []struct {
		name string
		fd   *int
		make func() (int, error)
	}{
		{"epoll instance", &s.fds.epoll, newEpoll},
		{"timerfd", &s.fds.timer, func() (int, error) { return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC) }},
		{"eventfd", &s.fds.event, func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC) }},
	} {
		if *d.fd, err = d.make(); err != nil {
			return fmt.Errorf("opening the %s: %w", d.name, err)
		}
		s.files = append(s.files, os.NewFile(uintptr(*d.fd), d.name))
	}
	if s.raw, err = s.files[0].SyscallConn(); err != nil {
		return fmt.Errorf("opening the epoll instance: %w", err)
	}
	// By edges: neither is ever read, and each expiry or write counts once.
	return errors.Join(s.add(s.fds.timer, timerID, unix.EPOLLIN|unix.EPOLLET), s.add(s.fds.event, eventID, unix.EPOLLIN|unix.EPOLLET))
}

// newEpoll makes an epoll instance that os.NewFile gives to the runtime's poller.
func newEpoll() (int, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	return fd, err
}

func (s *Set) add(fd int, id uint64, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(s.fds.epoll), unix.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("watching a descriptor: %w", errno)
	}
	return nil
}

// Add waits until a descriptor is writable or has an error; that is told once, with the
// id. Closing the descriptor takes it out.
func (s *Set) Add(fd int, id uint64) error { return s.add(fd, id, unix.EPOLLOUT|unix.EPOLLET) }

// Wake makes the present or the next Wait return.
func (s *Set) Wake() {
	s.woken.Store(true)
	if !s.asleep.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		one := uint64(1)
		// It cannot fail: the counter does not overflow within the life of the machine.
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fds.event), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Wait returns when the time until has come, after Wake, and when something is to be told
// of a descriptor; now is the present time. What it returns is good until the next Wait.
// After Close it is an error.
func (s *Set) Wait(now, until time.Time) ([]Event, error) {
	s.out = s.out[:0]
	if err := s.arm(now, until); err != nil {
		return nil, err
	}
	s.asleep.Store(true)
	err := s.await(s.woken.Swap(false) || !now.Before(until))
	s.asleep.Store(false)
	s.woken.Store(false) // who called Wake until now is looked after now
	if err == nil {
		err = s.failed
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for descriptors: %w", err)
	}
	for _, ev := range s.events[:s.found] {
		switch id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32; {
		case id == timerID:
			s.armed = time.Time{}
		case id == eventID:
		case ev.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
			s.out = append(s.out, Event{id, healthcheck.Trouble})
		default:
			s.out = append(s.out, Event{id, healthcheck.Ready})
		}
	}
	return s.out, nil
}

// await looks for events, once or until there are some.
func (s *Set) await(once bool) error {
	if !once {
		return s.raw.Read(s.look)
	}
	s.look(uintptr(s.fds.epoll))
	return nil
}

// arm sets the timer.
func (s *Set) arm(now, until time.Time) error {
	if !now.Before(until) || until.Equal(s.armed) {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(until.Sub(now)))}
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(s.fds.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("setting a timerfd: %w", errno)
	}
	s.armed = until
	return nil
}

// Close ends Wait, and every Wait after it.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}
