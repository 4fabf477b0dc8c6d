package daemon

import (
	"strings"

	"vipd/conf"
	"vipd/ipvs"
)

// serviceID tells virtual servers apart, whatever services they have in the kernel: those of a virtual_server_group come
// and go with a reload, and the checks and verdicts of its servers stay.
type serviceID struct {
	ipvs.Key        // of a group the protocol alone
	group    string // "" without one
}

// identity is what a virtual server is known by.
func identity(v *conf.VirtualServer) serviceID {
	if v.Group != "" {
		return serviceID{Key: ipvs.Key{Protocol: protocols[v.Protocol]}, group: v.Group}
	}
	return serviceID{Key: serviceKey(v, conf.Service{Address: v.Address, FWMark: v.FWMark, IPv6: v.IPv6})}
}

// String is the service as status shows it: "tcp 10.9.0.100:80", "fwmark 7 inet", "group web tcp".
func (s serviceID) String() string {
	switch {
	case s.group == "":
		return s.Key.String()
	case s.Protocol == 0: // firewall marks alone
		return "group " + s.group
	}
	return strings.Join([]string{"group", s.group, s.Protocol.String()}, " ")
}

// serviceKeys are the services that a virtual server has in the kernel.
func serviceKeys(v *conf.VirtualServer) []ipvs.Key {
	services := v.Services()
	keys := make([]ipvs.Key, len(services))
	for i, s := range services {
		keys[i] = serviceKey(v, s)
	}
	return keys
}

func serviceKey(v *conf.VirtualServer, s conf.Service) ipvs.Key {
	if s.FWMark != 0 {
		return ipvs.MarkKey(s.FWMark, s.IPv6)
	}
	return ipvs.AddressKey(protocols[v.Protocol], s.Address)
}
