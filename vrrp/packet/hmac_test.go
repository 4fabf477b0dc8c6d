package packet_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"vipd/vrrp/packet"
	"vipd/vrrp/packet/vectors"
)

// vectorKeys reads the keys that a file states.
func vectorKeys(t testing.TB, f vectors.Frame) packet.Keys {
	t.Helper()
	keys := packet.Keys{}
	for id := range 256 {
		if text := f.Get(fmt.Sprintf("key.%d", id)); text != "" {
			key, err := hex.DecodeString(text)
			if err != nil {
				t.Fatalf("key %d: %v", id, err)
			}
			keys[uint8(id)] = key
		}
	}
	if len(keys) == 0 {
		t.Fatal("the file states no key")
	}
	return keys
}

// decodeSigned checks a captured frame with trailer against what its file
// states, and that vipd produces the same bytes. Where keepalived's own
// checksum is wrong the frame is refused for that.
func decodeSigned(t *testing.T, f vectors.Frame, p ip) {
	t.Helper()
	keys := packet.NewAuthenticator(vectorKeys(t, f))
	var a packet.Advert
	trailer, reason := a.DecodeSigned(p.payload, p.src, p.dst, keys)
	if strings.HasPrefix(f.Get("checksum"), "WRONG") {
		if reason != packet.DropChecksum {
			t.Fatalf("frame with a wrong checksum: got %v", reason)
		}
		return
	}
	if reason != packet.DropNone {
		t.Fatalf("refused: %v", reason)
	}
	if want := stated(t, f); !equalAdverts(a, want) {
		t.Errorf("decoded\n%+v, the file says\n%+v", a, want)
	}
	if got := fmt.Sprintf("sec %d frac %d ctr %d", trailer.Seconds, trailer.Fraction, trailer.Counter); got != f.Get("seq") {
		t.Errorf("sequence %s, the file says %s", got, f.Get("seq"))
	}
	if got := fmt.Sprint(trailer.KeyID); got != f.Get("active-key") {
		t.Errorf("key %s, the file says %s", got, f.Get("active-key"))
	}
	checkStatedHeader(t, f, p)
	a.Trailer.MAC = [16]byte{}
	again, err := a.AppendSigned(nil, p.src, p.dst, keys)
	if err != nil || !bytes.Equal(again, p.payload) || a.Trailer != trailer {
		t.Errorf("signed again as\n% x (err %v), was\n% x", again, err, p.payload)
	}
}

// TestVectorsBadSigned: a receiver that has the key refuses each altered frame
// for what was altered, and accepts the unaltered one.
func TestVectorsBadSigned(t *testing.T) {
	reasons := map[string]packet.DropReason{
		"hmac-v3-mac": packet.DropHMAC, "hmac-v3-prio": packet.DropHMAC, "hmac-v3-counter": packet.DropHMAC,
		"hmac-v3-keyid": packet.DropKeyID, "hmac-v3-type2": packet.DropTrailer, "hmac-v3-reserved": packet.DropTrailer,
		"hmac-v3-short": packet.DropLength, "hmac-v3-ipv6-checksum-without-trailer": packet.DropChecksum,
	}
	tried := 0
	for _, f := range loadVectors(t, "bad.txt")["bad.txt"] {
		if !strings.HasPrefix(f.Name, "hmac-") {
			continue
		}
		tried++
		t.Run(f.Name, func(t *testing.T) {
			p := network(t, f.Data)
			var a packet.Advert
			if _, got := a.DecodeSigned(p.payload, p.src, p.dst, packet.NewAuthenticator(vectorKeys(t, f))); got != reasons[f.Name] {
				t.Errorf("got %v, want %v (%s)", got, reasons[f.Name], f.Get("reason"))
			}
		})
	}
	if tried != len(reasons) {
		t.Errorf("%d signed frames in bad.txt, want %d", tried, len(reasons))
	}
}

func TestTrailerOrder(t *testing.T) {
	older := packet.Trailer{Seconds: 5, Fraction: 0xffff, Counter: 0xffff}
	newer := packet.Trailer{Seconds: 6}
	if older.Sequence() >= newer.Sequence() {
		t.Errorf("%#x is not before %#x", older.Sequence(), newer.Sequence())
	}
}

func FuzzDecodeSigned(f *testing.F) {
	keys := packet.NewAuthenticator(packet.Keys{1: bytes.Repeat([]byte{7}, 32)})
	src, dst := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("224.0.0.18")
	a := packet.Advert{Version: 3, VRID: 51, Priority: 100, Interval: 1e9, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.10")},
		Trailer: packet.Trailer{KeyID: 1, Seconds: 9}}
	seed, err := a.AppendSigned(nil, src, dst, keys)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var got packet.Advert
		if _, reason := got.DecodeSigned(b, src, dst, keys); reason != packet.DropNone {
			return
		}
		again, err := got.AppendSigned(nil, src, dst, keys)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("accepted % x, written back as % x (%v)", b, again, err)
		}
	})
}
