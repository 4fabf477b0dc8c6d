package garp

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	maxRepeat = 4
	linkA     = "eth0"
	linkB     = "eth1"
)

// drain sends what is due until the given time.
func drain(p *Planner, from, until time.Time, sent func(time.Time, Frame)) {
	for now := from; ; {
		if f, ok := p.Next(now); ok {
			sent(now, f)
			p.Sent(now, f)
			continue
		}
		at, ok := p.Deadline()
		if !ok || at.After(until) {
			return
		}
		now = at
	}
}

// addresses makes n IPv4 targets on eth0.
func addresses(instance string, n int) []Target {
	out := make([]Target, n)
	for i := range out {
		out[i] = Target{instance, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), linkA}
	}
	return out
}

func ready(now time.Time, timing Timing, n int) *Planner {
	p := NewPlanner()
	p.Configure(now, []Instance{{Name: "VI", Interface: linkA, Timing: timing, Targets: addresses("VI", n)}}, nil)
	p.LinkChanged(now, Link{Name: linkA, Index: 2, MAC: macPlain, ARP: true, Up: true})
	return p
}

// Repeats go round: each round holds every address once, in the same order.
func TestBurstsGoRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "addresses")
		repeat := rapid.IntRange(1, 6).Draw(t, "repeat")
		gap := time.Duration(rapid.IntRange(0, 3).Draw(t, "gap")) * time.Millisecond
		now := time.Unix(1000, 0)
		p := ready(now, Timing{MasterRepeat: repeat, GARPInterval: gap}, n)
		all := addresses("VI", n)
		for _, i := range rapid.Permutation(all).Draw(t, "order") {
			p.Present(now, i)
		}
		p.Announce(now, "VI", BurstMaster)
		var got []Target
		drain(p, now, now.Add(time.Hour), func(_ time.Time, f Frame) { got = append(got, f.Target) })
		if len(got) != n*repeat {
			t.Fatalf("%d frames, want %d", len(got), n*repeat)
		}
		for i, tg := range got {
			if tg != all[i%n] {
				t.Fatalf("frame %d is of %v, want %v", i, tg, all[i%n])
			}
		}
	})
}

// However an instance flapped, while it is MASTER it refreshes once a period.
func TestFlapsDoNotMultiplyRefresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		p := ready(now, Timing{MasterRepeat: 1, MasterDelay: time.Second, Refresh: time.Second, RefreshRepeat: 4}, 2)
		all := func() {
			for _, tg := range addresses("VI", 2) {
				p.Present(now, tg)
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "flaps") {
			p.Announce(now, "VI", BurstMaster)
			all()
			step := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
			drain(p, now, now.Add(step), func(time.Time, Frame) {})
			now = now.Add(step)
			if rapid.Bool().Draw(t, "stop") {
				p.Stop("VI")
			}
		}
		p.Announce(now, "VI", BurstMaster)
		all()
		steady := now.Add(1500 * time.Millisecond)
		drain(p, now, steady, func(time.Time, Frame) {})
		frames := 0
		drain(p, steady, steady.Add(10*time.Second), func(time.Time, Frame) { frames++ })
		if frames != 10*4*2 {
			t.Fatalf("%d frames of 2 addresses in 10 s, want %d", frames, 10*4*2)
		}
		p.Stop("VI")
		drain(p, steady.Add(10*time.Second), steady.Add(time.Hour), func(at time.Time, f Frame) {
			t.Fatalf("%v after Stop", f.Target)
		})
	})
}

// A pause of the process is not made up for.
func TestMissedRefreshesAreSkipped(t *testing.T) {
	now := time.Unix(1000, 0)
	p := ready(now, Timing{MasterRepeat: 1, Refresh: time.Second, RefreshRepeat: 1}, 1)
	p.Present(now, addresses("VI", 1)[0])
	p.Announce(now, "VI", BurstMaster)
	drain(p, now, now, func(time.Time, Frame) {})
	late := now.Add(10500 * time.Millisecond)
	var at []time.Duration
	drain(p, late, now.Add(12*time.Second), func(sent time.Time, _ Frame) { at = append(at, sent.Sub(now)) })
	want := []time.Duration{10500 * time.Millisecond, 11 * time.Second, 12 * time.Second}
	if !slices.Equal(at, want) {
		t.Errorf("frames at %v, want %v", at, want)
	}
}

// A kernel queue that stays full does not hold frames for ever.
func TestRetryEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	p := ready(now, Timing{MasterRepeat: 1}, 1)
	p.Present(now, addresses("VI", 1)[0])
	p.Announce(now, "VI", BurstMaster)
	tries := 0
	for ; tries < 1000; tries++ {
		f, ok := p.Next(now)
		if !ok {
			break
		}
		p.Retry(now, f, "stays full")
		if at, ok := p.Deadline(); ok {
			now = at
		}
	}
	d := p.Drops()
	if tries != retryMax+1 || len(d) != 1 || d[0].Reason != "stays full" || d[0].Frames != 1 {
		t.Errorf("%d tries, drops %v", tries, d)
	}
}

func TestPlanningAllocatesNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	p := ready(now, Timing{MasterRepeat: 3, Refresh: time.Second, RefreshRepeat: 3}, 100)
	for _, tg := range addresses("VI", 100) {
		p.Present(now, tg)
	}
	p.Announce(now, "VI", BurstMaster)
	b := NewBuilder()
	drain(p, now, now, func(time.Time, Frame) {})
	n := testing.AllocsPerRun(50, func() {
		p.burst(now, p.instances["VI"], 3)
		for {
			f, ok := p.Next(now)
			if !ok {
				break
			}
			if _, err := b.Frame(f); err != nil {
				t.Fatal(err)
			}
			p.Sent(now, f)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for 300 frames, want 0", n)
	}
}

func BenchmarkBurst1000(b *testing.B) {
	now := time.Unix(1000, 0)
	p := ready(now, Timing{MasterRepeat: 5}, 1000)
	for _, tg := range addresses("VI", 1000) {
		p.Present(now, tg)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Announce(now, "VI", BurstMaster)
		drain(p, now, now, func(time.Time, Frame) {})
	}
}
