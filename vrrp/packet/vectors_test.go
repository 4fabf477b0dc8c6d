package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vipd/vrrp/packet"
	"vipd/vrrp/packet/vectors"
)

const ethernetLen = 14

// loadVectors returns the frames of all files that match pattern, by file.
func loadVectors(t testing.TB, pattern string) map[string][]vectors.Frame {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "vectors", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no vector files match %q (err %v)", pattern, err)
	}
	all := map[string][]vectors.Frame{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		frames, err := vectors.Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(frames) == 0 {
			t.Fatalf("%s holds no frame", name)
		}
		all[filepath.Base(name)] = frames
	}
	return all
}

// advertVectors is loadVectors without the files that hold no adverts or
// deliberately bad ones.
func advertVectors(t testing.TB) map[string][]vectors.Frame {
	all := loadVectors(t, "*.txt")
	for name := range all {
		if name == "bad.txt" || strings.HasPrefix(name, "garp-") || strings.HasPrefix(name, "na-") {
			delete(all, name)
		}
	}
	if len(all) < 25 {
		t.Fatalf("only %d files of adverts, some are missing", len(all))
	}
	return all
}

// ip is the network layer of a frame.
type ip struct {
	src, dst netip.Addr
	ttl, tos uint8
	id       uint16
	header   []byte
	payload  []byte
}

// network takes a frame apart: IPv4 with the package's own parser, IPv6, whose
// header the kernel keeps to itself, here.
func network(t testing.TB, frame []byte) ip {
	t.Helper()
	b := frame[ethernetLen:]
	if b[0]>>4 == 4 {
		p, reason := packet.ParseIPv4(b)
		if reason != packet.DropNone {
			t.Fatalf("IPv4 header refused: %v", reason)
		}
		return ip{src: p.Src, dst: p.Dst, ttl: p.TTL, tos: b[1], id: binary.BigEndian.Uint16(b[4:]), header: b[:20], payload: p.Payload}
	}
	if b[0]>>4 != 6 || b[6] != packet.Protocol {
		t.Fatalf("not a VRRP packet: % x", b[:8])
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	return ip{
		src: netip.AddrFrom16([16]byte(b[8:24])), dst: netip.AddrFrom16([16]byte(b[24:40])),
		ttl: b[7], tos: b[0]<<4 | b[1]>>4, header: b[:40], payload: b[40 : 40+n],
	}
}

// stated builds the advert that the file says a frame holds.
func stated(t testing.TB, f vectors.Frame) packet.Advert {
	t.Helper()
	num := func(key string) int {
		n, err := strconv.Atoi(f.Get(key))
		if err != nil {
			t.Fatalf("%s: key %s: %v", f.Name, key, err)
		}
		return n
	}
	a := packet.Advert{
		Version: uint8(num("vrrp-version")), VRID: uint8(num("vrid")), Priority: uint8(num("priority")),
		Interval: time.Duration(num("interval-cs")) * 10 * time.Millisecond,
	}
	for _, s := range f.List("addresses") {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(s))
	}
	if _, password, ok := strings.Cut(f.Get("auth"), "password "); ok {
		a.SetPassword(password)
	}
	if strings.HasPrefix(f.Get("checksum"), "pseudo-header") {
		a.Form = packet.FormPseudo
	}
	return a
}

func equalAdverts(a, b packet.Advert) bool {
	return a.Version == b.Version && a.VRID == b.VRID && a.Priority == b.Priority && a.Interval == b.Interval &&
		a.Reserved == b.Reserved && a.AuthType == b.AuthType && a.AuthData == b.AuthData &&
		slices.Equal(a.Addrs, b.Addrs) && a.Form == b.Form
}

func TestVectorsDecode(t *testing.T) {
	for file, frames := range advertVectors(t) {
		for _, f := range frames {
			t.Run(file+"/"+f.Name, func(t *testing.T) {
				p := network(t, f.Data)
				var got packet.Advert
				reason := got.Decode(p.payload, p.src, p.dst)
				switch {
				case strings.HasPrefix(file, "hmac-"):
					if reason != packet.DropLength {
						t.Fatalf("frame with an authentication trailer: got %v, want length", reason)
					}
					decodeSigned(t, f, p)
					return
				case strings.HasPrefix(f.Get("checksum"), "WRONG"):
					if reason != packet.DropChecksum {
						t.Fatalf("frame with a wrong checksum: got %v", reason)
					}
					return
				case reason != packet.DropNone:
					t.Fatalf("refused: %v", reason)
				}
				if want := stated(t, f); !equalAdverts(got, want) {
					t.Errorf("decoded\n%+v, the file says\n%+v", got, want)
				}
				checkStatedHeader(t, f, p)
				again, err := got.AppendTo(nil, p.src, p.dst)
				if err != nil || !bytes.Equal(again, p.payload) {
					t.Errorf("re-encoded as\n% x (err %v), was\n% x", again, err, p.payload)
				}
			})
		}
	}
}

func checkStatedHeader(t *testing.T, f vectors.Frame, p ip) {
	t.Helper()
	if p.src.String() != f.Get("src") || p.dst.String() != f.Get("dst") {
		t.Errorf("from %v to %v, the file says from %s to %s", p.src, p.dst, f.Get("src"), f.Get("dst"))
	}
	if ttl := strconv.Itoa(int(p.ttl)); ttl != f.Get("ttl") {
		t.Errorf("TTL %s, the file says %s", ttl, f.Get("ttl"))
	}
	if tos, err := strconv.ParseUint(f.Get("tos"), 0, 8); err != nil || uint8(tos) != p.tos {
		t.Errorf("TOS %#x, the file says %s", p.tos, f.Get("tos"))
	}
}

