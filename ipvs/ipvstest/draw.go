package ipvstest

import (
	"net/netip"
	"time"

	"pgregory.net/rapid"

	"vipd/ipvs"
)

// DrawService gives a service any scheduler, flags, persistence and engine that the kernel takes.
func DrawService(t *rapid.T, s ipvs.Service) ipvs.Service {
	s.Scheduler = rapid.SampledFrom([]string{"rr", "wlc", "sh", "mh"}).Draw(t, "scheduler")
	s.Flags = ipvs.Flags(rapid.IntRange(0, 15).Draw(t, "flags") * int(ipvs.FlagOnePacket))
	s.Persistence = rapid.SampledFrom([]time.Duration{0, 0, time.Minute, time.Hour}).Draw(t, "persistence")
	s.Granularity = rapid.SampledFrom([]int{0, 24, 64}).Draw(t, "granularity")
	s.Engine = rapid.SampledFrom([]string{"", "", "sip"}).Draw(t, "engine")
	return s.Normal()
}

// DrawServer returns the n-th server for a service, with any weight, method, limits and tunnel that the kernel takes. With
// a tunnel it may be of the other family.
func DrawServer(t *rapid.T, s ipvs.Service, n int) ipvs.Destination {
	d := Server(s, n, rapid.SampledFrom([]ipvs.Method{ipvs.DR, ipvs.NAT, ipvs.TUN}).Draw(t, "method"), rapid.IntRange(0, 2).Draw(t, "weight"))
	d.Upper = uint32(rapid.IntRange(0, 3).Draw(t, "upper"))
	d.Lower = uint32(rapid.IntRange(0, int(d.Upper)).Draw(t, "lower"))
	if d.Method == ipvs.TUN {
		d.Tunnel = rapid.SampledFrom(Tunnels()).Draw(t, "tunnel")
		if rapid.Bool().Draw(t, "other family") {
			other := s
			other.IPv6 = !s.IPv6
			d.Address = netip.AddrPortFrom(Server(other, n, ipvs.TUN, 0).Address.Addr(), s.Address.Port())
		}
	}
	return d
}
