package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func itoa(n uint8) string { return strconv.Itoa(int(n)) }

// Probe is one echo request and what came of it.
type Probe struct {
	Target netip.Addr
	Sent   time.Time
	Got    time.Time // zero: no reply
	MAC    string    // that answered first
}

// Lost reports that no reply came.
func (p Probe) Lost() bool { return p.Got.IsZero() }

// Time implements Stamped: when the reply came. Do not use it on lost ones.
func (p Probe) Time() time.Time { return p.Got }

// Pinger sends echo requests to one or many addresses at a fixed rate and
// notes, with the kernel's time stamps, who answered and when.
type Pinger struct {
	node    *Node
	capture *Capture
	id      uint16

	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	probes []Probe
	err    error
}

// Ping starts to ping every target once per interval, from the node's front
// LAN, IPv4 and IPv6 mixed as given. The schedule is kept by the kernel's clock,
// so 1 ms is possible; requests that are late are sent at once.
func (n *Node) Ping(interval time.Duration, targets ...netip.Addr) *Pinger {
	n.lab.t.Helper()
	return n.PingOn(0, interval, targets...)
}

// PingOn is Ping on bridge br0 or br1.
func (n *Node) PingOn(lan int, interval time.Duration, targets ...netip.Addr) *Pinger {
	n.lab.t.Helper()
	p := &Pinger{node: n, id: uint16(os.Getpid()) ^ uint16(time.Now().UnixNano()>>10), stop: make(chan struct{}), done: make(chan struct{})}
	p.capture = n.CaptureOn(n.ethernet(lan), echoReplies()...)
	var fd4, fd6 int
	err := n.Go(func() (err error) {
		if fd4, err = openPingSocket(unix.AF_INET, unix.IPPROTO_ICMP); err != nil {
			return err
		}
		fd6, err = openPingSocket(unix.AF_INET6, unix.IPPROTO_ICMPV6)
		return err
	})
	if err != nil {
		n.lab.t.Fatalf("lab: opening ping sockets in %s: %v", n.Name, err)
	}
	go p.send(interval, targets, fd4, fd6)
	n.lab.atEnd(p.halt)
	return p
}

// openPingSocket opens a raw socket to send with. Replies are read elsewhere, so
// its own receive queue is closed by a filter that drops everything.
func openPingSocket(family, proto int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return 0, err
	}
	if err := attach(fd, []bpf.Instruction{bpf.RetConstant{Val: 0}}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// echoReplies lets ICMP and ICMPv6 echo replies through.
func echoReplies() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x86dd, SkipTrue: 6},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x0800, SkipTrue: 9},
		bpf.LoadAbsolute{Off: 23, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMP, SkipTrue: 7},
		bpf.LoadMemShift{Off: 14},
		bpf.LoadIndirect{Off: 14, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5, SkipFalse: 4},
		bpf.LoadAbsolute{Off: 20, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMPV6, SkipTrue: 2},
		bpf.LoadAbsolute{Off: 54, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 129, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1 << 16},
	}
}

// send is the loop of the sender; each request carries the index of its probe.
func (p *Pinger) send(interval time.Duration, targets []netip.Addr, fd4, fd6 int) {
	defer close(p.done)
	defer unix.Close(fd4)
	defer unix.Close(fd6)
	step := interval / time.Duration(max(1, len(targets)))
	var next unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &next); err != nil {
		p.fail(err)
		return
	}
	for i := 0; ; i++ {
		select {
		case <-p.stop:
			return
		default:
		}
		target := targets[i%len(targets)]
		if err := p.sendOne(fd4, fd6, i, target); err != nil {
			p.fail(err)
		}
		next = unix.NsecToTimespec(next.Nano() + int64(step))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &next, nil) == unix.EINTR {
		}
	}
}

// sendOne sends probe number i. A send that the kernel refuses (no route, no
// neighbour) is a lost probe, as it is for a client.
func (p *Pinger) sendOne(fd4, fd6, i int, target netip.Addr) error {
	b := make([]byte, 24)
	b[0] = 8
	if target.Is6() {
		b[0] = 128
	}
	binary.BigEndian.PutUint16(b[4:], p.id)
	binary.BigEndian.PutUint16(b[6:], uint16(i))
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	binary.BigEndian.PutUint16(b[2:], Checksum(b)) // the kernel fills it in for IPv6
	p.mu.Lock()
	p.probes = append(p.probes, Probe{Target: target, Sent: time.Now()})
	p.mu.Unlock()
	var err error
	if target.Is4() {
		err = unix.Sendto(fd4, b, 0, &unix.SockaddrInet4{Addr: target.As4()})
	} else {
		err = unix.Sendto(fd6, b, 0, &unix.SockaddrInet6{Addr: target.As16()})
	}
	switch err {
	case nil, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENETDOWN, unix.ENOBUFS, unix.EAGAIN, unix.EINTR, unix.EADDRNOTAVAIL:
		return nil
	}
	return fmt.Errorf("sending an echo request to %v: %w", target, err)
}

// Checksum is that of RFC 1071, of an even number of bytes.
func Checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func (p *Pinger) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *Pinger) halt() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	<-p.done
}

// Stop ends the sending, waits a moment for the last replies and returns all
// probes in order of sending.
func (p *Pinger) Stop() []Probe {
	p.node.lab.t.Helper()
	p.halt()
	time.Sleep(50 * time.Millisecond)
	list := p.Probes()
	p.capture.Close()
	if p.err != nil {
		p.node.lab.t.Fatalf("lab: pinging from %s: %v", p.node.Name, p.err)
	}
	return list
}

// Probes returns all probes so far, in order of sending, with the replies that
// have come.
func (p *Pinger) Probes() []Probe {
	p.mu.Lock()
	probes := slices.Clone(p.probes)
	p.mu.Unlock()
	for _, e := range decode(p.capture, Packet.Echo) {
		if !e.Reply || e.ID != p.id || e.Sent || len(e.Data) < 8 {
			continue
		}
		i := binary.BigEndian.Uint64(e.Data)
		if i < uint64(len(probes)) && probes[i].Lost() && probes[i].Target == e.Src {
			probes[i].Got, probes[i].MAC = e.At, e.SrcMAC
		}
	}
	return probes
}

// Answered keeps the probes that got a reply, ordered by when it came.
func Answered(list []Probe) []Probe {
	got := Filter(list, func(p Probe) bool { return !p.Lost() })
	slices.SortStableFunc(got, func(a, b Probe) int { return a.Got.Compare(b.Got) })
	return got
}

// LostProbes keeps the probes without a reply.
func LostProbes(list []Probe) []Probe { return Filter(list, Probe.Lost) }

// Outage is the longest time between two replies in a row, as a client sees it,
// and when it began. Give it the probes of one target.
func Outage(list []Probe) (time.Duration, time.Time) { return LongestGap(Answered(list)) }

// Unanswered is Outage of a client that stands still now and then: it counts from the
// first question in that time.
func Unanswered(list []Probe) (outage time.Duration, from time.Time) {
	replies := Answered(list)
	for i := 1; i < len(replies); i++ {
		begin, end := replies[i-1].Got, replies[i].Got
		if end.Sub(begin) <= outage {
			continue
		}
		for _, p := range list {
			if p.Sent.After(begin) {
				if d := end.Sub(p.Sent); d > outage {
					outage, from = d, p.Sent
				}
				break
			}
		}
	}
	return outage, from
}
