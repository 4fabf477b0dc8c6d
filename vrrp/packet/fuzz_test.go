package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"vipd/vrrp/packet"
)

var (
	src4 = netip.MustParseAddr("10.9.0.1")
	dst4 = netip.MustParseAddr("224.0.0.18")
	src6 = netip.MustParseAddr("fe80::1")
	dst6 = netip.MustParseAddr("ff02::12")
)

// FuzzDecode: what is accepted has only values that exist, and is written back
// as the same bytes. With repair the checksum is made right first (1 with
// pseudo-header, 2 without), so that the fuzzer gets behind it.
func FuzzDecode(f *testing.F) {
	for _, frames := range advertVectors(f) {
		for _, v := range frames {
			f.Add(network(f, v.Data).payload, !network(f, v.Data).src.Is4(), uint8(1))
		}
	}
	f.Add([]byte{0x21, 7}, false, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, v6 bool, repair uint8) {
		src, dst := src4, dst4
		if v6 {
			src, dst = src6, dst6
		}
		b = bytes.Clone(b)
		if len(b) >= 8 && repair%3 > 0 {
			repairChecksum(b, src, dst, repair%3 == 1)
		}
		before := bytes.Clone(b)
		a := packet.Advert{Addrs: make([]netip.Addr, 3)}
		reason := a.Decode(b, src, dst)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if reason != packet.DropNone {
			if reason > packet.DropIntervalZero && reason != packet.DropUnknownVRID {
				t.Fatalf("%v is not for the bytes to say", reason)
			}
			return
		}
		if a.VRID == 0 || a.Interval <= 0 || len(a.Addrs) != int(b[3]) || a.Len(v6) != len(b) {
			t.Fatalf("accepted %+v from % x", a, b)
		}
		again, err := a.AppendTo(nil, src, dst)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("re-encoded as\n% x (err %v), was\n% x", again, err, b)
		}
	})
}

// repairChecksum is written apart from the code under test.
func repairChecksum(b []byte, src, dst netip.Addr, pseudo bool) {
	b[6], b[7] = 0, 0
	covered := bytes.Clone(b)
	if pseudo {
		covered = append(covered, make([]byte, len(covered)%2)...)
		covered = append(covered, src.AsSlice()...)
		covered = append(covered, dst.AsSlice()...)
		covered = binary.BigEndian.AppendUint32(covered, uint32(len(b)))
		covered = binary.BigEndian.AppendUint32(covered, packet.Protocol)
	}
	covered = append(covered, make([]byte, len(covered)%2)...)
	var s uint64
	for i := 0; i < len(covered); i += 2 {
		s += uint64(binary.BigEndian.Uint16(covered[i:]))
	}
	for s>>16 > 0 {
		s = s>>16 + s&0xffff
	}
	binary.BigEndian.PutUint16(b[6:], ^uint16(s))
}

// FuzzParseIPv4: an accepted header's payload is that part of the input which
// its lengths say, and a plain header is written back as the same bytes.
func FuzzParseIPv4(f *testing.F) {
	for _, frames := range advertVectors(f) {
		for _, v := range frames {
			f.Add(v.Data[ethernetLen:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, reason := packet.ParseIPv4(b)
		if reason != packet.DropNone {
			return
		}
		header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if !bytes.Equal(p.Payload, b[header:total]) {
			t.Fatalf("payload % x of % x", p.Payload, b)
		}
		if header != packet.IPv4HeaderLen {
			return
		}
		again := packet.AppendIPv4(nil, p.Src, p.Dst, binary.BigEndian.Uint16(b[4:]), p.TTL, len(p.Payload))
		want := bytes.Clone(b[:header])
		want[1], want[6], want[7] = packet.TOS, 0, 0
		copy(want[10:12], again[10:12])
		if !bytes.Equal(again, want) {
			t.Fatalf("rebuilt % x, was % x", again, want)
		}
	})
}
