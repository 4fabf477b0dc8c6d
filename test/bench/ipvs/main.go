// Command ipvs measures the balancing half of vipd and of the installed keepalived
// in one run, by the same instruments, and compares them: the start of a large
// table, a reload with one change, what checks cost, the memory of many servers,
// and how evenly checks begin while half of the servers hang. It prints a table and
// PASS or MISS for each target, and can write the same as a page.
//
//	make bench-ipvs
//	go run ./test/bench/ipvs -only checks
//
// What needs IPVS runs in the user-mode kernel where this machine has none.
package main

import "vipd/test/bench"

func main() {
	p := bench.Program{
		Name:  "ipvs",
		Title: "Balancing with vipd and keepalived, measured side by side",
		About: "This page was written by `make bench-ipvs`: both daemons in one run, on one machine, by the same instruments, in turn.\n" +
			"What needs IPVS runs in the user-mode kernel (test/uml) where the machine's kernel has none: one processor, on which a\n" +
			"system call takes some 50 times as long as elsewhere, reading the clock included. keepalived's checker ends on a kernel\n" +
			"without IPVS: what was measured on the machine itself has no figure for it.",
		Modules: []string{"nlmon", "ip_vs_wrr"},
		Sections: []bench.Section{
			{Name: "hanging", Run: hanging},
			{Name: "calls", Run: calls},
			{Name: "checks", Run: checks, IPVS: true},
			{Name: "table", Run: table, IPVS: true},
		},
	}
	p.Main()
}
