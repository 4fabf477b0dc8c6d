package healthcheck

// Tracker turns results into a verdict, with keepalived's rules:
//
//   - one success makes it Up, whatever was before;
//   - while Up, or while nothing is known yet, it takes 1 + retry failures in a
//     row to make it Down; between them the next attempt is a retry, which
//     comes after delay_before_retry instead of delay_loop;
//   - while Down a failure is only that: there are no retries;
//   - a result with LocalFault changes nothing at all.
//
// An inherited verdict (see NewTracker) stands until the first results decide.
// The zero Tracker is Unknown with no retries.
type Tracker struct {
	retry     int
	verdict   Verdict
	inherited bool
	failures  int // in a row, while not Down
}

// NewTracker makes a tracker that allows retry extra attempts before Down
// (negative counts as 0). Inherit is the verdict to start from: Unknown for a
// new server, Up or Down when the check of a known server was replaced.
func NewTracker(retry int, inherit Verdict) Tracker {
	return Tracker{retry: max(retry, 0), verdict: inherit, inherited: inherit != Unknown}
}

// Record takes the result of one attempt and says whether the verdict changed.
func (t *Tracker) Record(r Result) (changed bool) {
	if r.LocalFault {
		return false
	}
	before := t.verdict
	if r.OK {
		t.verdict, t.failures, t.inherited = Up, 0, false
		return before != Up
	}
	if t.verdict == Down {
		t.inherited = false
		return false
	}
	t.failures++
	if t.failures <= t.retry {
		return false
	}
	t.verdict, t.failures, t.inherited = Down, 0, false
	return true
}

// Verdict is the present verdict.
func (t *Tracker) Verdict() Verdict { return t.verdict }

// Inherited says that the verdict is still the one given to NewTracker, not
// yet the outcome of results of its own.
func (t *Tracker) Inherited() bool { return t.inherited }

// Retrying says that the next attempt is a retry.
func (t *Tracker) Retrying() bool { return t.failures > 0 }

// SetRetry changes the number of retries and keeps everything else. Failures
// already counted stay counted: with fewer retries the next one may be the last.
func (t *Tracker) SetRetry(retry int) { t.retry = max(retry, 0) }
