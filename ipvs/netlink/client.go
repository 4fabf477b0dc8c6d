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
	services, err := c.services()
	if err != nil {
		return ipvs.Snapshot{}, err
	}
	snap := ipvs.Snapshot{Table: make(ipvs.Table, len(services)), Connections: map[ipvs.Target]ipvs.Connections{}}
	for _, service := range services {
		snap.Table.AddService(service)
		dests, err := c.destinations(service)
		if err != nil {
			return ipvs.Snapshot{}, err
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

// services lists all services of this namespace. The library does not tell their persistence engines.
func (c *Conn) services() ([]ipvs.Service, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	all, err := c.batch.services()
	if err != nil {
		return nil, fmt.Errorf("listing IPVS services: %w", err)
	}
	return all, nil
}

// destinations lists the servers of a service.
func (c *Conn) destinations(s ipvs.Service) (dests []cf.DestinationExtended, err error) {
	err = c.bounded(func() (err error) {
		dests, err = c.client.Destinations(toService(s))
		return notEmpty(err)
	})
	if err != nil {
		return nil, fmt.Errorf("listing the servers of %s: %w", s.Key, err)
	}
	return dests, nil
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

// single makes one change. What the library cannot say of a service, its persistence engine, a change would take away:
// services are made and edited by messages of our own.
func (c *Conn) single(op ipvs.Op) error {
	s, d := toService(op.Service), toDestination(op.Destination)
	switch op.Kind {
	case ipvs.AddService, ipvs.EditService:
		return c.batch.apply([]ipvs.Op{op})[0]
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
		Tunnel: ipvs.Tunnel{Type: ipvs.TunnelType(d.TunnelType), Port: d.TunnelPort, Flags: ipvs.TunnelFlags(d.TunnelFlags)},
	}
}
