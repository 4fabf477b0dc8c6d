package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"vipd/ipvs"
	"vipd/ipvs/internal/record"
)

// header is the first line of the state file; the others are one service each.
const header = "# IPVS services that vipd made; what is no longer configured is deleted at start"

// loadOwned adds the services that a predecessor recorded. A missing or damaged file only means that leftovers stay.
func (r *Reconciler) loadOwned() {
	if r.stateFile == "" {
		return
	}
	b, err := os.ReadFile(r.stateFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.log.Warn("cannot read which IPVS services are ours; leftovers of a crash will stay", zap.NamedError("err", err))
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, err := ipvs.ParseKey(line)
		if err != nil {
			r.log.Warn("ignoring a damaged line in the record of our IPVS services", zap.String("file", r.stateFile), zap.NamedError("err", err))
			continue
		}
		r.state.owned[k] = true
	}
}

// saveOwned records which services are ours, before they are made.
func (r *Reconciler) saveOwned() {
	if r.stateFile == "" {
		return
	}
	err := writeFile(r.stateFile, slices.SortedFunc(maps.Keys(r.state.owned), ipvs.Key.Compare))
	if err != nil && r.state.fileErr == nil {
		r.log.Error("cannot record which IPVS services are ours; after a crash they would stay behind", zap.NamedError("err", err))
	}
	r.mu.Lock()
	r.state.fileErr = err
	r.mu.Unlock()
}

// writeFile replaces the file in one step.
func writeFile(name string, keys []ipvs.Key) error {
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, k := range keys {
		b.WriteString(k.String() + "\n")
	}
	if err := record.Write(name, []byte(b.String())); err != nil {
		return fmt.Errorf("recording our IPVS services: %w", err)
	}
	return nil
}
