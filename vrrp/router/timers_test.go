package router

import (
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
)

// TestLead: before a take-over the loop turns twice, before an advert once.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Ports{})
		in := &instance{machine: vrrp.New(vrrp.Config{})}
		at := time.Now().Add(10 * time.Millisecond)
		r.wakeFor(in, at)
		if got := r.until(); got != at {
			t.Errorf("INIT: %v before the deadline", at.Sub(got))
		}
		r.claims = true
		if got := r.until(); at.Sub(got) != lead {
			t.Errorf("before a take-over: %v before the deadline, want %v", at.Sub(got), lead)
		}
		time.Sleep(10*time.Millisecond - lead)
		if got := r.until(); got != at {
			t.Errorf("the second time: %v before the deadline", at.Sub(got))
		}
		r.wakeFor(in, at.Add(-time.Microsecond)) // another's, which is earlier
		if got := r.until(); got != at.Add(-time.Microsecond) || r.claims {
			t.Errorf("an earlier deadline of another kind: %v before the deadline", at.Sub(got))
		}
	})
}
