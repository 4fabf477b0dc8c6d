package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp/packet"
)

// lanNode is a machine on the simulated LAN.
type lanNode struct {
	m   *Machine
	w   *world
	src netip.Addr
	cfg Config
}

// lanPacket is an advert on its way.
type lanPacket struct {
	at     time.Time
	to     int
	from   netip.Addr
	advert packet.Advert
}

// lan joins machines: each advert arrives at each other machine after a random
// delay, unless lost or cut off.
type lan struct {
	t     *rapid.T
	now   time.Time
	nodes []*lanNode
	queue []lanPacket
	loss  int // percent
	cut   map[[2]int]bool
}

func newLAN(t *rapid.T, cfgs []Config) *lan {
	l := &lan{t: t, now: epoch, cut: map[[2]int]bool{}}
	for i, cfg := range cfgs {
		l.nodes = append(l.nodes, &lanNode{
			m: New(cfg), w: &world{}, cfg: cfg,
			src: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", i+1)),
		})
	}
	for i := range l.nodes {
		l.up(i, 0)
	}
	return l
}

func (l *lan) up(i, weight int) {
	l.handle(i, Event{Kind: EventEnv, Env: Env{Source: l.nodes[i].src, Weight: weight}})
}

func (l *lan) down(i int) {
	l.handle(i, Event{Kind: EventEnv, Env: Env{Faults: []string{"eth0 has no carrier"}}})
}

func (l *lan) handle(i int, ev Event) {
	n := l.nodes[i]
	actions := n.m.Handle(l.now, ev)
	n.w.apply(l.t, actions)
	checkAlways(l.t, n.m, n.w, l.now)
	for _, a := range actions {
		if a.Kind == SendAdvert {
			l.send(i, a.Priority)
		}
	}
}

func (l *lan) send(i int, priority uint8) {
	for j := range l.nodes {
		if i == j || l.cut[[2]int{i, j}] || rapid.IntRange(0, 99).Draw(l.t, "loss") < l.loss {
			continue
		}
		p := lanPacket{at: l.now.Add(time.Duration(rapid.IntRange(50, 900).Draw(l.t, "us")) * time.Microsecond), to: j, from: l.nodes[i].src}
		l.nodes[i].m.Advert(l.now, &p.advert, priority)
		l.queue = append(l.queue, p)
	}
	slices.SortStableFunc(l.queue, func(a, b lanPacket) int { return a.at.Compare(b.at) })
}

// run lets d pass.
func (l *lan) run(d time.Duration) {
	end := l.now.Add(d)
	for range 100000 {
		next, who := end, -1
		for i, n := range l.nodes {
			if at, ok := n.m.Deadline(); ok && at.Before(next) {
				next, who = at, i
			}
		}
		if len(l.queue) > 0 && !l.queue[0].at.After(next) {
			p := l.queue[0]
			l.queue = l.queue[1:]
			l.now = later(l.now, p.at)
			if l.nodes[p.to].m.Admit(l.now, &p.advert, p.from, 255) == packet.DropNone {
				l.handle(p.to, Event{Kind: EventAdvert, Advert: &p.advert, From: p.from})
			}
			continue
		}
		l.now = later(l.now, next)
		if who < 0 {
			return
		}
		l.handle(who, Event{Kind: EventTick})
	}
	l.t.Fatal("endless traffic")
}

func (l *lan) masters() []int {
	var out []int
	for i, n := range l.nodes {
		if n.m.State() == Master {
			out = append(out, i)
		}
	}
	return out
}

// window is how long after a LAN is whole again one router is left: the longest
// Master_Down_Interval, and an interval for the others to hear of it.
func (l *lan) window() time.Duration {
	var d time.Duration
	for _, n := range l.nodes {
		d = max(d, 5*n.cfg.AdvertInterval+SkewTime(n.cfg.Version, 1, n.cfg.AdvertInterval))
	}
	return d + 5*time.Millisecond
}

