// Package ipvstest has an in-memory IPVS that is as strict as the kernel's, and the test that both must pass.
package ipvstest

import (
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// Kernel is an IPVS table in memory. It refuses what the kernel refuses, with the same errno, and prints itself as the
// sorted lines of ipvsadm-save. Its methods may be called from any goroutine.
type Kernel struct {
	mu         sync.Mutex
	table      ipvs.Table
	counts     map[ipvs.Target]ipvs.Connections
	schedulers map[string]bool
	fail       func(ipvs.Op) error
	observe    func(op ipvs.Op, err error, before, after ipvs.Pool)
	readErr    error
	log        []Entry
	reads      int
	looks      int
}

// Entry is an operation that the kernel was asked for, and its answer.
type Entry struct {
	Op  ipvs.Op
	Err error
}

// New returns an empty table that knows the schedulers and the persistence engine of Linux 6.1.
func New() *Kernel {
	k := &Kernel{table: ipvs.Table{}, counts: map[ipvs.Target]ipvs.Connections{}, schedulers: map[string]bool{}}
	for _, s := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "mh", "dh", "sed", "nq", "fo", "ovf"} {
		k.schedulers[s] = true
	}
	return k
}

// Read returns a copy of the table.
func (k *Kernel) Read() (ipvs.Snapshot, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if k.readErr != nil {
		return ipvs.Snapshot{}, k.readErr
	}
	counts := map[ipvs.Target]ipvs.Connections{}
	for key, p := range k.table {
		for a := range p.Destinations {
			t := ipvs.Target{Service: key, Destination: a}
			counts[t] = k.counts[t]
		}
	}
	return ipvs.Snapshot{Table: k.table.Clone(), Connections: counts}, nil
}

// Same reports whether the services of t are in the table just so.
func (k *Kernel) Same(t ipvs.Table) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks++
	if k.readErr != nil {
		return false, k.readErr
	}
	for key, p := range t {
		h, ok := k.table[key]
		if !ok || h.Service != p.Service || !maps.Equal(h.Destinations, p.Destinations) {
			return false, nil
		}
	}
	return true, nil
}

// Apply makes the changes in order and returns an error, nil for success, for each.
func (k *Kernel) Apply(ops []ipvs.Op) []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := make([]error, len(ops))
	for i, op := range ops {
		before := k.table[op.Service.Key]
		before.Destinations = maps.Clone(before.Destinations)
		err := k.refuse(op)
		if err == nil {
			k.table.Apply(op)
		}
		errs[i] = err
		k.log = append(k.log, Entry{Op: op, Err: err})
		if k.observe != nil {
			k.observe(op, err, before, k.table[op.Service.Key])
		}
	}
	return errs
}

// refuse returns what the kernel would answer.
func (k *Kernel) refuse(op ipvs.Op) error {
	if k.fail != nil {
		if err := k.fail(op); err != nil {
			return err
		}
	}
	s := op.Service.Normal()
	p, exists := k.table[s.Key]
	switch {
	case op.Kind == ipvs.AddService && exists:
		return unix.EEXIST
	case op.Kind != ipvs.AddService && !exists:
		return unix.ESRCH
	case (op.Kind == ipvs.AddService || op.Kind == ipvs.EditService) && (!k.schedulers[s.Scheduler] || s.Engine != "" && s.Engine != "sip"):
		return unix.ENOENT
	}
	if !op.OnDestination() {
		return nil
	}
	d := op.Destination
	_, exists = p.Destinations[d.Address]
	switch {
	case op.Kind != ipvs.DelDestination && d.Address.Addr().Is6() != s.IPv6 && d.Method != ipvs.TUN:
		return unix.EINVAL
	case op.Kind != ipvs.DelDestination && (d.Weight < 0 || d.Lower > d.Upper):
		return unix.ERANGE
	case op.Kind != ipvs.DelDestination && d.Tunnel.Type == ipvs.GUE && d.Tunnel.Port == 0:
		return unix.EINVAL
	case op.Kind == ipvs.AddDestination && exists:
		return unix.EEXIST
	case op.Kind != ipvs.AddDestination && !exists:
		return unix.ENOENT
	}
	return nil
}

// Edit changes the table behind the back of whoever uses it: not logged, not observed, never failing. Operations that
// the table refuses are passed over.
func (k *Kernel) Edit(ops ...ipvs.Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fail := k.fail
	k.fail = nil
	for _, op := range ops {
		if k.refuse(op) == nil {
			k.table.Apply(op)
		}
	}
	k.fail = fail
}

// Flush empties the table behind the back of whoever uses it.
func (k *Kernel) Flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.table)
}

// Fail makes f decide which operations fail, and how; nil ends that.
func (k *Kernel) Fail(f func(ipvs.Op) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = f
}

// FailRead makes every read fail with err; nil ends that.
func (k *Kernel) FailRead(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readErr = err
}

// Observe calls f after every operation, with its error and its service before and after. f must not keep the pools and
// must not call k.
func (k *Kernel) Observe(f func(op ipvs.Op, err error, before, after ipvs.Pool)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observe = f
}

// SetConnections sets the counts of a destination.
func (k *Kernel) SetConnections(t ipvs.Target, c ipvs.Connections) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts[t] = c
}

// TakeLog returns the operations since the last call.
func (k *Kernel) TakeLog() []Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	log := k.log
	k.log = nil
	return log
}

// Reads returns how often Read and Same were called.
func (k *Kernel) Reads() (reads, looks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads, k.looks
}

// Table returns a copy of the table.
func (k *Kernel) Table() ipvs.Table {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.Clone()
}

// String prints the table as sorted lines of ipvsadm-save.
func (k *Kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.String()
}
