package healthcheck

import (
	"testing"

	"pgregory.net/rapid"
)

func TestWeight(t *testing.T) {
	for _, tt := range []struct {
		name       string
		configured int
		of         []Weighting
		want       int
	}{
		{"no check says anything", 5, nil, 5},
		{"the zero value leaves it alone", 5, []Weighting{{}, {}}, 5},
		{"one sets it", 5, []Weighting{{Set: true, N: 20}}, 20},
		{"to 0", 5, []Weighting{{Set: true}}, 0},
		{"one adds", 5, []Weighting{{N: 7}}, 12},
		{"one takes away", 5, []Weighting{{N: -3}}, 2},
		{"never below 0", 5, []Weighting{{N: -30}}, 0},
		{"never above the largest", 5, []Weighting{{N: 1 << 40}}, MaxWeight},
		{"both", 5, []Weighting{{Set: true, N: 20}, {N: 7}}, 27},
		{"two that set add up", 5, []Weighting{{Set: true, N: 20}, {Set: true, N: 10}}, 25},
	} {
		if got := Weight(tt.configured, tt.of); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestWeightOrder: the order of the checks does not matter, and one that says
// nothing changes nothing.
func TestWeightOrder(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) Weighting {
		return Weighting{Set: rapid.Bool().Draw(t, "set"), N: rapid.IntRange(-300, 300).Draw(t, "n")}
	})
	rapid.Check(t, func(t *rapid.T) {
		configured := rapid.IntRange(0, MaxWeight).Draw(t, "configured")
		all := rapid.SliceOfN(one, 0, 6).Draw(t, "checks")
		want := Weight(configured, all)
		if want < 0 || want > MaxWeight {
			t.Fatalf("%d is out of range", want)
		}
		if got := Weight(configured, rapid.Permutation(all).Draw(t, "other order")); got != want {
			t.Fatalf("in another order %d, want %d", got, want)
		}
		if got := Weight(configured, append(all, Weighting{})); got != want {
			t.Fatalf("with one that says nothing %d, want %d", got, want)
		}
	})
}