func (l *lan) trouble() {
	i := rapid.IntRange(0, len(l.nodes)-1).Draw(l.t, "node")
	j := rapid.IntRange(0, len(l.nodes)-1).Draw(l.t, "other")
	switch rapid.SampledFrom([]string{"cut", "cut both", "join", "down", "up", "weight", "loss"}).Draw(l.t, "trouble") {
	case "cut":
		l.cut[[2]int{i, j}] = true
	case "cut both":
		l.cut[[2]int{i, j}], l.cut[[2]int{j, i}] = true, true
	case "join":
		delete(l.cut, [2]int{i, j})
	case "down":
		l.down(i)
	case "up":
		l.up(i, 0)
	case "weight":
		if l.nodes[i].m.State() != Fault {
			l.up(i, rapid.IntRange(-60, 60).Draw(l.t, "weight"))
		}
	case "loss":
		l.loss = rapid.IntRange(0, 60).Draw(l.t, "percent")
	}
	l.run(time.Duration(rapid.IntRange(1, 3000).Draw(l.t, "ms")) * time.Millisecond)
}

// TestLANConverges lets two to four routers suffer anything and checks that
// within the protocol's window after the end of it there is exactly one MASTER,
// and that it is the right one.
func TestLANConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom([]uint8{2, 3}).Draw(t, "version")
		var cfgs []Config
		for range rapid.IntRange(2, 4).Draw(t, "routers") {
			cfg := testConfig()
			cfg.Version = version
			cfg.Priority = uint8(rapid.IntRange(98, 103).Draw(t, "priority"))
			cfg.NoPreempt = rapid.IntRange(0, 3).Draw(t, "nopreempt") == 0
			if version == 3 {
				cfg.AdvertInterval = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 250 * time.Millisecond}).Draw(t, "interval")
			}
			cfgs = append(cfgs, cfg)
		}
		l := newLAN(t, cfgs)
		for range rapid.IntRange(0, 8).Draw(t, "troubles") {
			l.trouble()
		}
		l.loss, l.cut = 0, map[[2]int]bool{}
		for i := range l.nodes {
			l.up(i, 0)
		}
		l.run(l.window())
		l.checkMaster()
		// And it stays so.
		first := l.masters()[0]
		l.run(10 * l.window())
		if got := l.masters(); len(got) != 1 || got[0] != first {
			t.Fatalf("later the masters are %v, were [%d]", got, first)
		}
	})
}

// checkMaster checks that there is one MASTER and no preempting router is better.
func (l *lan) checkMaster() {
	got := l.masters()
	if len(got) != 1 {
		l.t.Fatalf("masters are %v: %v", got, l.describe())
	}
	for i, n := range l.nodes {
		if !n.m.nopreempt() && n.cfg.Priority > l.nodes[got[0]].cfg.Priority {
			l.t.Fatalf("master is %d, but %d preempts and is better: %v", got[0], i, l.describe())
		}
	}
}

func (l *lan) describe() string {
	out := ""
	for _, n := range l.nodes {
		st := n.m.Status()
		out += fmt.Sprintf("\n%v %v nopreempt=%v prio=%d since %v: %s", n.src, st.State, n.cfg.NoPreempt, st.EffectivePriority, st.Since.Sub(epoch), st.Reason)
	}
	return out
}

// TestLANOneWayDeaf is the case of a MASTER that never hears its deaf challenger
// (no announcement after a short split brain): when the challenger steps down the
// MASTER announces again.
func TestLANOneWayDeaf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		better, worse := testConfig(), testConfig()
		better.Priority = 200
		l := newLAN(t, []Config{better, worse})
		l.run(8 * time.Second)
		l.cut[[2]int{0, 1}] = true // the worse one is deaf
		l.cut[[2]int{1, 0}] = rapid.Bool().Draw(t, "both ways")
		l.run(8 * time.Second)
		if got := l.masters(); len(got) != 2 {
			t.Fatalf("masters are %v, want both", got)
		}
		l.nodes[0].w.announcing = false
		clear(l.cut)
		l.run(1001 * time.Millisecond)
		if got := l.masters(); len(got) != 1 || got[0] != 0 {
			t.Fatalf("masters are %v, want [0]", got)
		}
		if !l.nodes[0].w.announcing {
			t.Fatal("the winner did not announce again")
		}
	})
}
