package spread

import "slices"

// searchBudget bounds the work of the local search: how many failures of two
// directors it may look at. 16 directors reach a local optimum with a third of it.
const searchBudget = 100_000

// searchPatience is how many attempts without success end the search.
const searchPatience = 12

// seconds gives every group its second place.
func (p *Plan) seconds(owners, before []int) {
	n := len(p.weights)
	last := n - 1
	t := &table{plan: p, loads: make([]int, n), moved: make([][]int, n), fixed: make([]bool, n), weight: sum(p.weights)}
	for d := range n {
		t.moved[d] = make([]int, n)
	}
	for _, d := range owners {
		t.loads[d]++
	}
	for d := range n {
		switch partner := d ^ 1; {
		case p.scheme == Pairs && partner < n:
			t.moved[d][partner], t.fixed[d] = t.loads[d], true
		case d == last && before != nil:
			for g, o := range owners {
				if o == d {
					t.moved[d][before[g]]++
				}
			}
			t.fixed[d] = true
		default:
			t.fill(d)
		}
	}
	t.improve()
	for d := range n {
		if d == last && before != nil && !(p.scheme == Pairs && d^1 < n) {
			for g, o := range owners {
				if o == d {
					p.orders[g] = append(p.orders[g], before[g])
				}
			}
			continue
		}
		turn := interleave(t.moved[d])
		for g, o := range owners {
			if o == d {
				p.orders[g] = append(p.orders[g], turn[0])
				turn = turn[1:]
			}
		}
	}
}

// table holds how many groups go from one director to another when it fails.
type table struct {
	plan  *Plan
	loads []int
	moved [][]int // moved[a][b]: groups of a whose second place is b
	fixed []bool  // rows that the search must leave alone

	weight int   // of all directors
	budget int   // how many costs the search may still look at
	excess []int // scratch of cost: of those alive, by director
}

// excess returns how far a load is above the share of director d among directors
// with the total weight, times that total.
func (p *Plan) excess(load, d, total int) int { return load*total - p.groups*p.weights[d] }

// lowest returns the director that is furthest below its share. Of equal ones it
// is the first in the order from, from+1, … around the list. Directors with a
// negative load take no part.
func (p *Plan) lowest(loads []int, total, from int) int {
	best, least := -1, 0
	for i := range loads {
		d := (from + i) % len(loads)
		if loads[d] < 0 {
			continue
		}
		if x := p.excess(loads[d], d, total); best < 0 || x < least {
			best, least = d, x
		}
	}
	return best
}

// fill chooses where the groups of director a go when it fails.
func (t *table) fill(a int) {
	total := t.weight - t.plan.weights[a]
	loads := slices.Clone(t.loads)
	loads[a] = -1
	for range t.loads[a] {
		d := t.plan.lowest(loads, total, a+1)
		loads[d]++
		t.moved[a][d]++
	}
}

// improve exchanges equally good second places to make the loads after two
// failures more even: descents to a local optimum, from there some random
// exchanges and down again, as long as that helps or the budget lasts. The
// random numbers are the same on every machine.
func (t *table) improve() {
	n := len(t.loads)
	if n < 4 || n == 4 && t.plan.scheme == Pairs {
		return
	}
	t.budget = searchBudget
	t.descend()
	best, ideal := t.total(), t.ideal()
	random, patience := uint32(1), searchPatience
	for ; patience > 0 && t.budget > 0 && best > ideal; patience-- {
		kept := t.copy()
		for range 4 {
			var draw [3]int
			for i := range draw {
				random = random*1664525 + 1013904223 // Numerical Recipes
				draw[i] = int(random>>16) % n
			}
			t.budget--
			if a, up, down := draw[0], draw[1], draw[2]; t.swappable(a, up, down) {
				t.swap(a, up, down)
			}
		}
		t.descend()
		if cost := t.total(); cost < best {
			best, patience = cost, searchPatience
		} else {
			t.moved = kept
		}
	}
}

// descend exchanges second places while that makes things better.
func (t *table) descend() {
	n := len(t.loads)
	for better := true; better; {
		better = false
		for a := range n {
			if t.fixed[a] {
				continue
			}
			row := t.costs(a)
			for i := range n * n {
				up, down := i/n, i%n
				if !t.swappable(a, up, down) {
					continue
				}
				t.swap(a, up, down)
				if c := t.costs(a); c < row {
					row, better = c, true
				} else {
					t.swap(a, down, up)
				}
			}
			if t.budget <= 0 {
				return
			}
		}
	}
}

// swap sends one group of a to up instead of down.
func (t *table) swap(a, up, down int) {
	t.moved[a][up]++
	t.moved[a][down]--
}

// copy returns a copy of the second places.
func (t *table) copy() [][]int {
	rows := make([][]int, len(t.moved))
	for a, row := range t.moved {
		rows[a] = slices.Clone(row)
	}
	return rows
}

// total returns the unevenness of all failures of two directors.
func (t *table) total() int {
	cost := 0
	for a := range t.loads {
		for b := range a {
			cost += t.cost(a, b)
		}
	}
	return cost
}

// ideal returns a bound of total: what it would be if everything could be dealt
// out anew after every failure.
func (t *table) ideal() int {
	free := &table{plan: t.plan, loads: make([]int, len(t.loads)), moved: make([][]int, len(t.loads)), weight: t.weight}
	for a := range free.moved {
		free.moved[a] = make([]int, len(t.loads))
	}
	cost := 0
	for a := range t.loads {
		for b := range a {
			free.moved[a][b] = t.plan.groups
			cost += free.cost(a, b)
			free.moved[a][b] = 0
		}
	}
	return cost
}

// swappable reports whether, when a fails, one group may go to up instead of
// down with the same unevenness: the two exchange their distances from their
// shares.
func (t *table) swappable(a, up, down int) bool {
	if t.fixed[a] || up == a || down == a || up == down || t.moved[a][down] == 0 {
		return false
	}
	total := t.weight - t.plan.weights[a]
	return t.plan.excess(t.loads[up]+t.moved[a][up]+1, up, total) == t.plan.excess(t.loads[down]+t.moved[a][down], down, total)
}

// costs returns the unevenness of all failures of two directors of which a is
// one.
func (t *table) costs(a int) int {
	cost := 0
	for b := range t.loads {
		if b != a {
			cost += t.cost(a, b)
		}
	}
	return cost
}

// cost returns the unevenness when a and b have failed, the groups that have
// neither as first two places dealt out in the best way: the sum of the squares
// of the distances from the shares.
func (t *table) cost(a, b int) int {
	p := t.plan
	t.budget--
	total := t.weight - p.weights[a] - p.weights[b]
	t.excess = t.excess[:0]
	for d, load := range t.loads {
		if d != a && d != b {
			t.excess = append(t.excess, p.excess(load+t.moved[a][d]+t.moved[b][d], d, total))
		}
	}
	for range t.moved[a][b] + t.moved[b][a] {
		least := 0
		for i, x := range t.excess {
			if x < t.excess[least] {
				least = i
			}
		}
		t.excess[least] += total
	}
	cost := 0
	for _, x := range t.excess {
		cost += x * x
	}
	return cost
}
