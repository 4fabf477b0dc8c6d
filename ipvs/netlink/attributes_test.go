package netlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// TestAttributes: the messages are what the encoder of the library makes of the same.
func TestAttributes(t *testing.T) {
	services := []ipvs.Service{
		anyService(),
		{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "wlc"},
		{Key: ipvs.AddressKey(ipvs.SCTP, netip.MustParseAddrPort("[2001:db8::1]:36412")), Scheduler: "sed", Flags: ipvs.FlagOnePacket},
		{Key: ipvs.MarkKey(1<<31+7, true), Scheduler: "rr", Persistence: time.Hour, Granularity: 64},
		{Key: ipvs.MarkKey(7, false), Scheduler: "lblcr", Persistence: -1},
	}
	destinations := []ipvs.Destination{
		{Address: netip.MustParseAddrPort("10.9.0.21:8080"), Weight: 1 << 30, Upper: 1<<31 - 1, Lower: 5},
		{Address: netip.MustParseAddrPort("[2001:db8::21]:80"), Method: ipvs.TUN, Tunnel: ipvs.Tunnel{Type: ipvs.GUE, Port: 6080, Flags: ipvs.TunnelRemoteChecksum}},
		{Address: netip.MustParseAddrPort("10.9.0.22:0"), Method: ipvs.DR},
	}
	for kind := ipvs.AddService; kind <= ipvs.DelDestination; kind++ {
		for _, s := range services {
			for _, d := range destinations {
				op := ipvs.Op{Kind: kind, Service: s, Destination: d}
				want, err := byLibrary(op)
				if err != nil {
					t.Fatal(err)
				}
				if got := encode(op); !bytes.Equal(got, append([]byte{commands[kind], genlVersion, 0, 0}, want...)) {
					t.Errorf("%s:\n%x\nwant\n%x", op, got, want)
				}
			}
		}
	}
}

// byLibrary is encode by the encoder of the library.
func byLibrary(op ipvs.Op) ([]byte, error) {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(attrService, func(n *netlink.AttributeEncoder) error {
		libraryService(n, op.Service.Normal(), op.Kind == ipvs.AddService || op.Kind == ipvs.EditService)
		return nil
	})
	if op.OnDestination() {
		ae.Nested(attrDest, func(n *netlink.AttributeEncoder) error {
			libraryDestination(n, op.Destination, op.Kind != ipvs.DelDestination)
			return nil
		})
	}
	b, err := ae.Encode()
	if err != nil {
		return nil, fmt.Errorf("encoding an IPVS change: %w", err)
	}
	return b, nil
}

func libraryService(n *netlink.AttributeEncoder, s ipvs.Service, whole bool) {
	family := uint16(unix.AF_INET)
	if s.IPv6 {
		family = unix.AF_INET6
	}
	n.Uint16(svcAF, family)
	if s.FWMark != 0 {
		n.Uint32(svcFWMark, s.FWMark)
	} else {
		n.Uint16(svcProtocol, uint16(s.Protocol))
		n.Bytes(svcAddr, s.Address.Addr().AsSlice())
		bigEndian(n, svcPort, s.Address.Port())
	}
	if !whole {
		return
	}
	c := toService(s)
	n.String(svcScheduler, s.Scheduler)
	n.String(svcEngine, s.Engine)           // left out it would be taken away, too; empty it is meant
	n.Do(svcFlags, func() ([]byte, error) { // the flags, then the mask of those that are meant
		b := make([]byte, 8)
		binary.NativeEndian.PutUint32(b, uint32(c.Flags))
		binary.NativeEndian.PutUint32(b[4:], ^uint32(0))
		return b, nil
	})
	n.Uint32(svcTimeout, c.Timeout)
	if s.IPv6 {
		n.Uint32(svcNetmask, uint32(s.Granularity))
	} else {
		n.Bytes(svcNetmask, c.Netmask.AsSlice())
	}
}

func libraryDestination(n *netlink.AttributeEncoder, d ipvs.Destination, whole bool) {
	family := uint16(unix.AF_INET)
	if d.Address.Addr().Is6() {
		family = unix.AF_INET6
	}
	n.Uint16(destFamily, family)
	n.Bytes(destAddr, d.Address.Addr().AsSlice())
	bigEndian(n, destPort, d.Address.Port())
	if !whole {
		return
	}
	n.Uint32(destMethod, uint32(d.Method))
	n.Uint32(destWeight, uint32(d.Weight))
	n.Uint32(destUpper, d.Upper)
	n.Uint32(destLower, d.Lower)
	n.Uint8(destTunType, uint8(d.Tunnel.Type))
	bigEndian(n, destTunPort, d.Tunnel.Port)
	n.Uint16(destTunFlags, uint16(d.Tunnel.Flags))
}

func bigEndian(n *netlink.AttributeEncoder, attr, v uint16) {
	n.Bytes(attr, []byte{byte(v >> 8), byte(v)})
}
