package check

import (
	"fmt"
	"strings"

	"vipd/cmd/internal/script"
	"vipd/conf"
)

// checkers looks at the programs of MISC_CHECK, each once.
func checkers(cfg *conf.Config) []string {
	var out []string
	seen := map[string]bool{}
	eachCheck(cfg, func(service string, c *conf.Check) {
		key := strings.Join(append([]string{c.User.String()}, c.Argv...), "\x00")
		if len(c.Argv) == 0 || seen[key] {
			return
		}
		seen[key] = true
		if err := script.Check(cfg.Global, c.Argv, c.User); err != nil {
			out = append(out, fmt.Sprintf("virtual_server %s: MISC_CHECK: %v; until then it decides nothing, and an alarm says so", service, err))
		}
	})
	return out
}
