package spread

import (
	"cmp"
	"slices"
)

// owners returns the owner of every group, and who would be it without the last
// director. That is nil when there is but one, or when the last one makes others
// change places too, as some weights demand.
func (p *Plan) owners() (now, before []int) {
	now = make([]int, p.groups) // all of the first director
	loads := []int{p.groups}
	for n := 2; n <= len(p.weights); n++ {
		before = slices.Clone(now)
		next := grow(loads, p.weights[:n], p.groups)
		move(now, loads, next)
		for d, had := range loads {
			if next[d] > had {
				before = nil
			}
		}
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
	for hard := hardFailures(next, weights, groups); hard > 0; {
		better := hard
		for i := range odd[:rest] {
			for j := rest; j < len(odd); j++ {
				next[odd[i]]--
				next[odd[j]]++
				if h := hardFailures(next, weights, groups); h < better {
					better = h
					odd[i], odd[j] = odd[j], odd[i]
					continue
				}
				next[odd[i]]++
				next[odd[j]]--
			}
		}
		if better == hard {
			break
		}
		hard = better
	}
	return next
}

// hardFailures counts the directors whose groups, when they fail, cannot be
// handed on so that all are less than one group from their shares: only with few
// groups and unequal weights are there any.
func hardFailures(loads, weights []int, groups int) int {
	hard := 0
	for failed := range weights {
		total := sum(weights) - weights[failed]
		least, most, room := 0, 0, true
		for d, w := range weights {
			if d != failed {
				from, to := max(loads[d], groups*w/total), (groups*w+total-1)/total
				least, most, room = least+from, most+to, room && from <= to
			}
		}
		if !room || least > groups || most < groups {
			hard++
		}
	}
	return hard
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