// TestVectorsProduce builds each frame from what its file states and compares
// bytes, the IPv4 header included.
func TestVectorsProduce(t *testing.T) {
	produced := 0
	for file, frames := range advertVectors(t) {
		if strings.HasPrefix(file, "hmac-") {
			continue
		}
		for _, f := range frames {
			if strings.HasPrefix(f.Get("checksum"), "WRONG") {
				continue
			}
			produced++
			t.Run(file+"/"+f.Name, func(t *testing.T) {
				a, p := stated(t, f), network(t, f.Data)
				message, err := a.AppendTo(nil, p.src, p.dst)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(message, p.payload) {
					t.Errorf("VRRP message\n% x, captured\n% x", message, p.payload)
				}
				if len(message) != a.Len(!p.src.Is4()) {
					t.Errorf("Len says %d, the message has %d", a.Len(!p.src.Is4()), len(message))
				}
				if p.src.Is4() {
					header := packet.AppendIPv4(nil, p.src, p.dst, p.id, p.ttl, len(message))
					if !bytes.Equal(header, p.header) {
						t.Errorf("IPv4 header\n% x, captured\n% x", header, p.header)
					}
				}
			})
		}
	}
	if produced < 30 {
		t.Errorf("only %d frames produced, some are missing", produced)
	}
}

// TestVectorsIDs: the ids of an instance's adverts are those of the capture.
func TestVectorsIDs(t *testing.T) {
	for _, file := range []string{"v2-none.txt", "v3-ipv4.txt", "v2-pass.txt"} {
		var id packet.IPv4ID
		for _, f := range loadVectors(t, file)[file] {
			if got, want := id.Next(), network(t, f.Data).id; got != want {
				t.Errorf("%s %s: id %d, captured %d", file, f.Name, got, want)
			}
		}
	}
}

// badReasons is the refusal that each frame of bad.txt must meet.
var badReasons = map[string]packet.DropReason{
	"v2-checksum":       packet.DropChecksum,
	"v3-checksum":       packet.DropChecksum,
	"v3-ipv6-checksum":  packet.DropChecksum,
	"v2-version4":       packet.DropVersion,
	"v3-version4":       packet.DropVersion,
	"v3-type2":          packet.DropType,
	"v2-ttl254":         packet.DropTTL,
	"v3-ttl254":         packet.DropTTL,
	"v3-ipv6-hop254":    packet.DropTTL,
	"v2-truncated":      packet.DropLength,
	"v3-truncated":      packet.DropLength,
	"v3-ipv6-truncated": packet.DropLength,
	"v3-short-header":   packet.DropShort,
	"v2-count2":         packet.DropLength,
	"v3-count20":        packet.DropLength,
	"v3-ipv6-count255":  packet.DropLength,
	"v3-count0":         packet.DropCount,
	"v2-interval2":      packet.DropInterval,
	"v2-authtype1":      packet.DropAuthType,
	"v2-pass-wrong":     packet.DropAuthData,
	"hmac-v3-mac":       packet.DropLength,
	"hmac-v3-prio":      packet.DropLength,
	"hmac-v3-counter":   packet.DropLength,
	"hmac-v3-keyid":     packet.DropLength,
	"hmac-v3-type2":     packet.DropLength,
	"hmac-v3-reserved":  packet.DropLength,
	"hmac-v3-short":     packet.DropLength,

	"hmac-v3-ipv6-checksum-without-trailer": packet.DropLength,
}

// TestVectorsBad: each bad frame is refused for its reason, and the unaltered
// frame that it was made from is accepted by the same receiver.
func TestVectorsBad(t *testing.T) {
	frames := loadVectors(t, "bad.txt")["bad.txt"]
	if len(frames) != len(badReasons) {
		t.Errorf("bad.txt holds %d frames, %d have a reason here", len(frames), len(badReasons))
	}
	for _, f := range frames {
		t.Run(f.Name, func(t *testing.T) {
			want, ok := badReasons[f.Name]
			if !ok {
				t.Fatal("no reason stated for this frame")
			}
			policy := packet.Policy{Version: packet.Version3, Interval: time.Second}
			if strings.HasPrefix(f.Name, "v2-") {
				policy.Version = packet.Version2
			}
			if f.Name == "v2-pass-wrong" {
				policy.AuthPass = "vecpass"
			}
			if got := receive(t, f.Data, policy); got != want {
				t.Errorf("got %v, want %v (%s)", got, want, f.Get("reason"))
			}
			file, name, ok := strings.Cut(f.Get("base"), " ")
			if !ok {
				t.Fatalf("base %q", f.Get("base"))
			}
			if strings.HasPrefix(file, "hmac-") {
				return
			}
			bases := loadVectors(t, file)[file]
			i := slices.IndexFunc(bases, func(b vectors.Frame) bool { return b.Name == name })
			if got := receive(t, bases[i].Data, policy); got != packet.DropNone {
				t.Errorf("the unaltered frame is refused: %v", got)
			}
		})
	}
}

// receive does what a socket and an instance do with a frame.
func receive(t testing.TB, frame []byte, policy packet.Policy) packet.DropReason {
	p := network(t, frame)
	var a packet.Advert
	if reason := a.Decode(p.payload, p.src, p.dst); reason != packet.DropNone {
		return reason
	}
	return packet.Verify(&a, policy, p.ttl)
}
