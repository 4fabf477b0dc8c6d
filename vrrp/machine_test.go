package vrrp

import (
	"net/netip"
	"testing"
	"time"

	"vipd/vrrp/packet"
)

func TestTimers(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		version, priority uint8
		interval          time.Duration
		adverts           int
		skew, down        time.Duration
	}{
		{2, 100, time.Second, 3, 609375 * time.Microsecond, 3609375 * time.Microsecond},
		{2, 100, 255 * time.Second, 3, 609375 * time.Microsecond, 765*time.Second + 609375*time.Microsecond},
		{2, 255, time.Second, 3, 3906250, 3*time.Second + 3906250},
		{2, 1, time.Second, 3, 996093750, 3*time.Second + 996093750},
		{3, 100, time.Second, 3, 609375 * time.Microsecond, 3609375 * time.Microsecond},
		{3, 100, 10 * ms, 3, 6093750, 36093750},
		{3, 255, 10 * ms, 3, 39062, 30039062}, // 39062.5 ns
		{3, 1, 40950 * ms, 3, 40790039062, 163640039062},
		{3, 254, 100 * ms, 5, 781250, 500781250},
		{3, 254, 100 * ms, 0, 781250, 300781250}, // 0 means 3
	}
	for _, tt := range tests {
		if got := SkewTime(tt.version, tt.priority, tt.interval); got != tt.skew {
			t.Errorf("SkewTime(%d, %d, %v) = %v, want %v", tt.version, tt.priority, tt.interval, got, tt.skew)
		}
		if got := MasterDownInterval(tt.version, tt.priority, tt.interval, tt.adverts); got != tt.down {
			t.Errorf("MasterDownInterval(%d, %d, %v, %d) = %v, want %v", tt.version, tt.priority, tt.interval, tt.adverts, got, tt.down)
		}
	}
}

func TestEffectivePriority(t *testing.T) {
	tests := []struct {
		base   uint8
		weight int
		want   uint8
	}{
		{100, 0, 100}, {100, 20, 120}, {100, -20, 80}, {100, -100, 1}, {100, -2000, 1}, {100, 154, 254}, {100, 155, 254},
		{254, 253, 254}, {1, -1, 1}, {255, -253, 255}, {255, 10, 255},
	}
	for _, tt := range tests {
		if got := EffectivePriority(tt.base, tt.weight); got != tt.want {
			t.Errorf("EffectivePriority(%d, %d) = %d, want %d", tt.base, tt.weight, got, tt.want)
		}
	}
}

// testConfig is a version 3 router of priority 100 at 1 s.
func testConfig() Config {
	return Config{
		Name: "VI", Interface: "eth0", VRID: 51, Version: 3, Priority: 100, AdvertInterval: time.Second,
		DownTimerAdverts: 3, Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.100")},
	}
}

func TestAdvertAsConfigured(t *testing.T) {
	cfg := testConfig()
	cfg.Version, cfg.AuthPass, cfg.Form = 2, "longer than 8", packet.FormPseudo
	m := New(cfg)
	cfg.Addresses[0] = netip.MustParseAddr("10.9.9.9") // the machine has its own copy
	a := packet.Advert{Addrs: []netip.Addr{{}, {}}, Reserved: 7}
	m.Advert(epoch, &a, 42)
	if a.Version != 2 || a.VRID != 51 || a.Priority != 42 || a.Interval != time.Second || a.Reserved != 0 ||
		a.Form != packet.FormPseudo || a.AuthType != packet.AuthPass || string(a.AuthData[:]) != "longer t" {
		t.Errorf("advert is %+v", a)
	}
	if len(a.Addrs) != 1 || a.Addrs[0] != netip.MustParseAddr("10.9.0.100") {
		t.Errorf("addresses are %v", a.Addrs)
	}
}

func TestConfigEqual(t *testing.T) {
	a := testConfig()
	changes := map[string]func(*Config){
		"Name": func(c *Config) { c.Name = "x" }, "Interface": func(c *Config) { c.Interface = "x" },
		"VRID": func(c *Config) { c.VRID++ }, "Version": func(c *Config) { c.Version = 2 }, "IPv6": func(c *Config) { c.IPv6 = true },
		"Priority": func(c *Config) { c.Priority++ }, "AdvertInterval": func(c *Config) { c.AdvertInterval++ },
		"DownTimerAdverts": func(c *Config) { c.DownTimerAdverts++ }, "NoPreempt": func(c *Config) { c.NoPreempt = true },
		"WantMaster": func(c *Config) { c.WantMaster = true }, "LowerPrioNoAdvert": func(c *Config) { c.LowerPrioNoAdvert = true },
		"SkipCheckAddr": func(c *Config) { c.SkipCheckAddr = true }, "Addresses": func(c *Config) { c.Addresses = nil },
		"AuthPass": func(c *Config) { c.AuthPass = "x" }, "Form": func(c *Config) { c.Form = packet.FormPseudo },
	}
	for field, change := range changes {
		b := testConfig()
		if !a.Equal(&b) {
			t.Fatal("equal configurations differ")
		}
		change(&b)
		if a.Equal(&b) {
			t.Errorf("a change of %s is not seen", field)
		}
	}
}

