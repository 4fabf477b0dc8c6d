package host

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkFirstAddition measures what lies between a wish and the first kernel call, with 1,000 addresses.
func BenchmarkFirstAddition(b *testing.B) {
	s := State{Links: map[string]*Link{"eth0": {Name: "eth0", Index: 2, Up: true, Running: true}}, At: time.Now()}
	set := Set{Instance: "A", Interface: "eth0"}
	for i := range 1000 {
		set.Addresses = append(set.Addresses, Address{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)}), 32)})
	}
	f := stateFile{filepath.Join(b.TempDir(), "addresses.json")}
	bk := newBook()
	now := time.Now()
	bk.configure(now, []Set{set})
	bk.state(now, s)
	var plan, write time.Duration
	for b.Loop() {
		t0 := time.Now()
		bk.want(now, "A", true)
		j := bk.next(now)
		t1 := time.Now()
		if err := f.write(j.listing, nil); err != nil || j.kind != jobAdd {
			b.Fatal(err, j.kind)
		}
		t2 := time.Now()
		plan, write = plan+t1.Sub(t0), write+t2.Sub(t1)
		for _, e := range bk.entries {
			e.listed = false
		}
		bk.added(now, j.entries[0], 2, nil, fmt.Errorf("no"))
		bk.want(now, "A", false)
		bk.next(now)
	}
	b.ReportMetric(float64(plan.Microseconds())/float64(b.N), "plan-us")
	b.ReportMetric(float64(write.Microseconds())/float64(b.N), "write-us")
}
