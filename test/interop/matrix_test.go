package interop

import (
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for _, s := range []site{{version: 3, order: "vk"}, {version: 3, order: "kk"}, {version: 3, order: "kv", group: true}, {version: 3, order: "kv", unicast: true}, {version: 2, order: "vk", group: true}, {version: 3, order: "kk", vmac: "vmac"}, {version: 3, order: "kk", vmac: "vmac, base", unicast: true}, {version: 3, order: "kvk"}} {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			r := s.run(t)
			for _, sp := range r.spans {
				for _, l := range sp.lines {
					t.Logf("%s: %d: %s", sp.label(), l.place, l.text)
				}
			}
			for i, row := range s.rows() {
				for k, c := range r.cells(i, 50*time.Millisecond) {
					t.Logf("%-12s %-9s %-12s %-16s %v", row.form, row.preemption(), r.spans[k].label(), c, c.faults)
				}
			}
		})
	}
}
