package socket

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

const (
	// receiveBuffer is asked for in bytes; the kernel takes double, and that is
	// all the memory an unread socket can hold. A small packet counts as about
	// 800 bytes: there is room for some 10,000. While a flood of 50,000 packets a
	// second comes in, that is for how long the machine may keep us from reading
	// before good adverts are lost among the bad: 200 ms.
	receiveBuffer = 4 << 20
	// sendBuffer is the same for what a unicast socket has sent and the kernel still
	// holds. Of each peer that does not answer for its link-layer address it holds up to
	// 208 KiB of adverts (net.ipv4.neigh.*.unres_qlen_bytes) while it asks, the usual
	// size of the whole buffer: two dead peers would silence a router of many instances
	// to the living ones.
	sendBuffer = 16 << 20
	// sendPriority is that of network control traffic in the queueing
	// disciplines of the interface.
	sendPriority = 7
)

// ErrKey is returned by Open for a key that no socket can be made for.
var ErrKey = errors.New("a VRRP socket needs an interface index and a multicast group of its family, or an own address")

// option is one step of setting a socket up.
type option struct {
	name string
	set  func(fd int) error
}

func intOption(name string, level, opt, value int) option {
	return option{name, func(fd int) error { return unix.SetsockoptInt(fd, level, opt, value) }}
}

// valid says whether a socket can be made for the key.
func (k *Key) valid() bool {
	if k.Parent != 0 && k.Local.IsValid() {
		return false
	}
	if !k.Local.IsValid() {
		return k.Index > 0 && k.Group.IsMulticast() && k.Group.Is4() != k.IPv6
	}
	linkLocal := k.Local.Is6() && k.Local.IsLinkLocalUnicast()
	return !k.Group.IsValid() && k.Local.Is4() != k.IPv6 && !k.Local.IsMulticast() && (k.Index > 0) == linkLocal
}

// Open opens the socket for key and joins its group. It needs CAP_NET_RAW and
// CAP_NET_ADMIN, and an interface that exists; it may be down. onDrop is told
// of every packet that is dropped when it is read.
func Open(key Key, onDrop OnDrop) (*Conn, error) {
	if !key.valid() {
		return nil, fmt.Errorf("opening VRRP socket on %v: %w", key, ErrKey)
	}
	family, options := unix.AF_INET, options4
	switch {
	case key.IPv6 && key.Local.IsValid():
		family, options = unix.AF_INET6, unicast6
	case key.IPv6:
		family, options = unix.AF_INET6, options6
	case key.Local.IsValid():
		options = unicast4
	}
	// Blocking, or the runtime's poller would watch it and wake up for each packet;
	// every call says itself that it does not wait.
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, packet.Protocol)
	if err != nil {
		return nil, fmt.Errorf("opening VRRP socket on %v: %w%s", key, err, remedy(err))
	}
	for _, o := range options(key) {
		if err := o.set(fd); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("opening VRRP socket on %v: %s: %w%s", key, o.name, err, remedy(err))
		}
	}
	file := os.NewFile(uintptr(fd), key.String())
	if key.Parent == 0 {
		return newConn(key, onDrop, file, nil)
	}
	tap, err := openTap(key)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening VRRP socket on %v: %w%s", key, err, remedy(err))
	}
	return newConn(key, onDrop, file, tap)
}

// remedy is what the operator can do about err.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return " (vipd needs the capabilities CAP_NET_RAW and CAP_NET_ADMIN)"
	case errors.Is(err, unix.ENODEV):
		return " (the interface is gone, or IPv6 is off on it)"
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EADDRNOTAVAIL):
		return " (is IPv6 disabled on this interface or in this kernel?)"
	case errors.Is(err, unix.ENOBUFS):
		return " (over the limit of multicast memberships: raise net.ipv4.igmp_max_memberships or net.core.optmem_max)"
	default:
		return ""
	}
}

// common are the options of both families. The socket is tied to the interface
// before anything else, so that nothing from others gets into its queue. One for
// unicast is not: its peers may be reached by any interface.
func common(key Key) []option {
	var tie []option
	if key.Index > 0 {
		tie = []option{
			intOption("binding to the interface", unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, key.Index),
			{"looking for the interface", exists},
		}
	}
	if key.Parent != 0 { // it only sends
		tie = append(tie, option{"receiving nothing", func(fd int) error { return attachFilter(fd, bpf.RetConstant{}) }})
	}
	return append(tie,
		intOption("setting SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		intOption("setting SO_RXQ_OVFL", unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1),
		intOption("setting SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
	)
}

// membership is the link that joins the group.
func (k *Key) membership() int {
	if k.Parent != 0 {
		return k.Parent
	}
	return k.Index
}

// exists refuses an index that no interface has: binding to it succeeds. It is asked
// again and again, and past the scheduler, as it never waits.
func exists(fd int) error {
	var name [unix.IFNAMSIZ]byte
	size := uint32(len(name))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE,
		uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&size)), 0)
	return errnoErr(errno)
}

