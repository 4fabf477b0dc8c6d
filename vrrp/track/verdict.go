package track

// verdict counts results towards a change (keepalived's rise and fall).
type verdict struct {
	known bool
	ok    bool
	rise  int // successes in a row, up to what is asked for
	fall  int // failures in a row
}

// result takes one result and reports whether the verdict changed. The first
// result decides alone, whatever rise and fall are.
func (v *verdict) result(ok bool, rise, fall int) (changed bool) {
	if ok {
		v.rise, v.fall = min(v.rise+1, max(rise, 1)), 0
	} else {
		v.rise, v.fall = 0, min(v.fall+1, max(fall, 1))
	}
	if v.known && v.ok == ok {
		return false
	}
	if v.known && (ok && v.rise < rise || !ok && v.fall < fall) {
		return false
	}
	v.known, v.ok = true, ok
	return true
}
