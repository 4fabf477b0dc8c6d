package spread

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// equal returns n equal weights.
func equal(n int) []int { return slices.Repeat([]int{1}, n) }

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func plan(t failer, weights []int, groups int, scheme Scheme) *Plan {
	t.Helper()
	p, err := New(weights, groups, scheme)
	if err != nil {
		t.Fatalf("New(%v, %d): %v", weights, groups, err)
	}
	return p
}

// size draws a number of directors and of groups: 1–200 addresses with one
// address in each group is the hardest case for evenness.
func size(r *rapid.T) (directors, groups int) {
	return rapid.IntRange(2, 16).Draw(r, "directors"), rapid.IntRange(1, 200).Draw(r, "groups")
}

func randomWeights(r *rapid.T, n int) []int {
	return rapid.SliceOfN(rapid.IntRange(1, rapid.SampledFrom([]int{1, 2, 3, 10, MaxWeight}).Draw(r, "heaviest")), n, n).Draw(r, "weights")
}

// difference is that of the greatest and the least load of those alive.
func difference(loads []int, failed ...int) int {
	least, most := MaxGroups, 0
	for d, load := range loads {
		if !slices.Contains(failed, d) {
			least, most = min(least, load), max(most, load)
		}
	}
	return most - least
}

// TestOrders: every group has every director once, and priorities that are
// 1..254, fall from place to place by the step, and have room above for
// trackers that add.
func TestOrders(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		scheme := rapid.SampledFrom([]Scheme{Even, Pairs}).Draw(r, "scheme")
		p := plan(r, randomWeights(r, n), groups, scheme)
		for g := range groups {
			order := p.Order(g)
			if sorted := slices.Sorted(slices.Values(order)); len(sorted) != n || len(slices.Compact(sorted)) != n {
				r.Fatalf("group %d: order %v", g, order)
			}
			for place, d := range order {
				if got := p.Priority(g, d); int(got) != TopPriority-PriorityStep*place {
					r.Fatalf("group %d: priority %d in place %d", g, got, place)
				}
			}
		}
	})
}

// TestManyDirectors: with as many directors as there may be, priorities still
// differ and none is below 1.
func TestManyDirectors(t *testing.T) {
	for _, n := range []int{1, 17, 18, MaxDirectors} {
		p := plan(t, equal(n), MaxGroups, Even)
		last := TopPriority + 3
		for _, d := range p.Order(7) {
			got := int(p.Priority(7, d))
			if got < 1 || got > last-3 {
				t.Errorf("%d directors: priority %d after %d", n, got, last)
			}
			last = got
		}
	}
}

// TestNormalRunning: |load − share| < 1 for all weights.
func TestNormalRunning(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		p := plan(r, randomWeights(r, n), groups, rapid.SampledFrom([]Scheme{Even, Pairs}).Draw(r, "scheme"))
		for d, load := range p.Loads() {
			if num, den := p.Share(d); load*den-num >= den || num-load*den >= den {
				r.Fatalf("director %d has %d groups, its share is %d/%d", d, load, num, den)
			}
		}
	})
}

// TestAnyFailure: with equal weights, loads after the failure of any one
// director differ by at most one group; after any two by at most two, with up to
// four directors by one.
func TestAnyFailure(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		p := plan(r, equal(n), groups, Even)
		for a := range n {
			if got := difference(p.Loads(a), a); got > 1 {
				r.Fatalf("director %d fails: %v", a, p.Loads(a))
			}
			for b := range a {
				if got := difference(p.Loads(a, b), a, b); got > 2 || n <= 4 && got > 1 {
					r.Fatalf("directors %d and %d fail: %v", a, b, p.Loads(a, b))
				}
			}
		}
	})
}

// TestAnyFailureWithWeights: after the failure of any one director everyone is
// less than one group from its share, if there is any way to hand on the groups
// that achieves it.
func TestAnyFailureWithWeights(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		p := plan(r, randomWeights(r, n), groups, Even)
		loads := p.Loads()
		for a := range n {
			least, most, possible := 0, 0, true
			for d := range n {
				if num, den := p.Share(d, a); d != a {
					from, to := max(loads[d], num/den), (num+den-1)/den
					least, most, possible = least+from, most+to, possible && from <= to
				}
			}
			if !possible || least > groups || most < groups {
				continue
			}
			for d, load := range p.Loads(a) {
				if num, den := p.Share(d, a); d != a && (load*den-num >= den || num-load*den >= den) {
					r.Fatalf("weights %v, %d fails: %v; director %d has a share of %d/%d", p.weights, a, p.Loads(a), d, num, den)
				}
			}
		}
	})
}

// TestAddingOne: all groups that move go to the new director, as few as an even
// result allows; and when it goes, all return to where they were.
func TestAddingOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		old, new := plan(r, equal(n), groups, Even), plan(r, equal(n+1), groups, Even)
		moved := 0
		for g := range groups {
			a, b := old.Owner(g), new.Owner(g)
			if a == b {
				continue
			}
			moved++
			if b != n {
				r.Fatalf("group %d moves from %d to %d, which is not the new one", g, a, b)
			}
			if back := new.Owner(g, n); back != a {
				r.Fatalf("group %d came from %d and goes to %d when the new one fails", g, a, back)
			}
		}
		if moved != groups/(n+1) {
			r.Fatalf("%d groups move, %d would do", moved, groups/(n+1))
		}
	})
}