func TestMalformedEventsAreNotes(t *testing.T) {
	m := New(testConfig())
	m.Handle(epoch, Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.2")}})
	for _, ev := range []Event{{Kind: EventAdvert}, {Kind: EventConfig}, {Kind: EventKind(99)}} {
		got := m.Handle(epoch, ev)
		if len(got) != 1 || got[0].Kind != Note || m.State() != Backup {
			t.Errorf("%v: %v in %v, want one note in BACKUP", ev.Kind, got, m.State())
		}
	}
}

// TestLosingFloodIsBounded: whatever the rate of losing adverts, ours and our
// announcements stay bounded, and the last losing advert is followed by both.
func TestLosingFloodIsBounded(t *testing.T) {
	for _, gap := range []time.Duration{10 * time.Microsecond, 3 * time.Millisecond, 150 * time.Millisecond} {
		m := New(testConfig())
		m.Handle(epoch, Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.2")}})
		now, _ := m.Deadline()
		m.Handle(now, Event{Kind: EventTick})
		worse := &packet.Advert{Version: 3, VRID: 51, Priority: 50, Interval: time.Second, Addrs: testConfig().Addresses}
		adverts, bursts := 0, 0
		var last, lastAdvert, lastBurst time.Time
		count := func(actions []Action) {
			for _, a := range actions {
				switch a.Kind {
				case SendAdvert:
					adverts, lastAdvert = adverts+1, now
				case Announce:
					bursts, lastBurst = bursts+1, now
				}
			}
		}
		ticks := func(until time.Time) {
			for at, _ := m.Deadline(); !at.After(until); at, _ = m.Deadline() {
				now = at
				count(m.Handle(now, Event{Kind: EventTick}))
			}
			now = until
		}
		end := now.Add(time.Second)
		for now.Before(end) {
			count(m.Handle(now, Event{Kind: EventAdvert, Advert: worse, From: netip.MustParseAddr("10.9.0.1")}))
			last = now
			ticks(now.Add(gap))
		}
		ticks(last.Add(announceGap))
		if adverts > 110 || bursts > 7 || lastAdvert.Before(last) || lastBurst.Before(last) {
			t.Errorf("one every %v: %d adverts, %d bursts, the last %v and %v after the last losing one",
				gap, adverts, bursts, lastAdvert.Sub(last), lastBurst.Sub(last))
		}
	}
}

// TestAdvertPathDoesNotAllocate covers what happens for every advert received or
// sent: a flood must not make garbage.
func TestAdvertPathDoesNotAllocate(t *testing.T) {
	better := &packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second, Addrs: testConfig().Addresses}
	worse := &packet.Advert{Version: 3, VRID: 51, Priority: 50, Interval: time.Second, Addrs: testConfig().Addresses}
	foreign := &packet.Advert{Version: 3, VRID: 51, Priority: 50, Interval: time.Second, Addrs: addrs([]string{"10.1.1.1"})}
	from := netip.MustParseAddr("10.9.0.1")
	env := Event{Kind: EventEnv, Env: Env{Source: netip.MustParseAddr("10.9.0.2")}}

	backup := New(testConfig())
	backup.Handle(epoch, env)
	master := New(testConfig())
	master.Handle(epoch, env)
	now, _ := master.Deadline()
	master.Handle(now, Event{Kind: EventTick})
	if backup.State() != Backup || master.State() != Master {
		t.Fatal("wrong states")
	}
	var out packet.Advert
	master.Advert(now, &out, 100)
	buf := make([]byte, 0, 1500)

	paths := map[string]func(){
		"accepted in BACKUP": func() {
			backup.Admit(now, better, from, 255)
			backup.Handle(now, Event{Kind: EventAdvert, Advert: better, From: from})
		},
		"ignored in BACKUP": func() { backup.Handle(now, Event{Kind: EventAdvert, Advert: worse, From: from}) },
		"foreign":           func() { backup.Admit(now, foreign, from, 255) },
		"losing in MASTER": func() {
			now = now.Add(announceGap)
			master.Handle(now, Event{Kind: EventAdvert, Advert: worse, From: from})
		},
		"sent": func() {
			now, _ = master.Deadline()
			for _, a := range master.Handle(now, Event{Kind: EventTick}) {
				master.Advert(now, &out, a.Priority)
				buf, _ = out.AppendTo(buf[:0], env.Env.Source, netip.MustParseAddr("224.0.0.18"))
			}
		},
	}
	for name, path := range paths {
		if n := testing.AllocsPerRun(100, path); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func addrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}
