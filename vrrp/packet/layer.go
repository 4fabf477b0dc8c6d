package packet

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// LayerTypeVRRP is the gopacket layer type of [VRRP]. Registering it takes IP
// protocol 112 over from gopacket's own VRRPv2 layer for the whole process:
// that one reads version 3 as version 2, cannot be written and panics on short
// input.
var LayerTypeVRRP = register()

func register() gopacket.LayerType {
	t := gopacket.RegisterLayerType(1112, gopacket.LayerTypeMetadata{Name: "VRRP", Decoder: gopacket.DecodeFunc(decodeLayer)})
	layers.IPProtocolMetadata[layers.IPProtocolVRRP] = layers.EnumMetadata{
		DecodeWith: gopacket.DecodeFunc(decodeLayer), Name: "VRRP", LayerType: t,
	}
	return t
}

// ErrNotComputed is returned by SerializeTo when it is asked for a message
// without computed lengths or checksums: the codec writes right ones only.
var ErrNotComputed = errors.New("VRRP is serialized with FixLengths and ComputeChecksums only")

// DropError is a refused message as an error.
type DropError struct{ Reason DropReason }

// Error names the reason.
func (e DropError) Error() string { return "decoding VRRP: refused: " + e.Reason.String() }

// VRRP is an advertisement as a gopacket layer. A VRRP message alone tells
// neither its family nor its checksum: Src and Dst must hold the addresses of
// the IP packet before DecodeFromBytes or SerializeTo; decoding through
// gopacket.NewPacket sets them from the network layer.
type VRRP struct {
	layers.BaseLayer
	Advert
	Src, Dst netip.Addr
}

// LayerType is LayerTypeVRRP.
func (v *VRRP) LayerType() gopacket.LayerType { return LayerTypeVRRP }

// CanDecode is LayerTypeVRRP.
func (v *VRRP) CanDecode() gopacket.LayerClass { return LayerTypeVRRP }

// NextLayerType is zero: nothing follows a message.
func (v *VRRP) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes decodes the message, which must fill b, with all checks of
// [Advert.Decode]; the error is a [DropError].
func (v *VRRP) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	switch reason := v.Decode(b, v.Src, v.Dst); reason {
	case DropNone:
		v.BaseLayer = layers.BaseLayer{Contents: b}
		return nil
	case DropShort, DropLength:
		df.SetTruncated()
		return DropError{reason}
	default:
		return DropError{reason}
	}
}

// SerializeTo prepends the message to the buffer. Both options must be set.
func (v *VRRP) SerializeTo(buf gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if !opts.FixLengths || !opts.ComputeChecksums {
		return ErrNotComputed
	}
	if err := v.check(v.Src, v.Dst); err != nil {
		return fmt.Errorf("serializing VRRP: %w", err)
	}
	b, err := buf.PrependBytes(v.Len(!v.Src.Is4()))
	if err != nil {
		return fmt.Errorf("serializing VRRP: %w", err)
	}
	_, err = v.AppendTo(b[:0], v.Src, v.Dst)
	return err
}

// decodeLayer is gopacket's entry: the packet under construction gives the
// addresses.
func decodeLayer(b []byte, p gopacket.PacketBuilder) error {
	v := &VRRP{}
	if packet, ok := p.(gopacket.Packet); ok && packet.NetworkLayer() != nil {
		flow := packet.NetworkLayer().NetworkFlow()
		v.Src, _ = netip.AddrFromSlice(flow.Src().Raw())
		v.Dst, _ = netip.AddrFromSlice(flow.Dst().Raw())
	}
	if err := v.DecodeFromBytes(b, p); err != nil {
		return err
	}
	p.AddLayer(v)
	return nil
}
