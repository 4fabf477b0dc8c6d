package vrrp

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp/packet"
)

// world is what the actions of one machine do outside it.
type world struct {
	state      State
	addresses  bool
	announcing bool
	sent       int
}

// apply carries actions out and fails when they contradict each other.
func (w *world) apply(t *rapid.T, actions []Action) {
	for i, a := range actions {
		switch a.Kind {
		case SendAdvert:
			w.sent++
		case AddAddresses:
			if w.addresses || i == 0 || actions[i-1].Kind != SendAdvert {
				t.Fatalf("addresses added twice or before the advert: %v", actions)
			}
			w.addresses = true
		case RemoveAddresses:
			if !w.addresses || w.announcing {
				t.Fatalf("addresses removed that are not there or are still announced: %v", actions)
			}
			w.addresses = false
		case Announce:
			if !w.addresses {
				t.Fatalf("announced without addresses: %v", actions)
			}
			w.announcing = true
		case StopAnnounce:
			w.announcing = false
		case Transition:
			if a.From != w.state || a.To == a.From || a.Reason == "" {
				t.Fatalf("in %v: %v", w.state, a)
			}
			w.state = a.To
		}
	}
}

func genConfig(t *rapid.T) Config {
	cfg := testConfig()
	cfg.Version = rapid.SampledFrom([]uint8{2, 3}).Draw(t, "version")
	cfg.Priority = rapid.SampledFrom([]uint8{1, 50, 100, 200, 254, 255}).Draw(t, "priority")
	cfg.NoPreempt = rapid.Bool().Draw(t, "nopreempt")
	cfg.LowerPrioNoAdvert = rapid.Bool().Draw(t, "noadvert")
	cfg.PreemptDelay = rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second}).Draw(t, "delay")
	cfg.LatePriority = rapid.SampledFrom([]uint8{0, 0, 254}).Draw(t, "late")
	cfg.IgnoreAdverts = rapid.Bool().Draw(t, "ignore")
	if cfg.Version == 3 {
		cfg.AdvertInterval = rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second}).Draw(t, "interval")
	}
	return cfg
}

func genEnv(t *rapid.T) Env {
	env := Env{Source: netip.MustParseAddr("10.9.0.5"), Weight: rapid.IntRange(-100, 100).Draw(t, "weight")}
	env.Pending = rapid.SampledFrom([]string{"", "", "", "", "script chk"}).Draw(t, "pending")
	if rapid.IntRange(0, 5).Draw(t, "fault") == 0 {
		env.Faults = []string{"eth0 is down"}
	}
	return env
}

func genAdvert(t *rapid.T, cfg *Config) (*packet.Advert, netip.Addr, uint8) {
	a := &packet.Advert{
		Version: cfg.Version, VRID: cfg.VRID, Interval: cfg.AdvertInterval, Addrs: cfg.Addresses,
		Priority: rapid.SampledFrom([]uint8{0, 1, 50, 99, 100, 101, 200, 254, 255}).Draw(t, "advert"),
	}
	switch rapid.IntRange(0, 7).Draw(t, "defect") {
	case 0:
		a.Version = 5 - a.Version
	case 1:
		a.Addrs = addrs([]string{"192.0.2.1"})
	case 2:
		a.Interval += time.Second
	}
	from := rapid.SampledFrom(addrs([]string{"10.9.0.1", "10.9.0.5", "10.9.0.9"})).Draw(t, "from")
	return a, from, rapid.SampledFrom([]uint8{255, 255, 255, 254}).Draw(t, "ttl")
}

// TestRandomEvents feeds any events in any order and checks what always holds.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := genConfig(t)
		m, w, now := New(cfg), &world{}, epoch
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			before, sent := *m, w.sent
			switch rapid.SampledFrom([]string{"env", "advert", "advert", "tick", "due", "due", "config", "shutdown", "leave"}).Draw(t, "event") {
			case "env":
				w.apply(t, m.Handle(now, Event{Kind: EventEnv, Env: genEnv(t)}))
			case "advert":
				a, from, ttl := genAdvert(t, &cfg)
				if m.Admit(now, a, from, ttl) != packet.DropNone {
					if m.deadline != before.deadline || m.masterInterval != before.masterInterval || m.state != before.state {
						t.Fatalf("a dropped advert had an effect")
					}
					break
				}
				w.apply(t, m.Handle(now, Event{Kind: EventAdvert, Advert: a, From: from}))
				ignored := before.state == Backup && a.Priority != 0 && a.Priority < before.priority() && !before.nopreempt() && before.preemptDelay() == 0
				if ignored && (m.deadline != before.deadline || m.masterInterval != before.masterInterval) {
					t.Fatalf("an ignored advert restarted the timer")
				}
			case "tick":
				w.apply(t, m.Handle(now, Event{Kind: EventTick}))
			case "due":
				if at, ok := m.Deadline(); ok {
					if at.After(now) {
						now = at
					}
					w.apply(t, m.Handle(now, Event{Kind: EventTick}))
				}
			case "config":
				cfg.Priority = rapid.SampledFrom([]uint8{1, 50, 100, 200, 255}).Draw(t, "priority")
				w.apply(t, m.Handle(now, Event{Kind: EventConfig, Config: &cfg}))
			case "shutdown":
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					w.apply(t, m.Handle(now, Event{Kind: EventShutdown}))
				}
			case "leave":
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					w.apply(t, m.Handle(now, Event{Kind: EventShutdown, Wait: 5 * time.Second}))
				}
			}
			checkAlways(t, m, w, now)
			if before.leaving && w.sent != sent {
				t.Fatal("an advert was sent after priority 0")
			}
			if before.state == Fault && m.state == Fault && w.sent != sent {
				t.Fatal("an advert was sent in FAULT")
			}
		}
	})
}

