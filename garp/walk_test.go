package garp

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is what the test knows of one address, from the calls it made.
type model struct {
	Target
	present bool
	fresh   bool // has to be announced, and was not yet
	waits   bool // the kernel's queue was full: others of the group go before it
}

// checker drives a planner with random calls and checks each frame.
type checker struct {
	p       *Planner
	now     time.Time
	cfg     []Instance
	active  map[string]bool
	targets []*model
	last    map[queueKey]time.Time // last frame of an interface
	gap     map[queueKey]time.Duration
	group   Group // of both interfaces
	grouped bool
}

func newChecker(t *rapid.T) *checker {
	c := &checker{
		p: NewPlanner(), now: time.Unix(1000, 0), active: map[string]bool{},
		last: map[queueKey]time.Time{}, gap: map[queueKey]time.Duration{},
	}
	ms := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.SampledFrom([]int{0, 1, 7, 50}).Draw(t, "ms")) * time.Millisecond
	})
	for i := range rapid.IntRange(1, 3).Draw(t, "instances") {
		in := Instance{Name: fmt.Sprint("VI", i), Interface: linkA, Timing: Timing{
			MasterDelay: 10 * ms.Draw(t, "delay"), MasterRepeat: rapid.IntRange(1, maxRepeat).Draw(t, "repeat"),
			Refresh: 20 * ms.Draw(t, "refresh"), RefreshRepeat: rapid.IntRange(1, 2).Draw(t, "refresh_repeat"),
			LowerPrioDelay: 10 * ms.Draw(t, "lower_delay"), LowerPrioRepeat: rapid.IntRange(0, maxRepeat).Draw(t, "lower"),
			GARPInterval: ms.Draw(t, "garp_interval"), GNAInterval: ms.Draw(t, "gna_interval"),
			Extra: 20 * ms.Draw(t, "extra"), ExtraAll: rapid.Bool().Draw(t, "extra_all"),
		}, Form: Form(rapid.IntRange(0, int(Both)).Draw(t, "form"))}
		for j := range rapid.IntRange(1, 4).Draw(t, "targets") {
			tg := Target{Instance: in.Name, Interface: rapid.SampledFrom([]string{linkA, linkB}).Draw(t, "dev")}
			tg.Address = netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j)})
			gap := in.Timing.GARPInterval
			if rapid.Bool().Draw(t, "ipv6") {
				tg.Address = netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i), 15: byte(j)})
				gap = in.Timing.GNAInterval
			}
			key := queueKey{tg.Interface, KindOf(tg.Address)}
			c.gap[key] = max(c.gap[key], gap)
			in.Targets = append(in.Targets, tg)
			c.targets = append(c.targets, &model{Target: tg})
		}
		c.cfg = append(c.cfg, in)
	}
	c.group = Group{[]string{linkA, linkB}, ms.Draw(t, "shared"), ms.Draw(t, "shared")}
	c.regroup(t)
	for i, name := range []string{linkA, linkB} {
		c.p.LinkChanged(c.now, Link{Name: name, Index: i + 1, MAC: MAC{2, 5: byte(i)}, ARP: true, Up: true})
	}
	return c
}

func (c *checker) drawInstance(t *rapid.T) string {
	return rapid.SampledFrom(c.cfg).Draw(t, "instance").Name
}

func (c *checker) announce(t *rapid.T) {
	name := c.drawInstance(t)
	c.p.Announce(c.now, name, BurstMaster)
	c.active[name] = true
	for _, m := range c.targets {
		if m.Instance == name && m.present {
			m.fresh = true
		}
	}
}

func (c *checker) lowerPrio(t *rapid.T) {
	c.p.Announce(c.now, c.drawInstance(t), BurstLowerPrio)
}

func (c *checker) stop(t *rapid.T) {
	name := c.drawInstance(t)
	c.p.Stop(name)
	c.active[name] = false
	for _, m := range c.targets {
		if m.Instance == name {
			m.present, m.fresh = false, false
		}
	}
}

func (c *checker) presentOne(t *rapid.T) {
	m := rapid.SampledFrom(c.targets).Draw(t, "target")
	c.p.Present(c.now, m.Target)
	m.present = true
	m.fresh = c.active[m.Instance]
}

func (c *checker) absent(t *rapid.T) {
	m := rapid.SampledFrom(c.targets).Draw(t, "target")
	c.p.Absent(m.Target)
	m.present, m.fresh = false, false
}

