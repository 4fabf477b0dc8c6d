package filecheck_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vipd/healthcheck"
	"vipd/healthcheck/filecheck"
)

// reads is a file with this content.
func reads(c filecheck.Content) func() filecheck.Content {
	return func() filecheck.Content { return c }
}

func check(t interface{ Fatal(...any) }, cfg filecheck.Config) healthcheck.Result {
	c, err := filecheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Check(context.Background())
}

func TestResults(t *testing.T) {
	says := func(n int) func() filecheck.Content { return reads(filecheck.Content{Value: n, Known: true}) }
	for _, tt := range []struct {
		name   string
		cfg    filecheck.Config
		ok     bool
		weight int
		detail string
	}{
		{"0 is good", filecheck.Config{Read: says(0)}, true, 0, "track file f says 0"},
		{"all else is bad", filecheck.Config{Read: says(1), Weight: 5}, false, 0, "says 1"},
		{"negative, too", filecheck.Config{Read: says(-1)}, false, 0, "says -1"},
		{"dynamic without a weight", filecheck.Config{Read: says(1), Dynamic: true}, false, 0, "says 1"},
		{"dynamic", filecheck.Config{Read: says(3), Dynamic: true, Weight: 2}, true, 6, "says 3, weight +6"},
		{"dynamic, negative", filecheck.Config{Read: says(3), Dynamic: true, Weight: -2}, true, -6, "weight -6"},
		{"reverse", filecheck.Config{Read: says(3), Dynamic: true, Weight: 2, Reverse: true}, true, -6, "weight -6"},
		{"bounded", filecheck.Config{Read: says(math.MaxInt32), Dynamic: true, Weight: math.MinInt32}, true, -2147483647, "weight -2147483647"},
		{"a problem is told", filecheck.Config{Read: reads(filecheck.Content{Known: true, Problem: "it\ndoes not exist"})}, true, 0, "says 0 (it.does not exist)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.File = "f"
			r := check(t, tt.cfg)
			if r.OK != tt.ok || r.LocalFault || r.Weighting != (healthcheck.Weighting{N: tt.weight}) || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("%+v, want OK %v, %+d, %q", r, tt.ok, tt.weight, tt.detail)
			}
		})
	}
}

// TestUnknown: before the first look nothing is known, and that is not the server's fault.
func TestUnknown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	never, err := filecheck.New(filecheck.Config{File: "f", Read: reads(filecheck.Content{})})
	if err != nil {
		t.Fatal(err)
	}
	if r := never.Check(ctx); r.OK || !r.LocalFault {
		t.Errorf("%+v", r)
	}
	looks := 0
	later := func() filecheck.Content { looks++; return filecheck.Content{Known: looks > 2} }
	if r := check(t, filecheck.Config{File: "f", Read: later}); !r.OK || looks != 3 {
		t.Errorf("%+v after %d looks", r, looks)
	}
	cancel()
	c, err := filecheck.New(filecheck.Config{File: "f", Read: reads(filecheck.Content{Known: true})})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Check(ctx); r.OK {
		t.Errorf("passed although its context had ended: %+v", r)
	}
	for _, cfg := range []filecheck.Config{{File: "f"}, {Read: reads(filecheck.Content{})}} {
		if _, err := filecheck.New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []filecheck.Config{
		{File: "a"}, {File: "b"}, {File: "a", Dynamic: true, Weight: 1}, {File: "a", Dynamic: true, Weight: 2},
		{File: "a", Dynamic: true, Weight: 1, Reverse: true},
	} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
	if (filecheck.Config{File: "a", Weight: 3}).Key() != (filecheck.Config{File: "a"}).Key() {
		t.Error("a weight that is not used makes another check")
	}
}

// TestDynamicNeverFails: with a weight the value only moves it, never beyond the bounds.
func TestDynamicNeverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, weight := rapid.Int32().Draw(t, "value"), rapid.Int32().Filter(func(n int32) bool { return n != 0 }).Draw(t, "weight")
		cfg := filecheck.Config{File: "f", Dynamic: true, Weight: int(weight), Read: reads(filecheck.Content{Value: int(value), Known: true})}
		r := check(t, cfg)
		if n := r.Weighting.N; !r.OK || n > healthcheck.MaxWeight || n < -healthcheck.MaxWeight || (n > 0) != (int64(value)*int64(weight) > 0) {
			t.Fatalf("%+v", r)
		}
	})
}
