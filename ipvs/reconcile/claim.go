package reconcile

import "vipd/ipvs"

// Claim makes every service that the kernel has at this moment ours, whoever made it: those that are not wanted go. It
// never blocks.
func (r *Reconciler) Claim() {
	r.claim.Store(true)
	r.Reread()
}

// claimed makes all services of a table ours, if that is to be. They are remembered before any of them is deleted.
func (r *Reconciler) claimed(found ipvs.Table) {
	if !r.claim.Swap(false) || len(found) == 0 {
		return
	}
	r.mu.Lock()
	for k := range found {
		r.state.owned[k] = true
	}
	r.mu.Unlock()
	r.saveOwned()
}