// regroup puts the interfaces into one group, or takes them out.
func (c *checker) regroup(*rapid.T) {
	c.grouped = !c.grouped
	c.p.Configure(c.now, c.cfg, c.groups())
}

func (c *checker) groups() []Group {
	if c.grouped {
		return []Group{c.group}
	}
	return nil
}

// together reports whether two interfaces share a queue.
func (c *checker) together(a, b string) bool { return a == b || c.grouped }

// reload with an equal configuration must change nothing.
func (c *checker) reload(*rapid.T) {
	before := c.p.Status()
	copied := slices.Clone(c.cfg)
	for i := range copied {
		copied[i].Targets = slices.Clone(copied[i].Targets)
	}
	c.p.Configure(c.now, copied, c.groups())
	if after := c.p.Status(); !slices.Equal(before, after) {
		panic(fmt.Sprintf("reload of the same configuration changed\n%v\nto\n%v", before, after))
	}
}

// pass lets time go by as a loop would: from deadline to deadline.
func (c *checker) pass(t *rapid.T) {
	end := c.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
	for range 100000 {
		f, ok := c.p.Next(c.now)
		if ok {
			if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
				c.p.Retry(c.now, f, "full")
				m := c.targets[slices.IndexFunc(c.targets, func(m *model) bool { return m.Target == f.Target })]
				m.waits = c.grouped && m.fresh
				continue
			}
			c.check(t, f)
			c.p.Sent(c.now, f)
			continue
		}
		at, ok := c.p.Deadline()
		if ok && !at.After(c.now) {
			t.Fatalf("Next had nothing to do at its own deadline %v", at)
		}
		if !ok || at.After(end) {
			c.now = end
			return
		}
		c.now = at
	}
	t.Fatal("the planner does not come to rest")
}

// check holds a frame against the claims.
func (c *checker) check(t *rapid.T, f Frame) {
	key := queueKey{f.Interface, f.Kind}
	gap := c.gap[key]
	if c.grouped {
		gap = map[Kind]time.Duration{ARP: c.group.GARPInterval, NA: c.group.GNAInterval}[f.Kind]
	}
	for other, at := range c.last {
		if other.kind == f.Kind && c.together(other.base, f.Interface) && c.now.Sub(at) < gap {
			t.Fatalf("%v: frames %v apart, want at least %v", key, c.now.Sub(at), gap)
		}
	}
	c.last[key] = c.now
	i := slices.IndexFunc(c.targets, func(m *model) bool { return m.Target == f.Target })
	if i < 0 {
		t.Fatalf("frame for an unknown target %v", f.Target)
	}
	m := c.targets[i]
	if !m.present || !c.active[m.Instance] {
		t.Fatalf("%v announced: present %v, instance active %v", m.Target, m.present, c.active[m.Instance])
	}
	if !m.fresh {
		for _, o := range c.targets {
			if o.fresh && !o.waits && c.together(o.Interface, m.Interface) && KindOf(o.Address) == f.Kind {
				t.Fatalf("a repeat of %v before the first frame of %v", m.Target, o.Target)
			}
		}
	}
	m.fresh, m.waits = false, false
}

// invariants hold between any two calls.
func (c *checker) invariants(t *rapid.T) {
	for _, s := range c.p.Status() {
		if limit := s.Present * 2 * maxRepeat; s.Pending > limit {
			t.Fatalf("%s: %d frames pending for %d addresses", s.Name, s.Pending, s.Present)
		}
		if !s.Active && (s.Pending != 0 || !s.NextRefresh.IsZero()) {
			t.Fatalf("%s is stopped and still has plans: %+v", s.Name, s)
		}
	}
}

func TestPlannerKeepsItsClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChecker(t)
		t.Repeat(map[string]func(*rapid.T){
			"announce": c.announce, "lower_prio": c.lowerPrio, "stop": c.stop,
			"present": c.presentOne, "absent": c.absent, "reload": c.reload, "regroup": c.regroup,
			"pass": c.pass, "": c.invariants,
		})
		// In the end every address that had to be announced was.
		c.now = c.now.Add(time.Millisecond)
		for range 100 {
			c.pass(t)
		}
		for _, m := range c.targets {
			if m.fresh {
				t.Fatalf("%v was never announced", m.Target)
			}
		}
	})
}
