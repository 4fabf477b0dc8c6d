package packet_test

import (
	"net/netip"
	"testing"

	"vipd/vrrp/packet"
)

// TestPatchedChecksum: keepalived 2.4.3's wrong checksum for its second peer is known
// by the first one's address, and by nothing else; the right copy stays plain.
func TestPatchedChecksum(t *testing.T) {
	const file = "v3-ipv4-unicast-nopseudo.txt"
	frames := loadVectors(t, file)[file]
	first, second := network(t, frames[0].Data), network(t, frames[1].Data)
	stranger := netip.MustParseAddr("10.9.0.77")
	for name, c := range map[string]struct {
		p     ip
		first []netip.Addr
		want  packet.DropReason
		form  packet.Form
	}{
		"first peer":                {first, []netip.Addr{second.dst}, packet.DropNone, packet.FormPlain},
		"second peer":               {second, []netip.Addr{stranger, first.dst}, packet.DropNone, packet.FormPatched},
		"nobody else is known":      {second, nil, packet.DropChecksum, 0},
		"another first peer":        {second, []netip.Addr{stranger}, packet.DropChecksum, 0},
		"itself and the sender":     {second, []netip.Addr{second.dst, second.src}, packet.DropChecksum, 0},
		"a peer of another family":  {second, []netip.Addr{netip.MustParseAddr("2001:db8::1")}, packet.DropChecksum, 0},
		"damaged, with a known one": {damaged(second), []netip.Addr{first.dst}, packet.DropChecksum, 0},
	} {
		var a packet.Advert
		got := a.DecodePatched(c.p.payload, c.p.src, c.p.dst, c.first)
		if got != c.want || got == packet.DropNone && a.Form != c.form {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, a.Form, c.want, c.form)
		}
	}
}

// TestPatchedIsForVersion3: what is altered like this in version 2 is wrong.
func TestPatchedIsForVersion3(t *testing.T) {
	frames := loadVectors(t, "v2-unicast.txt")["v2-unicast.txt"]
	p := network(t, frames[1].Data)
	b := append([]byte(nil), p.payload...)
	b[7]-- // as by a change from 10.9.0.2 to 10.9.0.3
	var a packet.Advert
	if got := a.DecodePatched(b, p.src, p.dst, []netip.Addr{network(t, frames[0].Data).dst}); got != packet.DropChecksum {
		t.Errorf("got %v", got)
	}
}

func damaged(p ip) ip {
	p.payload = append([]byte(nil), p.payload...)
	p.payload[2] ^= 1 // the priority
	return p
}
