package packet_test

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp/packet"
)

func drawAddr(t *rapid.T, v6 bool, label string) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label)))
	}
	return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, label)))
}

// drawAdvert draws an advert that the wire can carry, with its addresses.
func drawAdvert(t *rapid.T) (a packet.Advert, src, dst netip.Addr) {
	v6 := rapid.Bool().Draw(t, "ipv6")
	a.Version = rapid.SampledFrom([]uint8{packet.Version2, packet.Version3}).Draw(t, "version")
	a.VRID = rapid.Uint8Range(1, 255).Draw(t, "vrid")
	a.Priority = rapid.Uint8().Draw(t, "priority")
	if v6 {
		a.Form = packet.FormPseudo
	}
	if a.Version == packet.Version2 {
		a.Interval = time.Duration(rapid.IntRange(1, 255).Draw(t, "s")) * time.Second
		a.AuthType = rapid.Uint8().Draw(t, "auth type")
		if !v6 {
			a.AuthData = [8]byte(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "auth data"))
		}
	} else {
		a.Interval = time.Duration(rapid.IntRange(1, 4095).Draw(t, "cs")) * 10 * time.Millisecond
		a.Reserved = rapid.Uint8Range(0, 15).Draw(t, "reserved")
		if !v6 {
			a.Form = rapid.SampledFrom([]packet.Form{packet.FormPlain, packet.FormPseudo}).Draw(t, "form")
		}
	}
	for range rapid.IntRange(1, 255).Draw(t, "count") {
		a.Addrs = append(a.Addrs, drawAddr(t, v6, "address"))
	}
	return a, drawAddr(t, v6, "src"), drawAddr(t, v6, "dst")
}

// TestRoundTrip: what is encoded decodes to itself, also into a used Advert.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, src, dst := drawAdvert(t)
		b, err := a.AppendTo([]byte("prefix"), src, dst)
		if err != nil {
			t.Fatal(err)
		}
		message, ok := bytes.CutPrefix(b, []byte("prefix"))
		if !ok || len(message) != a.Len(!src.Is4()) {
			t.Fatalf("prefix lost or length %d, Len says %d", len(message), a.Len(!src.Is4()))
		}
		got := packet.Advert{
			Reserved: 9, AuthType: 9, AuthData: [8]byte{9}, Form: packet.FormPseudo,
			Addrs: make([]netip.Addr, rapid.IntRange(0, 300).Draw(t, "used")),
		}
		if reason := got.Decode(message, src, dst); reason != packet.DropNone {
			t.Fatalf("refused: %v", reason)
		}
		// The two checksum forms coincide when the pseudo-header sums to zero.
		if got.Form != a.Form {
			again, _ := got.AppendTo(nil, src, dst)
			if !bytes.Equal(again, message) {
				t.Fatalf("form %v read as %v", a.Form, got.Form)
			}
			got.Form = a.Form
		}
		if !equalAdverts(got, a) {
			t.Fatalf("decoded %+v, encoded %+v", got, a)
		}
	})
}

// TestDamage: a message cut, extended or with one bit flipped is refused, or
// (two checksum forms exist) at least never read as the same form.
func TestDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, src, dst := drawAdvert(t)
		good, err := a.AppendTo(nil, src, dst)
		if err != nil {
			t.Fatal(err)
		}
		var got packet.Advert
		for _, n := range []int{0, 7, 8, len(good) - 4, len(good) - 1} {
			want := packet.DropLength
			if n < 8 {
				want = packet.DropShort
			}
			if reason := got.Decode(good[:n], src, dst); reason != want {
				t.Fatalf("cut to %d of %d bytes: %v, want %v", n, len(good), reason, want)
			}
		}
		extra := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "extra")
		if reason := got.Decode(append(bytes.Clone(good), extra...), src, dst); reason != packet.DropLength {
			t.Fatalf("%d bytes more: %v", len(extra), reason)
		}
		bit := rapid.IntRange(0, 8*len(good)-1).Draw(t, "bit")
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		reason := got.Decode(bad, src, dst)
		twoForms := a.Version == packet.Version3 && src.Is4()
		if reason == packet.DropNone && (!twoForms || got.Form == a.Form) {
			t.Fatalf("bit %d flipped, still accepted", bit)
		}
	})
}

// TestAddressesCovered: a message is bound to its source and destination
// where, and only where, the checksum has a pseudo-header.
func TestAddressesCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, src, dst := drawAdvert(t)
		b, err := a.AppendTo(nil, src, dst)
		if err != nil {
			t.Fatal(err)
		}
		raw := src.AsSlice()
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		other, _ := netip.AddrFromSlice(raw)
		var got packet.Advert
		reason := got.Decode(b, other, dst)
		pseudo := a.Form == packet.FormPseudo && (a.Version == packet.Version3 || !src.Is4())
		switch {
		case !pseudo && reason != packet.DropNone:
			t.Fatalf("plain form refused from another source: %v", reason)
		case pseudo && reason == packet.DropNone && got.Form == a.Form:
			t.Fatalf("accepted from %v, sent from %v", other, src)
		}
	})
}
