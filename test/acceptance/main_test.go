// Package acceptance holds the measurements that docs/acceptance.md lists, one
// script each. Run by `go test` they are short and their bounds are generous;
// the scripts make as many trials as the claim names and print the figures.
package acceptance

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"vipd/test/lab"
)

func TestMain(m *testing.M) {
	lab.InParallel(8)
	lab.MainHost(m)
}

// trials is how often a measurement is repeated: VIPD_TRIALS, or few.
func trials(t *testing.T, few int) int {
	t.Helper()
	v := os.Getenv("VIPD_TRIALS")
	if v == "" {
		return few
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1000 {
		t.Fatalf("VIPD_TRIALS=%q: want a number from 1 to 1000", v)
	}
	return n
}

// exact says that the figures are judged by the claim itself and not by bounds
// that leave room for a loaded machine (VIPD_EXACT=1).
func exact() bool { return os.Getenv("VIPD_EXACT") == "1" }

// bound is the claimed limit where figures are judged exactly, a loose one elsewhere.
func bound(claim, loose time.Duration) time.Duration {
	if exact() {
		return claim
	}
	return loose
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

// containsAddress looks for an address in the text of `ip monitor`.
func containsAddress(text string, a netip.Addr) bool {
	return regexp.MustCompile(`(^|[^0-9.:a-f])` + regexp.QuoteMeta(a.String()) + `($|[^0-9.:a-f])`).MatchString(text)
}
