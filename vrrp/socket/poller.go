package socket

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller is where the owner of virtual routers waits, in one system call, for
// its next deadline, for adverts on all sockets and for others' requests. What
// arrives is read and delivered in the caller's goroutine: no other goroutine
// has to be woken before an advert is acted on or sent. With many instances that
// is most of the work there is.
//
// A deadline is a timerfd on CLOCK_MONOTONIC, met to a fraction of a
// millisecond; the timeouts of the standard library's timers are whole
// milliseconds. Lateness measured on a shared 2-core virtual machine (Linux
// 6.18, Go 1.26) by
//
//	go test -run '^$' -bench Lateness -benchtime 2000x ./vrrp/socket
//
// is in its output, that of a time.Timer beside it.
//
// Wait parks its goroutine in the runtime's poller, as any other read does. A
// thread of its own, waiting in the kernel, would cost more: the runtime's monitor
// wakes up with every blocking system call, and takes the processor from a
// goroutine that is never parked. For that reason also all other system calls here,
// which do not wait, go past the scheduler.
//
// Wait belongs to one goroutine; every other method may be called from any.
type Poller struct {
	files         []*os.File // of the life time of fds
	fds           struct{ epoll, quiet, timer, event, alarm int }
	raw, rawQuiet syscall.RawConn // of both epoll instances, which the runtime's poller watches

	mu    sync.Mutex
	last  int32
	conns atomic.Pointer[map[int32]*polled] // replaced, never changed

	asleep atomic.Bool // Wait is in the kernel, or about to be
	woken  atomic.Bool

	// Of Wait.
	ready     int                   // events of the last look
	failed    error                 // of the last look
	look      func(fd uintptr) bool // made once: a closure for each Wait would be an allocation
	lookQuiet func(fd uintptr) bool
	anchor    anchor
	armed     time.Time // what the timer is set to; zero: nothing
	spec      unix.ItimerSpec
	events    [32]unix.EpollEvent
	batch     *batch
	stream    stream
	alarm     unix.ItimerSpec // of naps
}

// polled is a Conn with its owner's wish.
type polled struct {
	conn    *Conn
	deliver func(*Received)
	// Made once: a closure for each reading would be an allocation.
	read, mute, hear func(fd uintptr)
}

// Numbers of what is waited for, other than sockets.
const (
	timerID = -1
	eventID = -2
	alarmID = -3
)

// NewPoller returns a poller without sockets.
func NewPoller() (*Poller, error) {
	p := &Poller{batch: newBatch()}
	p.conns.Store(&map[int32]*polled{})
	var err error
	if p.anchor, err = newAnchor(); err != nil {
		return nil, fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
	}
	if err = p.open(); err == nil {
		err = p.watchAll()
	}
	if err != nil {
		_ = p.Close() // the first error is the one to tell
		return nil, err
	}
	p.look = func(uintptr) bool {
		p.ready, p.failed = p.peek(p.fds.epoll)
		return p.ready > 0 || p.failed != nil
	}
	p.lookQuiet = func(uintptr) bool {
		n, err := p.peek(p.fds.quiet)
		return n > 0 || err != nil
	}
	return p, nil
}

// open opens all descriptors but the sockets.
func (p *Poller) open() error {
	timer := func() (int, error) { return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC) }
	for _, d := range []struct {
		name string
		fd   *int
		make func() (int, error)
		raw  *syscall.RawConn
	}{
		{"epoll instance", &p.fds.epoll, newEpoll, &p.raw},
		{"second epoll instance", &p.fds.quiet, newEpoll, &p.rawQuiet},
		{"timerfd", &p.fds.timer, timer, nil},
		{"eventfd", &p.fds.event, func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC) }, nil},
		{"second timerfd", &p.fds.alarm, timer, nil},
	} {
		fd, err := d.make()
		if err != nil {
			return fmt.Errorf("opening the %s: %w", d.name, err)
		}
		file := os.NewFile(uintptr(fd), d.name)
		*d.fd, p.files = fd, append(p.files, file)
		if d.raw == nil {
			continue
		}
		if *d.raw, err = file.SyscallConn(); err != nil {
			return fmt.Errorf("opening the %s: %w", d.name, err)
		}
	}
	return nil
}

// watchAll has them watched by edges: none is ever read, and each expiry or write
// counts once.
func (p *Poller) watchAll() error {
	const edges = unix.EPOLLIN | unix.EPOLLET
	return errors.Join(
		watch(p.fds.epoll, p.fds.timer, timerID, edges), watch(p.fds.epoll, p.fds.event, eventID, edges),
		watch(p.fds.quiet, p.fds.timer, timerID, edges), watch(p.fds.quiet, p.fds.event, eventID, edges),
		watch(p.fds.quiet, p.fds.alarm, alarmID, edges))
}

// newEpoll makes an epoll instance that os.NewFile gives to the runtime's poller.
func newEpoll() (int, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	return fd, err
}

func watch(epoll, fd int, id int32, events uint32) error {
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: id}); err != nil {
		return fmt.Errorf("watching a descriptor: %w", err)
	}
	return nil
}

