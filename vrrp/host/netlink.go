package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// Attributes that the libraries do not name.
const (
	ifaProto       = 11 // IFA_PROTO, Linux 5.18
	nlmsgerrMsg    = 1  // NLMSGERR_ATTR_MSG
	statsFilter    = 8  // RTEXT_FILTER_SKIP_STATS
	inet6Conf      = 2  // IFLA_INET6_CONF
	replyTimeout   = time.Second
	receiveBuffer  = 64 << 10
	dumpAttempts   = 3
	sizeofErrorHdr = 4 + unix.SizeofNlMsghdr
)

// errInterrupted says that the kernel's tables changed while they were read.
var errInterrupted = errors.New("tables changed while being read")

// Netlink is the real kernel, in the network namespace of the thread that opened it. Its methods may be called from
// any goroutine; reads do not wait for writes.
type Netlink struct {
	wmu    sync.Mutex
	w      *conn
	noMark bool // the kernel refuses IFA_PROTO

	// writes moves before and after each change that was asked for: two readings with the same number have none
	// between them.
	writes atomic.Uint64
	after  atomic.Pointer[func()] // called after each change

	rmu  sync.Mutex
	r    *conn
	f    *conn // reads routes and rules
	good State // the last complete reading

	tables atomic.Pointer[[]fib.Query] // what is to be read of routes
}

var _ Kernel = (*Netlink)(nil)

// OpenNetlink opens the kernel. Changing addresses needs CAP_NET_ADMIN.
func OpenNetlink() (*Netlink, error) {
	w, err := dial()
	if err != nil {
		return nil, err
	}
	r, err := dial()
	if err != nil {
		w.close()
		return nil, err
	}
	f, err := dial()
	if err != nil {
		w.close()
		r.close()
		return nil, err
	}
	// The kernel then filters; before Linux 4.20 it sends everything.
	_ = unix.SetsockoptInt(f.sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return &Netlink{w: w, r: r, f: f}, nil
}

// Close frees the sockets. No other method may be running.
func (n *Netlink) Close() error {
	n.w.close()
	n.r.close()
	n.f.close()
	return nil
}

// sender is what the kernel's events bear of changes that were made through n; those of IPv6 addresses do not.
func (n *Netlink) sender() uint32 { return n.w.pid }

func (n *Netlink) onWrite(f func()) {
	if f == nil {
		n.after.Store(nil)
		return
	}
	n.after.Store(&f)
}

// wrote notes that a change was made, or refused.
func (n *Netlink) wrote() {
	n.writes.Add(1)
	if f := n.after.Load(); f != nil {
		(*f)()
	}
}

func addRequest(index int, a Addr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	addAddress(req, index, a)
	if a.Prefix.Addr().Is4() {
		if a.Broadcast.IsValid() {
			req.AddData(nl.NewRtAttr(unix.IFA_BROADCAST, a.Broadcast.AsSlice()))
		}
		if a.Label != "" {
			req.AddData(nl.NewRtAttr(unix.IFA_LABEL, nl.ZeroTerminated(a.Label)))
		}
	}
	// What the kernel sets by itself is no request.
	flags := a.Flags &^ (unix.IFA_F_SECONDARY | unix.IFA_F_PERMANENT | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED)
	if flags != 0 {
		req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags)))
	}
	if a.ValidLft != forever || a.PreferredLft != forever {
		b := make([]byte, 16) // struct ifa_cacheinfo: preferred, valid, two time stamps
		binary.NativeEndian.PutUint32(b, a.PreferredLft)
		binary.NativeEndian.PutUint32(b[4:], a.ValidLft)
		req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, b))
	}
	if a.Proto != 0 {
		req.AddData(nl.NewRtAttr(ifaProto, []byte{a.Proto}))
	}
	return req
}

