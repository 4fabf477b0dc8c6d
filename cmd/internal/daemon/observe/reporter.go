// Package observe stands in for everything through which vipd acts, for `vipd run
// --observe`: it tells what would be done, and compares the decisions with what the
// program that is responsible, a keepalived, has done on this machine. Nothing in it
// changes anything or sends anything.
//
// What that program does is known from two sides: its virtual addresses are in the
// kernel or not, and a tap hears the adverts that it sends.
package observe

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/garp"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// checkEvery is the time between two comparisons.
const checkEvery = 200 * time.Millisecond

// Instance is what has to be known of a virtual router to tell of it.
type Instance struct {
	Config   vrrp.Config
	Group    netip.Addr // multicast destination
	Source   netip.Addr // configured source address; invalid: the interface's own
	Set      host.Set   // what a MASTER has on this host
	Announce garp.Instance
	Assumed  []string // scripts that are not run and count as good
	Links    []vmac.Link
}

// Reporter is the router's Addresses and Announcer, and tells of transitions. Its
// methods may be called from any goroutine, and none of them blocks.
type Reporter struct {
	log *zap.Logger

	mu       sync.Mutex // guards all following fields
	subjects map[string]*subject
	byRouter map[virtualRouter][]*subject
	links    host.State
	silent   bool
	standing []Step                  // as last told
	found    map[string][]fib.Status // routes and rules, by instance
}

// virtualRouter is what an advert on the wire is found by.
type virtualRouter struct {
	iface string
	ipv6  bool
	vrid  uint8
}

// subject is one instance and what was seen of it.
type subject struct {
	Instance
	found  []fib.Status
	plan   plan      // of the transition that is being told
	lesser time.Time // when answering a lesser master was last told
	own    sent      // the last advert of the program beside
	said   judgement // as last told
	next   judgement // that must last before it is told
	since  time.Time // of next
	unlike []string  // differences between its adverts and this file, as last told
}

// plan gathers the steps of one transition.
type plan struct {
	add, announce, remove bool
	resign                bool // priority 0
	last                  bool // an advert after the addresses are gone
}

// sent is an advert of the program beside.
type sent struct {
	at       time.Time // zero: none was heard yet
	priority uint8
}

// New makes a reporter without instances.
func New(log *zap.Logger) *Reporter {
	return &Reporter{log: log, subjects: map[string]*subject{}, byRouter: map[virtualRouter][]*subject{}}
}

// Configure takes the instances of a configuration. What was seen of those that stay
// is kept.
func (r *Reporter) Configure(instances []Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.subjects
	r.subjects, r.byRouter = make(map[string]*subject, len(instances)), map[virtualRouter][]*subject{}
	for _, in := range instances {
		s := old[in.Config.Name]
		if s == nil {
			s = &subject{}
		} else if s.next.ours == vrrp.Master && !r.silent {
			r.readdress(s.Set.Addresses, in.Set.Addresses, in.Config.Name)
		}
		s.Instance = in
		r.subjects[in.Config.Name] = s
		k := virtualRouter{in.Config.Interface, in.Config.IPv6, in.Config.VRID}
		r.byRouter[k] = append(r.byRouter[k], s)
	}
}

// readdress tells what a reload would change at a MASTER.
func (r *Reporter) readdress(old, now []host.Address, name string) {
	var steps []string
	for verb, lists := range map[string][2][]host.Address{"add and announce ": {now, old}, "remove ": {old, now}} {
		var list []string
		for _, a := range lists[0] {
			if !slices.ContainsFunc(lists[1], func(b host.Address) bool { return a == b }) {
				list = append(list, a.Prefix.String()+" dev "+a.Dev)
			}
		}
		if len(list) > 0 {
			steps = append(steps, verb+few(list))
		}
	}
	if slices.Sort(steps); len(steps) > 0 {
		r.log.Info("would "+strings.Join(steps, ", "), zap.String("instance", name))
	}
}

// State takes a snapshot of the host.
func (r *Reporter) State(s host.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = s
}

// Silence ends the telling: what a stop would do is no news.
func (r *Reporter) Silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
}

// with runs f on an instance, if it is known.
func (r *Reporter) with(name string, f func(*subject)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.subjects[name]; s != nil && !r.silent {
		f(s)
	}
}

// Advert takes an advert that would be sent. Those of a MASTER at work are no news.
func (r *Reporter) Advert(instance string, priority uint8) {
	r.with(instance, func(s *subject) {
		s.plan.resign = s.plan.resign || priority == packet.PriorityStop
		s.plan.last = s.plan.remove && priority != packet.PriorityStop
	})
}

// Want implements router.Addresses.
func (r *Reporter) Want(instance string, present bool) {
	r.with(instance, func(s *subject) { s.plan.add, s.plan.remove = present, !present })
}

