package spread

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// compositions calls use with every way to write total as a sum of len(into)
// numbers from 0.
func compositions(total int, into []int, use func([]int)) {
	if len(into) == 1 {
		into[0] = total
		use(into)
		return
	}
	for n := range total + 1 {
		into[0] = n
		rest := into[1:]
		compositions(total-n, rest, func([]int) { use(into) })
	}
}

// each calls use with every way to give free groups to the directors that have
// not failed, as loads on top of those given.
func (p *Plan) each(loads []int, free int, failed []int, use func([]int)) {
	var alive []int
	for d := range loads {
		if !slices.Contains(failed, d) {
			alive = append(alive, d)
		}
	}
	compositions(free, make([]int, len(alive)), func(add []int) {
		next := slices.Clone(loads)
		for i, d := range alive {
			next[d] += add[i]
		}
		for _, d := range failed {
			next[d] = 0
		}
		use(next)
	})
}

// unevenness is the sum of squares of the distances from the shares, times the
// square of the total weight of those alive; worst is the greatest distance,
// times that weight.
func (p *Plan) unevenness(loads []int, failed ...int) (squares, worst int) {
	for d, load := range loads {
		if slices.Contains(failed, d) {
			continue
		}
		num, den := p.Share(d, failed...)
		x := load*den - num
		squares += x * x
		worst = max(worst, x, -x)
	}
	return squares, worst
}

// smallPlans calls use with every plan of up to 5 directors and 12 groups, and
// with plans of some weights.
func smallPlans(t *testing.T, use func(t *testing.T, p *Plan)) {
	weights := [][]int{{1}, {1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1, 1}, {2, 1}, {2, 1, 1}, {1, 2, 3}, {5, 1, 1}, {1, 1, 7}, {3, 2, 2, 1}, {1, 1, 1, 2}, {9, 5, 3, 1}}
	for _, w := range weights {
		for groups := 1; groups <= 12; groups++ {
			p, err := New(w, groups, Even)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprint(w, groups), func(t *testing.T) { use(t, p) })
		}
	}
}

// TestSecondPlacesAreOptimal compares every failure of one director with all
// ways to give its groups away: none is more even, by the sum of squares or by
// the worst distance. Where the last director fails, which restores what was
// before it came, an arrangement within one group of all shares counts as well.
func TestSecondPlacesAreOptimal(t *testing.T) {
	smallPlans(t, func(t *testing.T, p *Plan) {
		if p.Directors() == 1 {
			return
		}
		for a := range p.Directors() {
			loads := p.Loads()
			squares, worst := p.unevenness(p.Loads(a), a)
			_, den := p.Share((a+1)%p.Directors(), a)
			if a == p.Directors()-1 && worst < den {
				continue
			}
			p.each(loads, loads[a], []int{a}, func(other []int) {
				if s, w := p.unevenness(other, a); s < squares || w < worst {
					t.Fatalf("%d fails: %v of %v is less even than %v", a, p.Loads(a), loads, other)
				}
			})
		}
	})
}

// TestSecondFailuresAreOptimal compares the failures of two directors with those
// under every choice of second places that is as good for the failures of one:
// in sum, and for the worst of them.
func TestSecondFailuresAreOptimal(t *testing.T) {
	for n := 3; n <= 5; n++ {
		for groups := 1; groups <= 26; groups++ {
			p := plan(t, equal(n), groups, Even)
			cost, worst := 0, 0
			for a := range n {
				for b := range a {
					squares, w := p.unevenness(p.Loads(a, b), a, b)
					cost, worst = cost+squares, max(worst, w)
				}
			}
			if c, w := bestTables(p); c < cost || w < worst {
				t.Errorf("%d directors, %d groups: unevenness %d, worst %d; possible are %d and %d", n, groups, cost, worst, c, w)
			}
		}
	}
}

