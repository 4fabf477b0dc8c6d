package misccheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Places are how many programs may run at once, for all checks together. They are
// given in the order in which they are asked for.
type Places struct {
	mu      sync.Mutex // guards all following fields
	limit   int
	used    int
	waiting []chan struct{} // closed when a place is there
}

// NewPlaces makes n places, at least one.
func NewPlaces(n int) *Places { return &Places{limit: max(n, 1)} }

// Limit changes how many there are, at least one. Programs that run already go on.
func (p *Places) Limit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = max(n, 1)
	p.grant()
}

// errNoPlace says that other programs had all places.
var errNoPlace = errors.New("no place for another program")

// take waits for a place.
func (p *Places) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	turn := make(chan struct{})
	p.mu.Lock()
	p.waiting = append(p.waiting, turn)
	p.grant()
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, turn)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // it came at the same moment
		p.leave()
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return p.full()
}

// grant gives free places to those who wait. Called with mu held.
func (p *Places) grant() {
	for p.used < p.limit && len(p.waiting) > 0 {
		p.used++
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
}

// leave gives a place back.
func (p *Places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.grant()
}

// full says that there was no place in time.
func (p *Places) full() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w: %d run already (checker_max_processes); do they hang?", errNoPlace, p.limit)
}
