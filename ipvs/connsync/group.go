package connsync

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// readPause is the time after a failed read, so that a lasting fault takes no processor.
const readPause = 100 * time.Millisecond

// Group is the kernel's network. In runs a function in the namespace that is meant; nil: that of the process.
type Group struct {
	In func(f func() error) error
}

// portsMost is what the kernel takes at most.
const portsMost = 64

var _ Network = Group{}

func (g Group) in(f func() error) error {
	if g.In == nil {
		return f()
	}
	return g.In(f)
}

// Index implements Network.
func (g Group) Index(name string) (index int) {
	_ = g.in(func() error { index = linkIndex(name); return nil }) // 0 says it all
	return index
}

func linkIndex(name string) int {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return link.Index
}

// Ports implements Network.
func (g Group) Ports() int {
	n := 1
	_ = g.in(func() error { // a kernel without IPVS, or an old one, has one
		b, err := os.ReadFile("/proc/sys/net/ipv4/vs/sync_ports")
		if v, bad := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bad == nil {
			n = min(max(v, 1), portsMost)
		}
		return nil
	})
	return n
}

// Open implements Network.
func (g Group) Open(d ipvs.Daemon, heard func(netip.Addr, ipvs.SyncMessage)) (Port, error) {
	p := &groupPort{group: g, daemon: d.Normal(), heard: heard}
	err := g.in(func() error {
		index := linkIndex(d.Interface)
		if index == 0 {
			return fmt.Errorf("there is no interface %s", d.Interface)
		}
		var err error
		if p.ear, p.inode, err = listenTo(p.daemon, index); err != nil {
			return err
		}
		p.own = ownAddresses(index)
		p.index = index
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.last = p.dropped()
	p.reading.Go(p.read)
	return p, nil
}

// ownAddresses are those that a hello of our own may come from.
func ownAddresses(index int) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		return out
	}
	addrs, err := link.Addrs()
	if err != nil {
		return out
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out[p.Addr()] = true
		}
	}
	return out
}

// groupPort is a socket beside that of the kernel's backup thread.
type groupPort struct {
	group   Group
	daemon  ipvs.Daemon
	index   int
	heard   func(netip.Addr, ipvs.SyncMessage)
	ear     *net.UDPConn
	inode   uint64
	own     map[netip.Addr]bool
	last    uint64 // what the kernel counted when it was last asked
	drops   uint64 // since the port was opened; of who calls Drops
	reading sync.WaitGroup
}

// read takes messages until the socket is closed.
func (p *groupPort) read() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := p.ear.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(readPause)
			continue
		}
		a := from.Addr().Unmap().WithZone("")
		if m, err := ipvs.ParseSync(buf[:n]); err == nil && !p.own[a] {
			p.heard(a, m)
		}
	}
}

// Hello implements Port. The socket is made anew each time: routes are looked up as they are now.
func (p *groupPort) Hello(id uint8) error {
	return p.group.in(func() error {
		fd, err := connectTo(p.daemon, p.index)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Send(fd, ipvs.AppendHello(nil, id), unix.MSG_NOSIGNAL); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		return nil
	})
}

// Reachable reports whether the kernel's sync master could send to the daemon's group, without sending anything.
func (g Group) Reachable(d ipvs.Daemon) error {
	return g.in(func() error {
		index := linkIndex(d.Interface)
		if index == 0 {
			return fmt.Errorf("there is no interface %s", d.Interface)
		}
		fd, err := connectTo(d.Normal(), index)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// Close implements Port.
func (p *groupPort) Close() error {
	err := p.ear.Close()
	p.reading.Wait()
	if err != nil {
		return fmt.Errorf("closing the socket of the sync group: %w", err)
	}
	return nil
}

// Drops implements Port.
func (p *groupPort) Drops() uint64 {
	now := p.dropped()
	if now > p.last { // else the thread was started anew, with a socket that counts from 0
		p.drops += now - p.last
	}
	p.last = now
	return p.drops
}

// dropped reads the kernel's counters of sockets that are bound as the backup thread's is.
func (p *groupPort) dropped() (n uint64) {
	n = p.last
	_ = p.group.in(func() error { // unknown is none more
		file := "/proc/thread-self/net/udp"
		if p.daemon.Group.Is6() {
			file += "6"
		}
		b, err := os.ReadFile(file)
		if err == nil {
			n = socketDrops(string(b), netip.AddrPortFrom(p.daemon.Group, p.daemon.Port), p.inode)
		}
		return err
	})
	return n
}

func domain(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// listenTo opens a socket that hears what the kernel's backup thread hears.
func listenTo(d ipvs.Daemon, index int) (*net.UDPConn, uint64, error) {
	fd, err := unix.Socket(domain(d.Group), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("opening a socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "sync group")
	defer file.Close()
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.BindToDevice(fd, d.Interface)
	}
	if err == nil {
		err = bindGroup(fd, d, index)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("binding a socket: %w", err)
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, 0, fmt.Errorf("using a socket: %w", err)
	}
	return c.(*net.UDPConn), st.Ino, nil
}

// bindGroup binds to the group and joins it.
func bindGroup(fd int, d ipvs.Daemon, index int) error {
	if d.Group.Is4() {
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(d.Port), Addr: d.Group.As4()}); err != nil {
			return err
		}
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: d.Group.As4(), Ifindex: int32(index)})
	}
	if err := unix.Bind(fd, &unix.SockaddrInet6{Port: int(d.Port), Addr: d.Group.As16(), ZoneId: uint32(index)}); err != nil {
		return err
	}
	return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: d.Group.As16(), Interface: uint32(index)})
}

// connectTo opens a socket as the kernel's master thread does: sending by the interface, connected to the group.
func connectTo(d ipvs.Daemon, index int) (int, error) {
	fd, err := unix.Socket(domain(d.Group), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening a socket: %w", err)
	}
	if d.Group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(index)})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 0)
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, int(d.TTL))
		}
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(d.Port), Addr: d.Group.As4()})
		}
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0)
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, int(d.TTL))
		}
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet6{Port: int(d.Port), Addr: d.Group.As16(), ZoneId: uint32(index)})
		}
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("reaching the group: %w", err), unix.Close(fd))
	}
	return fd, nil
}
