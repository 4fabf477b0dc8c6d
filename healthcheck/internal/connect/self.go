package connect

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// loops reports whether the socket is connected to itself.
func (c *Conn) loops() bool {
	same := false
	err := c.Control(func(fd int) error {
		same = itself(fd, c.remote, c.local.Port())
		return nil
	})
	return same && err == nil
}

// itself reports whether a socket is connected to itself: so it is when nobody listens on
// a port of this machine and the kernel chooses, or is told (own), just that one as the
// source.
func itself(fd int, remote netip.AddrPort, own uint16) bool {
	const never = 1024 // the kernel chooses no port below, unless somebody wants it
	if port := remote.Port(); port == 0 || port < never && port != own {
		return false
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	switch from := sa.(type) {
	case *unix.SockaddrInet4:
		return from.Port == int(remote.Port()) && netip.AddrFrom4(from.Addr) == remote.Addr().Unmap()
	case *unix.SockaddrInet6:
		return from.Port == int(remote.Port()) && netip.AddrFrom16(from.Addr) == remote.Addr().WithZone("")
	}
	return false
}
