package run

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLane: first in, first out, without those that were removed meanwhile; what a lane that is never empty takes does
// not grow with what went through it.
func TestLane(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l lane
	var want []*entry
	for step := range 200_000 {
		switch r := random.IntN(10); {
		case r < 5 && len(want) < 100 || len(want) < 2:
			e := &entry{}
			l.push(e)
			want = append(want, e)
		case r == 5:
			i := random.IntN(len(want))
			want[i].removed = true
			want = slices.Delete(want, i, i+1)
		default:
			if got := l.pop(); got != want[0] {
				t.Fatalf("step %d: another one is first", step)
			}
			want = want[1:]
		}
		if l.front() != want[0] {
			t.Fatalf("step %d: another one is in front", step)
		}
	}
	if most := 1000; cap(l.waiting) > most {
		t.Errorf("room for %d, for at most 100 that wait; want at most %d", cap(l.waiting), most)
	}
}
