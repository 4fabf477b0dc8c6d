package track

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The process connector of Linux (linux/connector.h, linux/cn_proc.h).
const (
	cnIdxProc         = 1
	cnValProc         = 1
	procMcastListen   = 1
	cnHeader          = 20 // struct cn_msg
	procEventHeader   = 16 // what, cpu, timestamp
	procEventNone     = 0x00000000
	procEventFork     = 0x00000001
	procEventExec     = 0x00000002
	procEventComm     = 0x00000200
	procEventExit     = 0x80000000
	connectorAnswer   = time.Second // how long the kernel may take to agree
	connectorBuffer   = 1 << 20
	connectorMessages = 4096
)

// change is one change of the set of processes.
type change struct {
	pid  int
	gone bool
	lost bool // the kernel told more than could be read: look at all
}

// connector is a subscription to the kernel's process events.
type connector struct {
	file    *os.File
	changes chan change // closed when the socket fails
	quit    chan struct{}
	done    sync.WaitGroup
}

// openConnector subscribes. The kernel serves it in the first network namespace
// and the first process namespace only; the socket is opened in the former, whose
// path is first, whatever namespace vipd itself is in.
func openConnector(first string) (*connector, error) {
	fd, err := inFirstNamespace(first, func() (int, error) {
		return unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	})
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's process connector: %w", err)
	}
	if err := subscribe(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("subscribing to the kernel's process connector: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("opening the kernel's process connector: %w", err)
	}
	c := &connector{file: os.NewFile(uintptr(fd), "process connector"), changes: make(chan change, connectorMessages), quit: make(chan struct{})}
	c.done.Add(1)
	go func() {
		defer c.done.Done()
		defer close(c.changes)
		c.read()
	}()
	return c, nil
}

// inFirstNamespace runs open in the network namespace that path names, or where that
// is not to be had in our own.
func inFirstNamespace(path string, open func() (int, error)) (int, error) {
	first, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return open()
	}
	defer unix.Close(first)
	type opened struct {
		fd  int
		err error
	}
	answer := make(chan opened)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(first, unix.CLONE_NEWNET); err != nil {
			fd, openErr := open()
			answer <- opened{fd, openErr}
			return
		}
		fd, err := open()
		answer <- opened{fd, err}
	}()
	o := <-answer
	return o.fd, o.err
}

// subscribe asks for events and waits until the kernel agrees: from other process
// namespaces it takes the request and says nothing.
func subscribe(fd int) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, connectorBuffer) // an overflow is noticed
	const size = unix.SizeofNlMsghdr + cnHeader + 4
	m := make([]byte, size)
	ne := binary.NativeEndian
	ne.PutUint32(m[0:], size)
	ne.PutUint16(m[4:], unix.NLMSG_DONE)
	ne.PutUint32(m[12:], uint32(os.Getpid()))
	cn := m[unix.SizeofNlMsghdr:]
	ne.PutUint32(cn[0:], cnIdxProc)
	ne.PutUint32(cn[4:], cnValProc)
	ne.PutUint16(cn[16:], 4)
	ne.PutUint32(cn[cnHeader:], procMcastListen)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 8192)
	for end := time.Now().Add(connectorAnswer); ; {
		left := time.Until(end)
		if left <= 0 {
			return errors.New("no answer: this is not the first process namespace")
		}
		tv := unix.NsecToTimeval(left.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return err
		}
		for _, e := range parseEvents(buf[:n]) {
			if e.what != procEventNone {
				return nil // others asked before; it works
			}
			if e.errno != 0 {
				return syscall.Errno(e.errno)
			}
			return nil
		}
	}
}

// procEvent is one message of the kernel.
type procEvent struct {
	what  uint32
	pid   int // process concerned; of a fork the new one
	tgid  int
	errno uint32 // of procEventNone
}

// parseEvents reads a datagram.
func parseEvents(b []byte) []procEvent {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil
	}
	var out []procEvent
	ne := binary.NativeEndian
	for _, m := range msgs {
		d := m.Data
		if len(d) < cnHeader+procEventHeader+8 || ne.Uint32(d) != cnIdxProc || ne.Uint32(d[4:]) != cnValProc {
			continue
		}
		d = d[cnHeader:]
		e := procEvent{what: ne.Uint32(d)}
		data := d[procEventHeader:]
		switch e.what {
		case procEventNone:
			e.errno = ne.Uint32(data)
		case procEventFork: // parent pid, parent tgid, child pid, child tgid
			if len(data) < 16 {
				continue
			}
			e.pid, e.tgid = int(ne.Uint32(data[8:])), int(ne.Uint32(data[12:]))
		case procEventExec, procEventComm, procEventExit:
			e.pid, e.tgid = int(ne.Uint32(data)), int(ne.Uint32(data[4:]))
		}
		out = append(out, e)
	}
	return out
}

// read hands changes on until the socket fails or is closed.
func (c *connector) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			if !c.send(change{lost: true}) {
				return
			}
			continue
		case err != nil:
			return
		}
		for _, e := range parseEvents(buf[:n]) {
			if e.pid != e.tgid {
				continue // a thread
			}
			ch := change{pid: e.tgid, gone: e.what == procEventExit}
			switch e.what {
			case procEventFork, procEventExec, procEventComm, procEventExit:
				if !c.send(ch) {
					return
				}
			}
		}
	}
}

// send hands one change on; false: nobody listens any more.
func (c *connector) send(ch change) bool {
	select {
	case c.changes <- ch:
		return true
	case <-c.quit:
		return false
	}
}

// close ends the subscription.
func (c *connector) close() {
	close(c.quit)
	c.file.Close()
	c.done.Wait()
}

var errAside = errors.New("the kernel is not asked, for nothing is to be changed")

// Aside has /proc read and the kernel not asked to tell of processes, for that is a
// change to the kernel. It must come before Run.
func (p *Processes) Aside() { p.aside = true }

// connect asks the kernel to tell of processes; nil: it does not.
func (p *Processes) connect() *connector {
	if p.aside {
		p.from(errAside)
		return nil
	}
	events, err := openConnector(p.first)
	p.from(err)
	if err != nil {
		return nil
	}
	return events
}
