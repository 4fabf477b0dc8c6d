package packet_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/vrrp/packet"
)

func advert() packet.Advert {
	return packet.Advert{
		Version: packet.Version3, VRID: 51, Priority: 100, Interval: time.Second,
		Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.10")}, Form: packet.FormPseudo,
	}
}

func TestDropReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range packet.NumDropReasons {
		name := packet.DropReason(r).String()
		if name == "" || seen[name] || strings.ToLower(name) != name || strings.Contains(name, " ") {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[name] = true
	}
	if got := packet.DropReason(200).String(); got != "unknown" {
		t.Errorf("reason 200 is called %q", got)
	}
}

// TestDecodeRefuses covers what bad.txt has no frame for.
func TestDecodeRefuses(t *testing.T) {
	good := advert()
	plain, err := good.AppendTo(nil, src4, dst4)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		change   func(b []byte) []byte
		src, dst netip.Addr
		want     packet.DropReason
	}{
		{"unchanged", func(b []byte) []byte { return b }, src4, dst4, packet.DropNone},
		{"count 0, nothing after it", func(b []byte) []byte { b[3] = 0; return b[:8] }, src4, dst4, packet.DropNone},
		{"count 0, an address after it", func(b []byte) []byte { b[3] = 0; return b }, src4, dst4, packet.DropCount},
		{"v2, count 0, an address after it", func(b []byte) []byte { b[0], b[3] = 0x21, 0; return append(b, make([]byte, 8)...) }, src4, dst4, packet.DropCount},
		{"v3 interval 0", func(b []byte) []byte { b[4], b[5] = 0xf0, 0; return b }, src4, dst4, packet.DropIntervalZero},
		{"v2 interval 0", func(b []byte) []byte { b[0], b[5] = 0x21, 0; return append(b, make([]byte, 8)...) }, src4, dst4, packet.DropIntervalZero},
		{"VRID 0", func(b []byte) []byte { b[1] = 0; return b }, src4, dst4, packet.DropUnknownVRID},
		{"v2 without its 8 bytes", func(b []byte) []byte { b[0] = 0x21; return b }, src4, dst4, packet.DropLength},
		{"families differ", func(b []byte) []byte { return b }, src4, dst6, packet.DropFamily},
		{"no source", func(b []byte) []byte { return b }, netip.Addr{}, dst6, packet.DropFamily},
		{"no destination", func(b []byte) []byte { return b }, src6, netip.Addr{}, packet.DropFamily},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.change(append([]byte(nil), plain...))
			repairChecksum(b, src4, dst4, b[0]>>4 == 3)
			var a packet.Advert
			if got := a.Decode(b, tt.src, tt.dst); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestNoAddresses: virtual routers without addresses hear each other.
func TestNoAddresses(t *testing.T) {
	for _, version := range []uint8{packet.Version2, packet.Version3} {
		for _, path := range [][2]netip.Addr{{src4, dst4}, {src6, dst6}} {
			a := packet.Advert{Version: version, VRID: 51, Priority: 100, Interval: time.Second, Form: packet.FormPseudo}
			b, err := a.AppendTo(nil, path[0], path[1])
			if err != nil || len(b) != a.Len(!path[0].Is4()) {
				t.Fatalf("version %d: %d bytes, err %v", version, len(b), err)
			}
			var got packet.Advert
			if reason := got.Decode(b, path[0], path[1]); reason != packet.DropNone {
				t.Errorf("version %d from %v: %v", version, path[0], reason)
			}
			if len(got.Addrs) != 0 || got.Priority != 100 || got.VRID != 51 || got.Interval != time.Second {
				t.Errorf("version %d from %v: read as %+v", version, path[0], got)
			}
		}
	}
}

// TestChecksumAllOnes: 0xffff stands for a sum of zero too; it is accepted and
// kept, and 0xffff where the sum is another is wrong.
func TestChecksumAllOnes(t *testing.T) {
	a := advert()
	a.Form = packet.FormPlain
	// An address that makes the message sum to 0xffff.
	b, err := a.AppendTo(nil, src4, dst4)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; b[6] != 0 || b[7] != 0; n++ {
		a.Addrs[0] = netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)})
		if b, err = a.AppendTo(b[:0], src4, dst4); err != nil || n > 0xffff {
			t.Fatalf("no address gives checksum 0 (err %v)", err)
		}
	}
	for _, value := range []byte{0, 0xff} {
		b[6], b[7] = value, value
		var got packet.Advert
		if reason := got.Decode(b, src4, dst4); reason != packet.DropNone {
			t.Fatalf("checksum %02x%02x refused: %v", value, value, reason)
		}
		if again, _ := got.AppendTo(nil, src4, dst4); again[6] != value || again[7] != value {
			t.Errorf("checksum %02x%02x written back as %02x%02x", value, value, again[6], again[7])
		}
	}
	b[2]++
	var got packet.Advert
	if reason := got.Decode(b, src4, dst4); reason != packet.DropChecksum {
		t.Errorf("checksum ffff on another message: %v", reason)
	}
}

