package garp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// errNoMAC is a frame asked for with an all-zero sender.
var errNoMAC = errors.New("the interface has no Ethernet address")

// Builder builds announcement frames into a buffer of its own, without
// allocation. It is not safe for concurrent use.
type Builder struct {
	buf  gopacket.SerializeBuffer
	eth  layers.Ethernet
	arp  layers.ARP
	ip   layers.IPv6
	icmp layers.ICMPv6
	na   layers.ICMPv6NeighborAdvertisement

	mac   MAC // what the layers' slices point to
	addr4 [4]byte
	addr6 [16]byte
}

// NewBuilder makes a builder.
func NewBuilder() *Builder {
	b := &Builder{buf: gopacket.NewSerializeBuffer()}
	allNodes := netip.MustParseAddr("ff02::1").As16()

	b.eth.SrcMAC = b.mac[:]
	b.arp = layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
		HwAddressSize: 6, ProtAddressSize: 4,
		SourceHwAddress: b.mac[:], SourceProtAddress: b.addr4[:],
		DstHwAddress: etherBroadcast, DstProtAddress: b.addr4[:],
	}
	b.ip = layers.IPv6{
		Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255,
		SrcIP: b.addr6[:], DstIP: allNodes[:],
	}
	b.icmp.TypeCode = layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)
	b.na.TargetAddress = b.addr6[:]
	b.na.Options = layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: b.mac[:]}}
	return b
}

// The Ethernet destinations, and the flags of RFC 4861 §4.4.
var (
	etherBroadcast = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	etherAllNodes  = []byte{0x33, 0x33, 0, 0, 0, 1}
)

const (
	arpFrame     = 14 + 28 // length of Ethernet header and ARP message
	flagRouter   = 0x80
	flagOverride = 0x20
)

// ARP builds the gratuitous ARP of RFC 9568 §8.1.2 for an IPv4 address:
// broadcast, sender and target are the address, 42 bytes. The target hardware
// address of a request is broadcast, as errata 7947 and common practice have it;
// that of a reply is the sender's own (RFC 5944 §4.6, before it RFC 2002 §4.6):
// Linux takes no other reply for gratuitous. The frame is valid until the next
// call on b.
func (b *Builder) ARP(mac MAC, addr netip.Addr, form Form) ([]byte, error) {
	addr = addr.Unmap()
	if !addr.Is4() {
		return nil, fmt.Errorf("building an ARP frame: %s is no IPv4 address", addr)
	}
	if mac == (MAC{}) {
		return nil, fmt.Errorf("building an ARP frame for %s: %w", addr, errNoMAC)
	}
	b.mac, b.addr4 = mac, addr.As4()
	b.eth.DstMAC, b.eth.EthernetType = etherBroadcast, layers.EthernetTypeARP
	b.arp.Operation, b.arp.DstHwAddress = layers.ARPRequest, etherBroadcast
	if form == Reply {
		b.arp.Operation, b.arp.DstHwAddress = layers.ARPReply, b.mac[:]
	}
	if err := gopacket.SerializeLayers(b.buf, gopacket.SerializeOptions{}, &b.eth, &b.arp); err != nil {
		return nil, fmt.Errorf("building an ARP frame for %s: %w", addr, err)
	}
	// gopacket pads to 60 bytes; that is the driver's business.
	return b.buf.Bytes()[:arpFrame], nil
}

// NA builds the unsolicited neighbour advertisement of RFC 9568 §8.2.2 for an
// IPv6 address: from the address itself to all nodes, hop limit 255, Override
// set, Router as told, with the target link-layer address. The frame is valid
// until the next call on b.
func (b *Builder) NA(mac MAC, addr netip.Addr, router bool) ([]byte, error) {
	if !addr.Is6() || addr.Is4In6() {
		return nil, fmt.Errorf("building a neighbour advertisement: %s is no IPv6 address", addr)
	}
	if mac == (MAC{}) {
		return nil, fmt.Errorf("building a neighbour advertisement for %s: %w", addr, errNoMAC)
	}
	b.mac, b.addr6 = mac, addr.As16()
	b.eth.DstMAC, b.eth.EthernetType = etherAllNodes, layers.EthernetTypeIPv6
	b.na.Flags = flagOverride
	if router {
		b.na.Flags |= flagRouter
	}
	err := b.icmp.SetNetworkLayerForChecksum(&b.ip)
	if err == nil {
		opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
		err = gopacket.SerializeLayers(b.buf, opts, &b.eth, &b.ip, &b.icmp, &b.na)
	}
	if err != nil {
		return nil, fmt.Errorf("building a neighbour advertisement for %s: %w", addr, err)
	}
	return b.buf.Bytes(), nil
}

// Frame builds the frame that the schedule asks for.
func (b *Builder) Frame(f Frame) ([]byte, error) {
	if f.Kind == NA {
		return b.NA(f.MAC, f.Address, f.Router)
	}
	return b.ARP(f.MAC, f.Address, f.Form)
}
