// Command vrrp measures vipd and the installed keepalived in one run, on one
// machine, by the same instruments, and compares them: take-overs, the jitter
// of adverts, what many instances cost, a thousand addresses. It prints a table
// and PASS or MISS for each target, and can write the same as a page.
//
//	make bench-vrrp
//	go run ./test/bench/vrrp -only jitter
//
// Times are taken from packets with the kernel's time stamps, costs from the
// kernel's accounts of the processes. Measurements of the two daemons alternate
// or run side by side, so that whatever else the machine does meets both.
package main

import "vipd/test/bench"

func main() {
	p := bench.Program{
		Name:  "vrrp",
		Title: "vipd and keepalived, measured side by side",
		About: "This page was written by `make bench-vrrp`: both daemons in one run, on one machine, by the same instruments.\n" +
			"Times are taken from packets with the kernel's time stamps, in network namespaces joined by a learning bridge; costs\n" +
			"are the kernel's accounts of all threads and processes of a daemon.",
		Sections: []bench.Section{
			{Name: "takeover", Run: takeovers},
			{Name: "jitter", Run: jitter},
			{Name: "load", Run: load},
			{Name: "thousand", Run: thousand},
		},
	}
	p.Main()
}
