package packet_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"vipd/vrrp/packet"
)

var serializeAll = gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}

// TestLayerNewPacket: gopacket finds our layer behind protocol 112, in IPv4
// and IPv6, with the values that the file states.
func TestLayerNewPacket(t *testing.T) {
	for file, frames := range advertVectors(t) {
		for _, f := range frames {
			good := !strings.HasPrefix(file, "hmac-") && !strings.HasPrefix(f.Get("checksum"), "WRONG")
			p := gopacket.NewPacket(f.Data, layers.LayerTypeEthernet, gopacket.NoCopy)
			v, ok := p.Layer(packet.LayerTypeVRRP).(*packet.VRRP)
			if ok != good {
				t.Errorf("%s %s: VRRP layer present: %v, want %v (%v)", file, f.Name, ok, good, p.ErrorLayer())
				continue
			}
			if !good {
				var drop packet.DropError
				if p.ErrorLayer() == nil || !errors.As(p.ErrorLayer().Error(), &drop) {
					t.Errorf("%s %s: no DropError: %v", file, f.Name, p.ErrorLayer())
				}
				continue
			}
			if want := stated(t, f); !equalAdverts(v.Advert, want) {
				t.Errorf("%s %s: %+v, want %+v", file, f.Name, v.Advert, want)
			}
			if !bytes.Equal(v.LayerContents(), network(t, f.Data).payload) || len(v.LayerPayload()) != 0 {
				t.Errorf("%s %s: contents % x", file, f.Name, v.LayerContents())
			}
		}
	}
}

// TestLayerSerialize: a whole IPv4 packet built with gopacket is the captured one.
func TestLayerSerialize(t *testing.T) {
	for _, file := range []string{"v2-none.txt", "v2-pass.txt", "v2-3vips.txt", "v3-ipv4.txt", "v3-ipv4-nopseudo.txt", "v3-ipv4-unicast.txt"} {
		for _, f := range loadVectors(t, file)[file] {
			p := network(t, f.Data)
			ip4 := &layers.IPv4{
				Version: 4, TOS: packet.TOS, Id: p.id, TTL: packet.TTL, Protocol: layers.IPProtocolVRRP,
				SrcIP: p.src.AsSlice(), DstIP: p.dst.AsSlice(),
			}
			buf := gopacket.NewSerializeBuffer()
			v := &packet.VRRP{Advert: stated(t, f), Src: p.src, Dst: p.dst}
			if err := gopacket.SerializeLayers(buf, serializeAll, ip4, v); err != nil {
				t.Fatalf("%s %s: %v", file, f.Name, err)
			}
			if !bytes.Equal(buf.Bytes(), f.Data[ethernetLen:]) {
				t.Errorf("%s %s: built\n% x, captured\n% x", file, f.Name, buf.Bytes(), f.Data[ethernetLen:])
			}
		}
	}
}

// TestLayerReuse: one layer decodes packet after packet without growing.
func TestLayerReuse(t *testing.T) {
	var eth layers.Ethernet
	var ip4 layers.IPv4
	v := packet.VRRP{Src: src4, Dst: dst4}
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip4, &v)
	decoded := make([]gopacket.LayerType, 0, 4)
	for _, file := range []string{"v2-3vips.txt", "v3-ipv4.txt", "v2-3vips.txt"} {
		f := loadVectors(t, file)[file][0]
		if err := parser.DecodeLayers(f.Data, &decoded); err != nil || len(decoded) != 3 {
			t.Fatalf("%s: decoded %v, err %v", file, decoded, err)
		}
		if want := stated(t, f); !equalAdverts(v.Advert, want) {
			t.Errorf("%s: %+v, want %+v", file, v.Advert, want)
		}
	}
}

func TestLayerErrors(t *testing.T) {
	v := &packet.VRRP{Src: src4, Dst: dst4}
	for want, b := range map[packet.DropReason][]byte{
		packet.DropShort:   {0x21, 7},
		packet.DropVersion: {0x11, 1, 1, 1, 0, 1, 0, 0},
	} {
		var drop packet.DropError
		err := v.DecodeFromBytes(b, gopacket.NilDecodeFeedback)
		if !errors.As(err, &drop) || drop.Reason != want || !strings.Contains(err.Error(), want.String()) {
			t.Errorf("% x: %v, want %v", b, err, want)
		}
	}
	v.Advert = advert()
	if err := v.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}); !errors.Is(err, packet.ErrNotComputed) {
		t.Errorf("without options: %v", err)
	}
	v.Addrs = make([]netip.Addr, 256)
	if err := v.SerializeTo(gopacket.NewSerializeBuffer(), serializeAll); !errors.Is(err, packet.ErrCount) {
		t.Errorf("256 addresses: %v", err)
	}
}
