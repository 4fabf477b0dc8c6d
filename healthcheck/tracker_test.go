package healthcheck

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTrackerSteps walks through keepalived's rules one by one. The letters
// are results: o = success, x = failure, l = local fault; the wanted text has
// the verdict after each (U up, D down, ? unknown), in lower case while the
// next attempt is a retry.
func TestTrackerSteps(t *testing.T) {
	tests := []struct {
		name    string
		retry   int
		inherit Verdict
		results string
		want    string
	}{
		{"a success brings up at once", 3, Unknown, "o", "U"},
		{"the first run has retries too", 2, Unknown, "xxx", "??D"},
		{"retries while up", 2, Unknown, "oxxx", "UuuD"},
		{"a success among retries starts the count anew", 1, Unknown, "oxoxx", "UuUuD"},
		{"no retries while down", 2, Unknown, "oxxxxxx", "UuuDDDD"},
		{"one success brings back", 2, Unknown, "xxxo", "??DU"},
		{"no retry: the first failure decides", 0, Unknown, "ox", "UD"},
		{"negative retry is none", -1, Unknown, "ox", "UD"},
		{"local faults change nothing", 1, Unknown, "lollxllx", "?UUUuuuD"},
		{"local faults do not bring back", 0, Unknown, "xlllo", "DDDDU"},
		{"inherited up is kept through the retries", 1, Up, "xx", "uD"},
		{"inherited down comes back with one success", 1, Down, "o", "U"},
		{"inherited down stays down", 1, Down, "xl", "DD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := NewTracker(tt.retry, tt.inherit)
			var got []byte
			for _, c := range tt.results {
				tr.Record(Result{OK: c == 'o', LocalFault: c == 'l'})
				letter := map[Verdict]byte{Unknown: '?', Up: 'U', Down: 'D'}[tr.Verdict()]
				if tr.Retrying() && letter != '?' {
					letter |= 0x20
				}
				got = append(got, letter)
			}
			if string(got) != tt.want {
				t.Errorf("retry %d, %s: got %s, want %s", tt.retry, tt.results, got, tt.want)
			}
		})
	}
}

// TestTrackerProperties compares the tracker with what the rules say about the
// whole history of results.
func TestTrackerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retry := rapid.IntRange(0, 5).Draw(t, "retry")
		inherit := rapid.SampledFrom([]Verdict{Unknown, Up, Down}).Draw(t, "inherit")
		tr := NewTracker(retry, inherit)
		var history []bool // without the local faults
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			r := Result{OK: rapid.Bool().Draw(t, "ok"), LocalFault: rapid.IntRange(0, 3).Draw(t, "fault") == 0}
			before, state := tr.Verdict(), tr
			changed := tr.Record(r)
			if r.LocalFault {
				if changed || tr != state {
					t.Fatalf("a local fault changed %+v to %+v", state, tr)
				}
				continue
			}
			history = append(history, r.OK)
			if changed != (before != tr.Verdict()) {
				t.Fatalf("changed = %v, verdict %v → %v", changed, before, tr.Verdict())
			}
			if want := verdictOf(history, retry, inherit); tr.Verdict() != want {
				t.Fatalf("after %v with retry %d from %v: %v, want %v", history, retry, inherit, tr.Verdict(), want)
			}
			if tr.Retrying() != (!r.OK && tr.Verdict() != Down) {
				t.Fatalf("after %v: Retrying = %v with verdict %v", history, tr.Retrying(), tr.Verdict())
			}
			if tr.Inherited() && (r.OK || tr.Verdict() != inherit || inherit == Unknown) {
				t.Fatalf("after %v from %v: still inherited at %v", history, inherit, tr.Verdict())
			}
		}
	})
}

// verdictOf says from the end of the history backwards what the verdict is:
// up when the last success is at most retry results ago; down when there are
// more than retry failures at the end; before either, what was inherited.
func verdictOf(history []bool, retry int, inherit Verdict) Verdict {
	for i := range history {
		if ok := history[len(history)-1-i]; ok {
			if i > retry {
				return Down
			}
			return Up
		}
	}
	if len(history) > retry {
		return Down
	}
	return inherit
}

func TestSetRetry(t *testing.T) {
	tr := NewTracker(5, Up)
	tr.Record(Result{})
	tr.Record(Result{})
	tr.SetRetry(1)
	if tr.Verdict() != Up {
		t.Fatal("changing the retries changed the verdict")
	}
	if !tr.Record(Result{}) || tr.Verdict() != Down {
		t.Error("with fewer retries the next failure did not decide")
	}
}

func TestVerdictString(t *testing.T) {
	for v, want := range map[Verdict]string{Unknown: "unknown", Up: "up", Down: "down"} {
		if v.String() != want {
			t.Errorf("got %q, want %q", v, want)
		}
	}
}