// addAddress adds what an addition and a removal share.
func addAddress(req *nl.NetlinkRequest, index int, a Addr) {
	ip := a.Prefix.Addr()
	msg := nl.NewIfAddrmsg(unix.AF_INET6)
	if ip.Is4() {
		msg.Family = unix.AF_INET
	}
	msg.Prefixlen = uint8(a.Prefix.Bits())
	msg.Scope = a.Scope
	msg.Index = uint32(index)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, ip.AsSlice()))
	if a.Peer.IsValid() {
		ip = a.Peer
	}
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, ip.AsSlice()))
}

// conn is one request socket. It is not safe for concurrent use.
type conn struct {
	sock *nl.NetlinkSocket
	pid  uint32
	buf  []byte
}

func dial() (*conn, error) {
	sock, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	pid, err := sock.GetPid()
	if err != nil {
		sock.Close()
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	// Words for the errno, without the request echoed; older kernels give the errno alone.
	_ = sock.SetExtAck(true)
	_ = unix.SetsockoptInt(sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	return &conn{sock: sock, pid: pid, buf: make([]byte, receiveBuffer)}, nil
}

func (c *conn) close() { c.sock.Close() }

// exchange sends a request and reads until its end, giving each message's body to each. The kernel's errno is
// wrapped.
func (c *conn) exchange(req *nl.NetlinkRequest, each func(body []byte)) error {
	if err := unix.Sendto(c.sock.GetFd(), req.Serialize(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	deadline := time.Now().Add(replyTimeout)
	interrupted := false
	for {
		b, err := c.receive(deadline)
		if err != nil {
			return err
		}
		for len(b) >= unix.SizeofNlMsghdr {
			m, rest, ok := cutMessage(b)
			if !ok {
				return fmt.Errorf("reading a netlink reply: %w", unix.EBADMSG)
			}
			b = rest
			if m.seq != req.Seq || m.pid != c.pid {
				continue // the late answer to a request that was given up
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.typ {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if err := ack(m); err != nil || !interrupted {
					return err
				}
				return errInterrupted
			default:
				if each != nil {
					each(m.body)
				}
			}
		}
	}
}

func (c *conn) receive(deadline time.Time) ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(c.sock.GetFd(), c.buf, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			return c.buf[:n], nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EAGAIN):
			return nil, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, fmt.Errorf("waiting for the kernel's answer: %w", unix.ETIMEDOUT)
		}
		fds := []unix.PollFd{{Fd: int32(c.sock.GetFd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

// message is one netlink message.
type message struct {
	typ, flags uint16
	seq, pid   uint32
	body       []byte
}

// cutMessage takes the first message off b, which holds at least a header.
func cutMessage(b []byte) (m message, rest []byte, ok bool) {
	size := int(binary.NativeEndian.Uint32(b))
	if size < unix.SizeofNlMsghdr || size > len(b) {
		return message{}, nil, false
	}
	m = message{
		typ: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
		seq: binary.NativeEndian.Uint32(b[8:]), pid: binary.NativeEndian.Uint32(b[12:]),
		body: b[unix.SizeofNlMsghdr:size],
	}
	return m, b[min((size+3)&^3, len(b)):], true
}

// ack returns the error that an acknowledgement carries, with the kernel's words when it has some.
func ack(m message) error {
	if len(m.body) < 4 {
		return nil
	}
	errno := int32(binary.NativeEndian.Uint32(m.body))
	if errno == 0 {
		return nil
	}
	err := error(unix.Errno(-errno))
	if m.typ == unix.NLMSG_ERROR && len(m.body) > sizeofErrorHdr {
		attributes(m.body[sizeofErrorHdr:], func(typ uint16, v []byte) {
			if typ == nlmsgerrMsg {
				err = fmt.Errorf("%w (%s)", err, unix.ByteSliceToString(v))
			}
		})
	}
	return err
}

// attributes calls each for every route attribute in b.
func attributes(b []byte, each func(typ uint16, v []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return
		}
		each(binary.NativeEndian.Uint16(b[2:])&nl.NLA_TYPE_MASK, b[unix.SizeofRtAttr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}
