package daemon

import (
	"net"

	"vipd/cmd/internal/control"
	ipvsnl "vipd/ipvs/netlink"
	"vipd/vrrp/host"
	"vipd/vrrp/socket"
)

// sockets are what a daemon has open, whether it acts or observes.
type sockets struct {
	listener net.Listener
	netlink  *host.Netlink
	poller   *socket.Poller
	ipvs     *ipvsnl.Kernel // opened later, by whoever knows the namespace
}

// open opens what can fail before anything was changed.
func (s *sockets) open(path string) (err error) {
	if s.listener, err = control.Listen(path); err != nil {
		return err
	}
	if s.netlink, err = host.OpenNetlink(); err != nil {
		return err
	}
	s.poller, err = socket.NewPoller()
	return err
}

// close closes what was opened; the rest is nil.
func (s *sockets) close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.ipvs != nil {
		_ = s.ipvs.Close() // nothing is left to be said to the kernel
	}
	if s.poller != nil {
		_ = s.poller.Close() // nobody waits in it any more
	}
	if s.netlink != nil {
		s.netlink.Close()
	}
}
