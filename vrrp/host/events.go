package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ownPause is how long after a change of vipd's own the watcher reads: soon enough for the manager not to look for
// itself (verifyAfter), and late enough for the first addresses of a take-over to be announced meanwhile.
const ownPause = 15 * time.Millisecond

// ownLongest is how long further changes of vipd's own put that reading off: a thousand additions are read once.
const ownLongest = 60 * time.Millisecond

// writer is a kernel that changes are made through, too.
type writer interface {
	relevant(message) bool // an event about routes and rules
	sender() uint32        // what events of changes made through it bear
	onWrite(func())        // called after each such change; nil: not any more
}

// nudge wakes the watcher a while after changes of vipd's own.
type nudge struct {
	wake func()

	mu    sync.Mutex // guards all following fields
	timer *time.Timer
	armed bool
	first time.Time // of the changes since the last reading
}

func (n *nudge) wrote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if !n.armed {
		n.armed, n.first = true, now
	}
	wait := min(ownPause, max(n.first.Add(ownLongest).Sub(now), 0))
	if n.timer == nil {
		n.timer = time.AfterFunc(wait, n.wake)
		return
	}
	n.timer.Reset(wait)
}

func (n *nudge) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.armed {
		n.timer.Stop()
		n.armed = false
	}
}

// subscription is a socket that gets the events. Of most their content is of no interest.
type subscription struct {
	file     *os.File
	buf      []byte
	got      []byte             // what wait returned for, in buf
	relevant func(message) bool // of those about routes and rules; nil: none is
	written  uint64             // prober.written before the last drain
}

// subscribe asks for events about links, addresses, routes, rules and the IPv6 forwarding setting.
func subscribe(buffer int) (*subscription, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket for events: %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) // without CAP_NET_ADMIN: what is allowed
	}
	groups := []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_NETCONF,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE}
	sa := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, g := range groups {
		sa.Groups |= 1 << (g - 1)
	}
	if err := unix.Bind(fd, sa); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("subscribing to netlink events: %w", err)
	}
	return &subscription{file: os.NewFile(uintptr(fd), "netlink events"), buf: make([]byte, receiveBuffer)}, nil
}

// ignore has the kernel send no events of changes that one's own requests made, nor of the routes that come and go
// with addresses: a thousand of them while a thousand addresses are added cost as much as the addresses.
func (s *subscription) ignore(sender uint32) error {
	prog, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 4}, // nlmsg_pid
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: swap32(sender), SkipTrue: 9},
		bpf.LoadAbsolute{Off: 4, Size: 2}, // nlmsg_type
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: swap16(unix.RTM_NEWROUTE), SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: swap16(unix.RTM_DELROUTE), SkipTrue: 5},
		bpf.LoadAbsolute{Off: unix.SizeofNlMsghdr + 5, Size: 1}, // rtm_protocol
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RTPROT_KERNEL, SkipTrue: 3},
		bpf.LoadAbsolute{Off: unix.SizeofNlMsghdr + 7, Size: 1}, // rtm_type
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.RTN_LOCAL, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.RTN_BROADCAST, SkipTrue: 1},
		bpf.RetConstant{Val: 1<<32 - 1},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return fmt.Errorf("making the filter of netlink events: %w", err)
	}
	code := make([]unix.SockFilter, len(prog))
	for i, r := range prog {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("filtering netlink events: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("filtering netlink events: %w", err)
	}
	return nil
}

// swap32 and swap16 are a number of a netlink message as filters see it: they load big-endian ones.
func swap32(n uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, n))
}

func swap16(n uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, n)))
}

// interrupt ends a wait as an event would.
func (s *subscription) interrupt() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

// interrupted reports whether the error is that of interrupt, which is then over.
func (s *subscription) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = s.file.SetReadDeadline(time.Time{})
	return true
}

// wait returns after an event that matters or an interruption, or with the error of a lost event.
func (s *subscription) wait() error {
	for {
		n, err := s.receive(true)
		s.got = s.buf[:n]
		if s.interrupted(err) {
			return nil
		}
		if err != nil || s.matters(s.buf[:n]) {
			return err
		}
	}
}

// matters reports whether any of the messages is a reason to read again.
func (s *subscription) matters(b []byte) bool {
	for len(b) >= unix.SizeofNlMsghdr {
		m, rest, ok := cutMessage(b)
		if !ok {
			return true
		}
		switch m.typ {
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE:
			if s.relevant != nil && s.relevant(m) {
				return true
			}
		default:
			return true
		}
		b = rest
	}
	return false
}

// drain takes the events that are there. The sender never waits for us: what does not fit is lost, with an error.
func (s *subscription) drain() error {
	for range drainLimit {
		_, err := s.receive(false)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case s.interrupted(err): // a reading follows anyway
		case err != nil:
			return err
		}
	}
	return nil
}

func (s *subscription) receive(block bool) (n int, err error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("receiving netlink events: %w", err)
	}
	var got error
	err = raw.Read(func(fd uintptr) bool {
		n, _, got = unix.Recvfrom(int(fd), s.buf, 0)
		return !block || !errors.Is(got, unix.EAGAIN)
	})
	if errors.Is(got, unix.EINTR) {
		return 0, nil
	}
	if err = errors.Join(err, got); err != nil {
		return 0, fmt.Errorf("receiving netlink events: %w", err)
	}
	return n, nil
}
