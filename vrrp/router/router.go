package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

const (
	// receiveQueue is how many adverts may wait for the loop.
	receiveQueue = 1024
	// commandQueue is how many inputs other than adverts may wait for the loop.
	commandQueue = 64
	// turnSize is how many of them are handled before the next look at the deadlines.
	turnSize = 16
	// fightHold is how long an instance stays in FAULT after its VIP was fought over.
	fightHold = 30 * time.Second
	// syncRetry is how long after a failed Sync the next one is tried.
	syncRetry = time.Second
)

// ErrStopped is returned by calls that reach a router whose Run has returned.
var ErrStopped = errors.New("the VRRP router has stopped")

// Router runs virtual routers. New, then Run in a goroutine of the caller's; every
// other method may be called from any goroutine, but only Deliver from a port's
// method: the others may wait for the loop. None of them waits for a Run that has
// returned.
type Router struct {
	ports    Ports
	received chan *socket.Received
	commands chan func()
	done     chan struct{}
	ending   atomic.Bool // the context of Run is over
	overruns atomic.Uint64
	strays   atomic.Uint64

	// All that follows belongs to the goroutine of Run.
	list      []*instance // sorted by name
	byName    map[string]*instance
	byKey     map[key]*instance   // those that speak multicast
	recent    [256]recent         // of byKey, by VRID
	watched   map[key][]*instance // those that do not, by the group that their peers must not use
	groups    map[string]*group
	byLocal   map[local][]*instance // those with unicast peers
	seen      map[string]Link       // as the host told
	links     map[string]Link       // those that count, after delays; nil: not known yet
	settled   map[string]*settled
	delays    map[string]LinkDelay
	holdUntil time.Time // all wait in INIT; zero: they do not
	holdWhy   string
	blocked   map[string]string // instances that must not work, with the reason
	results   map[tracker]int   // last result of each tracker that has one
	own       map[netip.Addr]struct{}
	other     netip.Addr // the last source that is not among them
	endpoints []Endpoint
	socketErr map[string]error
	retryAt   time.Time           // next Sync after an error; zero: none
	next      time.Time           // no instance wants anything before; zero: never
	claims    bool                // what is next may be a take-over
	patience  time.Duration       // how late adverts may be handled
	trial     packet.Advert       // of rehearsals
	hindered  map[string][]string // told from outside, by instance
	stopped   bool
	left      chan struct{} // closed when no instance has anything to give up any more
	limit     limiter
}

// New returns a router without instances.
func New(ports Ports) *Router {
	if ports.Waiter == nil {
		ports.Waiter = newTimerWaiter()
	}
	return &Router{
		ports:    ports,
		received: make(chan *socket.Received, receiveQueue),
		commands: make(chan func(), commandQueue),
		done:     make(chan struct{}),
		left:     make(chan struct{}),
		byName:   map[string]*instance{},
		byKey:    map[key]*instance{},
		watched:  map[key][]*instance{},
		byLocal:  map[local][]*instance{},
		results:  map[tracker]int{},
		groups:   map[string]*group{},
		settled:  map[string]*settled{},
		limit:    limiter{},
		patience: mostPatience,
	}
}

// Run owns all machines until ctx ends. Then every instance gives its addresses up
// (as by Stop) and Run returns nil. It returns an error only when the Waiter fails:
// nothing can be on time then. It may be called once.
func (r *Router) Run(ctx context.Context) error {
	defer close(r.done)
	stop := context.AfterFunc(ctx, func() {
		r.ending.Store(true)
		r.ports.Waiter.Wake()
	})
	defer stop()
	for {
		r.tick(time.Now())
		switch {
		case r.ending.Load():
			r.shutdown(0)
			return nil
		case r.turn():
			continue
		}
		if err := r.ports.Waiter.Wait(r.until(), r.patience); err != nil {
			r.shutdown(0)
			return fmt.Errorf("waiting in the VRRP router: %w", err)
		}
	}
}

// turn takes one command and some adverts, and reports whether there was anything.
func (r *Router) turn() (any bool) {
	select {
	case f := <-r.commands:
		f()
		any = true
	default:
	}
	for n := min(len(r.received), turnSize); n > 0; n-- {
		r.receive(<-r.received)
		any = true
	}
	return any
}

// Deliver takes over a received advert and releases it when it was handled. It
// never blocks: when too many wait, the advert is dropped and counted.
func (r *Router) Deliver(p *socket.Received) {
	select {
	case r.received <- p:
		r.ports.Waiter.Wake()
	default:
		r.overruns.Add(1)
		p.Release()
	}
}

// Take is Deliver for the Waiter: it is called from Wait alone, in the goroutine of
// Run, and handles the advert at once.
func (r *Router) Take(p *socket.Received) { r.receive(p) }

// Overruns is the number of adverts dropped because too many waited.
func (r *Router) Overruns() uint64 { return r.overruns.Load() }

// Strays is the number of adverts delivered for no instance of this router.
func (r *Router) Strays() uint64 { return r.strays.Load() }

// HostState tells the state of all interfaces. The map is not changed afterwards
// by either side. Instances hear only what changed for them.
func (r *Router) HostState(links map[string]Link) {
	r.post(func() {
		r.seen = links
		r.settleLinks()
	})
}

// SocketsChanged tells that the Sender has opened a socket, or cannot.
func (r *Router) SocketsChanged() {
	r.post(func() {
		r.endpoints = nil
		r.refresh()
	})
}

// Fought tells that others keep removing something of the instance, which kind names
// ("VIP", "route", "rule"): the instance goes to FAULT and tries again after 30 s.
func (r *Router) Fought(instance, kind, what string) {
	r.post(func() {
		if in, ok := r.byName[instance]; ok {
			in.foughtUntil, in.foughtKind, in.foughtOver = time.Now().Add(fightHold), kind, what
			r.wake(in.foughtUntil)
			r.updateGroup(in)
		}
	})
}

// Block puts instances into FAULT, for the reason given, until a call that does not
// name them: what they need is missing in this machine. It replaces what was said
// before.
func (r *Router) Block(reasons map[string]string) {
	r.post(func() {
		r.blocked = reasons
		r.refresh()
	})
}

// Hinder says, by instance, what keeps instances from taking part beside all that the
// router knows itself. It replaces what was said before.
func (r *Router) Hinder(reasons map[string][]string) {
	reasons = maps.Clone(reasons)
	r.post(func() {
		r.hindered = reasons
		r.refresh()
	})
}

// Status returns a snapshot of all instances, sorted by name; nil once Run has
// returned.
func (r *Router) Status() []InstanceStatus {
	var out []InstanceStatus
	if err := r.do(context.Background(), func() {
		out = make([]InstanceStatus, 0, len(r.list))
		for _, in := range r.list {
			s := in.status()
			s.Waiting = in.waiting(time.Now())
			out = append(out, s)
		}
	}); err != nil {
		return nil
	}
	return out
}

// post hands f to the loop without waiting for it to run.
func (r *Router) post(f func()) {
	select {
	case r.commands <- f:
		r.ports.Waiter.Wake()
	case <-r.done:
	}
}

// do runs f in the loop and waits for it.
func (r *Router) do(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case r.commands <- func() { f(); close(ran) }:
		r.ports.Waiter.Wake()
	case <-r.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-r.done:
		select {
		case <-ran:
			return nil
		default:
			return ErrStopped
		}
	}
}