// bestTables returns the least unevenness after two failures, and the least
// worst distance, of all second places that are optimal after one.
func bestTables(p *Plan) (cost, worst int) {
	n := p.Directors()
	tab := &table{plan: p, loads: p.Loads(), moved: make([][]int, n), fixed: make([]bool, n), weight: n}
	rows := make([][][]int, n)
	for a := range n {
		squares, _ := p.unevenness(p.Loads(a), a)
		p.each(tab.loads, tab.loads[a], []int{a}, func(other []int) {
			if s, _ := p.unevenness(other, a); s != squares {
				return
			}
			row := make([]int, n)
			for d := range n {
				if d != a {
					row[d] = other[d] - tab.loads[d]
				}
			}
			rows[a] = append(rows[a], row)
		})
	}
	cost, worst = 1<<62, 1<<62
	var choose func(a int)
	choose = func(a int) {
		if a < n {
			for _, row := range rows[a] {
				tab.moved[a] = row
				choose(a + 1)
			}
			return
		}
		c, w := 0, 0
		for x := range n {
			for y := range x {
				c += tab.cost(x, y)
				for _, e := range tab.excess {
					w = max(w, e, -e)
				}
			}
		}
		cost, worst = min(cost, c), min(worst, w)
	}
	choose(0)
	return cost, worst
}

// TestWeightsAlwaysFit: with all small weights and numbers of groups, everyone is
// less than one group from its share after every failure of one director.
func TestWeightsAlwaysFit(t *testing.T) {
	for choice := range 4 * 4 * 4 * 4 {
		w := []int{1 + choice%4, 1 + choice/4%4, 1 + choice/16%4, 1 + choice/64}
		for n := 2; n <= 4; n++ {
			for groups := 1; groups <= 20; groups++ {
				p := plan(t, w[:n], groups, Even)
				for a := range n {
					_, den := p.Share((a+1)%n, a)
					if _, worst := p.unevenness(p.Loads(a), a); worst >= den {
						t.Errorf("weights %v, %d groups: %d fails, and the others have %v", w[:n], groups, a, p.Loads(a))
					}
				}
			}
		}
	}
}

// TestAddingMovesTheLeast compares the groups that change their owner when a
// director is added with every result that is as even, now and after any failure,
// for all kinds of weights.
func TestAddingMovesTheLeast(t *testing.T) {
	for _, w := range [][]int{{1, 1}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {3, 1, 1}, {1, 1, 3}, {9, 5, 3, 1}, {1, 3, 5, 9}, {2, 3, 2, 3, 7}, {10, 9, 1, 1, 9}} {
		for groups := 1; groups <= 40; groups++ {
			n := len(w)
			old, new := plan(t, w[:n-1], groups, Even), plan(t, w, groups, Even)
			moved := 0
			for g := range groups {
				if old.Owner(g) != new.Owner(g) {
					moved++
				}
			}
			before, least := old.Loads(), groups
			for choice := range 1 << n {
				loads := make([]int, n)
				moves := 0
				for d := range n {
					num, den := new.Share(d)
					loads[d] = num / den
					if choice&(1<<d) != 0 && num%den > 0 {
						loads[d]++
					}
					if d < n-1 {
						moves += max(0, before[d]-loads[d])
					}
				}
				if sum(loads) == groups && hardFailures(loads, new.weights, groups) == 0 {
					least = min(least, moves)
				}
			}
			if moved > least {
				t.Errorf("weights %v, %d groups: adding the last moves %d groups, %d would do", w, groups, moved, least)
			}
		}
	}
}

// TestEverySize goes through 2–16 directors and 1–200 groups, in the long form
// (VIPD_LONG=1) without leaving out any: evenness in normal running, after every
// failure of one and of two, and the least moves when one is added.
func TestEverySize(t *testing.T) {
	step := 13
	if os.Getenv("VIPD_LONG") != "" {
		step = 1
	}
	for n := 2; n <= 16; n++ {
		for groups := 1 + n%step; groups <= 200; groups += step {
			p, before := plan(t, equal(n), groups, Even), plan(t, equal(n-1), groups, Even)
			moved, one, two := 0, 0, 0
			for g := range groups {
				if p.Owner(g) != before.Owner(g) {
					moved++
				}
			}
			for a := range n {
				one = max(one, difference(p.Loads(a), a))
				for b := range a {
					two = max(two, difference(p.Loads(a, b), a, b))
				}
			}
			if moved != groups/n || difference(p.Loads()) > 1 || one > 1 || two > 2 {
				t.Errorf("%d directors, %d groups: %v, differences %d and %d after failures, %d moved", n, groups, p.Loads(), one, two, moved)
			}
		}
	}
}
