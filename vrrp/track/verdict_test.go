package track

import "testing"

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name       string
		start      verdict
		rise, fall int
		results    string // + good, - bad
		want       string // verdict after each: + - ?, and ! when it changed
	}{
		{"first success is enough", verdict{}, 3, 3, "++", "+!+"},
		{"first failure is enough", verdict{}, 3, 3, "--", "-!-"},
		{"fall counts", verdict{}, 1, 3, "+--+---", "+!+++++-!"},
		{"rise counts", verdict{}, 2, 1, "-+-++", "-!---+!"},
		{"alternating below fall changes nothing", verdict{}, 1, 2, "+-+-+-", "+!+++++"},
		{"alternating at one flips each time", verdict{}, 1, 1, "+-+-", "+!-!+!-!"},
		{"failed at start needs rise", verdict{known: true}, 2, 1, "-++", "--+!"},
		{"zero counts as one", verdict{}, 0, 0, "+-+", "+!-!+!"},
	} {
		v, got := c.start, ""
		for _, r := range c.results {
			changed := v.result(r == '+', c.rise, c.fall)
			switch {
			case !v.known:
				got += "?"
			case v.ok:
				got += "+"
			default:
				got += "-"
			}
			if changed {
				got += "!"
			}
		}
		if got != c.want {
			t.Errorf("%s: rise %d fall %d, %s gave %s, want %s", c.name, c.rise, c.fall, c.results, got, c.want)
		}
	}
}
