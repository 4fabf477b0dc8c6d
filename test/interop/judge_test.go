package interop

import (
	"strings"
	"testing"
)

// explain says why a fault is keepalived's and to be expected, "" when it is not.
func (r *record) explain(row, k int, kind string) string {
	sp := r.spans[k]
	loser := r.site.order[sp.before[row].owner]
	switch {
	case sp.what == reloadVIP && kind == "outage" && strings.Contains(r.site.order, "k"):
		return "As the next, and the keepalived that took over sends nothing more while it drops what it hears. When the lists are equal again it gives way without a word, and the client may have its address still."
	case sp.what == reloadVIP && strings.Contains(r.site.order, "k"):
		return "keepalived 2.2.7 refuses adverts with another number of addresses than its own: while the lists differ it hears no master and takes over."
	case sp.what == linkUp && r.site.unicast && r.site.order[sp.at] == 'k':
		return "A keepalived says good-bye on a link that is down. The kernel keeps that while it asks for the peers' MAC in vain, once a second; the first adverts after the return wait for the end of it."
	case kind == "outage" && r.site.vmac != "" && sp.after[row].owner == sp.at && sp.before[row].owner != sp.at && r.site.order[sp.at] == 'k':
		return "A keepalived that takes over with a virtual MAC is answered by the old master while that still has the address, and switches follow the answer until its next frame with that MAC."
	case sp.what == heal && kind == "outage" && loser == 'k':
		return "A keepalived that hears a better master gives way without a word, unless it has vrrp_higher_prio_send_advert. When it hears A first, A never learns of it, and does not announce itself before its next refresh (vipd: 60 s; keepalived: none)."
	}
	return ""
}

// verdict is what a fault in a cell amounts to: the reason when it is none of
// vipd's, "" when it is not explained.
func (res *result) verdict(all map[site]*result, row, k int, f fault) string {
	if why := res.explain(row, k, f.kind); why != "" {
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
