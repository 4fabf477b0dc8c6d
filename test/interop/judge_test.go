package interop

import (
	"strings"
	"testing"
)

// explain says why a fault is keepalived's and to be expected, "" when it is not.
func (s site) explain(e event, kind string) string {
	switch {
	case e.what == reloadVIP && strings.Contains(s.order, "k"):
		return "keepalived 2.2.7 refuses adverts with another number of addresses than its own. While the lists differ it hears no master and takes over."
	}
	return ""
}

// verdict is what a fault in a cell amounts to: the reason when it is none of
// vipd's, "" when it is not explained.
func (res *result) verdict(all map[site]*result, row, k int, f fault) string {
	if why := res.site.explain(res.spans[k].event, f.kind); why != "" {
		return why
	}
	if base := all[res.site.beside()]; base != nil && base.record != nil && !res.site.alone() {
		for _, g := range base.rows[row][k].faults {
			if g.kind == f.kind {
				return "keepalived alone shows the same: " + g.text + "."
			}
		}
	}
	return ""
}

// judge fails the test for what nobody but vipd can have caused.
func judge(t *testing.T, all map[site]*result) {
	for s, res := range all {
		if s.alone() {
			continue
		}
		if res.record == nil {
			t.Errorf("%s: %s", s.name(), res.fail)
			continue
		}
		for i, row := range res.rows {
			for k, c := range row {
				for _, f := range c.faults {
					if res.verdict(all, i, k, f) == "" {
						r := s.rows()[i]
						t.Errorf("%s, %s, %s, %s: %s", s.name(), r.form, r.preemption(), res.spans[k].label(), f.text)
					}
				}
			}
		}
		for _, sp := range res.spans {
			for _, l := range sp.lines {
				t.Errorf("%s, %s: %s logs: %s", s.name(), sp.label(), l.daemon(), l.plain())
			}
		}
	}
}
