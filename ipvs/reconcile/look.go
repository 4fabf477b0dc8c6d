package reconcile

import (
	"slices"
	"time"
)

// check looks whether others changed the table, when it is time to.
func (l *loop) check() {
	now := time.Now()
	if l.state.stale || l.state.want == nil || now.Before(l.nextCheck) {
		return
	}
	if !now.Before(l.nextFull) {
		l.state.stale = true
		return
	}
	same, err := l.kernel.Same(l.state.kernel.Table)
	// A look that was slow once, on a machine with too much to do, says little about what looks cost.
	l.looks = [3]time.Duration{l.looks[1], l.looks[2], time.Since(now)}
	l.schedule(slices.Min(l.looks[:]))
	l.state.stale = err != nil || !same
	l.suspicion = l.state.stale
}

// schedule sets the time of the next check by what the last one cost.
func (l *loop) schedule(cost time.Duration) {
	period := max(CheckPeriod, time.Duration(float64(cost)*2/MaxLoad))
	l.nextCheck = time.Now().Add(period)
	l.mu.Lock()
	l.state.period = period
	l.mu.Unlock()
}
