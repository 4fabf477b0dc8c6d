package reconcile

import (
	"slices"
	"time"

	"vipd/ipvs"
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

// lookFirst has the kernel read before anything is taken from a pool when others changed it: the server that we think
// carries the load may be gone.
func (l *loop) lookFirst() {
	if l.state.stale || l.state.want == nil || l.state.kernel.Table == nil {
		return
	}
	known := l.state.kernel.Table
	for _, op := range ipvs.Diff(known, l.state.want, func(k ipvs.Key) bool { return l.state.owned[k] }) {
		if op.Kind != ipvs.DelDestination && (op.Kind != ipvs.EditDestination || op.Destination.Usable()) {
			continue
		}
		if same, err := l.kernel.Same(known); err != nil || !same {
			l.state.stale = true
		}
		return
	}
}
