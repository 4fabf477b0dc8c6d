package healthcheck

// MaxWeight is the largest weight of a server that the kernel takes.
const MaxWeight = 1<<31 - 1

// Weighting is what a check that passes does to the weight of its server. The
// zero value leaves it alone.
type Weighting struct {
	Set bool // N is the weight itself; else it is added to the configured one
	N   int  // may be negative when it is added
}

// Weight returns the weight of a server whose checks pass, from 0 to MaxWeight.
// Each of them moves the configured weight by some amount and the amounts add
// up, as in keepalived: one check that sets a weight makes it just that.
func Weight(configured int, of []Weighting) int {
	sum := configured
	for _, w := range of {
		if w.Set {
			sum += w.N - configured
		} else {
			sum += w.N
		}
	}
	return min(max(sum, 0), MaxWeight)
}