func TestAppendToRefuses(t *testing.T) {
	tests := []struct {
		name     string
		change   func(a *packet.Advert)
		src, dst netip.Addr
		want     error
	}{
		{"version", func(a *packet.Advert) { a.Version = 4 }, src4, dst4, packet.ErrVersion},
		{"VRID", func(a *packet.Advert) { a.VRID = 0 }, src4, dst4, packet.ErrVRID},
		{"v3 interval below 10 ms", func(a *packet.Advert) { a.Interval = time.Millisecond }, src4, dst4, packet.ErrInterval},
		{"v3 interval 0", func(a *packet.Advert) { a.Interval = 0 }, src4, dst4, packet.ErrInterval},
		{"v3 interval above 40.95 s", func(a *packet.Advert) { a.Interval = 40960 * time.Millisecond }, src4, dst4, packet.ErrInterval},
		{"v2 half second", func(a *packet.Advert) { a.Version = 2; a.Interval = 500 * time.Millisecond }, src4, dst4, packet.ErrInterval},
		{"v2 256 s", func(a *packet.Advert) { a.Version = 2; a.Interval = 256 * time.Second }, src4, dst4, packet.ErrInterval},
		{"256 addresses", func(a *packet.Advert) { a.Addrs = make([]netip.Addr, 256) }, src4, dst4, packet.ErrCount},
		{"IPv4 address in IPv6", func(*packet.Advert) {}, src6, dst6, packet.ErrFamily},
		{"invalid address", func(a *packet.Advert) { a.Addrs = []netip.Addr{{}} }, src6, dst6, packet.ErrFamily},
		{"no source", func(*packet.Advert) {}, netip.Addr{}, dst4, packet.ErrFamily},
		{"mixed", func(*packet.Advert) {}, src4, dst6, packet.ErrFamily},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := advert()
			tt.change(&a)
			b, err := a.AppendTo([]byte("as it was"), tt.src, tt.dst)
			if !errors.Is(err, tt.want) || string(b) != "as it was" {
				t.Errorf("got %q, error %v, want %v", b, err, tt.want)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	v2 := packet.Advert{Version: packet.Version2, Interval: time.Second}
	pass := v2
	pass.SetPassword("secret")
	v3 := packet.Advert{Version: packet.Version3, Interval: 10 * time.Millisecond}
	want2 := packet.Policy{Version: packet.Version2, Interval: time.Second}
	want2pass := packet.Policy{Version: packet.Version2, Interval: time.Second, AuthPass: "secret"}
	want3 := packet.Policy{Version: packet.Version3, Interval: time.Second}
	tests := []struct {
		name   string
		a      packet.Advert
		policy packet.Policy
		ttl    uint8
		want   packet.DropReason
	}{
		{"v2", v2, want2, 255, packet.DropNone},
		{"v2 TTL", v2, want2, 254, packet.DropTTL},
		{"v2 any TTL", v2, packet.Policy{Version: packet.Version2, Interval: time.Second, AnyTTL: true}, 64, packet.DropNone},
		{"v2 for v3", v2, want3, 255, packet.DropWrongVersion},
		{"v3 for v2", v3, want2, 255, packet.DropWrongVersion},
		{"v3 interval is learned", v3, want3, 255, packet.DropNone},
		{"v2 other interval", v2, packet.Policy{Version: packet.Version2, Interval: 2 * time.Second}, 255, packet.DropInterval},
		{"password", pass, want2pass, 255, packet.DropNone},
		{"password unexpected", pass, want2, 255, packet.DropAuthType},
		{"password missing", v2, want2pass, 255, packet.DropAuthType},
		{"password wrong", pass, packet.Policy{Version: packet.Version2, Interval: time.Second, AuthPass: "secre"}, 255, packet.DropAuthData},
		{"only 8 bytes count", pass, packet.Policy{Version: packet.Version2, Interval: time.Second, AuthPass: "secret\x00\x00more"}, 255, packet.DropNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := packet.Verify(&tt.a, tt.policy, tt.ttl); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAddrsMax(t *testing.T) {
	tests := []struct {
		version uint8
		ipv6    bool
		mtu     int
		want    int
	}{
		{packet.Version2, false, 1500, 255},
		{packet.Version3, false, 1500, 255},
		{packet.Version3, false, 576, 137},
		{packet.Version2, false, 576, 135},
		{packet.Version3, true, 1500, 90},
		{packet.Version3, true, 1280, 77},
		{packet.Version3, true, 9000, 255},
		{packet.Version3, true, 0, 0},
		{packet.Version2, false, 36, 0},
		{packet.Version2, false, 40, 1},
	}
	for _, tt := range tests {
		if got := packet.AddrsMax(tt.version, tt.ipv6, tt.mtu); got != tt.want {
			t.Errorf("version %d, ipv6 %v, MTU %d: %d, want %d", tt.version, tt.ipv6, tt.mtu, got, tt.want)
		}
	}
}

func TestIPv4ID(t *testing.T) {
	var id packet.IPv4ID
	for want := 1; want <= 65535; want++ {
		if got := id.Next(); int(got) != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	if got := id.Next(); got != 1 {
		t.Errorf("after 65535 comes %d, want 1", got)
	}
}

func TestParseIPv4Refuses(t *testing.T) {
	good := packet.AppendIPv4(nil, src4, dst4, 1, 255, 4)
	good = append(good, 1, 2, 3, 4)
	tests := []struct {
		name   string
		change func(b []byte) []byte
		want   packet.DropReason
	}{
		{"unchanged", func(b []byte) []byte { return b }, packet.DropNone},
		{"padded", func(b []byte) []byte { return append(b, make([]byte, 22)...) }, packet.DropNone},
		{"DF set", func(b []byte) []byte { b[6] = 0x40; return b }, packet.DropNone},
		{"cut header", func(b []byte) []byte { return b[:19] }, packet.DropShort},
		{"cut payload", func(b []byte) []byte { return b[:23] }, packet.DropShort},
		{"IPv6", func(b []byte) []byte { b[0] = 0x65; return b }, packet.DropShort},
		{"header length 16", func(b []byte) []byte { b[0] = 0x44; return b }, packet.DropShort},
		{"header longer than packet", func(b []byte) []byte { b[0] = 0x4f; return b }, packet.DropShort},
		{"first fragment", func(b []byte) []byte { b[6] = 0x20; return b }, packet.DropLength},
		{"later fragment", func(b []byte) []byte { b[7] = 1; return b }, packet.DropLength},
		{"UDP", func(b []byte) []byte { b[9] = 17; return b }, packet.DropType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, got := packet.ParseIPv4(tt.change(append([]byte(nil), good...)))
			if got != tt.want {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			if got == packet.DropNone && string(p.Payload) != "\x01\x02\x03\x04" {
				t.Errorf("payload % x", p.Payload)
			}
		})
	}
}
