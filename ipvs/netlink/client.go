package netlink

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	cf "github.com/cloudflare/ipvs"
	"github.com/cloudflare/ipvs/netmask"
	"github.com/mdlayher/netlink"

	"vipd/ipvs"
)

// Read returns the whole table with its connection counts, every service of this namespace.
func (c *Conn) Read() (ipvs.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var services []cf.ServiceExtended
	err := c.bounded(func() (err error) {
		services, err = c.client.Services()
		return notEmpty(err)
	})
	if err != nil {
		return ipvs.Snapshot{}, fmt.Errorf("listing IPVS services: %w", err)
	}
	snap := ipvs.Snapshot{Table: make(ipvs.Table, len(services)), Connections: map[ipvs.Target]ipvs.Connections{}}
	for _, s := range services {
		service := fromService(s.Service)
		snap.Table.AddService(service)
		var dests []cf.DestinationExtended
		err := c.bounded(func() (err error) {
			dests, err = c.client.Destinations(s.Service)
			return notEmpty(err)
		})
		if err != nil {
			return ipvs.Snapshot{}, fmt.Errorf("listing the servers of %s: %w", service.Key, err)
		}
		for _, d := range dests {
			dest := fromDestination(d.Destination)
			snap.Table.AddDestination(service.Key, dest)
			snap.Connections[ipvs.Target{Service: service.Key, Destination: dest.Address}] = ipvs.Connections{
				Active: d.ActiveConnections, Inactive: d.InactiveConnections, Persistent: d.PersistentConnections,
			}
		}
	}
	return snap, nil
}

// notEmpty turns the library's way of saying "no entries" into no error. The kernel's own ENOENT stays one: it says that
// IPVS has been unloaded.
func notEmpty(err error) error {
	var op *netlink.OpError
	if errors.Is(err, os.ErrNotExist) && !errors.As(err, &op) {
		return nil
	}
	return err
}

// single makes one change.
func (c *Conn) single(op ipvs.Op) error {
	s, d := toService(op.Service), toDestination(op.Destination)
	switch op.Kind {
	case ipvs.AddService:
		return c.client.CreateService(s)
	case ipvs.EditService:
		return c.client.UpdateService(s)
	case ipvs.DelService:
		return c.client.RemoveService(s)
	case ipvs.AddDestination:
		return c.client.CreateDestination(s, d)
	case ipvs.EditDestination:
		return c.client.UpdateDestination(s, d)
	case ipvs.DelDestination:
		return c.client.RemoveDestination(s, d)
	}
	return fmt.Errorf("unknown kind of IPVS change %d: %w", op.Kind, errors.ErrUnsupported)
}

func toService(s ipvs.Service) cf.Service {
	s = s.Normal()
	out := cf.Service{Scheduler: s.Scheduler, Flags: cf.Flags(s.Flags), Family: cf.INET, Netmask: netmask.MaskFrom(s.Granularity, 32)}
	if s.IPv6 {
		out.Family, out.Netmask = cf.INET6, netmask.MaskFrom(s.Granularity, 128)
	}
	if s.FWMark != 0 {
		out.FWMark = s.FWMark
	} else {
		out.Protocol, out.Address, out.Port = cf.Protocol(s.Protocol), s.Address.Addr(), s.Address.Port()
	}
	if s.Persistence != 0 {
		out.Flags |= cf.ServicePersistent
		out.Timeout = uint32(max(s.Persistence, 0) / time.Second)
	}
	return out
}

func fromService(s cf.Service) ipvs.Service {
	out := ipvs.Service{Scheduler: s.Scheduler, Flags: ipvs.Flags(s.Flags) & ipvs.FlagsAll, Granularity: s.Netmask.Bits()}
	if s.FWMark != 0 {
		out.Key = ipvs.MarkKey(s.FWMark, s.Family == cf.INET6)
	} else {
		out.Key = ipvs.AddressKey(ipvs.Protocol(s.Protocol), netip.AddrPortFrom(s.Address, s.Port))
	}
	if s.Flags&cf.ServicePersistent != 0 {
		out.Persistence = time.Duration(s.Timeout) * time.Second
		if out.Persistence == 0 {
			out.Persistence = -1 // persistent without a time: must not look like a service without persistence
		}
	}
	return out.Normal()
}

func toDestination(d ipvs.Destination) cf.Destination {
	out := cf.Destination{
		Address: d.Address.Addr(), Port: d.Address.Port(), FwdMethod: cf.ForwardType(d.Method), Weight: uint32(d.Weight),
		UpperThreshold: d.Upper, LowerThreshold: d.Lower, Family: cf.INET,
		TunnelType: cf.TunnelType(d.Tunnel.Type), TunnelPort: d.Tunnel.Port, TunnelFlags: cf.TunnelFlags(d.Tunnel.Flags),
	}
	if d.Address.Addr().Is6() {
		out.Family = cf.INET6
	}
	return out
}

func fromDestination(d cf.Destination) ipvs.Destination {
	return ipvs.Destination{
		Address: netip.AddrPortFrom(d.Address, d.Port), Method: ipvs.Method(d.FwdMethod), Weight: int(d.Weight),
		Upper: d.UpperThreshold, Lower: d.LowerThreshold,
		Tunnel: ipvs.Tunnel{Type: uint8(d.TunnelType), Port: d.TunnelPort, Flags: uint16(d.TunnelFlags)},
	}
}
