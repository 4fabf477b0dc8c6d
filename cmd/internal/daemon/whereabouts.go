package daemon

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/ipvs/reconcile"
	"vipd/vrrp/host"
)

const (
	// goneEvery is how often addresses that are being removed are looked for.
	goneEvery = 10 * time.Millisecond
	// comeWithin is when the addresses of an instance come, whatever services are not there yet. A client whose packet is
	// lost waits for about a second until it sends another; one that meets no service is refused.
	comeWithin = time.Second
	// goneWithin is when the services of an instance that is no more MASTER go, whatever addresses are left.
	goneWithin = time.Second
)

// instanceAddresses are the virtual addresses of instances.
type instanceAddresses interface {
	Want(instance string, present bool)
	Status() []host.InstanceStatus
}

// whereabouts knows what active_on and ha_suspend ask for: which instances hold their addresses, and which addresses of
// services are on this host. Its methods may be called from any goroutine; those of a nil *whereabouts say that every
// service is active and checked.
type whereabouts struct {
	manager instanceAddresses
	moved   func()                      // something has changed; called from Run's goroutine
	settled func(context.Context) error // waits until the services are as after moved; nil: they are at once
	log     *zap.Logger
	wake    chan struct{}

	mu      sync.Mutex // guards all following fields
	holding map[string]bool
	follow  map[string]bool       // instances that services are active on
	coming  map[string]*arrival   // of those in holding whose addresses wait for their services
	leaving map[string]time.Time  // of those in holding whose addresses are to go: when they must be gone
	vips    map[netip.Addr]string // the instances that have them
	watched map[netip.Addr]bool
	here    map[netip.Addr]bool // of the watched ones
	last    *host.State
}

// arrival is one wait of addresses for services.
type arrival struct{ late *time.Timer }

func newWhereabouts(manager instanceAddresses, moved func(), log *zap.Logger) *whereabouts {
	return &whereabouts{
		manager: manager, moved: moved, log: log, wake: make(chan struct{}, 1),
		holding: map[string]bool{}, leaving: map[string]time.Time{}, coming: map[string]*arrival{},
	}
}

// Want implements router.Addresses: a service is in the table before the addresses come, and until they are gone. It does
// not block.
func (p *whereabouts) Want(instance string, present bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.poke()
	if present {
		if p.follow[instance] && !p.holding[instance] {
			c := &arrival{}
			c.late = time.AfterFunc(comeWithin, func() {
				if p.come(instance, c) {
					p.log.Warn("the addresses come before the services that follow the instance: these are not in the kernel yet", zap.String("instance", instance), zap.Duration("waited", comeWithin))
				}
			})
			p.coming[instance] = c
		}
		p.holding[instance] = true
		delete(p.leaving, instance)
		if p.coming[instance] == nil {
			p.manager.Want(instance, true)
		}
		return
	}
	if c := p.coming[instance]; c != nil {
		c.late.Stop()
		delete(p.coming, instance)
	}
	if p.holding[instance] {
		p.leaving[instance] = time.Now().Add(goneWithin)
	}
	p.manager.Want(instance, false)
}

// come has the addresses of an instance made that wait since c, unless they do not wait any more.
func (p *whereabouts) come(instance string, c *arrival) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.coming[instance] != c {
		return false
	}
	c.late.Stop()
	delete(p.coming, instance)
	p.manager.Want(instance, true)
	return true
}

