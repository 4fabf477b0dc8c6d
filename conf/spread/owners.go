package spread

import (
	"cmp"
	"slices"
)

// owners returns the owner of every group, and who would be it without the last
// director (nobody, -1, when there is but one).
func (p *Plan) owners() (now, before []int) {
	now = make([]int, p.groups) // all of the first director
	before = slices.Repeat([]int{-1}, p.groups)
	loads := []int{p.groups}
	for n := 2; n <= len(p.weights); n++ {
		before = slices.Clone(now)
		next := grow(loads, p.weights[:n], p.groups)
		move(now, loads, next)
		loads = next
	}
	return now, before
}

// grow returns how many groups each director should have after the last one was
// added to those with the given loads. Each gets the floor or the ceiling of its
// share; the odd groups go first to directors that would otherwise have to give
// one away, then by the largest remainder, then in the order of the list.
func grow(loads, weights []int, groups int) []int {
	total := sum(weights)
	next := make([]int, len(weights))
	var odd []int // directors whose share is no whole number
	rest := groups
	for d, w := range weights {
		next[d] = groups * w / total
		rest -= next[d]
		if groups*w%total > 0 {
			odd = append(odd, d)
		}
	}
	has := func(d int) int { // 0 when an odd group can stay, else 1
		if d < len(loads) && loads[d] > next[d] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(odd, func(a, b int) int {
		return cmp.Or(cmp.Compare(has(a), has(b)), cmp.Compare(groups*weights[b]%total, groups*weights[a]%total))
	})
	for _, d := range odd[:rest] {
		next[d]++
	}
	return next
}

// move changes owners so that the loads become next. Groups are taken at equal
// distances from those that a director has, so that groups with an address more
// than others, which stand first, do not gather at one director.
func move(owners, loads, next []int) {
	var free []int
	for d, have := range loads {
		give := have - next[d]
		if give <= 0 {
			continue
		}
		taken := make(map[int]bool, give)
		for i := range give {
			taken[(2*i+1)*have/(2*give)] = true
		}
		place := 0
		for g, o := range owners {
			if o == d {
				if taken[place] {
					free = append(free, g)
				}
				place++
			}
		}
	}
	slices.Sort(free)
	want := make([]int, len(next))
	for d := range next {
		if d >= len(loads) {
			want[d] = next[d]
		} else {
			want[d] = max(0, next[d]-loads[d])
		}
	}
	for i, d := range interleave(want) {
		owners[free[i]] = d
	}
}

// interleave returns a sequence in which every index i occurs counts[i] times,
// as evenly as possible.
func interleave(counts []int) []int {
	total := sum(counts)
	out := make([]int, 0, total)
	given := make([]int, len(counts))
	for place := 1; place <= total; place++ {
		best, lag := -1, 0
		for i, c := range counts {
			if given[i] == c {
				continue
			}
			if l := c*place - given[i]*total; best < 0 || l > lag {
				best, lag = i, l
			}
		}
		given[best]++
		out = append(out, best)
	}
	return out
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}
