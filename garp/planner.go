package garp

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

const (
	// gatherQuiet is how long the repeats of an instance that became MASTER
	// wait for the next address to be added before they start without it.
	gatherQuiet = 100 * time.Millisecond
	// gatherMax bounds that wait, counted from becoming MASTER.
	gatherMax = time.Second
	// slotMax is how far second bursts of addresses that were added one after
	// the other may be drawn together, so that they go round as one burst.
	slotMax = 100 * time.Millisecond
)

// insistGaps are the times from a burst to one frame more, and from there to the
// next, for addresses of which insist speaks.
var insistGaps = [...]time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 200 * time.Millisecond}

// Planner decides which frame is sent when. It holds no clock: each method
// that depends on time is told it, and Deadline says when to call Next again.
// It is not safe for concurrent use.
type Planner struct {
	instances map[string]*instance
	links     map[string]Link
	queues    []*queue
	byKey     map[queueKey]*queue
	groups    map[string]*group      // by interface
	last      map[queueKey]time.Time // last frame of each physical interface and kind
	turn      int                    // queue that Next looks at first
	timer     time.Time              // no instance deadline is due before; zero: none
	drops     []Drop
}

// instance is what the planner keeps of a virtual router.
type instance struct {
	cfg    Instance
	active bool

	targets map[netip.Addr]*target
	order   []*target // in announcement order
	present int       // targets that are present

	master      time.Time // became MASTER
	gather      time.Time // repeats wait until then; zero: they do not
	held        fifo      // targets whose repeats wait
	lowerSecond time.Time // second burst after a losing advert; zero: none
	refresh     time.Time // next refresh; zero: none
	extra       time.Time // next frames on other interfaces; zero: none

	stats InstanceStatus // counters only
}

// target is one address of an instance.
type target struct {
	Target
	inst    *instance
	present bool
	fresh   bool      // nothing was sent since it had to be announced
	pending int       // frames wanted
	queue   *queue    // where it is listed; nil: nowhere
	early   bool      // listed among those not announced yet
	second  time.Time // its second burst; zero: none
	more    time.Time // its next frame after a burst (insist); zero: none
	mores   int       // how many of those there were
	reply   bool      // what is pending is one of them: nobody answers a reply
	full    int       // times in a row that the kernel's queue was full
	once    bool      // no virtual address: announced once, and forgotten
}

// NewPlanner makes a planner that knows no instance and no link.
func NewPlanner() *Planner {
	return &Planner{
		instances: map[string]*instance{}, links: map[string]Link{}, byKey: map[queueKey]*queue{},
		groups: map[string]*group{}, last: map[queueKey]time.Time{},
	}
}

// Announce starts a burst for each present address of the instance.
func (p *Planner) Announce(now time.Time, name string, b Burst) {
	in := p.instance(name)
	if b == BurstLowerPrio {
		p.lowerPrio(now, in)
		return
	}
	in.active = true
	in.master = now
	in.lowerSecond = time.Time{}
	if in.present < len(in.order) {
		in.gather = now.Add(gatherQuiet)
		p.arm(in.gather)
	}
	tm := in.cfg.Timing
	in.refresh = p.after(now, tm.Refresh, tm.MasterDelay)
	in.extra = p.after(now, tm.Extra, 0)
	for _, t := range in.order {
		p.begin(now, t)
	}
}

// lowerPrio answers a losing advert.
func (p *Planner) lowerPrio(now time.Time, in *instance) {
	tm := in.cfg.Timing
	if tm.LowerPrioRepeat <= 0 || !in.active {
		return
	}
	p.burst(now, in, tm.LowerPrioRepeat)
	if tm.LowerPrioDelay > 0 {
		in.lowerSecond = now.Add(tm.LowerPrioDelay)
		p.arm(in.lowerSecond)
	}
}

