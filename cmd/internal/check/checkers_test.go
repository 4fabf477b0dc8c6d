package check

import (
	"strings"
	"testing"

	"vipd/conf"
)

// TestCheckers: programs of MISC_CHECK that cannot run are named, each once.
func TestCheckers(t *testing.T) {
	cfg := withChecks(conf.Check{Argv: []string{"/bin/true"}}, conf.Check{Argv: []string{"/no/such"}}, conf.Check{Argv: []string{"/no/such"}}, conf.Check{})
	got := checkers(cfg)
	if len(got) != 1 || !strings.HasPrefix(got[0], "virtual_server web: MISC_CHECK: it cannot be run: ") || !strings.Contains(got[0], "/no/such") {
		t.Errorf("%q", got)
	}
}
