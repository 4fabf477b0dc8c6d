package interop

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// document is docs/interop.md.
func document(bin string, all map[site]*result, began time.Time, room time.Duration) string {
	var b strings.Builder
	head(&b, bin, all, began, room)
	for _, n := range []int{2, 3} {
		fmt.Fprintf(&b, "\n## %s\n", map[int]string{2: "Pairs", 3: "Triples"}[n])
		for _, form := range []string{"v2 IPv4", "v2 IPv4 PASS", "v3 IPv4", "v3 IPv6"} {
			table(&b, all, n, form)
		}
	}
	reasons(&b, all)
	logged(&b, all)
	again(&b, all)
	return b.String()
}

func head(b *strings.Builder, bin string, all map[site]*result, began time.Time, room time.Duration) {
	cells, bad, ours := 0, 0, 0
	for s, res := range all {
		for i, row := range res.rows {
			for k, c := range row {
				if s.alone() {
					continue
				}
				cells++
				if len(c.faults) > 0 {
					bad++
				}
				if slices.ContainsFunc(c.faults, func(f fault) bool { return res.verdict(all, i, k, f) == "" }) {
					ours++
				}
			}
		}
	}
	var name unix.Utsname
	_ = unix.Uname(&name) // never fails
	kernel := unix.ByteSliceToString(name.Release[:])
	kernel, _, _ = strings.Cut(kernel, "-")
	fmt.Fprintf(b, `# vipd beside keepalived: what was seen

Made by `+"`test/acceptance/interop.sh`"+`; do not edit. %s, in %v, on Linux %s with %d shared cores; %s; %s.

Directors of one network, some with vipd, some with Debian's keepalived, go through a list of events. All figures come
from outside the daemons: the kernels' addresses, the adverts as they leave each director, a client that pings every
address %d to %d times a second and whose neighbour table only announcements can change, and the logs. All of it runs with real-time priority (SCHED_RR 1), so that other jobs of the machine matter less.
`, began.UTC().Format("2 January 2006"), time.Since(began).Round(time.Second), kernel, runtime.NumCPU(), version("keepalived", "--version"), version(bin, "version"),
		int(time.Second/site{version: 2}.pingEvery()), int(time.Second/site{version: 3}.pingEvery()))
	fmt.Fprintf(b, `
**%d cells with both daemons: %d are not as the protocol has it, of which %d are not explained by keepalived.**

## How to read it

A is the best director (priority %d), B the next (%d), C the last (%d). The column "directors" names their daemons in
this order. Rows in italics are keepalived alone, for comparison. Each cell is one event as one virtual router saw it,
`+"`outage/two/late`"+`, in ms:

- **outage**: the longest time without a reply for the client. Whoever is cut off, or loses its link, is missed for
  one down time: 3 adverts and a skew. A crash of the daemon alone costs no reply, as its kernel goes on answering.
- **two**: for how long two directors had the address, not counting one that is cut off or whose daemon is dead: those
  cannot know of the other.
- **late**: the new master's first advert against its time by RFC 3768 or RFC 9568: a skew time after the resignation
  (priority 0) of the old one, a down time after its last advert. Where the master does not change: the longest time
  without an advert, more than the interval. Members of a sync group are due with the last of them.

`+"`·`"+` is no reply lost, and the others below 10 ms. A cell is marked with **✗** when the wrong director has the address at
its end, when the new master is early, or when it is off by more than %v: outage from its time, two owners from none
(an interval after a cut ended, 500 ms after a crash, whose addresses the new daemon must find first).

| event | is |
| --- | --- |
| cut, heal | the switch drops all frames of A, which keeps its carrier; and forwards them again |
| link down, link up | the first interface loses its carrier, and gets it back |
| stop, start | SIGTERM; a start |
| kill | SIGKILL of the process that was started. keepalived's child then says good-bye and ends; vipd has no other process |
| kill all | SIGKILL of all its processes at once |
| restart | a start after that, with what the dead one left in the kernel |
| reload | SIGHUP, with one more address in virtual_ipaddress_excluded |
| reload +VIP | SIGHUP, with one more address in virtual_ipaddress: the worse directors first. The other lists differ until the last has it |

`, cells, bad, ours, priority(0), priority(1), priority(2), room)
	b.WriteString(`In each site four virtual routers run at once: two forms, with preempt and nopreempt. Version 2 has an interval of 1 s,
version 3 of 0.2 s. "group": two sync groups, each over two networks, of which link down takes one. "VMAC": use_vmac;
"VMAC, base": with vmac_xmit_base, without which unicast cannot have it. PASS exists for version 2 and IPv4 alone, and
version 2 for IPv4 alone. auth_hmac is not here: keepalived has it from 2.4.2; it is tested on frames of 2.4.3 in
` + "`test/acceptance/vectors.sh`.\n")
}

