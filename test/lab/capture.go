package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Frame is one captured Ethernet frame with the kernel's time stamp.
type Frame struct {
	At   time.Time
	Sent bool // by this very interface, not received on it
	Raw  []byte
}

// Capture records every frame on one interface of a node.
type Capture struct {
	node  *Node
	iface string
	fd    int

	mu     sync.Mutex
	frames []Frame
	news   chan struct{} // closed and replaced at each arrival
	done   chan struct{}
	closed bool
	stalls []stall
}

// htons is a 16-bit number in network order.
func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Capture starts to record on the node's front LAN interface. It ends with the
// test, or with Close.
func (n *Node) Capture() *Capture {
	n.lab.t.Helper()
	if n == n.lab.sw {
		return n.CaptureOn("br0")
	}
	return n.CaptureOn(n.ethernet(0))
}

// CaptureOn records on a named interface of the node. A filter (instructions of
// the classic packet filter on the Ethernet frame) may limit what is kept.
func (n *Node) CaptureOn(iface string, filter ...bpf.Instruction) *Capture {
	n.lab.t.Helper()
	c := &Capture{node: n, iface: iface, news: make(chan struct{}), done: make(chan struct{})}
	err := n.Go(func() (err error) { c.fd, err = openPacketSocket(iface, filter); return err })
	if err != nil {
		n.lab.t.Fatalf("lab: capturing on %s of %s: %v", iface, n.Name, err)
	}
	go c.read()
	n.lab.atEnd(c.Close)
	return c
}

// openPacketSocket opens a socket that gets every frame of an interface, with
// time stamps and room for bursts.
func openPacketSocket(iface string, filter []bpf.Instruction) (int, error) {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening a packet socket: %w", err)
	}
	fail := func(doing string, err error) (int, error) {
		unix.Close(fd)
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	if len(filter) > 0 {
		if err := attach(fd, filter); err != nil {
			return fail("attaching the filter", err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		return fail("enlarging the buffer", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fail("switching time stamps on", err)
	}
	limit := unix.Timeval{Usec: 20_000} // read sees Close within 20 ms
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return fail("limiting reads", err)
	}
	all := unix.PacketMreq{Ifindex: int32(ifi.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return fail("listening to all frames", err)
	}
	sa := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: ifi.Index}
	if err := unix.Bind(fd, sa); err != nil {
		return fail("binding to the interface", err)
	}
	return fd, nil
}

// attach sets a classic packet filter.
func attach(fd int, filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return err
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

// read appends frames until Close.
func (c *Capture) read() {
	defer close(c.done)
	buf := make([]byte, 64<<10)
	oob := make([]byte, 128)
	for {
		began := time.Now()
		n, oobn, _, from, err := unix.Recvmsg(c.fd, buf, oob, 0)
		c.mu.Lock()
		c.noteStall(began, time.Now())
		if c.closed {
			c.mu.Unlock()
			return
		}
		if err == nil {
			at, ok := kernelTime(oob[:oobn])
			if !ok {
				at = time.Now()
			}
			ll, _ := from.(*unix.SockaddrLinklayer)
			sent := ll != nil && ll.Pkttype == unix.PACKET_OUTGOING
			c.frames = append(c.frames, Frame{At: at, Sent: sent, Raw: slices.Clone(buf[:n])})
			close(c.news)
			c.news = make(chan struct{})
		}
		c.mu.Unlock()
		// Any error but a timeout means the interface went away or down; it may return.
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			time.Sleep(time.Millisecond)
		}
	}
}

// kernelTime finds the time stamp among the control messages.
func kernelTime(oob []byte) (time.Time, bool) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(sec), int64(nsec)), true
		}
	}
	return time.Time{}, false
}

// Close ends the recording; what was recorded stays.
func (c *Capture) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.mu.Unlock()
	<-c.done
	unix.Close(c.fd)
}

// Frames is everything recorded so far, in order of arrival.
func (c *Capture) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// Lost is how many frames the kernel dropped because the reader was too slow.
// It is reset by reading. A test that counts frames checks that it is 0.
func (c *Capture) Lost() int {
	c.node.lab.t.Helper()
	st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		c.node.lab.t.Fatalf("lab: statistics of the capture: %v", err)
	}
	return int(st.Drops)
}

// WaitFrame waits at most limit for a frame for which match is true, already
// recorded ones included, and fails the test when none comes.
func (c *Capture) WaitFrame(limit time.Duration, what string, match func(Frame) bool) Frame {
	c.node.lab.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for next := 0; ; {
		c.mu.Lock()
		frames, news := c.frames, c.news
		c.mu.Unlock()
		for ; next < len(frames); next++ {
			if match(frames[next]) {
				return frames[next]
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			c.node.lab.t.Fatalf("lab: no %s on %s of %s within %v (%d frames seen)", what, c.iface, c.node.Name, limit, next)
		}
	}
}

// FromNode is a filter for the frames of one node, Except one for all others.
func FromNode(n *Node) []bpf.Instruction { return bySender(n, bpf.JumpNotEqual) }

// Except is a filter for all frames but those of one node.
func Except(n *Node) []bpf.Instruction { return bySender(n, bpf.JumpEqual) }

// bySender drops the frames whose sender's MAC compares so with the node's.
func bySender(n *Node, drop bpf.JumpTest) []bpf.Instruction {
	var low uint32
	var a, b byte
	if _, err := fmt.Sscanf(n.MAC(), "02:00:00:%x:00:%x", &a, &b); err == nil {
		low = uint32(a)<<16 | uint32(b)
	}
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 8, Size: 4}, // the last four bytes of the MAC
		bpf.JumpIf{Cond: drop, Val: low, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	}
}

// Inject sends raw Ethernet frames out of the node's front LAN interface.
func (n *Node) Inject(frames ...[]byte) {
	n.lab.t.Helper()
	err := n.Go(func() error {
		ifi, err := net.InterfaceByName(n.ethernet(0))
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, f := range frames {
			if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index, Halen: 6}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.lab.t.Fatalf("lab: sending frames from %s: %v", n.Name, err)
	}
}
