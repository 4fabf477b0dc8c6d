package check

import (
	"strings"
	"testing"
)

// TestProcessors: one that is there is enough, as the kernel sees it.
func TestProcessors(t *testing.T) {
	for _, wanted := range [][]int{nil, {0}, {0, 1022}} {
		if got := processors(wanted); len(got) > 0 {
			t.Errorf("%v: %q", wanted, got)
		}
	}
	if got := processors([]int{1021, 1022}); len(got) != 1 || !strings.Contains(got[0], "none of the processors [1021 1022]") {
		t.Errorf("got %q", got)
	}
}