// checkAlways checks what holds after every event.
func checkAlways(t *rapid.T, m *Machine, w *world, now time.Time) {
	if m.State() != w.state {
		t.Fatalf("state is %v, transitions led to %v", m.State(), w.state)
	}
	at, ok := m.Deadline()
	if want := w.state == Backup || w.state == Master; ok != want {
		t.Fatalf("deadline set: %v in %v", ok, w.state)
	}
	if w.addresses != (w.state == Master) || w.announcing && w.state != Master {
		t.Fatalf("in %v: addresses %v, announcing %v", w.state, w.addresses, w.announcing)
	}
	if m.leaving && (w.state != Master || w.announcing || at.After(now.Add(5*time.Second))) {
		t.Fatalf("leaving in %v: announcing %v, until %v from now", w.state, w.announcing, at.Sub(now))
	}
	if w.state == Master && !m.leaving && at.After(now.Add(m.cfg.AdvertInterval)) {
		t.Fatalf("next advert in %v, interval %v", at.Sub(now), m.cfg.AdvertInterval)
	}
}

// TestLeavingEnds shuts a MASTER down and lets anything happen: it keeps the addresses until another's advert that
// passes all checks and is no resignation, or to the very end of its time; and then they are gone.
func TestLeavingEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := genConfig(t)
		cfg.LatePriority, cfg.PreemptDelay = 0, 0
		m, w, now := New(cfg), &world{}, epoch
		w.apply(t, m.Handle(now, Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.5")}}))
		for m.State() != Master {
			now, _ = m.Deadline()
			w.apply(t, m.Handle(now, Event{Kind: EventTick}))
		}
		if rapid.Bool().Draw(t, "partner") {
			a := &packet.Advert{Version: cfg.Version, VRID: cfg.VRID, Interval: cfg.AdvertInterval, Addrs: cfg.Addresses}
			w.apply(t, m.Handle(now, Event{Kind: EventAdvert, Advert: a, From: netip.MustParseAddr("10.9.0.1")}))
		}
		wait := time.Duration(rapid.IntRange(1, 10_000).Draw(t, "wait")) * time.Millisecond
		w.apply(t, m.Handle(now, Event{Kind: EventShutdown, Wait: wait}))
		end, sent := now.Add(wait), w.sent
		for m.Leaving() {
			if at, ok := m.Deadline(); !ok || at.After(end) || !w.addresses {
				t.Fatalf("leaving until %v, at most %v; addresses %v", at.Sub(epoch), end.Sub(epoch), w.addresses)
			}
			if rapid.IntRange(0, 3).Draw(t, "due") == 0 {
				now, _ = m.Deadline()
				w.apply(t, m.Handle(now, Event{Kind: EventTick}))
				continue
			}
			a, from, ttl := genAdvert(t, &cfg)
			admitted := m.Admit(now, a, from, ttl) == packet.DropNone
			if admitted {
				w.apply(t, m.Handle(now, Event{Kind: EventAdvert, Advert: a, From: from}))
			}
			if ends := admitted && a.Priority != 0; ends == m.Leaving() {
				t.Fatalf("an advert of priority %d from %v, admitted %v: leaving %v", a.Priority, from, admitted, m.Leaving())
			}
		}
		if w.addresses || w.announcing || w.sent != sent || !m.Stopped() || m.State() != Init {
			t.Fatalf("in the end in %v: %+v", m.State(), w)
		}
	})
}

// TestScheduleNeverDrifts makes every tick late, by less than an interval.
func TestScheduleNeverDrifts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := genConfig(t)
		m := New(cfg)
		m.Handle(epoch, Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.5")}})
		start := epoch
		if m.State() == Backup {
			start, _ = m.Deadline()
			m.Handle(start, Event{Kind: EventTick})
		}
		last := start
		for i := range 50 {
			want := start.Add(time.Duration(i+1) * cfg.AdvertInterval)
			if at, _ := m.Deadline(); !at.Equal(want) {
				t.Fatalf("advert %d is due at %v, want %v", i, at.Sub(start), want.Sub(start))
			}
			late := time.Duration(rapid.Int64Range(0, int64(cfg.AdvertInterval)-1).Draw(t, "late"))
			last = later(last, want.Add(late))
			if got := m.Handle(last, Event{Kind: EventTick}); len(got) != 1 || got[0].Kind != SendAdvert {
				t.Fatalf("tick gave %v", got)
			}
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
