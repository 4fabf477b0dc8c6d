package observe

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
)

const (
	// pathsEvery is the time between two looks at routes and rules.
	pathsEvery = time.Second
	// pathsShare bounds the share of time spent looking, where tables are large.
	pathsShare = 20
)

// Tables is where links, routes and rules are read.
type Tables interface {
	// State reads them.
	State() (host.State, error)
	// Tables says of which tables State reads the routes.
	Tables(queries []fib.Query)
}

// Paths looks which of the configured routes and rules are in the kernel, and tells a
// Reporter. Its methods may be called from any goroutine.
type Paths struct {
	kernel Tables
	to     *Reporter
	log    *zap.Logger

	mu      sync.Mutex // guards all following fields
	sets    []host.Set
	failing bool
}

// NewPaths makes a Paths that looks for nothing.
func NewPaths(kernel Tables, to *Reporter, log *zap.Logger) *Paths {
	return &Paths{kernel: kernel, to: to, log: log}
}

// Configure takes what to look for, looks at once, and returns what is there of what
// every state has.
func (p *Paths) Configure(sets []host.Set) (host.State, []fib.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sets = sets
	return p.look()
}

// Run looks again and again until ctx ends; it returns nil then.
func (p *Paths) Run(ctx context.Context) error {
	next := time.NewTimer(pathsEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		began := time.Now()
		p.again()
		next.Reset(max(pathsEvery, pathsShare*time.Since(began)))
	}
}

// again looks, if there is something to look for, and logs a failure once.
func (p *Paths) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	any := false
	for _, s := range p.sets {
		any = any || len(s.Paths) > 0
	}
	if !any {
		return
	}
	_, _, err := p.look()
	if err != nil && !p.failing {
		p.log.Warn("routes and rules cannot be compared", zap.NamedError("err", err))
	}
	p.failing = err != nil
}

// look reads the kernel. Called with mu held.
func (p *Paths) look() (host.State, []fib.Status, error) {
	before, err := p.kernel.State()
	if err != nil {
		return before, nil, fmt.Errorf("reading the interfaces: %w", err)
	}
	book, env := fib.NewBook(), environment(before)
	sets := make([]fib.Set, len(p.sets))
	for i, s := range p.sets {
		sets[i] = fib.Set{Owner: s.Instance, Static: s.Static, Wants: s.Paths}
	}
	book.Configure(sets)
	p.kernel.Tables(append([]fib.Query{}, book.All(nil, env)...))
	now, err := p.kernel.State()
	if err != nil {
		return now, nil, fmt.Errorf("reading routes and rules: %w", err)
	}
	env = environment(now)
	for _, s := range sets {
		book.Want(s.Owner, true)
	}
	book.Observe(time.Now(), now.FIB, env)
	book.Next(time.Now(), env, 1<<20) // notes why things cannot be added
	found := make(map[string][]fib.Status, len(sets))
	for _, s := range sets {
		found[s.Owner] = book.Status(s.Owner)
	}
	p.to.paths(found)
	return now, found[""], nil
}

// environment is what a book asks of a host.
func environment(s host.State) fib.Env {
	has := map[netip.Addr]bool{}
	for _, l := range s.Links {
		for _, a := range l.Addrs {
			has[a.Prefix.Addr()] = true
		}
	}
	return fib.Env{
		Has: func(a netip.Addr) bool { return has[a] },
		Link: func(dev string) (fib.Link, bool) {
			l := s.Link(dev)
			if l == nil {
				return fib.Link{}, false
			}
			return fib.Link{Up: l.Up, VRFTable: l.VRFTable}, true
		},
	}
}