// Announce implements router.Announcer.
func (r *Reporter) Announce(instance string, b vrrp.Burst) {
	r.with(instance, func(s *subject) {
		if b == vrrp.BurstMaster {
			s.plan.announce = true
			return
		}
		if now := time.Now(); now.Sub(s.lesser) >= time.Minute {
			s.lesser = now
			r.log.Info("would answer a lesser master and "+s.announcement(b)+" (told once a minute)", zap.String("instance", instance))
		}
	})
}

// Stop implements router.Announcer.
func (r *Reporter) Stop(string) {}

// Source implements router.Announcer.
func (r *Reporter) Source(instance, iface string, addr netip.Addr) {
	r.log.Info("would announce the source address "+addr.String()+" on "+iface, zap.String("instance", instance))
}

// Transition tells of a change of state, with all that would be done; more is what would
// follow.
func (r *Reporter) Transition(t router.TransitionEvent, more ...string) {
	line := r.log.Info
	if t.To == vrrp.Fault {
		line = r.log.Warn
	}
	if t.Group != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.silent {
			line(then("sync group would go "+t.From.String()+" -> "+t.To.String(), more), zap.String("group", t.Group), zap.String("reason", t.Reason))
		}
		return
	}
	r.with(t.Instance, func(s *subject) {
		s.found = r.found[t.Instance]
		text := then(s.told(t.From, t.To, r.links), more)
		s.plan = plan{}
		line(text, zap.String("instance", t.Instance), zap.Uint8("vrid", s.Config.VRID),
			zap.Uint8("priority", t.Priority), zap.String("reason", t.Reason))
	})
}

// speaker is, of the instances with one VRID on one interface, the one that sends from
// src to dst; nil: none. group is that of the socket which heard it: an advert to another
// group is heard, and judged, by the socket of that one.
func speaker(list []*subject, group, src, dst netip.Addr) *subject {
	if len(list) == 1 { // wherever it sends
		return list[0]
	}
	i := slices.IndexFunc(list, func(s *subject) bool {
		if !s.Config.Unicast {
			return s.Group == dst && dst == group
		}
		peer := slices.ContainsFunc(s.Config.Peers, func(p vrrp.Peer) bool { return p.Address == dst })
		return peer && (!s.Source.IsValid() || s.Source == src)
	})
	if i < 0 {
		return nil
	}
	return list[i]
}

// Sent takes an advert that the program beside has sent; it is a socket.OnSent.
func (r *Reporter) Sent(key socket.Key, a *packet.Advert, src, dst netip.Addr, refused packet.DropReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := speaker(r.byRouter[virtualRouter{key.Interface, key.IPv6, a.VRID}], key.Group, src, dst)
	if s == nil || r.silent {
		return
	}
	s.own = sent{time.Now(), a.Priority}
	if a.Priority == packet.PriorityStop {
		return
	}
	unlike := differences(&s.Config, a, refused)
	if slices.Equal(unlike, s.unlike) {
		return
	}
	s.unlike = unlike
	for _, text := range unlike {
		r.log.Warn("this file is not what keepalived does: "+text, zap.String("instance", s.Config.Name))
	}
	if len(unlike) == 0 {
		r.log.Info("keepalived's adverts are now as this file would have them", zap.String("instance", s.Config.Name))
	}
}

// Run compares until ctx ends; it returns nil then. status is asked for the decisions.
func (r *Reporter) Run(ctx context.Context, status func() []router.InstanceStatus) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.check(time.Now(), status())
		}
	}
}

// check compares every instance with the program beside and tells what has lasted.
func (r *Reporter) check(now time.Time, all []router.InstanceStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		s := r.subjects[all[i].Name]
		if s == nil || r.silent {
			continue
		}
		j := s.judge(now, &all[i], r.links)
		if !j.same(&s.next) {
			s.since = now
		}
		s.next = j
		if j.here == unknown || j.same(&s.said) || now.Sub(s.since) < s.patience(&j) {
			continue
		}
		s.said = j
		line := r.log.Info
		if !j.agrees {
			line = r.log.Warn
		}
		line(j.text, zap.String("instance", all[i].Name), zap.String("keepalived", j.detail), zap.String("vipd", all[i].Status.Reason))
	}
}

// Where names the interface that has an address now, "" for none.
func Where(links host.State, a host.Address) string { return at(links, a) }

// Beside is what status shows of the program beside.
type Beside struct {
	State  string // "MASTER", "BACKUP", "SILENT", "UNKNOWN"
	Agrees bool
	Text   string // the comparison, in a sentence
	Detail string // what State is concluded from
	Unlike []string
}

// Beside tells what is known of the program beside, now.
func (r *Reporter) Beside(now time.Time, in *router.InstanceStatus) Beside {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjects[in.Name]
	if s == nil {
		return Beside{State: unknown.String()}
	}
	j := s.judge(now, in, r.links)
	return Beside{State: j.here.String(), Agrees: j.agrees, Text: j.text, Detail: j.detail, Unlike: slices.Clone(s.unlike)}
}
