package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"vipd/ipvs"
)

// read replaces the acknowledged table by the kernel's and counts what others changed.
func (l *loop) read() error {
	start := time.Now()
	snap, err := l.kernel.Read()
	now := time.Now()
	if errors.Is(err, ipvs.ErrAbsent) {
		l.claimed(nil) // there are none
		if l.idle() {
			return nil
		}
	}
	if err != nil {
		return l.readFailed(fmt.Errorf("reading the IPVS table: %w", err))
	}
	cost := now.Sub(start)
	l.state.stale, l.readDelay, l.readRetry = false, 0, time.Time{}
	l.nextFull = now.Add(max(FullReadPeriod, time.Duration(float64(cost)*2/MaxLoad)))
	if l.nextCheck.Before(now) {
		l.nextCheck = now.Add(CheckPeriod)
	}
	l.claimed(snap.Table)
	maps.DeleteFunc(snap.Table, func(k ipvs.Key, _ ipvs.Pool) bool { return !l.state.owned[k] })
	maps.DeleteFunc(snap.Connections, func(t ipvs.Target, _ ipvs.Connections) bool { return !l.state.owned[t.Service] })
	foreign := l.changedByOthers(snap.Table)
	if l.suspicion && len(foreign) == 0 {
		l.schedule(cost) // the cheap look was wrong: do not let that cost a whole read every time
	}
	l.suspicion = false
	l.mu.Lock()
	recovered := l.state.readErr != nil
	l.state.kernel, l.state.readErr, l.state.lastRead = snap, nil, now
	l.state.repairs += uint64(len(foreign))
	l.mu.Unlock()
	if recovered {
		l.log.Info("IPVS can be read again")
	}
	if l.state.fileErr != nil {
		l.saveOwned() // there may be room for it now
	}
	for _, op := range foreign[:min(len(foreign), 10)] {
		l.log.Warn("IPVS entry of ours was changed by another program; putting it back", append(fields(op), zap.Stringer("repair", op))...)
	}
	if n := len(foreign); n > 10 {
		l.log.Warn("more IPVS entries of ours were changed by another program; putting them back", zap.Int("entries", n-10))
	}
	return nil
}

// readFailed sets when to try again and logs the error when it is news.
func (l *loop) readFailed(err error) error {
	l.readDelay = min(max(2*l.readDelay, retryMin), retryMax)
	l.readRetry = time.Now().Add(l.readDelay)
	l.mu.Lock()
	news := l.state.readErr == nil || l.state.readErr.Error() != err.Error()
	l.state.readErr = err
	l.mu.Unlock()
	if news {
		l.log.Error("IPVS cannot be read; trying again", zap.NamedError("err", err), zap.Duration("longest_pause", retryMax))
	}
	return err
}

// changedByOthers returns what would restore our services in the kernel as we last knew them.
func (l *loop) changedByOthers(read ipvs.Table) []ipvs.Op {
	known := l.state.kernel.Table
	var ops []ipvs.Op
	for _, op := range ipvs.Diff(read, known, func(ipvs.Key) bool { return false }) {
		// What failed half-way is ours to explain, not another program's doing.
		if l.state.failures[op.Target()] == nil {
			ops = append(ops, op)
		}
	}
	return ops
}
