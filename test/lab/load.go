package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Load is a steady load of HTTP requests, each on a connection of its own.
type Load struct {
	quit chan struct{}
	done chan struct{}

	to       netip.AddrPort
	from     []netip.Addr
	begun    *atomic.Uint64 // by all loads of the node
	rate     int
	limit    time.Duration
	request  []byte
	poll     int
	open     map[int]*request // by descriptor
	attempts []Attempt
	err      error
}

// request is one of them, in flight.
type request struct {
	at    time.Time
	sent  bool
	reply []byte
}

// Load starts clients on the node that make rate HTTP requests a second, evenly,
// whatever becomes of the earlier ones. Each has limit for all of it, from the SYN to
// the end of the reply, which must be whole and have status 200; its body names the
// server. It ends with Stop or the test. IPv4 alone. With from, the clients have these
// addresses in turn, and no port of an address comes again before all others: the kernel
// takes one at random, and with it, now and then, a connection that IPVS still has, to a
// server that is out of the table, and for which it drops the SYN.
//
// One thread does all of it with few system calls: in the user-mode kernel these are
// what a load costs.
func (n *Node) Load(to netip.AddrPort, rate int, limit time.Duration, from ...netip.Addr) *Load {
	n.lab.t.Helper()
	l := &Load{
		quit: make(chan struct{}), done: make(chan struct{}), to: to, from: from, begun: &n.begun, rate: rate, limit: limit, open: map[int]*request{},
		request: fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %v\r\nConnection: close\r\n\r\n", to.Addr()),
	}
	go func() {
		defer close(l.done)
		l.err = n.Go(l.run)
	}()
	n.lab.atEnd(l.halt)
	return l
}

// run makes requests until quit is closed, and ends those in flight.
func (l *Load) run() (err error) {
	runtime.LockOSThread() // nothing is gained by another one
	defer runtime.UnlockOSThread()
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(l.poll)
	due, swept := time.Now(), time.Now()
	for quit := false; !quit || len(l.open) > 0; {
		select {
		case <-l.quit:
			quit = true
		default:
		}
		// After a stall what was due meanwhile comes a little faster, not at once.
		for range 4 {
			if quit || due.After(time.Now()) {
				break
			}
			if err := l.begin(); err != nil {
				return err
			}
			due = due.Add(time.Second / time.Duration(l.rate))
		}
		wait := min(max(time.Until(due), 0), 50*time.Millisecond)
		if quit {
			wait = 50 * time.Millisecond
		}
		if err := l.serve(wait); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(swept) > 20*time.Millisecond {
			swept = now
			for fd, r := range l.open {
				if now.Sub(r.at) > l.limit {
					l.end(fd, "", os.ErrDeadlineExceeded)
				}
			}
		}
	}
	return nil
}

// begin makes a socket and begins to connect it.
func (l *Load) begin() error {
	at := time.Now()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making a socket: %w", err)
	}
	l.open[fd] = &request{at: at}
	if len(l.from) > 0 {
		if err := l.bind(fd); err != nil {
			return fmt.Errorf("binding to an address of the client: %w", err)
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(l.to.Port()), Addr: l.to.Addr().As4()}); err != nil && err != unix.EINPROGRESS {
		return fmt.Errorf("connecting: %w", err)
	}
	return unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET, Fd: int32(fd)})
}

// bind gives a socket the next address, and the port of it that was used longest ago.
func (l *Load) bind(fd int) error {
	const lowest, ports = 1024, 1<<16 - 1024
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	own := &unix.SockaddrInet4{}
	for range 16 { // what listens there is left out
		n, addresses := l.begun.Add(1), uint64(len(l.from))
		own.Addr, own.Port = l.from[n%addresses].As4(), int(lowest+n/addresses%ports)
		if err := unix.Bind(fd, own); err != unix.EADDRINUSE {
			return err
		}
	}
	return unix.EADDRINUSE
}

// serve waits for something to do, at most so long, and does it.
func (l *Load) serve(wait time.Duration) error {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(l.poll, events[:], int((wait+time.Millisecond-1)/time.Millisecond))
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("waiting: %w", err)
	}
	for _, e := range events[:max(n, 0)] {
		fd := int(e.Fd)
		r := l.open[fd]
		if r == nil {
			continue
		}
		if !r.sent && e.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			if _, err := unix.Write(fd, l.request); err != nil { // that of connect, if it failed
				l.end(fd, "", err)
				continue
			}
			r.sent = true
		}
		if r.sent && e.Events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			l.read(fd, r)
		}
	}
	return nil
}

// read takes what has come.
func (l *Load) read(fd int, r *request) {
	var buf [2048]byte
	for {
		n, err := unix.Read(fd, buf[:])
		switch {
		case err == unix.EAGAIN:
			return
		case err != nil:
			l.end(fd, "", err)
			return
		case n == 0:
			l.end(fd, "", fmt.Errorf("the reply is %q", r.reply))
			return
		}
		r.reply = append(r.reply, buf[:n]...)
		if server, whole := wholeReply(r.reply); whole {
			l.end(fd, server, nil)
			return
		}
	}
}

// wholeReply returns the body, one line, of a reply that is whole and has status 200.
func wholeReply(reply []byte) (string, bool) {
	head, body, ok := bytes.Cut(reply, []byte("\r\n\r\n"))
	if !ok || !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) || !bytes.HasSuffix(body, []byte("\n")) {
		return "", false
	}
	return string(bytes.TrimSpace(body)), true
}

// end ends a request.
func (l *Load) end(fd int, server string, err error) {
	r := l.open[fd]
	delete(l.open, fd)
	unix.Close(fd)
	l.attempts = append(l.attempts, Attempt{r.at, time.Since(r.at), server, err})
}

func (l *Load) halt() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	<-l.done
	for fd := range l.open { // after an error
		l.end(fd, "", errors.New("the load ended"))
	}
}

// Stop ends the load, waits for the requests in flight and returns all, in the order of
// their ends.
func (l *Load) Stop() ([]Attempt, error) {
	l.halt()
	return l.attempts, l.err
}
