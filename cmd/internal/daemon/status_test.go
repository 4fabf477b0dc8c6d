package daemon

import (
	"errors"
	"slices"
	"testing"

	"vipd/ipvs"
	"vipd/ipvs/reconcile"
)

// A table that cannot be read matters where there are services, a record that cannot be written everywhere.
func TestTableProblems(t *testing.T) {
	slow := errors.New("no answer")
	record := errors.New("recording our IPVS services: no space")
	const left = "IPVS: recording our IPVS services: no space; after a crash services that are not configured any more would stay"
	for name, c := range map[string]struct {
		table reconcile.Status
		asked error
		used  bool
		want  []string
	}{
		"good":                 {used: true},
		"no IPVS, not used":    {table: reconcile.Status{Err: ipvs.ErrAbsent}},
		"no IPVS":              {table: reconcile.Status{Err: ipvs.ErrAbsent}, used: true, want: []string{"IPVS: " + ipvs.ErrAbsent.Error()}},
		"no answer":            {table: reconcile.Status{Err: ipvs.ErrAbsent}, asked: slow, used: true, want: []string{"IPVS: no answer"}},
		"no record":            {table: reconcile.Status{RecordErr: record}, want: []string{left}},
		"no answer, no record": {table: reconcile.Status{RecordErr: record}, asked: slow, used: true, want: []string{"IPVS: no answer", left}},
	} {
		if got := tableProblems(c.table, c.asked, c.used); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
