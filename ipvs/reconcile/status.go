package reconcile

import (
	"maps"
	"time"

	"vipd/ipvs"
)

// Failure is a change that the kernel refused and that will be tried again.
type Failure struct {
	Target   ipvs.Target
	Op       ipvs.Op
	Err      error
	Since    time.Time
	Attempts int
	Next     time.Time

	delay time.Duration
}

// Status is what the reconciler knows.
type Status struct {
	// Kernel holds our services as last read, with every change acknowledged since; its Table is nil before the first read.
	// What was changed since has no connection counts until the next read.
	Kernel ipvs.Snapshot
	// Failures, by target, are changes that the kernel refused, and removals that wait for one of these.
	Failures  map[ipvs.Target]Failure
	Err       error         // why the kernel cannot be read at all; nil when it can
	RecordErr error         // why the state file could not be written
	Idle      bool          // no service is wanted and none is ours: the kernel is not even read
	Pending   int           // changes still to make
	Repairs   uint64        // entries of ours that others changed and that were put back
	LastRead  time.Time     // of the whole table
	LastSync  time.Time     // when last nothing was left to do
	Period    time.Duration // between two looks at the kernel
}

// InSync reports whether the kernel, as last known, is as wanted.
func (s Status) InSync() bool {
	return s.Idle && s.Pending == 0 || s.Kernel.Table != nil && s.Err == nil && s.Pending == 0 && !s.LastSync.IsZero()
}

// Status returns a copy of the present state without asking the kernel.
func (r *Reconciler) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{
		Failures: make(map[ipvs.Target]Failure, len(r.state.failures)), Err: r.state.readErr,
		Pending: r.state.pending, Repairs: r.state.repairs, LastRead: r.state.lastRead, LastSync: r.state.lastSync, Period: r.state.period,
	}
	s.RecordErr = r.state.fileErr
	s.Idle = r.state.want != nil && r.idle()
	if r.next != nil {
		s.Pending++
	}
	for _, op := range r.state.held {
		s.Failures[op.Target()] = Failure{Target: op.Target(), Op: op, Err: errHeld, Since: r.state.lastSync}
	}
	for t, f := range r.state.failures {
		s.Failures[t] = *f
	}
	if r.state.kernel.Table != nil {
		s.Kernel = ipvs.Snapshot{Table: r.state.kernel.Table.Clone(), Connections: maps.Clone(r.state.kernel.Connections)}
	}
	return s
}
