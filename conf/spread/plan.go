package spread

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of what New takes.
const (
	MaxDirectors = 64
	MaxGroups    = 255 // VRIDs of one network
	MaxWeight    = 100
)

// Priorities: the first place has TopPriority, each further one PriorityStep
// less, or as much as there is room for with more than 17 directors.
const (
	TopPriority  = 250
	PriorityStep = 15
)

// Errors of New.
var (
	ErrDirectors = errors.New("the number of directors is out of range")
	ErrGroups    = errors.New("the number of groups is out of range")
	ErrWeight    = errors.New("a weight is out of range")
)

// Scheme says who stands in for whom.
type Scheme uint8

// The schemes.
const (
	Even  Scheme = iota // the groups of a failed director are spread over all others
	Pairs               // they go to its partner: 1 and 2, 3 and 4, … of the list
)

// Plan says which director should have which group, now and after any failure.
// It is immutable. Directors and groups are numbered from 0.
type Plan struct {
	weights []int // without a common factor
	groups  int
	scheme  Scheme
	orders  [][]int // by group: all directors, the owner first
}

// New computes the plan for directors with these weights (at least 1; equal ones
// for equal shares) and the number of groups.
func New(weights []int, groups int, scheme Scheme) (*Plan, error) {
	switch {
	case len(weights) < 1 || len(weights) > MaxDirectors:
		return nil, fmt.Errorf("planning for %d directors: %w", len(weights), ErrDirectors)
	case groups < 1 || groups > MaxGroups:
		return nil, fmt.Errorf("planning %d groups: %w", groups, ErrGroups)
	}
	for _, w := range weights {
		if w < 1 || w > MaxWeight {
			return nil, fmt.Errorf("planning with weight %d: %w", w, ErrWeight)
		}
	}
	p := &Plan{weights: reduced(weights), groups: groups, scheme: scheme, orders: make([][]int, groups)}
	owners, before := p.owners()
	for g, d := range owners {
		p.orders[g] = append(make([]int, 0, len(weights)), d)
	}
	if len(weights) > 1 {
		p.seconds(owners, before)
	}
	p.later()
	return p, nil
}

// reduced returns the weights without their common factor.
func reduced(weights []int) []int {
	factor := 0
	for _, w := range weights {
		for a := w; a != 0; {
			factor, a = a, factor%a
		}
	}
	out := make([]int, len(weights))
	for i, w := range weights {
		out[i] = w / factor
	}
	return out
}

// Directors returns the number of directors.
func (p *Plan) Directors() int { return len(p.weights) }

// Groups returns the number of groups.
func (p *Plan) Groups() int { return p.groups }

// Order returns the directors of a group, the most preferred first. The caller
// must not change it.
func (p *Plan) Order(group int) []int { return p.orders[group] }

// Priority returns the VRRP priority of a director for a group, 1..250. Within a
// group no two are alike.
func (p *Plan) Priority(group, director int) uint8 {
	step := PriorityStep
	if n := len(p.weights) - 1; n*step >= TopPriority {
		step = (TopPriority - 1) / n
	}
	return uint8(TopPriority - step*slices.Index(p.orders[group], director))
}

// Owner returns who has a group when some directors have failed, or -1 when all
// have.
func (p *Plan) Owner(group int, failed ...int) int {
	for _, d := range p.orders[group] {
		if !slices.Contains(failed, d) {
			return d
		}
	}
	return -1
}

// Loads returns how many groups each director has when some have failed.
func (p *Plan) Loads(failed ...int) []int {
	loads := make([]int, len(p.weights))
	for g := range p.groups {
		if d := p.Owner(g, failed...); d >= 0 {
			loads[d]++
		}
	}
	return loads
}

// Share returns what a director should have when some have failed, in groups: a
// fraction, num/den.
func (p *Plan) Share(director int, failed ...int) (num, den int) {
	for d, w := range p.weights {
		if !slices.Contains(failed, d) {
			den += w
		}
	}
	if den == 0 || slices.Contains(failed, director) {
		return 0, 1
	}
	return p.groups * p.weights[director], den
}

// Group returns the group of the address at a place in the list, from 0: they
// are dealt out in turn, so that an address added at the end moves no other.
func Group(place, groups int) int { return place % groups }
