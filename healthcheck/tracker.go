package healthcheck

// Limits are how many results in a row it takes to change a verdict. The zero
// value is one of each, without retries.
type Limits struct {
	// Retry is how many extra attempts a failed one gets, at once after
	// delay_before_retry, before it counts; negative is 0.
	Retry int
	// Fall is how many failures that count (each with its retries) take a server
	// down; below 1 is 1.
	Fall int
	// Rise is how many successes bring a server that is down back; below 1 is 1.
	Rise int
}

// Tracker turns results into a verdict. With Rise and Fall of 1 the rules are
// keepalived's:
//
//   - Rise successes in a row bring a server that is Down back up; while nothing
//     is known yet, one is enough;
//   - while Up, or while nothing is known yet, an attempt that fails is followed
//     by up to Retry retries, which come after delay_before_retry instead of
//     delay_loop; when all of them fail, that is one failure, and Fall of these in
//     a row make it Down;
//   - while Down a failure is only that: there are no retries;
//   - a result with LocalFault changes nothing at all.
//
// An inherited verdict (see NewTracker) stands until the first results decide.
// The zero Tracker is Unknown with the zero Limits.
type Tracker struct {
	limits    Limits
	verdict   Verdict
	inherited bool
	attempts  int // failed in a row, since the last failure that counted
	failures  int // in a row, while not Down
	successes int // in a row, while Down
}

// NewTracker makes a tracker. Inherit is the verdict to start from: Unknown for a
// new server, Up or Down when the check of a known server was replaced, Down with
// alpha.
func NewTracker(l Limits, inherit Verdict) Tracker {
	return Tracker{limits: l, verdict: inherit, inherited: inherit != Unknown}
}

// Record takes the result of one attempt and says whether the verdict changed.
func (t *Tracker) Record(r Result) (changed bool) {
	switch {
	case r.LocalFault:
		return false
	case r.OK:
		return t.passed()
	default:
		return t.failed()
	}
}

func (t *Tracker) passed() bool {
	t.attempts, t.failures = 0, 0
	switch t.verdict {
	case Up:
		t.inherited = false
		return false
	case Down:
		if t.successes++; t.successes < t.limits.Rise {
			return false
		}
	}
	t.settle(Up)
	return true
}

func (t *Tracker) failed() bool {
	t.successes = 0
	if t.verdict == Down {
		t.inherited = false
		return false
	}
	if t.attempts++; t.attempts <= t.limits.Retry {
		return false
	}
	t.attempts = 0
	if t.failures++; t.failures < t.limits.Fall {
		return false
	}
	t.settle(Down)
	return true
}

// settle makes a verdict of the tracker's own and counts anew.
func (t *Tracker) settle(v Verdict) { *t = Tracker{limits: t.limits, verdict: v} }

// Verdict is the present verdict.
func (t *Tracker) Verdict() Verdict { return t.verdict }

// Inherited says that the verdict is still the one given to NewTracker, not
// yet the outcome of results of its own.
func (t *Tracker) Inherited() bool { return t.inherited }

// Retrying says that the next attempt is a retry.
func (t *Tracker) Retrying() bool { return t.attempts > 0 }

// Changing says how far the results of late are on the way to another verdict:
// n of the limit in a row; 0 when they agree with it.
func (t *Tracker) Changing() (n, limit int) {
	if t.verdict == Down {
		return t.successes, max(t.limits.Rise, 1)
	}
	return t.failures, max(t.limits.Fall, 1)
}

// SetLimits changes the limits and keeps everything else. What was counted
// stays counted: with lower limits the next result may decide.
func (t *Tracker) SetLimits(l Limits) { t.limits = l }
