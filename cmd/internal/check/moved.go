package check

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"vipd/conf"
	"vipd/vrrp/host"
)

// paths looks at routes, and at static addresses: interfaces that are missing, gateways
// that no network leads to, sources that nobody has. direct reports whether the kernel
// reaches an address without a gateway now.
func paths(cfg *conf.Config, state host.State, direct func(netip.Addr) bool) []string {
	p := pathChecker{cfg: cfg, state: state, direct: direct}
	for _, a := range cfg.StaticAddresses {
		p.dev("static_ipaddress", a.Prefix.Addr().String(), a.Dev)
	}
	p.routes("static_routes", cfg.StaticRoutes, nil)
	for i := range cfg.Instances {
		in := &cfg.Instances[i]
		p.routes("vrrp_instance."+in.Name+".virtual_routes", in.Routes, in)
	}
	return p.out
}

type pathChecker struct {
	cfg    *conf.Config
	state  host.State
	direct func(netip.Addr) bool
	out    []string
}

func (p *pathChecker) warn(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(p.out, s) {
		p.out = append(p.out, s)
	}
}

func (p *pathChecker) dev(where, what, dev string) {
	if dev != "" && p.state.Link(dev) == nil && !madeHere(p.cfg, dev) {
		p.warn("%s: %s: interface %s does not exist here (%s); it is added when it does", where, what, dev, known(p.state))
	}
}

// madeHere reports whether vipd makes the interface: it is a link with a virtual MAC.
func madeHere(cfg *conf.Config, dev string) bool {
	return slices.ContainsFunc(cfg.Instances, func(in conf.Instance) bool {
		return slices.ContainsFunc(in.VMACs, func(l conf.VMAC) bool { return l.Name == dev })
	})
}

func (p *pathChecker) routes(where string, routes []conf.Route, in *conf.Instance) {
	for _, r := range routes {
		p.dev(where, r.Prefix.String(), r.VRF)
		if r.Source.IsValid() && !onHost(p.state, r.Source) && !p.configured(r.Source, in) {
			p.warn("%s: %s: no interface has the source address %s, and no virtual or static address is it; the route is added when there is one", where, r.Prefix, r.Source)
		}
		for _, h := range r.Hops {
			p.dev(where, r.Prefix.String(), h.Dev)
			if h.Via.IsValid() && !h.OnLink && !h.Via.IsLinkLocalUnicast() && !p.reached(h, in, routes) {
				p.warn("%s: %s: no network of this machine leads to the gateway %s; the route is added when one does, or write onlink after dev if the gateway is on that link all the same", where, r.Prefix, h.Via)
			}
		}
	}
}

// addresses are those that vipd will have when the instance is MASTER.
func (p *pathChecker) addresses(in *conf.Instance) []conf.VIP {
	var all []conf.VIP
	for _, a := range p.cfg.StaticAddresses {
		all = append(all, a.VIP)
	}
	if in != nil {
		all = slices.Concat(all, in.VIPs, in.Excluded)
	}
	return all
}

func (p *pathChecker) configured(a netip.Addr, in *conf.Instance) bool {
	return slices.ContainsFunc(p.addresses(in), func(v conf.VIP) bool { return v.Prefix.Addr() == a })
}

// reached reports whether a gateway is in a network that is there, or will be.
func (p *pathChecker) reached(h conf.Hop, in *conf.Instance, routes []conf.Route) bool {
	if h.Dev != "" && p.state.Link(h.Dev) == nil {
		return true // said already
	}
	for name, l := range p.state.Links {
		if h.Dev != "" && h.Dev != name {
			continue
		}
		if slices.ContainsFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix.Masked().Contains(h.Via) || a.Peer == h.Via }) {
			return true
		}
	}
	if slices.ContainsFunc(p.addresses(in), func(v conf.VIP) bool { return v.Prefix.Masked().Contains(h.Via) || v.Peer == h.Via }) {
		return true
	}
	for _, r := range slices.Concat(routes, p.cfg.StaticRoutes) { // a route without a gateway
		if len(r.Hops) == 1 && !r.Hops[0].Via.IsValid() && r.Prefix.Contains(h.Via) {
			return true
		}
	}
	return p.direct(h.Via)
}

// direct asks the kernel.
func direct(a netip.Addr) bool {
	routes, err := netlink.RouteGet(a.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Gw == nil && routes[0].Via == nil
}
