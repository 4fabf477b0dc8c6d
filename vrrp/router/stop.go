package router

import (
	"context"
	"slices"
	"time"

	"vipd/vrrp"
)

// Stop makes every instance give its addresses up: priority 0 from each MASTER, then its addresses are no longer
// wanted when its own successor has announced itself, at most wait later (vrrp.EventShutdown). It returns when all
// have left; the router does nothing more but answer Status.
func (r *Router) Stop(wait time.Duration) {
	// An error means that Run has returned, and Run does the same.
	_ = r.do(context.Background(), func() { r.shutdown(wait) })
	select {
	case <-r.left:
	case <-r.done:
	}
}

// Hurry has a Stop that waits for successors wait no longer.
func (r *Router) Hurry() {
	r.post(func() {
		if r.stopped {
			r.shutdown(0)
		}
	})
}

// shutdown stops every instance; those that wait for a successor already, at once.
func (r *Router) shutdown(wait time.Duration) {
	again := r.stopped
	r.stopped = true
	for _, in := range r.list {
		if !again || in.machine.Leaving() {
			r.feed(in, vrrp.Event{Kind: vrrp.EventShutdown, Wait: wait})
		}
	}
	r.leave()
}

// over reports whether all instances have given everything up for good.
func (r *Router) over() bool {
	return r.stopped && !slices.ContainsFunc(r.list, func(in *instance) bool { return !in.machine.Stopped() })
}

// leave tells Stop when all have left.
func (r *Router) leave() {
	if !r.over() {
		return
	}
	select {
	case <-r.left:
	default:
		close(r.left)
	}
}