// Watch takes the addresses whose presence counts, and the instances that services follow.
func (p *whereabouts) Watch(servers []conf.VirtualServer) {
	if p == nil {
		return
	}
	watched, follow := map[netip.Addr]bool{}, map[string]bool{}
	for i := range servers {
		if servers[i].ActiveOn != "" {
			follow[servers[i].ActiveOn] = true
		}
		if servers[i].HASuspend {
			for _, a := range servers[i].Services() {
				watched[a.Address.Addr()] = true
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched, p.follow = watched, follow
	p.look()
}

// State takes a snapshot of the host.
func (p *whereabouts) State(s *host.State) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.last = s
	changed := p.look()
	p.mu.Unlock()
	if changed {
		p.poke()
	}
}

// look finds the watched addresses in the last snapshot and reports whether that is news. Called with mu held.
func (p *whereabouts) look() bool {
	if len(p.watched) == 0 || p.last == nil {
		return false
	}
	here := map[netip.Addr]bool{}
	for _, l := range p.last.Links {
		for i := range l.Addrs {
			if a := l.Addrs[i].Prefix.Addr(); p.watched[a] {
				here[a] = true
			}
		}
	}
	if maps.Equal(here, p.here) {
		return false
	}
	p.here = here
	return true
}

func (p *whereabouts) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run tells of changes until ctx ends, which is no error.
func (p *whereabouts) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		if p.settle(time.Now()) {
			timer.Reset(goneEvery)
		}
		p.mu.Lock()
		coming := maps.Clone(p.coming)
		p.mu.Unlock()
		p.moved()
		if len(coming) > 0 && p.settled != nil {
			within, cancel := context.WithTimeout(ctx, comeWithin)
			_ = p.settled(within) // the reconciler says what is wrong, and the addresses come all the same
			cancel()
		}
		for instance, c := range coming {
			p.come(instance, c)
		}
	}
}

// settle takes instances out of holding whose addresses are gone, and reports whether some are still leaving.
func (p *whereabouts) settle(now time.Time) bool {
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.leaving))
	p.mu.Unlock()
	if len(names) == 0 {
		return false
	}
	there := map[string]bool{}
	for _, st := range p.manager.Status() {
		there[st.Instance] = st.Wanted || slices.ContainsFunc(st.Addresses, func(a host.AddressStatus) bool { return a.Present })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if limit, leaves := p.leaving[name]; leaves && (!there[name] || now.After(limit)) {
			delete(p.leaving, name)
			delete(p.holding, name)
		}
	}
	return len(p.leaving) > 0
}

// standby reports whether a service is not to be in the table now.
func (p *whereabouts) standby(v *conf.VirtualServer) bool {
	if p == nil || v.ActiveOn == "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.holding[v.ActiveOn]
}

// SetVIPs takes the addresses of all instances.
func (p *whereabouts) SetVIPs(sets []host.Set) {
	vips := map[netip.Addr]string{}
	for _, s := range sets {
		for _, a := range s.Addresses {
			vips[a.Prefix.Addr()] = s.Instance
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vips = vips
}

// follows returns the instance whose MASTER clients of a service come to, "" when there is none, and whether that is
// here.
func (p *whereabouts) follows(v *conf.VirtualServer) (instance string, here bool) {
	if p == nil {
		return "", true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.ActiveOn != "" {
		return v.ActiveOn, p.holding[v.ActiveOn]
	}
	for _, s := range v.Services() {
		if instance = p.vips[s.Address.Addr()]; instance != "" && !p.holding[instance] {
			return instance, false
		}
	}
	return instance, true
}

// suspended reports whether the checks of a service are not to run now: none of its addresses is here.
func (p *whereabouts) suspended(v *conf.VirtualServer) bool {
	if p == nil || !v.HASuspend {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(v.Services(), func(s conf.Service) bool { return p.here[s.Address.Addr()] })
}

// Moved makes checks and table anew when the services have become active or checked in another way.
func (b *balancer) Moved() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	suspended, standby := false, false
	for i := range b.services {
		s := &b.services[i]
		suspended = suspended || b.places.suspended(s.conf) != (s.held != nil)
		standby = standby || b.places.standby(s.conf) != s.standby
	}
	switch {
	case suspended:
		if err := b.configure(b.servers, nil); err != nil {
			b.log.Error("checks could not be suspended or resumed", zap.NamedError("err", err))
		}
	case standby:
		for i := range b.services {
			b.services[i].standby = b.places.standby(b.services[i].conf)
		}
		b.apply(b.look(), reconcile.Status{})
	}
}
