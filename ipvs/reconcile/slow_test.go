package reconcile_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
)

// slow makes looks and reads cost time.
type slow struct {
	*ipvstest.Kernel
	look, read time.Duration
}

func (s slow) Same(t ipvs.Table) (bool, error) { time.Sleep(s.look); return s.Kernel.Same(t) }

func (s slow) Read() (ipvs.Snapshot, error) { time.Sleep(s.read); return s.Kernel.Read() }

// TestLoad: looking takes at most 2 % of a CPU, however long a look takes, and is made at least every 2 s while it is cheap.
func TestLoad(t *testing.T) {
	for _, c := range []slow{{look: 6 * time.Millisecond, read: 200 * time.Millisecond}, {look: 100 * time.Millisecond, read: 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			c.Kernel = ipvstest.New()
			r, _ := start(t, c, "")
			r.Set(table(web(), 1))
			time.Sleep(time.Minute)
			reads, looks := c.Reads()
			const hour = time.Hour
			time.Sleep(hour)
			reads2, looks2 := c.Reads()
			busy := time.Duration(looks2-looks)*c.look + time.Duration(reads2-reads)*c.read
			if share := float64(busy) / float64(hour); share > 0.0201 {
				t.Errorf("looking takes %.1f %% of a CPU", 100*share)
			}
			if c.look < 10*time.Millisecond && looks2-looks < 1600 {
				t.Errorf("%d looks in an hour", looks2-looks)
			}
			if reads2-reads < 5 {
				t.Errorf("%d complete reads in an hour", reads2-reads)
			}
		})
	}
}

// hiccup makes one look cost time.
type hiccup struct {
	*ipvstest.Kernel
	next atomic.Bool
}

func (h *hiccup) Same(t ipvs.Table) (bool, error) {
	if h.next.Swap(false) {
		time.Sleep(300 * time.Millisecond)
	}
	return h.Kernel.Same(t)
}

// TestOneSlowLook: a look that takes long once, as on a machine with too much to do, does not put off the repair.
func TestOneSlowLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &hiccup{Kernel: ipvstest.New()}
		r, _ := start(t, k, "")
		r.Set(table(web(), 1, 1))
		time.Sleep(time.Minute)
		right := k.String()
		k.next.Store(true)
		time.Sleep(3 * time.Second) // the look is over
		k.Flush()
		time.Sleep(5 * time.Second)
		expect(t, k.Kernel, right)
	})
}

// wrong is a kernel whose cheap look always sees a difference.
type wrong struct{ slow }

func (wrong) Same(ipvs.Table) (bool, error) { return false, nil }

// TestWrongLook: a cheap look that is always wrong does not cost a complete read every time.
func TestWrongLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := wrong{slow{Kernel: ipvstest.New(), read: 200 * time.Millisecond}}
		r, _ := start(t, k, "")
		r.Set(table(web(), 1))
		time.Sleep(time.Hour)
		if reads, _ := k.Reads(); float64(reads)*0.2/3600 > 0.0201 {
			t.Errorf("%d complete reads in an hour", reads)
		}
		if s := r.Status(); s.Repairs != 0 {
			t.Errorf("%d repairs of nothing", s.Repairs)
		}
	})
}
