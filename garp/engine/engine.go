// Package engine sends the announcements (gratuitous ARP, unsolicited
// neighbour advertisements) that the schedule of package garp asks for.
//
// One goroutine with one timer serves all instances (Run). No method that
// feeds it blocks: the caller may be the loop that must send adverts in time.
// State arrives as state: the addresses that are in the kernel (Present,
// Absent), the links of the moment (LinkChanged), the instances (Configure).
package engine

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/garp"
)

// Port hands one Ethernet frame to the kernel.
type Port interface {
	// Send sends frame, which is only valid during the call, out of the
	// interface. It never blocks. A full queue is unix.ENOBUFS.
	Send(ifindex int, frame []byte) error
}

// Engine announces virtual addresses. All methods may be called from any
// goroutine, before Run too: nothing is lost, it is done when Run starts.
type Engine struct {
	port Port
	log  *zap.Logger
	wake chan struct{} // capacity 1

	inbox struct {
		sync.Mutex
		commands []command
	}
	state struct {
		sync.Mutex
		planner *garp.Planner
	}
}

// New makes an engine that sends through port.
func New(port Port, log *zap.Logger) *Engine {
	e := &Engine{port: port, log: log, wake: make(chan struct{}, 1)}
	e.state.planner = garp.NewPlanner()
	return e
}

type command func(p *garp.Planner, now time.Time)

// post never blocks for longer than an append.
func (e *Engine) post(c command) {
	e.inbox.Lock()
	e.inbox.commands = append(e.inbox.commands, c)
	e.inbox.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Configure sets the wanted instances, and the interfaces that share a gap (start
// and reload). Instances that are as before see no change and no frame, and their
// refresh keeps its phase; those that are missing are stopped and forgotten. New
// targets of a MASTER are announced when Present says that they are there.
func (e *Engine) Configure(instances []garp.Instance, groups []garp.Group) {
	e.post(func(p *garp.Planner, now time.Time) { p.Configure(now, instances, groups) })
}

// Once announces the source address of an instance, once.
func (e *Engine) Once(t garp.Target) {
	e.post(func(p *garp.Planner, _ time.Time) { p.Once(t) })
}

// Announce starts a burst for all present addresses of the instance; those
// that become present later are announced then. BurstMaster also starts the
// instance's refresh; it ends with Stop.
func (e *Engine) Announce(instance string, b garp.Burst) {
	e.post(func(p *garp.Planner, now time.Time) { p.Announce(now, instance, b) })
}

// Stop ends all announcements of the instance, queued frames included. Its
// addresses count as absent until Present tells of them again.
func (e *Engine) Stop(instance string) {
	e.post(func(p *garp.Planner, _ time.Time) { p.Stop(instance) })
}

// Present says that the address is in the kernel: added, put back or found
// there. While the instance is MASTER it is announced at once, and only it.
func (e *Engine) Present(t garp.Target) {
	e.post(func(p *garp.Planner, now time.Time) { p.Present(now, t) })
}

// Absent says that the address has left the kernel while its instance is
// MASTER: it is not announced until it is Present again.
func (e *Engine) Absent(t garp.Target) {
	e.post(func(p *garp.Planner, _ time.Time) { p.Absent(t) })
}

// LinkChanged tells the state of an interface; Index 0 says that it is gone.
// Telling the same state again does nothing. A new MAC or index, or a link
// that came up, is a burst at once for the addresses of MASTERs on it.
func (e *Engine) LinkChanged(l garp.Link) {
	e.post(func(p *garp.Planner, now time.Time) { p.LinkChanged(now, l) })
}

// Links tells the state of all interfaces: like LinkChanged for each, and
// those not named are gone.
func (e *Engine) Links(links []garp.Link) {
	e.post(func(p *garp.Planner, now time.Time) { p.Links(now, links) })
}

// Status tells what was sent and what is planned, sorted by instance.
func (e *Engine) Status() []garp.InstanceStatus {
	e.state.Lock()
	defer e.state.Unlock()
	return e.state.planner.Status()
}

// Run sends until ctx ends; it returns nil then.
func (e *Engine) Run(ctx context.Context) error {
	return e.run(ctx)
}