// Stop ends the announcements of the instance and drops its queued frames. Its
// addresses are about to be removed: they count as absent from now on, and are
// told anew by Present when the instance is MASTER again.
func (p *Planner) Stop(name string) {
	in, ok := p.instances[name]
	if !ok {
		return
	}
	in.active = false
	in.gather, in.lowerSecond, in.refresh, in.extra = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	for _, q := range p.queues {
		drop := func(t *target) bool { return t.inst == in }
		q.first.remove(drop)
		q.repeat.remove(drop)
	}
	in.held = fifo{}
	for _, t := range in.order {
		t.present, t.queue, t.pending, t.second, t.more = false, nil, 0, time.Time{}, time.Time{}
	}
	in.present = 0
}

// Present says that the address is in the kernel, on t.Interface. While its
// instance is MASTER the address is announced.
func (p *Planner) Present(now time.Time, t Target) {
	in := p.instance(t.Instance)
	tg := in.target(t)
	if t.Interface != "" && t.Interface != tg.Interface {
		p.dequeue(tg)
		tg.Interface = t.Interface
	}
	if !tg.present {
		tg.present = true
		in.present++
	}
	if !in.active {
		return
	}
	if !in.gather.IsZero() {
		in.gather = now.Add(gatherQuiet)
		if limit := in.master.Add(gatherMax); in.gather.After(limit) {
			in.gather = limit
		}
		p.arm(in.gather)
	}
	p.begin(now, tg)
	if in.present == len(in.order) {
		p.release(in)
	}
}

// Absent says that the address has left the kernel.
func (p *Planner) Absent(t Target) {
	in, ok := p.instances[t.Instance]
	if !ok {
		return
	}
	tg, ok := in.targets[t.Address.Unmap()]
	if !ok || !tg.present {
		return
	}
	tg.present = false
	in.present--
	p.cancel(tg)
}

// begin starts the full announcement of one address: a burst now, a second
// one MasterDelay later. Second bursts of addresses that came within one slot
// fall together.
func (p *Planner) begin(now time.Time, t *target) {
	in := t.inst
	if !in.active || !t.present {
		return
	}
	t.fresh = true
	p.want(t, in.cfg.Timing.MasterRepeat)
	t.second = time.Time{}
	if d := in.cfg.Timing.MasterDelay; d > 0 {
		slot := max(1, min(slotMax, d/10))
		t.second = in.master.Add(now.Sub(in.master)/slot*slot + d)
		p.arm(t.second)
	}
	p.insist(now, t)
}

// insist has an address announced again shortly after a burst if it has a virtual
// MAC that no advert bears (vmac_xmit_base). Whoever was MASTER before has the same
// MAC, and answers what we announce while it still has the address: switches then
// look for it there, and only our next frame with that MAC draws them back. It is a
// reply, which nobody answers: not even a director that is dead, with its addresses
// left in its kernel.
func (p *Planner) insist(now time.Time, t *target) {
	if out := p.outbound(t); p.links[out].VMAC && out != t.inst.cfg.Adverts {
		t.mores, t.more, t.reply = 0, now.Add(insistGaps[0]), false
		p.arm(t.more)
	}
}

// insistOn sends one of those frames if it is due.
func (p *Planner) insistOn(now time.Time, t *target) {
	if !p.due(now, t.more) {
		return
	}
	t.reply = t.pending == 0
	p.want(t, 1)
	t.mores, t.more = t.mores+1, time.Time{}
	if t.mores < len(insistGaps) {
		t.more = now.Add(insistGaps[t.mores])
		p.arm(t.more)
	}
}

// burst asks for frames of each present address.
func (p *Planner) burst(now time.Time, in *instance, frames int) {
	for _, t := range in.order {
		if t.present {
			p.want(t, frames)
			p.insist(now, t)
		}
	}
}

// elsewhere announces the first address on each interface that adverts do not
// leave by: without them a switch forgets where the MAC is (garp_extra_if).
func (p *Planner) elsewhere(in *instance) {
	seen := map[string]bool{in.cfg.Interface: true, in.cfg.Adverts: true}
	for _, t := range in.order {
		out := p.outbound(t)
		if !t.present || seen[out] || !in.cfg.Timing.ExtraAll && !p.links[out].VMAC {
			continue
		}
		seen[out] = true
		p.want(t, 1)
	}
}

