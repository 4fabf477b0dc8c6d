package lab

import (
	"fmt"
	"strings"
)

// Matches for Drop, in nft's words for the bridge family.
const (
	AllTraffic = ""
	VRRP4      = "ip protocol 112"
	VRRP6      = "ip6 nexthdr 112"
	AnyARP     = "ether type arp"
)

// Drop is a rule at the switch that loses frames one way.
type Drop struct {
	lab   *Lab
	table string
	over  bool
}

// Drop makes the switch lose what goes from one node to another on the front
// LAN and matches. A nil node is any node. The bridge family of nftables does
// it, which also the user-mode kernel has.
func (l *Lab) Drop(from, to *Node, match string) *Drop {
	l.t.Helper()
	l.drops++ // each rule has a table of its own
	d := &Drop{lab: l, table: fmt.Sprintf("lab%d", l.drops)}
	var ports []string
	if from != nil {
		ports = append(ports, fmt.Sprintf("iifname %q", from.port(0)))
	}
	if to != nil {
		ports = append(ports, fmt.Sprintf("oifname %q", to.port(0)))
	}
	l.sw.nft(fmt.Sprintf("table bridge %s {\n chain lose {\n  type filter hook forward priority 0;\n  %s %s counter drop\n }\n}\n",
		d.table, strings.Join(ports, " "), match))
	return d
}

// End ends the loss.
func (d *Drop) End() {
	d.lab.t.Helper()
	if !d.over {
		d.over = true
		d.lab.sw.nft("delete table bridge " + d.table + "\n")
	}
}

// Nft loads a ruleset in the node's own namespace, in any family that the
// kernel has (the user-mode kernel has bridge alone).
func (n *Node) Nft(rules string) {
	n.lab.t.Helper()
	n.nft(rules)
}

func (n *Node) nft(rules string) {
	n.lab.t.Helper()
	n.Exec("nft", rules)
}
