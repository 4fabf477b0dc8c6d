package garp

import (
	"slices"
	"time"
)

// LinkChanged tells the state of an interface; Index 0: it is gone. A new MAC
// or index, a link that came up, or for IPv6 a changed Router flag announces
// the addresses of MASTERs on it. The same state again does nothing.
func (p *Planner) LinkChanged(now time.Time, l Link) {
	p.linksChanged(now, []Link{l})
}

// Links tells the state of all interfaces: those not named are gone.
func (p *Planner) Links(now time.Time, links []Link) {
	seen := make(map[string]bool, len(links))
	for _, l := range links {
		seen[l.Name] = true
	}
	all := slices.Clone(links)
	for name := range p.links {
		if !seen[name] {
			all = append(all, Link{Name: name})
		}
	}
	p.linksChanged(now, all)
}

func (p *Planner) linksChanged(now time.Time, links []Link) {
	rerouted := false
	renewed := map[string]bool{} // false: only the Router flag is new
	for _, l := range links {
		old := p.links[l.Name]
		if l.Index == 0 {
			l = Link{Name: l.Name}
			delete(p.links, l.Name)
			delete(p.last, queueKey{l.Name, ARP})
			delete(p.last, queueKey{l.Name, NA})
		} else {
			p.links[l.Name] = l
		}
		rerouted = rerouted || l.ARP != old.ARP || l.Base != old.Base || (l.Index == 0) != (old.Index == 0)
		if l.Index == 0 || !l.Up || !l.ARP {
			continue
		}
		if l.Index != old.Index || l.MAC != old.MAC || !old.Up || !old.ARP {
			renewed[l.Name] = true
		} else if l.Router != old.Router {
			renewed[l.Name] = false
		}
	}
	if rerouted {
		p.relist()
	}
	if len(renewed) > 0 {
		p.renew(now, renewed)
	}
}

// renew announces the addresses of MASTERs on the links; those whose value is
// false matter to IPv6 alone.
func (p *Planner) renew(now time.Time, links map[string]bool) {
	for _, in := range p.sorted() {
		if !in.active {
			continue
		}
		for _, t := range in.order {
			all, ok := links[p.outbound(t)]
			if ok && (all || KindOf(t.Address) == NA) {
				p.begin(now, t)
			}
		}
	}
}

// outbound names the interface that announces a target: the one it sits on,
// or the instance's, if it has one, when that one carries no ARP (a VIP on lo).
func (p *Planner) outbound(t *target) string {
	name := t.Interface
	l, known := p.links[name]
	if own := t.inst.cfg.Interface; own != "" && (name == "" || name == "lo" || known && !l.ARP) {
		return own
	}
	return name
}

func (p *Planner) keyOf(t *target) queueKey {
	return queueKey{p.queueName(p.base(p.outbound(t))), KindOf(t.Address)}
}

// queueName is the name of the queue of a physical interface.
func (p *Planner) queueName(base string) string {
	if g := p.groups[base]; g != nil {
		return g.name
	}
	return base
}

// base is the physical interface of one that may sit on another.
func (p *Planner) base(name string) string {
	if base := p.links[name].Base; base != "" {
		return base
	}
	return name
}

// grouped reports whether an interface shares its queue with others.
func (p *Planner) grouped(name string) bool {
	g := p.groups[p.base(name)]
	return g != nil && len(g.Interfaces) > 1
}

func (p *Planner) queueOf(t *target) *queue {
	key := p.keyOf(t)
	if q := p.byKey[key]; q != nil {
		return q
	}
	q := &queue{key: key}
	for lane, at := range p.last {
		if p.queueName(lane.base) == key.base && lane.kind == key.kind && at.After(q.last) {
			q.last = at // the gap goes on, whatever the queue is called
		}
	}
	p.queues, p.byKey[key] = append(p.queues, q), q
	p.regap()
	return q
}

// relist moves queued targets to where they belong now.
func (p *Planner) relist() {
	var queued []*target
	for _, in := range p.sorted() {
		queued = append(queued, in.order...)
	}
	for _, q := range p.queues {
		queued = append(queued, slices.DeleteFunc(slices.Clone(q.first.items[q.first.head:]), func(t *target) bool { return !t.once })...)
	}
	for _, t := range queued {
		if t.queue != nil && t.queue.key != p.keyOf(t) {
			p.dequeue(t)
			p.enqueue(t)
		}
	}
	p.regap()
}

// regap gives each queue the gap of its group, else the largest that an instance
// with addresses there asks for, and forgets queues that are of no more use.
func (p *Planner) regap() {
	gaps := map[queueKey]time.Duration{}
	for _, in := range p.instances {
		for _, t := range in.order {
			key := p.keyOf(t)
			gap := in.cfg.Timing.GARPInterval
			if key.kind == NA {
				gap = in.cfg.Timing.GNAInterval
			}
			gaps[key] = max(gaps[key], gap)
		}
	}
	shared := map[queueKey]time.Duration{}
	for _, g := range p.groups {
		shared[queueKey{g.name, ARP}], shared[queueKey{g.name, NA}] = g.GARPInterval, g.GNAInterval
	}
	p.queues = slices.DeleteFunc(p.queues, func(q *queue) bool {
		gap, used := gaps[q.key]
		if g, ok := shared[q.key]; ok {
			gap = g
		}
		q.gap = gap
		if used || !q.empty() {
			return false
		}
		delete(p.byKey, q.key)
		return true
	})
}