// Once announces an address that is no virtual one, with a single announcement:
// the source address of an instance that speaks unicast, whose peers may have lost
// it meanwhile. Where t.Interface carries no ARP, nothing is done.
func (p *Planner) Once(t Target) {
	if unusable(t.Interface, p.links[t.Interface]) != "" {
		return
	}
	t.Address = t.Address.Unmap()
	p.want(&target{Target: t, inst: p.instance(t.Instance), present: true, fresh: true, once: true}, 1)
}

// release lets the repeats of an instance go.
func (p *Planner) release(in *instance) {
	in.gather = time.Time{}
	for in.held.len() > 0 {
		t := in.held.pop()
		t.queue.repeat.push(t)
	}
}

// arm makes sure that deadlines are looked at when at has come.
func (p *Planner) arm(at time.Time) {
	if p.timer.IsZero() || at.Before(p.timer) {
		p.timer = at
	}
}

// expire does what is due, and finds the next deadline.
func (p *Planner) expire(now time.Time) {
	if p.timer.IsZero() || now.Before(p.timer) {
		return
	}
	p.timer = time.Time{}
	for _, name := range slices.Sorted(maps.Keys(p.instances)) {
		if in := p.instances[name]; in.active {
			p.expireInstance(now, in)
		}
	}
}

func (p *Planner) expireInstance(now time.Time, in *instance) {
	if p.due(now, in.gather) {
		p.release(in)
	}
	for _, t := range in.order {
		p.insistOn(now, t)
		if p.due(now, t.second) {
			t.second = time.Time{}
			p.want(t, max(1, in.cfg.Timing.MasterRepeat))
			p.insist(now, t)
		}
	}
	if p.due(now, in.lowerSecond) {
		in.lowerSecond = time.Time{}
		p.burst(now, in, in.cfg.Timing.LowerPrioRepeat)
	}
	if p.due(now, in.refresh) {
		in.refresh = p.again(now, in.refresh, in.cfg.Timing.Refresh)
		p.burst(now, in, max(1, in.cfg.Timing.RefreshRepeat))
	}
	if p.due(now, in.extra) {
		in.extra = p.again(now, in.extra, in.cfg.Timing.Extra)
		p.elsewhere(in)
	}
}

// after is when something that is done every so often is due for the first time,
// delay later than otherwise; zero: never.
func (p *Planner) after(now time.Time, every, delay time.Duration) time.Time {
	if every <= 0 {
		return time.Time{}
	}
	at := now.Add(delay + every)
	p.arm(at)
	return at
}

// again is when it is due next. It keeps the phase; after a pause of the process
// what was missed is skipped.
func (p *Planner) again(now, at time.Time, every time.Duration) time.Time {
	at = at.Add((now.Sub(at)/every + 1) * every)
	p.arm(at)
	return at
}

// due tells whether a deadline has come, and re-arms one that has not.
func (p *Planner) due(now, at time.Time) bool {
	if at.IsZero() {
		return false
	}
	if now.Before(at) {
		p.arm(at)
		return false
	}
	return true
}

// instance finds an instance, or makes a place for one that is not configured
// yet, so that no order of calls loses an announcement.
func (p *Planner) instance(name string) *instance {
	in, ok := p.instances[name]
	if !ok {
		in = &instance{cfg: Instance{Name: name}, targets: map[netip.Addr]*target{}}
		p.instances[name] = in
	}
	return in
}

func (in *instance) target(t Target) *target {
	t.Address = t.Address.Unmap()
	tg, ok := in.targets[t.Address]
	if !ok {
		tg = &target{Target: t, inst: in}
		in.targets[t.Address] = tg
		in.order = append(in.order, tg)
	}
	return tg
}