// version is the first line that a program prints about itself.
func version(argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return filepath.Base(argv[0]) + " of unknown version"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// table has the rows of one form: pairs or triples.
func table(b *strings.Builder, all map[site]*result, n int, form string) {
	var lines []string
	header := ""
	for _, s := range sorted(all) {
		res := all[s]
		if len(s.order) != n {
			continue
		}
		for i, r := range s.rows() {
			if r.form != form {
				continue
			}
			if header == "" {
				header = heading(s)
			}
			lines = append(lines, tableRow(s, r, res, i))
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.SortStableFunc(lines, func(x, y string) int { return strings.Compare(rank(x), rank(y)) })
	fmt.Fprintf(b, "\n### %s\n\n%s%s", form, header, strings.Join(lines, ""))
}

// rank keeps rows that differ in their daemons alone together.
func rank(line string) string {
	f := strings.Split(line, "|")
	return strings.Join(f[1:5], "|")
}

func heading(s site) string {
	cols := []string{"transport", "VMAC", "group", "preemption", "directors"}
	for _, e := range s.events() {
		cols = append(cols, e.label())
	}
	return "| " + strings.Join(cols, " | ") + " |\n" + strings.Repeat("| --- ", len(cols)) + "|\n"
}

func tableRow(s site, r row, res *result, i int) string {
	vmac, group := "", ""
	if s.vmac != "" {
		vmac = strings.Replace(s.vmac, "vmac", "VMAC", 1)
	}
	if s.group {
		group = "group"
	}
	cols := []string{s.transport(), vmac, group, r.preemption(), s.directors()}
	if res.record == nil {
		cols = append(cols, "not measured: "+res.fail)
	} else {
		for _, c := range res.rows[i] {
			cols = append(cols, c.String())
		}
	}
	return "| " + strings.Join(cols, " | ") + " |\n"
}

// directors names the daemons, the best first.
func (s site) directors() string {
	if s.alone() {
		return "*keepalived*"
	}
	var names []string
	for _, d := range s.order {
		names = append(names, map[rune]string{'v': "vipd", 'k': "keepalived"}[d])
	}
	return strings.Join(names, ", ")
}

// sorted are the sites in the order of the list of all.
func sorted(m map[site]*result) []site {
	return slices.DeleteFunc(all(), func(s site) bool { return m[s] == nil })
}

// reasons lists the marked cells of mixed rows, those with the same reason together.
func reasons(b *strings.Builder, all map[site]*result) {
	type entry struct{ event, kind, why string }
	cells := map[entry][]string{}
	for _, s := range sorted(all) {
		res := all[s]
		if s.alone() {
			continue
		}
		for i, row := range res.rows {
			for k, c := range row {
				for _, f := range c.faults {
					e := entry{res.spans[k].label(), f.kind, res.verdict(all, i, k, f)}
					if strings.HasPrefix(e.why, "keepalived alone") {
						e.why = "keepalived alone shows the same."
					}
					r := s.rows()[i]
					cells[e] = append(cells[e], fmt.Sprintf("%s, %s, %s: %s", r.form, r.preemption(), s.name()[3:], f.text))
				}
			}
		}
	}
	b.WriteString("\n## Marked cells of rows with both daemons\n\n")
	if len(cells) == 0 {
		b.WriteString("None.\n")
	}
	keys := slices.SortedFunc(maps.Keys(cells), func(x, y entry) int {
		return strings.Compare(x.why+x.event+x.kind, y.why+y.event+y.kind)
	})
	for _, e := range keys {
		why := e.why
		if why == "" {
			why = "**Not explained.**"
		}
		fmt.Fprintf(b, "- **%s, %s** (%d). %s\n", e.event, e.kind, len(cells[e]), why)
		if e.why == "" || len(cells[e]) < 4 {
			for _, c := range cells[e] {
				fmt.Fprintf(b, "  - %s\n", c)
			}
		}
	}
}

// logged lists the lines that nobody should have logged.
func logged(b *strings.Builder, all map[site]*result) {
	b.WriteString("\n## Complaints in the logs\n\nLines of keepalived that are not of its usual course, warnings and errors of vipd that the event does not call for.\n\n")
	none := true
	for _, s := range sorted(all) {
		if all[s].record == nil {
			continue
		}
		seen := map[string]int{}
		for _, sp := range all[s].spans {
			for _, l := range sp.lines {
				seen[sp.label()+": "+l.daemon()+" logs `"+l.plain()+"`"]++
			}
		}
		for _, text := range slices.Sorted(maps.Keys(seen)) {
			none = false
			fmt.Fprintf(b, "- %s, %s (%d)\n", s.name(), text, seen[text])
		}
	}
	if none {
		b.WriteString("None.\n")
	}
}

// again lists what was seen in one run of a site and not in the next.
func again(b *strings.Builder, all map[site]*result) {
	fmt.Fprintf(b, "\n## Seen once\n\nA site with both daemons in which something is wrong is run up to %d times; the table shows the run with the fewest marks.\nWhat was seen in another one:\n\n", attempts)
	none := true
	for _, s := range sorted(all) {
		for _, text := range all[s].once {
			none = false
			fmt.Fprintf(b, "- %s\n", text)
		}
	}
	if none {
		b.WriteString("Nothing.\n")
	}
}
