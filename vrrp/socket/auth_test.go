package socket

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"vipd/vrrp/packet"
)

// TestReceiveSigned: with the key a captured frame is proven, one without trailer and
// one with a wrong HMAC are delivered as what they are; without keys it is refused by
// name.
func TestReceiveSigned(t *testing.T) {
	for file, plain := range map[string]string{"hmac-v3-ipv4.txt": "v3-ipv4.txt", "hmac-v3-ipv6.txt": "v3-ipv6.txt", "hmac-v2.txt": "v2-none.txt"} {
		t.Run(file, func(t *testing.T) {
			v6 := strings.Contains(file, "ipv6")
			w := newWire(t, 2)
			wire, e := w.capture(t), w.serve(t, v6)
			f := referenceFrames(t, file)[0]
			key, err := hex.DecodeString(f.Get("key.1"))
			must(t, err)
			wire.inject(t, f.Data)
			eventually(t, "the refusal without keys", func() bool { return e.drops.count(packet.DropSigned) == 1 })
			e.SetKeys(map[Party]packet.Keys{{VRID: 51}: {1: key}})
			wire.inject(t, f.Data)
			wire.inject(t, referenceFrames(t, plain)[0].Data)
			eventually(t, "two adverts", func() bool { return len(e.proofs()) == 2 })
			e.SetKeys(map[Party]packet.Keys{{VRID: 51}: {1: bytes.Repeat([]byte{1}, 32)}})
			wire.inject(t, f.Data)
			eventually(t, "the third", func() bool { return len(e.proofs()) == 3 })
			if got := e.proofs(); got[0] != packet.DropNone || got[1] != packet.DropUnsigned || got[2] != packet.DropHMAC {
				t.Errorf("proofs %v", got)
			}
		})
	}
}

// TestSignedAndPatched: the two peculiarities of keepalived 2.4 together.
func TestSignedAndPatched(t *testing.T) {
	var in intake
	in.init(Key{Local: addr2}, func(Key, netip.Addr, packet.DropReason) {})
	src, first := addr1, netip.MustParseAddr("10.9.0.3")
	x := packet.NewAuthenticator(packet.Keys{1: make([]byte, 32)})
	a := packet.Advert{Version: 3, VRID: 51, Priority: 1, Interval: 1e9, Addrs: []netip.Addr{vip4}, Trailer: packet.Trailer{KeyID: 1}}
	b, err := a.AppendSigned(nil, src, addr2, x)
	must(t, err)
	b[7]++ // 10.9.0.3 out, 10.9.0.2 in
	in.SetVRIDs([]uint8{51})
	in.SetKeys(map[Party]packet.Keys{{VRID: 51}: {1: make([]byte, 32)}})
	var got packet.Advert
	if reason := in.decode(&got, src, addr2, b); reason != packet.DropChecksum {
		t.Errorf("without SetPatched: %v", reason)
	}
	in.SetPatched(map[Party][]netip.Addr{{51, src}: {first, src}})
	if reason := in.decode(&got, src, addr2, b); reason != packet.DropNone || got.Form != packet.FormPatched || got.Unproven != packet.DropNone {
		t.Errorf("%v, %v, %v", reason, got.Form, got.Unproven)
	}
}