// Add has c read by Wait: each good advert is given to deliver, from Wait, in
// order of arrival; deliver must not block and must see to the Release. An error
// of the socket ends that, and is what [Conn.Watch] returns.
func (p *Poller) Add(c *Conn, deliver func(*Received)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last+1, 0)
	id, entry := p.last, &polled{conn: c, deliver: deliver}
	entry.read = func(fd uintptr) { p.batch.receive(fd) }
	entry.mute = func(fd uintptr) { p.change(fd, id, 0) }
	entry.hear = func(fd uintptr) { p.change(fd, id, unix.EPOLLIN) }
	conns := maps.Clone(*p.conns.Load())
	conns[id] = entry
	p.conns.Store(&conns)
	var err error
	if ctl := c.in.Control(func(fd uintptr) { err = watch(p.fds.epoll, int(fd), id, unix.EPOLLIN) }); ctl != nil {
		err = ctl
	}
	if err != nil {
		p.forget(c)
	}
	return err
}

// Remove ends what Add began. A Wait that is under way may still deliver what it
// has read.
func (p *Poller) Remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
	// An error means that it is closed, and then the kernel has forgotten it, too.
	_ = c.in.Control(func(fd uintptr) { _ = unix.EpollCtl(p.fds.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) })
}

// forget takes a socket off the list; mu is held.
func (p *Poller) forget(c *Conn) {
	conns := maps.Clone(*p.conns.Load())
	maps.DeleteFunc(conns, func(_ int32, e *polled) bool { return e.conn == c })
	p.conns.Store(&conns)
}

// Wake makes the present or the next Wait return. When Wait has returned, its caller
// looks for everything that somebody may have called Wake for.
func (p *Poller) Wake() {
	p.woken.Store(true)
	if p.asleep.Load() {
		one := uint64(1)
		// It cannot fail but after Close: nobody waits then.
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(p.fds.event), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Wait returns when the time until has come (zero: never), after Wake, and when
// it has read something: at most one batch a socket, so that deadlines are met
// whatever arrives. Of a stream of adverts (see stream) it may leave those unread that
// have come within the time patience. It does not allocate. An error means that
// nothing can be on time any more.
func (p *Poller) Wait(until time.Time, patience time.Duration) error {
	now, err := p.arm(until)
	if err != nil {
		return err
	}
	p.asleep.Store(true)
	now = p.woken.Swap(false) || now
	n, err := p.await(now, patience)
	p.asleep.Store(false)
	if err != nil {
		return fmt.Errorf("waiting for adverts and deadlines: %w", err)
	}
	conns, read := *p.conns.Load(), 0
	for i := range n {
		switch id := p.events[i].Fd; id {
		case timerID:
			p.armed = time.Time{}
		case eventID:
		default:
			if c := conns[id]; c != nil {
				read += p.receive(c)
			}
		}
	}
	p.stream.heard(read)
	// Who called Wake until now has his wish: the caller looks after him now. That is
	// also deliver, mostly.
	p.woken.Store(false)
	return nil
}

// await waits for events, unless there is no time for it, and returns how many.
func (p *Poller) await(now bool, patience time.Duration) (int, error) {
	if now {
		return p.peek(p.fds.epoll)
	}
	if p.stream.flows(patience) {
		p.nap(patience)
	}
	if err := p.raw.Read(p.look); err != nil {
		return 0, err
	}
	return p.ready, p.failed
}

// peek returns the events of an epoll instance that are there.
func (p *Poller) peek(epoll int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, errno
}

// arm sets the timer and reports whether until has passed.
func (p *Poller) arm(until time.Time) (now bool, err error) {
	if until.IsZero() {
		return false, nil // what the timer is set to does no harm
	}
	if !time.Now().Before(until) {
		return true, nil
	}
	if until.Equal(p.armed) {
		return false, nil
	}
	p.spec.Value = unix.NsecToTimespec(p.anchor.monotonic(until))
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(p.fds.timer), unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&p.spec)), 0, 0, 0)
	if errno != 0 {
		return false, fmt.Errorf("setting a timerfd: %w", errno)
	}
	p.armed = until
	return false, nil
}

// receive reads and delivers one batch of a socket. What goes wrong with it, a
// panic too, is the affair of that socket alone.
func (p *Poller) receive(c *polled) (n int) {
	var err error
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		if err != nil {
			p.Remove(c.conn)
			c.conn.fail(err)
		}
	}()
	if c.conn.in.Control(c.read) != nil {
		err = os.ErrClosed
		return 0
	}
	if err = p.batch.err; err != nil {
		if (c.conn.tap != nil || c.conn.sent != nil) && errors.Is(err, unix.ENETDOWN) {
			err = nil // a packet socket tells once that its link went down; whether it is gone Watch finds out
		}
		return
	}
	now := time.Now()
	p.stream.now = now
	for i := range p.batch.n {
		c.conn.handle(p.batch.message(i), now, c.deliver)
	}
	return p.batch.n
}

// Close ends the poller; nobody may be waiting.
func (p *Poller) Close() error {
	var first error
	for _, f := range p.files {
		if err := f.Close(); err != nil && first == nil {
			first = fmt.Errorf("closing the poller: %w", err)
		}
	}
	return first
}
