package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Speech is a VRRP advert that a test itself puts on the wire, built here and
// not by the daemon under test. Zero values take those of a valid advert.
type Speech struct {
	Src      netip.Addr // required; its family is that of the advert
	Dst      netip.Addr // the multicast group when invalid
	DstMAC   string     // that of the multicast group when empty
	TTL      uint8      // 255 when 0
	Version  uint8      // 3 when 0
	VRID     uint8
	Priority uint8
	Interval time.Duration // 1 s when 0
	Addrs    []netip.Addr
	AuthPass string // version 2: authentication type 1 (PASS)
	BadSum   bool   // spoil the checksum
	Claim    uint8  // the number of addresses that it says it has, when not 0
	Cut      int    // of the message only so many bytes are sent, when not 0
}

// Frame is the Ethernet frame of the advert as the node sends it.
func (n *Node) Frame(s Speech) []byte {
	n.lab.t.Helper()
	if s.TTL == 0 {
		s.TTL = 255
	}
	if s.Version == 0 {
		s.Version = 3
	}
	if s.Interval == 0 {
		s.Interval = time.Second
	}
	group, mac, etherType := netip.MustParseAddr("224.0.0.18"), "01:00:5e:00:00:12", uint16(unix.ETH_P_IP)
	if s.Src.Is6() {
		group, mac, etherType = netip.MustParseAddr("ff02::12"), "33:33:00:00:00:12", unix.ETH_P_IPV6
	}
	if !s.Dst.IsValid() {
		s.Dst = group
	}
	if s.DstMAC == "" {
		s.DstMAC = mac
	}
	var frame []byte
	for _, m := range []string{s.DstMAC, n.MAC()} {
		hw, err := net.ParseMAC(m)
		if err != nil {
			n.lab.t.Fatalf("lab: frame of %s: %v", n.Name, err)
		}
		frame = append(frame, hw...)
	}
	frame = binary.BigEndian.AppendUint16(frame, etherType)
	return append(frame, s.packet(s.message())...)
}

// message is the VRRP message with its checksum (RFC 3768 §5.3, RFC 9568 §5.2).
func (s Speech) message() []byte {
	b := []byte{s.Version<<4 | 1, s.VRID, s.Priority, uint8(len(s.Addrs))}
	if s.Claim != 0 {
		b[3] = s.Claim
	}
	pseudo := 0
	if s.Version == 2 {
		auth := uint8(0)
		if s.AuthPass != "" {
			auth = 1
		}
		b = append(b, auth, uint8(s.Interval/time.Second), 0, 0)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(s.Interval/(10*time.Millisecond))&0xfff)
		b = append(b, 0, 0)
	}
	for _, a := range s.Addrs {
		b = append(b, a.AsSlice()...)
	}
	if s.Version == 2 {
		var pass [8]byte
		copy(pass[:], s.AuthPass)
		b = append(b, pass[:]...)
	} else {
		pseudo = int(inetSum(s.Src.AsSlice())) + int(inetSum(s.Dst.AsSlice())) + 112 + len(b)
	}
	sum := ^inetSum(b, pseudo)
	if s.BadSum {
		sum ^= 0x1234
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	if s.Cut != 0 {
		b = b[:s.Cut]
	}
	return b
}

// packet puts the IP header before the message.
func (s Speech) packet(message []byte) []byte {
	if s.Src.Is6() {
		b := []byte{0x60, 0, 0, 0}
		b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
		b = append(b, 112, s.TTL)
		b = append(append(b, s.Src.AsSlice()...), s.Dst.AsSlice()...)
		return append(b, message...)
	}
	b := []byte{0x45, 0xc0, 0, 0, 0, 0, 0, 0, s.TTL, 112, 0, 0}
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(message)))
	b = append(append(b, s.Src.AsSlice()...), s.Dst.AsSlice()...)
	binary.BigEndian.PutUint16(b[10:], ^inetSum(b))
	return append(b, message...)
}

// inetSum is the ones' complement sum of 16-bit words, on top of what was summed before.
func inetSum(b []byte, before ...int) uint16 {
	sum := 0
	for _, v := range before {
		sum += v
	}
	for ; len(b) >= 2; b = b[2:] {
		sum += int(b[0])<<8 | int(b[1])
	}
	if len(b) == 1 {
		sum += int(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// Flood is a stream of frames at a fixed rate.
type Flood struct {
	stop chan struct{}
	done chan struct{}
	once sync.Once
	sent int
	err  error
	node *Node
}

// Flood sends the frames in turn, so many a second, out of the node's front LAN
// interface, until Stop or the end of the test.
func (n *Node) Flood(perSecond int, frames ...[]byte) *Flood {
	n.lab.t.Helper()
	f := &Flood{stop: make(chan struct{}), done: make(chan struct{}), node: n}
	var fd int
	err := n.Go(func() (err error) {
		ifi, err := net.InterfaceByName(n.ethernet(0))
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("opening a packet socket: %w", err)
		}
		// Straight to the driver: a queueing discipline has nothing to add.
		if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return fmt.Errorf("leaving the queueing discipline out: %w", err)
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifi.Index})
	})
	if err != nil {
		n.lab.t.Fatalf("lab: flooding from %s: %v", n.Name, err)
	}
	go f.run(fd, perSecond, frames)
	n.lab.atEnd(func() { f.end() })
	return f
}

// run keeps the schedule: what is late is sent at once.
func (f *Flood) run(fd, perSecond int, frames [][]byte) {
	defer close(f.done)
	defer unix.Close(fd)
	tick := time.NewTicker(max(time.Second/time.Duration(perSecond), 2*time.Millisecond))
	defer tick.Stop()
	out := newVector(frames)
	start := time.Now()
	for {
		for {
			due := int(time.Since(start).Seconds()*float64(perSecond)) - f.sent
			if due <= 0 {
				break
			}
			n, err := out.send(fd, f.sent, due)
			if err != nil && err != unix.ENOBUFS && err != unix.EINTR {
				f.err = fmt.Errorf("frame %d: %w", f.sent, err)
				return
			}
			f.sent += max(n, 1) // one that finds no room counts as sent and lost
			select {
			case <-f.stop:
				return
			default:
			}
		}
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
	}
}

// vector sends many frames by one system call.
type vector struct {
	headers []mmsghdr
	frames  int
}

// mmsghdr is struct mmsghdr of the kernel.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// vectorSize is the least number of frames that one call can send.
const vectorSize = 64

func newVector(frames [][]byte) *vector {
	v := &vector{frames: len(frames)}
	for i := range vectorSize + len(frames) { // from any frame on there are enough
		f := frames[i%len(frames)]
		iov := &unix.Iovec{Base: &f[0]}
		iov.SetLen(len(f))
		h := mmsghdr{hdr: unix.Msghdr{Iov: iov}}
		h.hdr.SetIovlen(1)
		v.headers = append(v.headers, h)
	}
	return v
}

// send sends at most n frames, the first being number i of all, and returns how many.
func (v *vector) send(fd, i, n int) (int, error) {
	sent, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.headers[i%v.frames])), uintptr(min(n, vectorSize)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), nil
}

func (f *Flood) end() {
	f.once.Do(func() { close(f.stop) })
	<-f.done
}

// Stop ends the stream and returns how many frames were sent.
func (f *Flood) Stop() int {
	f.node.lab.t.Helper()
	f.end()
	if f.err != nil {
		f.node.lab.t.Fatalf("lab: flooding from %s: %v", f.node.Name, f.err)
	}
	return f.sent
}
