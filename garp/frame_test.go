package garp

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// frames reads the captured frames of a file under testdata.
func frames(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, "frame ")
		if !ok {
			continue
		}
		name, frame, _ := strings.Cut(rest, ":")
		out[name] = strings.TrimSpace(frame)
	}
	if len(out) == 0 {
		t.Fatalf("%s holds no frame", file)
	}
	return out
}

var (
	macPlain = MAC{2, 0, 0, 0, 0, 1}
	macV4    = MAC{0, 0, 0x5e, 0, 1, 0x33}
	macV6    = MAC{0, 0, 0x5e, 0, 2, 0x33}
)

func TestFramesMatchCaptures(t *testing.T) {
	b := NewBuilder()
	for _, c := range []struct {
		file, frame, addr string
		mac               MAC
		router            bool
	}{
		{"garp-plain.txt", "garp1", "10.9.0.10", macPlain, false},
		{"garp-plain.txt", "garp2", "10.9.0.11", macPlain, true}, // Router has no place in ARP
		{"garp-vmac.txt", "garp1", "10.9.0.10", macV4, false},
		{"garp-vmac.txt", "garp2", "10.9.0.11", macV4, false},
		{"na-plain.txt", "na1", "fe80::10", macPlain, false},
		{"na-plain.txt", "na2", "2001:db8:9::10", macPlain, false},
		{"na-router.txt", "na1", "fe80::10", macPlain, true},
		{"na-router.txt", "na2", "2001:db8:9::10", macPlain, true},
		{"na-vmac.txt", "na1", "fe80::10", macV6, false},
		{"na-vmac.txt", "na2", "2001:db8:9::10", macV6, false},
	} {
		addr := netip.MustParseAddr(c.addr)
		got, err := b.Frame(Frame{
			Target: Target{Address: addr}, Kind: KindOf(addr), MAC: c.mac, Router: c.router,
		})
		if err != nil {
			t.Errorf("%s %s: %v", c.file, c.frame, err)
			continue
		}
		if want := frames(t, c.file)[c.frame]; hex.EncodeToString(got) != want {
			t.Errorf("%s %s:\n got %x\nwant %s", c.file, c.frame, got, want)
		}
	}
}

// RFC 5944 §4.6: both hardware addresses of a reply are the new one. Linux takes no
// other reply for gratuitous.
func TestReplyForm(t *testing.T) {
	addr := netip.MustParseAddr("10.9.0.10")
	want, _ := hex.DecodeString(frames(t, "garp-plain.txt")["garp1"])
	want[21] = 2
	copy(want[32:38], macPlain[:])
	got, err := NewBuilder().ARP(macPlain, addr, Reply)
	if err != nil || string(got) != string(want) {
		t.Errorf("reply form: %x, %v\nwant %x", got, err, want)
	}
	// An IPv4 address in IPv6 clothes is the same address.
	mapped := netip.AddrFrom16(addr.As16())
	got, err = NewBuilder().ARP(macPlain, mapped, Reply)
	if err != nil || string(got) != string(want) {
		t.Errorf("mapped address: %x, %v", got, err)
	}
}

func TestFramesThatCannotBeBuilt(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.9.0.10"), netip.MustParseAddr("fe80::1")
	b := NewBuilder()
	for name, build := range map[string]func() ([]byte, error){
		"is no IPv4 address": func() ([]byte, error) { return b.ARP(macPlain, v6, Request) },
		"is no IPv6 address": func() ([]byte, error) { return b.NA(macPlain, v4, false) },
		"building an ARP frame for 10.9.0.10: the interface has no Ethernet address": func() ([]byte, error) {
			return b.ARP(MAC{}, v4, Request)
		},
		"building a neighbour advertisement for fe80::1: the interface has no Ethernet address": func() ([]byte, error) {
			return b.NA(MAC{}, v6, false)
		},
	} {
		if f, err := build(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error %q, got %v (%x)", name, err, f)
		}
	}
}

func TestFramesAllocateNothing(t *testing.T) {
	b := NewBuilder()
	v4, v6 := netip.MustParseAddr("10.9.0.10"), netip.MustParseAddr("2001:db8::1")
	n := testing.AllocsPerRun(1000, func() {
		if _, err := b.ARP(macPlain, v4, Request); err != nil {
			t.Fatal(err)
		}
		if _, err := b.NA(macPlain, v6, true); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for two frames, want 0", n)
	}
}

func BenchmarkNA(b *testing.B) {
	bld := NewBuilder()
	v6 := netip.MustParseAddr("2001:db8::1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bld.NA(macPlain, v6, true); err != nil {
			b.Fatal(err)
		}
	}
}