// TestOldAndNewSideBySide: while any of the old directors read the new list and
// the others the old one, nobody has a higher priority than both the old owner
// and the new director, if that runs already. So every group is with one of
// them: a tie is broken by address, or stays with whoever is master.
func TestOldAndNewSideBySide(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 15).Draw(r, "directors")
		groups := rapid.IntRange(1, 200).Draw(r, "groups")
		old, new := plan(r, equal(n), groups, Even), plan(r, equal(n+1), groups, Even)
		updated := rapid.SliceOfN(rapid.Bool(), n, n).Draw(r, "updated")
		runs := rapid.Bool().Draw(r, "new one runs")
		for g := range groups {
			highest, owner := uint8(0), old.Owner(g)
			var best []int
			for d := range n + 1 {
				priority := uint8(0)
				switch {
				case d == n && runs || d < n && updated[d]:
					priority = new.Priority(g, d)
				case d < n:
					priority = old.Priority(g, d)
				}
				switch {
				case priority > highest:
					highest, best = priority, []int{d}
				case priority == highest && priority > 0:
					best = append(best, d)
				}
			}
			if !slices.Contains(best, owner) && !slices.Contains(best, n) {
				r.Fatalf("group %d: %v are highest, but %d had it", g, best, owner)
			}
			if runs && new.Owner(g) == n && !slices.Contains(best, n) {
				r.Fatalf("group %d: %v are highest, the new director is not", g, best)
			}
		}
	})
}

// TestPairs: partners stand in for each other, whatever comes later in the list;
// the groups of one without a partner go to all others evenly.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, groups := size(r)
		p := plan(r, equal(n), groups, Pairs)
		for d := range n {
			for g := range groups {
				if p.Owner(g) == d && d^1 < n && p.Owner(g, d) != d^1 {
					r.Fatalf("group %d of %d goes to %d", g, d, p.Owner(g, d))
				}
			}
			if d^1 >= n {
				if got := difference(p.Loads(d), d); got > 1 {
					r.Fatalf("%d has no partner and fails: %v", d, p.Loads(d))
				}
			}
		}
	})
}

// TestGroups: groups differ by at most one address, and an address at the end of
// the list moves no other.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		addresses := rapid.IntRange(1, 200).Draw(r, "addresses")
		groups := rapid.IntRange(1, addresses).Draw(r, "groups")
		sizes := make([]int, groups)
		for place := range addresses {
			sizes[Group(place, groups)]++
		}
		if got := slices.Max(sizes) - slices.Min(sizes); got > 1 {
			r.Fatalf("groups of %v", sizes)
		}
	})
}

// TestBigGroupsAreSpreadToo: groups with an address more than the others, the
// first ones, do not gather at one director.
func TestBigGroupsAreSpreadToo(t *testing.T) {
	for n := 2; n <= 8; n++ {
		p := plan(t, equal(n), 12*n, Even)
		big := make([]int, n)
		for g := range 6 * n {
			big[p.Owner(g)]++
		}
		if slices.Min(big) < 3 || slices.Max(big) > 9 {
			t.Errorf("%d directors: of the first half of the groups they have %v", n, big)
		}
	}
}

// TestErrors: what New refuses.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		weights []int
		groups  int
		want    error
	}{
		{nil, 1, ErrDirectors},
		{equal(MaxDirectors + 1), 1, ErrDirectors},
		{equal(2), 0, ErrGroups},
		{equal(2), MaxGroups + 1, ErrGroups},
		{[]int{1, 0}, 1, ErrWeight},
		{[]int{1, MaxWeight + 1}, 1, ErrWeight},
	} {
		if p, err := New(c.weights, c.groups, Even); p != nil || !errors.Is(err, c.want) {
			t.Errorf("New(%d weights, %d groups): %v, want %v", len(c.weights), c.groups, err, c.want)
		}
	}
}

// TestNoFailureIsForgotten: with all directors gone nobody owns a group.
func TestNoFailureIsForgotten(t *testing.T) {
	p := plan(t, equal(3), 4, Even)
	if d := p.Owner(0, 0, 1, 2); d != -1 {
		t.Errorf("owner %d", d)
	}
	if got := p.Loads(2, 1); !slices.Equal(got, []int{4, 0, 0}) {
		t.Errorf("the last one has %v", got)
	}
}

// TestPlansDoNotChange: directors of different versions of vipd must compute the
// same plan. A change of this sum needs a new scheme, not a new sum.
func TestPlansDoNotChange(t *testing.T) {
	sum := fnv.New64a()
	for n := 1; n <= 10; n++ {
		for _, groups := range []int{1, 7, 12, 64, 100} {
			weights := make([]int, n)
			for d := range weights {
				weights[d] = 1 + d*d%7
			}
			for _, p := range []*Plan{plan(t, equal(n), groups, Even), plan(t, weights, groups, Even), plan(t, equal(n), groups, Pairs)} {
				fmt.Fprintln(sum, p.orders)
			}
		}
	}
	if got, want := fmt.Sprintf("%x", sum.Sum64()), "a511018db7431251"; got != want {
		t.Errorf("the plans are not what they were: %s, want %s", got, want)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		plan(b, equal(16), 200, Even)
	}
}
