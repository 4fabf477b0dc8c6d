package firewall

import (
	"fmt"
	"strings"
)

// The names in a table.
const (
	setRefused     = "refused"
	setRefusedLink = "refused_link" // ip6 only
	mapSilent      = "silent"
	setOwner       = "owner"
	chainIn        = "in"
	chainOut       = "out"
)

// What the rules are for: their comments in the kernel.
const (
	ruleReports    = "reports of virtual-MAC links leave by the parent"
	ruleSolicit    = "no router solicitations of virtual-MAC links"
	ruleRouting    = "what routing needs"
	ruleVRRP       = "VRRP"
	ruleMembership = "multicast membership"
	ruleRefused    = "no_accept"
	ruleRefusedLL  = "no_accept, link-local"
)

// ruleNames lists the rules of a chain, in order.
func ruleNames(f Family, chain string, p Parts) []string {
	var names []string
	if chain == chainOut && p.Silencing {
		names = append(names, ruleReports)
		if f == IPv6 {
			names = append(names, ruleSolicit)
		}
	}
	if !p.Refusing {
		return names
	}
	if f == IPv6 || chain == chainOut {
		names = append(names, ruleRouting)
	}
	names = append(names, ruleVRRP)
	if f == IPv4 && chain == chainOut {
		names = append(names, ruleMembership)
	}
	names = append(names, ruleRefused)
	if f == IPv6 {
		names = append(names, ruleRefusedLL)
	}
	return names
}

// chainNames lists the chains of a table.
func chainNames(p Parts) []string {
	if p.Refusing {
		return []string{chainIn, chainOut}
	}
	return []string{chainOut}
}

// Form writes down what chains and rules a table has. Two tables of the same form differ in elements only.
func Form(f Family, o Options, p Parts) string {
	var chains []string
	for _, c := range chainNames(p) {
		chains = append(chains, chainForm(c, o.Priority, ruleNames(f, c, p), o.Counters))
	}
	return strings.Join(chains, "; ")
}

func chainForm(chain string, priority int32, rules []string, counters bool) string {
	s := fmt.Sprintf("%s %d: %s", chain, priority, strings.Join(rules, " | "))
	if counters && len(rules) > 0 {
		s += " | counted"
	}
	return s
}
