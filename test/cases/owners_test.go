package cases

import (
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// lowest is an address that is lower than those of all directors.
func lowest(f family) netip.Addr {
	if f.vip.Is6() {
		return mustAddr("fe80::1")
	}
	return mustAddr("10.9.0.1")
}

// Two machines claim priority 255 for one address. Of two that follow the rules the
// lower address gives way at once. One that is deaf and goes on makes the other one
// give way, until it is gone; with owner_ignore_adverts it does not.
func TestTwoOwners(t *testing.T) {
	t.Parallel()
	conf := func(extra ...string) string {
		return bothFamilies(lab.Instance{Priority: 255, Interval: quick, Extra: extra})
	}
	t.Run("both listen", func(t *testing.T) {
		t.Parallel()
		l := lab.New(t, "d1", "d2")
		l.Node("d1").Vipd(conf())
		owned(l, "d1", 5*time.Second)
		l.Node("d2").Vipd(conf())
		owned(l, "d2", 5*time.Second) // the higher address
		l.Never(2*time.Second, "d1 claims the addresses again", func() bool {
			return l.Node("d1").Has(families()[0].vip) || l.Node("d1").Has(families()[1].vip)
		})
	})
	for name, ignores := range map[string]bool{"the lower one is deaf": false, "ignored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "d2", "cl")
			d1, d2, seen := l.Node("d1"), l.Node("d2"), l.Node("cl").Capture()
			var extra []string
			if ignores {
				extra = []string{"owner_ignore_adverts true"}
			}
			v := d2.Vipd(conf(extra...))
			owned(l, "d2", 5*time.Second)
			// What d2 sends, from whichever of its addresses.
			others := func(f family, from time.Time) []lab.Advert {
				list := lab.Between(seen.Adverts(f.vrid), from, time.Now())
				return lab.Filter(list, func(a lab.Advert) bool { return a.Src != lowest(f) })
			}
			var frames [][]byte
			for _, f := range families() {
				frames = append(frames, d1.Frame(lab.Speech{Src: lowest(f), VRID: f.vrid, Priority: 255, Interval: quick, Addrs: f.vips}))
			}
			began := time.Now()
			rogue := d1.Flood(2*int(time.Second/quick), frames...)
			if ignores {
				time.Sleep(10 * quick)
				for _, f := range families() {
					l.WaitOwner(f.vip, time.Second, "d2")
					mine := others(f, began)
					if n := len(lab.Filter(mine, func(a lab.Advert) bool { return a.Priority == 255 })); n < 6 || n != len(mine) {
						t.Errorf("%s: adverts of d2: %v", f.name, mine)
					}
				}
				return
			}
			for _, f := range families() {
				l.Eventually(5*time.Second, "d2 gives "+f.name+" way", func() bool { return !d2.Has(f.vip) })
			}
			v.WaitLog("two owners .priority 255.: 10.9.0.1 does not give way", time.Second)
			time.Sleep(5 * quick)
			for _, f := range families() {
				l.WaitOwner(f.vip, time.Second)
				mine := others(f, began)
				if n := len(mine); n < 3 || mine[n-1].Priority != 254 {
					t.Errorf("%s: adverts of d2 beside the other owner: %v", f.name, mine)
				}
			}
			rogue.Stop()
			gone := time.Now()
			owned(l, "d2", 5*time.Second)
			for _, f := range families() {
				if mine := others(f, gone); len(mine) == 0 || mine[len(mine)-1].Priority != 255 {
					t.Errorf("%s: after the other owner has gone: %v", f.name, mine)
				}
			}
		})
	}
}
