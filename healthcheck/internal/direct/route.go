package direct

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// way is how frames reach a machine.
type way struct {
	index  int              // of the link
	hop    netip.Addr       // whose link address it is
	mac    net.HardwareAddr // of hop
	source netip.Addr       // of ours
}

// find finds the link and the link address by which the kernel sends to a machine.
// What it does not know yet it asks the network for.
func find(ctx context.Context, via netip.Addr, iface string) (w way, err error) {
	routes, err := netlink.RouteGetWithOptions(via.AsSlice(), &netlink.RouteGetOptions{Oif: iface})
	if err != nil {
		return w, err
	}
	if len(routes) == 0 {
		return w, unix.EHOSTUNREACH
	}
	r := routes[0]
	link, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return w, err
	}
	a := link.Attrs()
	if a.Flags&net.FlagLoopback != 0 || r.Type == unix.RTN_LOCAL {
		return w, fmt.Errorf("%v is an address of this machine", via)
	}
	if len(a.HardwareAddr) == 0 {
		return w, fmt.Errorf("%s, which leads to %v, has no link addresses: check_path = \"vip\" needs a shared link", a.Name, via)
	}
	w.index, w.hop = a.Index, via
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		w.hop = gw.Unmap()
	}
	if src, ok := netip.AddrFromSlice(r.Src); ok {
		w.source = src.Unmap()
	}
	w.mac, err = neighbour(ctx, w.index, w.hop)
	return w, err
}

const (
	known    = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
	lookMost = 50 * time.Millisecond // between two looks
)

// errNoNeighbour says that nobody on the link has the address.
var errNoNeighbour = errors.New("nobody on the link answers for the address")

// neighbour gives the link address of a machine. It has the kernel ask when it does
// not know.
func neighbour(ctx context.Context, index int, a netip.Addr) (net.HardwareAddr, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, lookMost) {
		n, err := entry(index, a)
		switch {
		case err != nil:
			return nil, err
		case n != nil && n.State&known != 0 && len(n.HardwareAddr) > 0:
			return n.HardwareAddr, nil
		case n != nil && n.State&unix.NUD_FAILED != 0 && wait > 2*time.Millisecond:
			return nil, errNoNeighbour
		case n == nil || n.State&unix.NUD_INCOMPLETE == 0:
			err := netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: family(a), Flags: unix.NTF_USE, IP: a.AsSlice()})
			if err != nil {
				return nil, fmt.Errorf("asking for the link address of %v: %w", a, err)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// entry is what the kernel knows of a neighbour, nil for nothing.
func entry(index int, a netip.Addr) (*netlink.Neigh, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	request.AddData(&netlink.Ndmsg{Family: uint8(family(a)), Index: uint32(index)})
	request.AddData(nl.NewRtAttr(unix.NDA_DST, a.AsSlice()))
	answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return netlink.NeighDeserialize(answers[0])
}

func family(a netip.Addr) int {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
