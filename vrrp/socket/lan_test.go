package socket

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

var (
	addr1 = netip.MustParseAddr("10.9.0.1")
	addr2 = netip.MustParseAddr("10.9.0.2")
	link1 = netip.MustParseAddr("fe80::1")
	vip4  = netip.MustParseAddr("10.9.0.10")
	vip6  = netip.MustParseAddr("fe80::10")
)

func TestLANDelivers(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lan := NewLAN(1)
			a, b, c := attach(t, lan, "a", v6), attach(t, lan, "b", v6), attach(t, lan, "c", v6)
			other := attach(t, lan, "d", !v6)
			send(t, a, 7)
			synctest.Wait()
			want := arrival{7, addr1, Group4, 255, vip4, "eth0", false, time.Now()}
			if v6 {
				want = arrival{7, link1, Group6, 255, vip6, "eth0", true, time.Now()}
			}
			for _, s := range []*station{b, c} {
				if got := s.all(); len(got) != 1 || got[0] != want {
					t.Errorf("%s got %+v, want %+v", s.host, got, want)
				}
			}
			if len(a.all()) != 0 || len(other.all()) != 0 {
				t.Errorf("the sender got %+v, the other family %+v", a.all(), other.all())
			}
		})
	}
}

// lossyRun sends 200 adverts each way and returns what came through.
func lossyRun(t *testing.T, seed uint64) (ab, ba string) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(seed)
		a, b := attach(t, lan, "a", false), attach(t, lan, "b", false)
		lan.Impair("a", "b", Impairment{Loss: 0.3})
		for i := range 200 {
			send(t, a, uint8(i))
			send(t, b, uint8(i))
		}
		synctest.Wait()
		if n := len(b.all()); n < 110 || n > 170 {
			t.Errorf("%d of 200 passed a loss of 0.3", n)
		}
		if n := len(a.all()); n != 200 {
			t.Errorf("%d of 200 passed the direction without loss", n)
		}
		ab, ba = b.priorities(), a.priorities()
	})
	return ab, ba
}

func TestLANLossIsDeterministic(t *testing.T) {
	first, back := lossyRun(t, 5)
	again, backAgain := lossyRun(t, 5)
	other, _ := lossyRun(t, 6)
	if first != again || back != backAgain {
		t.Error("two runs with one seed differ")
	}
	if first == other {
		t.Error("two seeds lose the same frames")
	}
}

func TestLANDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		a, b := attach(t, lan, "a", false), attach(t, lan, "b", false)
		start := time.Now()
		lan.Impair("", "", Impairment{Delay: 25 * time.Millisecond})
		send(t, a, 1)
		time.Sleep(10 * time.Millisecond)
		lan.Impair("a", "b", Impairment{})
		send(t, a, 2)
		time.Sleep(time.Second)
		got := b.all()
		if b.priorities() != "[2 1]" || got[0].at.Sub(start) != 10*time.Millisecond || got[1].at.Sub(start) != 25*time.Millisecond {
			t.Errorf("got %+v, started %v", got, start)
		}

		lan.Impair("a", "b", Impairment{Jitter: 50 * time.Millisecond, Duplicate: 1})
		for i := range 20 {
			send(t, a, uint8(100+i))
		}
		sent := time.Now()
		time.Sleep(time.Second)
		got = b.all()[2:]
		sorted := slices.IsSortedFunc(got, func(x, y arrival) int { return int(x.priority) - int(y.priority) })
		if len(got) != 40 || sorted || got[39].at.Sub(sent) > 50*time.Millisecond {
			t.Errorf("20 frames sent twice with jitter: %d arrived, in order: %v", len(got), sorted)
		}
	})
}

func TestLANPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		a, b, c := attach(t, lan, "a", false), attach(t, lan, "b", false), attach(t, lan, "c", false)
		round := func(priority uint8) string {
			for _, s := range []*station{a, b, c} {
				s.mu.Lock()
				s.got = nil
				s.mu.Unlock()
			}
			send(t, a, priority)
			send(t, b, priority+1)
			synctest.Wait()
			return a.priorities() + b.priorities() + c.priorities()
		}
		if got := round(10); got != "[11][10][10 11]" {
			t.Errorf("whole: %s", got)
		}
		lan.Cut("a", "b")
		if got := round(20); got != "[21][][20 21]" {
			t.Errorf("a cannot reach b: %s", got)
		}
		lan.Heal("a", "b")
		lan.Partition("a", "c")
		if got := round(30); got != "[][][30]" {
			t.Errorf("a and c apart from b: %s", got)
		}
		lan.HealAll()
		if got := round(40); got != "[41][40][40 41]" {
			t.Errorf("healed: %s", got)
		}
		lan.Cut("", "c")
		if got := round(50); got != "[51][50][]" {
			t.Errorf("nothing reaches c: %s", got)
		}
	})
}

func TestLANLinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		a, b := attach(t, lan, "a", false), attach(t, lan, "b", false)
		lan.SetLink("b", false)
		send(t, a, 1)
		if err := b.Send(addr2, Group4, encode(t, 1, addr2, Group4)); !errors.Is(err, unix.ENETDOWN) {
			t.Errorf("sending with the link down: %v", err)
		}
		synctest.Wait()
		lan.SetLink("b", true)
		send(t, a, 2)
		send(t, b, 3)
		synctest.Wait()
		if b.priorities() != "[2]" || a.priorities() != "[3]" {
			t.Errorf("b got %s, a got %s", b.priorities(), a.priorities())
		}
	})
}

// TestLANRefuses: strangers' bytes meet the checks of a real socket, and the
// good twin of each is delivered.
func TestLANRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		b := attach(t, lan, "b", false)
		message := encode(t, 9, addr1, Group4)
		good := append(packet.AppendIPv4(nil, addr1, Group4, 1, 255, len(message)), message...)
		inject := func(change func(b []byte) []byte) {
			lan.Inject(Frame{From: "x", Src: addr1, Dst: Group4, Packet: change(slices.Clone(good))})
			synctest.Wait()
		}
		for reason, change := range map[packet.DropReason]func(b []byte) []byte{
			packet.DropChecksum:    func(b []byte) []byte { b[26]++; return b },
			packet.DropShort:       func(b []byte) []byte { return b[:30] },
			packet.DropUnknownVRID: func(b []byte) []byte { b[21] = 52; return b },
			packet.DropDestination: func(b []byte) []byte { b[19] = 1; return b },
			packet.DropVersion:     func(b []byte) []byte { b[20] = 0x11; return b },
		} {
			inject(change)
			if b.drops.count(reason) != 1 || len(b.all()) != 0 {
				t.Errorf("%v counted %d times, delivered %+v", reason, b.drops.count(reason), b.all())
			}
		}
		inject(func(b []byte) []byte { b[8] = 7; return b })
		if got := b.all(); len(got) != 1 || got[0].ttl != 7 {
			t.Errorf("with TTL 7, which is for the instance to judge: %+v", got)
		}
		b.SetVRIDs([]uint8{1, 255})
		inject(func(b []byte) []byte { return b })
		b.SetVRIDs([]uint8{1, 51, 255})
		inject(func(b []byte) []byte { return b })
		if got := b.all(); len(got) != 2 || b.drops.count(packet.DropUnknownVRID) != 2 {
			t.Errorf("after the VRIDs changed: %+v", got)
		}
	})
}

// TestFreeList: adverts that the owner keeps are bounded, the rest is counted;
// after Release they arrive again, and reuse gives the right addresses.
func TestFreeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		var d drops
		var kept []*Received
		p := lan.Open("b", lanKey(false), d.add)
		p.SetVRIDs([]uint8{51})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Serve(ctx, func(r *Received) { kept = append(kept, r) }) }()
		a := attach(t, lan, "a", false)
		for i := range inFlight + 20 {
			send(t, a, uint8(i))
		}
		synctest.Wait()
		if len(kept) != inFlight || d.count(packet.DropOverrun) != 20 {
			t.Fatalf("%d kept, %d overruns", len(kept), d.count(packet.DropOverrun))
		}
		for i, r := range kept {
			if r.Advert.Priority != uint8(i) {
				t.Fatalf("advert %d has priority %d: overwritten while kept", i, r.Advert.Priority)
			}
			r.Release()
		}
		kept = nil
		for i := range inFlight {
			send(t, a, uint8(i+1))
		}
		synctest.Wait()
		if len(kept) != inFlight || d.count(packet.DropOverrun) != 20 || kept[3].Advert.Priority != 4 {
			t.Errorf("after Release: %d kept, %d overruns", len(kept), d.count(packet.DropOverrun))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestLANTapAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := NewLAN(1)
		a := attach(t, lan, "a", false)
		var frames []Frame
		lan.Tap(func(f Frame) { frames = append(frames, f) })
		p := lan.Open("b", lanKey(false), a.drops.add)
		done := make(chan error)
		go func() { done <- p.Serve(t.Context(), func(r *Received) { r.Release() }) }()
		send(t, a, 1)
		send(t, a, 2)
		if len(frames) != 2 || frames[0].From != "a" || string(frames[1].Message()) != string(encode(t, 2, addr1, Group4)) {
			t.Errorf("tapped %+v", frames)
		}
		if id := frames[1].Packet[5]; id != 2 {
			t.Errorf("the second packet has id %d", id)
		}
		synctest.Wait()
		p.Close()
		if err := <-done; !errors.Is(err, os.ErrClosed) {
			t.Errorf("Serve after Close: %v", err)
		}
		if err := p.Send(addr2, Group4, encode(t, 1, addr2, Group4)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Send after Close: %v", err)
		}
		if err := a.Send(link1, Group6, encode(t, 1, link1, Group6)); !errors.Is(err, packet.ErrFamily) {
			t.Errorf("sending IPv6 on an IPv4 port: %v", err)
		}
	})
}