// options4 are those of IPv4. We write the IP header ourselves: an advert from
// an address that was just removed can still be sent. The socket is not bound to
// the group: an advert that comes by unicast is a mistake that must be seen.
func options4(key Key) []option {
	group := key.Group.As4()
	mreq := unix.IPMreqn{Multiaddr: group, Ifindex: int32(key.membership())}
	return append(common(key),
		intOption("setting IP_HDRINCL", unix.SOL_IP, unix.IP_HDRINCL, 1),
		intOption("setting IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO, 1),
		intOption("setting IP_MULTICAST_ALL", unix.SOL_IP, unix.IP_MULTICAST_ALL, 0),
		intOption("setting IP_MULTICAST_LOOP", unix.SOL_IP, unix.IP_MULTICAST_LOOP, 0),
		intOption("setting IP_MULTICAST_TTL", unix.SOL_IP, unix.IP_MULTICAST_TTL, packet.TTL),
		option{"setting IP_MULTICAST_IF", func(fd int) error {
			return unix.SetsockoptIPMreqn(fd, unix.SOL_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(key.Index)})
		}},
		intOption("setting IP_TOS", unix.SOL_IP, unix.IP_TOS, packet.TOS),
		intOption("setting SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, sendPriority), // after IP_TOS, which changes it
		option{"joining the group", func(fd int) error {
			return unix.SetsockoptIPMreqn(fd, unix.SOL_IP, unix.IP_ADD_MEMBERSHIP, &mreq)
		}},
	)
}

// options6 are those of IPv6. The kernel writes the header. IPV6_CHECKSUM stays
// off: the kernel would drop a wrong checksum without a trace, and here it is
// counted. IPV6_FREEBIND allows a source address that was just removed.
func options6(key Key) []option {
	group := key.Group.As16()
	mreq := unix.IPv6Mreq{Multiaddr: group, Interface: uint32(key.membership())}
	return append(common(key),
		intOption("setting IPV6_RECVPKTINFO", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
		intOption("setting IPV6_RECVHOPLIMIT", unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		intOption("setting IPV6_MULTICAST_ALL", unix.SOL_IPV6, unix.IPV6_MULTICAST_ALL, 0),
		intOption("setting IPV6_MULTICAST_LOOP", unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
		intOption("setting IPV6_MULTICAST_HOPS", unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS, packet.TTL),
		intOption("setting IPV6_UNICAST_HOPS", unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, packet.TTL),
		intOption("setting IPV6_MULTICAST_IF", unix.SOL_IPV6, unix.IPV6_MULTICAST_IF, key.Index),
		intOption("setting IPV6_TCLASS", unix.SOL_IPV6, unix.IPV6_TCLASS, packet.TOS),
		intOption("setting IPV6_FREEBIND", unix.SOL_IPV6, unix.IPV6_FREEBIND, 1),
		intOption("setting SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, sendPriority),
		option{"joining the group", func(fd int) error {
			return unix.SetsockoptIPv6Mreq(fd, unix.SOL_IPV6, unix.IPV6_JOIN_GROUP, &mreq)
		}},
	)
}

// unicast4 are the options of unicast over IPv4. The kernel chooses the route as
// for any packet from that address, and IP_FREEBIND allows one that is not here
// yet, or no longer.
func unicast4(key Key) []option {
	local := key.Local.As4()
	return append(common(key),
		intOption("setting IP_HDRINCL", unix.SOL_IP, unix.IP_HDRINCL, 1),
		intOption("setting IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO, 1),
		intOption("setting IP_FREEBIND", unix.SOL_IP, unix.IP_FREEBIND, 1),
		intOption("setting IP_TOS", unix.SOL_IP, unix.IP_TOS, packet.TOS),
		intOption("setting SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, sendPriority),
		intOption("setting SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer),
		option{"binding to the address", func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Addr: local}) }},
	)
}

// unicast6 are those of unicast over IPv6. A link-local address belongs to an
// interface, and so does the socket then.
func unicast6(key Key) []option {
	local := key.Local.As16()
	return append(common(key),
		intOption("setting IPV6_RECVPKTINFO", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
		intOption("setting IPV6_RECVHOPLIMIT", unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		intOption("setting IPV6_MULTICAST_ALL", unix.SOL_IPV6, unix.IPV6_MULTICAST_ALL, 0),
		intOption("setting IPV6_TCLASS", unix.SOL_IPV6, unix.IPV6_TCLASS, packet.TOS),
		intOption("setting IPV6_FREEBIND", unix.SOL_IPV6, unix.IPV6_FREEBIND, 1),
		intOption("setting SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, sendPriority),
		intOption("setting SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer),
		option{"binding to the address", func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrInet6{Addr: local, ZoneId: uint32(key.Index)})
		}},
	)
}
