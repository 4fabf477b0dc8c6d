package lab

import (
	"fmt"
	"slices"
	"strings"
)

// what ip prints of the node's routes, rules and addresses.
func pathCommands() []string {
	return []string{"-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "-br address"}
}

// Paths returns all routes of tables other than local and all rules of the node, as ip
// prints them, and its addresses.
func (n *Node) Paths() string {
	n.lab.t.Helper()
	return n.paths(pathCommands())
}

func (n *Node) paths(commands []string) string {
	n.lab.t.Helper()
	var b strings.Builder
	for _, line := range commands {
		var lines []string
		for l := range strings.Lines(n.IP(line)) {
			if words := strings.Fields(l); len(words) > 0 && !strings.Contains(l, "table local") && !strings.HasPrefix(l, "multicast") {
				lines = append(lines, strings.Join(words, " ")+"\n")
			}
		}
		slices.Sort(lines) // the kernel's order changes with the links
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

// HasPath reports whether just one line of Paths begins with the words and has all
// others.
func (n *Node) HasPath(begin string, others ...string) bool {
	n.lab.t.Helper()
	return n.CountPath(begin, others...) == 1
}

// CountPath counts such lines.
func (n *Node) CountPath(begin string, others ...string) int {
	n.lab.t.Helper()
	commands := pathCommands()[:2]
	if strings.HasSuffix(begin, ":") {
		commands = pathCommands()[2:4]
	}
	count := 0
	for l := range strings.Lines(n.paths(commands)) {
		l = strings.TrimSpace(l) + " "
		ok := strings.HasPrefix(l, begin+" ")
		for _, o := range others {
			ok = ok && strings.Contains(l, " "+o+" ")
		}
		if ok {
			count++
		}
	}
	return count
}

// MonitorPaths starts ip monitor for routes, rules and addresses and waits until it
// listens; Log of the process has what it prints.
func (n *Node) MonitorPaths() *Process {
	n.lab.t.Helper()
	p := n.Start("ip monitor", "stdbuf", "-oL", "ip", "-o", "monitor", "label", "route", "rule", "address")
	for i := 0; !strings.Contains(p.Log(), "192.0.2.123"); i++ {
		if i > 100 {
			n.lab.t.Fatalf("lab: %s: ip monitor prints nothing: %s", n.Name, p.Log())
		}
		_, _ = n.Try("sh", "-c", fmt.Sprintf("ip route add blackhole 192.0.2.123 table %d; ip route del blackhole 192.0.2.123 table %d; sleep 0.02", 4000+i, 4000+i))
	}
	return p
}
