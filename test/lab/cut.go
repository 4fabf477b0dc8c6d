package lab

import (
	"fmt"
	"strings"
)

// Path is a direction of traffic between two nodes on the front LAN. A nil node
// is any node.
type Path struct{ From, To *Node }

// Cut makes the switch lose what takes one of the paths and is one of the
// matches, in one step; so does End. Drop is the same for one path and one match.
func (l *Lab) Cut(paths []Path, matches ...string) *Drop {
	l.t.Helper()
	l.drops++
	d := &Drop{lab: l, table: fmt.Sprintf("lab%d", l.drops)}
	var rules strings.Builder
	for _, p := range paths {
		ports := ""
		if p.From != nil {
			ports += fmt.Sprintf("iifname %q ", p.From.port(0))
		}
		if p.To != nil {
			ports += fmt.Sprintf("oifname %q ", p.To.port(0))
		}
		for _, m := range matches {
			fmt.Fprintf(&rules, "  %s%s counter drop\n", ports, m)
		}
	}
	l.sw.nft(fmt.Sprintf("table bridge %s {\n chain lose {\n  type filter hook forward priority 0;\n%s }\n}\n", d.table, rules.String()))
	return d
}

// Both are the paths from a to b and back.
func Both(a, b *Node) []Path { return []Path{{a, b}, {b, a}} }
