package spread

import "slices"

// exactPlaces is the number of places that are computed for evenness. More
// failures at once than that are served in a fixed rotation.
const exactPlaces = 8

// later fills in the third and all further places.
func (p *Plan) later() {
	n := len(p.weights)
	for place := 2; place < min(n, exactPlaces); place++ {
		p.place(place)
	}
	for g, order := range p.orders {
		for i := range n {
			if d := (g + i) % n; !slices.Contains(order, d) {
				order = append(order, d)
			}
		}
		p.orders[g] = order
	}
}

// place gives every group its next place: after the failure of those that it
// has.
func (p *Plan) place(k int) {
	sets := map[uint64][]int{} // groups by the directors they have so far
	var keys []uint64
	for g, order := range p.orders {
		key := uint64(0)
		for _, d := range order {
			key |= 1 << d
		}
		if sets[key] == nil {
			keys = append(keys, key)
		}
		sets[key] = append(sets[key], g)
	}
	for i, key := range keys {
		p.successors(key, sets[key], k, i)
	}
}

// successors chooses who gets the groups whose first k places are the set.
func (p *Plan) successors(set uint64, free []int, k, from int) {
	n := len(p.weights)
	loads, total := make([]int, n), 0
	for d, w := range p.weights {
		if set&(1<<d) != 0 {
			loads[d] = -1
		} else {
			total += w
		}
	}
	for _, order := range p.orders {
		for _, d := range order[:k] {
			if set&(1<<d) == 0 {
				loads[d]++
				break
			}
		}
	}
	for _, g := range free {
		d := p.lowest(loads, total, from)
		loads[d]++
		p.orders[g] = append(p.orders[g], d)
	}
}
