package packet_test

import (
	"net/netip"
	"testing"

	"vipd/vrrp/packet"
)

// hotPaths are the calls made for every packet.
func hotPaths(tb testing.TB) map[string]func() {
	a4 := advert()
	a4.Addrs = make([]netip.Addr, 20)
	for i := range a4.Addrs {
		a4.Addrs[i] = netip.AddrFrom4([4]byte{10, 9, 0, byte(i)})
	}
	a6 := advert()
	a6.Addrs = []netip.Addr{src6, dst6}
	pass := advert()
	pass.Version = packet.Version2
	pass.SetPassword("vecpass")
	policy := packet.Policy{Version: packet.Version2, Interval: pass.Interval, AuthPass: "vecpass"}

	message4, err := a4.AppendTo(nil, src4, dst4)
	if err != nil {
		tb.Fatal(err)
	}
	message6, err := a6.AppendTo(nil, src6, dst6)
	if err != nil {
		tb.Fatal(err)
	}
	junk := append([]byte(nil), message4...)
	junk[6]++
	whole := append(packet.AppendIPv4(nil, src4, dst4, 1, 255, len(message4)), message4...)
	out, got := make([]byte, 0, 1500), packet.Advert{Addrs: make([]netip.Addr, 0, 255)}
	must := func(ok bool, what string) {
		if !ok {
			panic(what)
		}
	}
	keys := packet.NewAuthenticator(packet.Keys{1: make([]byte, 32)})
	signed := a4
	signed.Trailer = packet.Trailer{KeyID: 1, Seconds: 1}
	proven, err := signed.AppendSigned(nil, src4, dst4, keys)
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]func(){
		"DecodeSigned": func() {
			_, reason := got.DecodeSigned(proven, src4, dst4, keys)
			must(reason == packet.DropNone, "signed")
		},
		"AppendSigned": func() {
			_, err := signed.AppendSigned(out, src4, dst4, keys)
			must(err == nil, "append signed")
		},
		"Decode4":    func() { must(got.Decode(message4, src4, dst4) == packet.DropNone, "v4") },
		"Decode6":    func() { must(got.Decode(message6, src6, dst6) == packet.DropNone, "v6") },
		"DecodeJunk": func() { must(got.Decode(junk, src4, dst4) == packet.DropChecksum, "junk") },
		"ParseIPv4": func() {
			p, reason := packet.ParseIPv4(whole)
			must(reason == packet.DropNone && p.TTL == 255, "parse")
		},
		"Verify": func() { must(packet.Verify(&pass, policy, 255) == packet.DropNone, "verify") },
		"Append4": func() {
			b := packet.AppendIPv4(out, src4, dst4, 1, 255, len(message4))
			_, err := a4.AppendTo(b, src4, dst4)
			must(err == nil, "append v4")
		},
		"Append6": func() {
			_, err := a6.AppendTo(out, src6, dst6)
			must(err == nil, "append v6")
		},
	}
}

func TestNoAllocations(t *testing.T) {
	for name, f := range hotPaths(t) {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations a call, want none", name, n)
		}
	}
}

func BenchmarkPacket(b *testing.B) {
	for name, f := range hotPaths(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
