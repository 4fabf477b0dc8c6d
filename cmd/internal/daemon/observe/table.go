package observe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/ipvs"
)

const (
	// tableEvery is the time between two looks at the kernel's table.
	tableEvery = 5 * time.Second
	// tableLines is how many changes have a line of their own in the log.
	tableLines = 50
)

// Wanted computes the table that vipd would make where the kernel has found.
type Wanted func(found ipvs.Table) ipvs.Table

// Table compares the kernel's IPVS table with the one that vipd would make. Its methods
// may be called from any goroutine.
type Table struct {
	read    func() (ipvs.Snapshot, error)
	present func() bool // the kernel has IPVS; asking it otherwise would load the module
	log     *zap.Logger
	wake    chan struct{} // capacity 1

	mu      sync.Mutex // guards all following fields
	wanted  Wanted     // nil: no services
	flush   bool       // services that are not configured would be deleted
	have    ipvs.Snapshot
	err     error
	changes []string // as last told
	told    bool
}

// NewTable makes a Table that reads with read.
func NewTable(read func() (ipvs.Snapshot, error), log *zap.Logger) *Table {
	return &Table{read: read, present: loaded, log: log, wake: make(chan struct{}, 1)}
}

// loaded reports whether the kernel has IPVS now.
func loaded() bool {
	_, err := os.Stat("/proc/net/ip_vs")
	return err == nil
}

// Configure takes what is wanted; nil: nothing. It never blocks.
func (t *Table) Configure(wanted Wanted) {
	t.mu.Lock()
	t.wanted, t.told = wanted, false
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Flush says whether services that are not configured would be deleted (lvs_flush).
func (t *Table) Flush(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush = yes
}

// Run compares after each Configure, and now and then, until ctx ends; it returns nil
// then.
func (t *Table) Run(ctx context.Context) error {
	tick := time.NewTicker(tableEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-tick.C:
		}
		t.compare()
	}
}

// compare reads the kernel's table and tells what is to be told anew. Services that
// are not configured are nobody's, as for vipd itself, unless lvs_flush deletes them.
func (t *Table) compare() {
	t.mu.Lock()
	wanted, flush := t.wanted, t.flush
	t.mu.Unlock()
	if wanted == nil {
		return
	}
	have, err := ipvs.Snapshot{}, ipvs.ErrAbsent
	if t.present() {
		have, err = t.read()
	}
	var changes []string
	switch {
	case errors.Is(err, ipvs.ErrAbsent):
		changes = []string{"this kernel has no IPVS loaded; vipd would have it loaded, and make all services"}
	case err != nil:
		changes = []string{"the IPVS table could not be read: " + err.Error()}
	default:
		for _, op := range ipvs.Diff(have.Table, wanted(have.Table), func(ipvs.Key) bool { return flush }) {
			changes = append(changes, op.String())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.have, t.err = have, err
	if t.told && slices.Equal(changes, t.changes) {
		return
	}
	t.changes, t.told = changes, true
	t.tell()
}

// tell logs what would be done. Called with mu held.
func (t *Table) tell() {
	switch {
	case t.err != nil:
		t.log.Warn(t.changes[0])
		return
	case len(t.changes) == 0:
		t.log.Info("agrees: the IPVS table is as vipd would make it; no server was checked, those that keepalived has taken out count as down")
		return
	}
	t.log.Warn(fmt.Sprintf("DIFFERS: vipd would make %s in the IPVS table; no server was checked, those that keepalived has taken out count as down",
		plural(len(t.changes), "change", "changes")))
	for _, line := range t.changes[:min(len(t.changes), tableLines)] {
		t.log.Info("would run: " + line)
	}
	if n := len(t.changes) - tableLines; n > 0 {
		t.log.Info(fmt.Sprintf("and %d more", n))
	}
}

// Last returns what the kernel had at the last look, why it could not be read, and
// what vipd would do.
func (t *Table) Last() (have ipvs.Snapshot, changes []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.have, slices.Clone(t.changes), t.err
}
