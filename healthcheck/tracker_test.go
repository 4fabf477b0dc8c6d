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
		limits  Limits
		inherit Verdict
		results string
		want    string
	}{
		{"a success brings up at once", Limits{Retry: 3}, Unknown, "o", "U"},
		{"the first run has retries too", Limits{Retry: 2}, Unknown, "xxx", "??D"},
		{"retries while up", Limits{Retry: 2}, Unknown, "oxxx", "UuuD"},
		{"a success among retries starts the count anew", Limits{Retry: 1}, Unknown, "oxoxx", "UuUuD"},
		{"no retries while down", Limits{Retry: 2}, Unknown, "oxxxxxx", "UuuDDDD"},
		{"one success brings back", Limits{Retry: 2}, Unknown, "xxxo", "??DU"},
		{"no retry: the first failure decides", Limits{Retry: 0}, Unknown, "ox", "UD"},
		{"negative retry is none", Limits{Retry: -1}, Unknown, "ox", "UD"},
		{"local faults change nothing", Limits{Retry: 1}, Unknown, "lollxllx", "?UUUuuuD"},
		{"local faults do not bring back", Limits{Retry: 0}, Unknown, "xlllo", "DDDDU"},
		{"inherited up is kept through the retries", Limits{Retry: 1}, Up, "xx", "uD"},
		{"inherited down comes back with one success", Limits{Retry: 1}, Down, "o", "U"},
		{"rise: so many successes in a row bring back", Limits{Rise: 3}, Unknown, "xoooxoxoo", "DDDUDDDDD"},
		{"rise does not count at first", Limits{Rise: 3}, Unknown, "o", "U"},
		{"rise counts after an inherited down", Limits{Rise: 2}, Down, "oo", "DU"},
		{"fall: so many failures in a row take down", Limits{Fall: 3}, Unknown, "oxxoxxx", "UUUUUUD"},
		{"fall counts at first", Limits{Fall: 2}, Unknown, "xx", "?D"},
		{"each failure of fall has its retries", Limits{Retry: 1, Fall: 2}, Up, "xxxx", "uUuD"},
		{"a success among them starts both counts anew", Limits{Retry: 1, Fall: 2}, Up, "xxxoxxx", "uUuUuUu"},
		{"local faults do not count for rise and fall", Limits{Rise: 2, Fall: 2}, Up, "xlxlolo", "UUDDDDU"},
		{"inherited down stays down", Limits{Retry: 1}, Down, "xl", "DD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := NewTracker(tt.limits, tt.inherit)
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
				t.Errorf("%+v, %s: got %s, want %s", tt.limits, tt.results, got, tt.want)
			}
		})
	}
}

// TestTrackerProperties compares the tracker with a plain account of the rules over
// the whole history of results.
func TestTrackerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := func(name string, least int) int { return rapid.IntRange(least, 4).Draw(t, name) }
		limits := Limits{Retry: few("retry", 0), Rise: few("rise", 1), Fall: few("fall", 1)}
		inherit := rapid.SampledFrom([]Verdict{Unknown, Up, Down}).Draw(t, "inherit")
		tr := NewTracker(limits, inherit)
		var history []bool // without the local faults
		for range rapid.IntRange(0, 60).Draw(t, "length") {
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
			want, streak := verdictOf(history, limits, inherit)
			if tr.Verdict() != want {
				t.Fatalf("after %v with %+v from %v: %v, want %v", history, limits, inherit, tr.Verdict(), want)
			}
			if retry := !r.OK && want != Down && streak%(limits.Retry+1) != 0; tr.Retrying() != retry {
				t.Fatalf("after %v with %+v: Retrying = %v with verdict %v", history, limits, tr.Retrying(), want)
			}
			if n, limit := tr.Changing(); n < 0 || n >= limit {
				t.Fatalf("after %v with %+v: %d of %d on the way to another verdict", history, limits, n, limit)
			}
			if tr.Inherited() && (tr.Verdict() != inherit || inherit == Unknown) {
				t.Fatalf("after %v from %v: still inherited at %v", history, inherit, tr.Verdict())
			}
		}
	})
}

// verdictOf replays the history: every run of equal results is taken as a whole.
// The streak is the length of the last run, or of its part since the verdict changed.
func verdictOf(history []bool, l Limits, inherit Verdict) (v Verdict, streak int) {
	v = inherit
	for i, ok := range history {
		if i > 0 && ok != history[i-1] {
			streak = 0
		}
		streak++
		switch {
		case ok && (v == Unknown || v == Down && streak >= l.Rise):
			v, streak = Up, 0
		case !ok && v != Down && streak >= (l.Retry+1)*l.Fall:
			v, streak = Down, 0
		}
	}
	return v, streak
}

func TestSetLimits(t *testing.T) {
	tr := NewTracker(Limits{Retry: 5}, Up)
	tr.Record(Result{})
	tr.Record(Result{})
	tr.SetLimits(Limits{Retry: 1})
	if tr.Verdict() != Up {
		t.Fatal("changing the retries changed the verdict")
	}
	if !tr.Record(Result{}) || tr.Verdict() != Down {
		t.Error("with fewer retries the next failure did not decide")
	}
	tr.SetLimits(Limits{Rise: 3})
	tr.Record(Result{OK: true})
	if n, limit := tr.Changing(); n != 1 || limit != 3 {
		t.Errorf("%d of %d on the way up, want 1 of 3", n, limit)
	}
	tr.SetLimits(Limits{Rise: 2})
	if !tr.Record(Result{OK: true}) || tr.Verdict() != Up {
		t.Error("with a lower rise the next success did not decide")
	}
}

func TestVerdictString(t *testing.T) {
	for v, want := range map[Verdict]string{Unknown: "unknown", Up: "up", Down: "down"} {
		if v.String() != want {
			t.Errorf("got %q, want %q", v, want)
		}
	}
}
