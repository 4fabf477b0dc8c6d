package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// failoverCases are the lines of docs/failover.md.
func failoverCases() (all []failoverCase) {
	for _, daemon := range []string{"vipd", "keepalived"} {
		all = append(all, failoverCase{daemon: daemon, check: "TCP_CHECK", sched: "wlc", loop: time.Second, limit: time.Second})
	}
	for _, silent := range []bool{false, true} {
		for _, check := range []string{"TCP_CHECK", "HTTP_GET"} {
			for _, daemon := range []string{"vipd", "keepalived"} {
				all = append(all, failoverCase{daemon: daemon, check: check, silent: silent, loop: time.Second, limit: time.Second})
			}
			if !silent && check == "TCP_CHECK" {
				all = append(all, failoverCase{daemon: "keepalived", check: check, loop: time.Second, limit: time.Second, more: "retry = 0"})
			}
			quick := failoverCase{daemon: "vipd", check: check, silent: silent, loop: 100 * time.Millisecond, limit: 300 * time.Millisecond}
			all = append(all, quick)
			if silent && check == "TCP_CHECK" {
				quick.nodest = true
				all = append(all, quick)
			}
		}
	}
	return all
}

// failoverTrials is how often each line is measured: VIPD_TRIALS, or 5.
func failoverTrials(t *testing.T) int {
	t.Helper()
	n := 5
	if v := os.Getenv("VIPD_TRIALS"); v != "" {
		if _, err := fmt.Sscan(v, &n); err != nil || n < 1 || n > 100 {
			t.Fatalf("VIPD_TRIALS=%q: want a number from 1 to 100", v)
		}
	}
	return n
}

// measureFailover measures all cases, judges them and writes the page.
func measureFailover(t *testing.T, page string) {
	began, trials := time.Now(), failoverTrials(t)
	var b strings.Builder
	missed := 0
	for _, c := range failoverCases() {
		var all []outcome
		t.Run(c.name(), func(t *testing.T) { // in a site of its own: the kernel remembers connections
			f := newFailover(t)
			f.rate, f.tail = failoverRate, 3*time.Second
			all = f.measure(t, c, trials)
		})
		if len(all) < trials {
			t.Fatal("no figures, no page")
		}
		verdict := c.verdict(all)
		if strings.HasPrefix(verdict, "MISS") {
			missed++
			t.Errorf("%s: %s", c.name(), verdict)
		}
		b.WriteString(c.row(all, verdict))
	}
	if err := os.WriteFile(page, []byte(failoverHead(began, trials, missed)+b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// figures are the median and the worst of some trials.
func figures[T int | time.Duration](all []outcome, of func(outcome) T) (median, worst T) {
	var list []T
	for _, o := range all {
		list = append(list, of(o))
	}
	slices.Sort(list)
	return list[len(list)/2], list[len(list)-1]
}

// verdict judges a case of vipd by its target.
func (c failoverCase) verdict(all []outcome) string {
	if c.daemon != "vipd" {
		return ""
	}
	last, _ := figures(all, func(o outcome) time.Duration { return o.last })
	first, _ := figures(all, func(o outcome) time.Duration { return o.first })
	_, astray := figures(all, func(o outcome) int { return o.astray })
	switch {
	case slices.ContainsFunc(all, func(o outcome) bool { return o.rate < failoverRate*9/10 }):
		return "MISS: the machine was too slow for the load"
	case astray > 0:
		return fmt.Sprintf("MISS: %d requests failed while no server was dead", astray)
	case first < 0 || first > c.back():
		return fmt.Sprintf("MISS: back later than %v", c.back())
	case last > c.within():
		return fmt.Sprintf("MISS: failures for longer than %v", c.within())
	}
	return fmt.Sprintf("PASS: ≤ %v, back ≤ %v", c.within(), c.back())
}

// within is the target for the last request that fails. A second for all that is not settled by time-outs of a second.
func (c failoverCase) within() time.Duration {
	if c.silent && c.loop == time.Second {
		return c.loop + 2*c.limit + time.Second // the check, its time-out, the retry and its own
	}
	return time.Second
}

// back is the target for the first answer after the return. A check that began while nobody answered runs to its time-out.
func (c failoverCase) back() time.Duration {
	if c.silent {
		return max(time.Second, c.loop+c.limit)
	}
	return time.Second
}

// row is the line of a case.
func (c failoverCase) row(all []outcome, verdict string) string {
	span := func(of func(outcome) time.Duration) string {
		median, worst := figures(all, of)
		text := func(d time.Duration) string {
			if d < 0 {
				return "–"
			}
			return fmt.Sprintf("%.2f", d.Seconds())
		}
		return text(median) + " (" + text(worst) + ")"
	}
	count := func(of func(outcome) int) string {
		median, worst := figures(all, of)
		return fmt.Sprintf("%d (%d)", median, worst)
	}
	settings := fmt.Sprintf("%s, %v, %v", c.scheduler(), c.loop.Seconds(), c.limit.Seconds())
	if c.more != "" {
		settings += ", " + c.more
	}
	if c.nodest {
		settings += ", expire_nodest_conn = 1"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.death(), c.check, c.daemon, settings,
		span(func(o outcome) time.Duration { return o.out }), count(func(o outcome) int { return o.failed }),
		span(func(o outcome) time.Duration { return o.last }), count(func(o outcome) int { return o.late }),
		span(func(o outcome) time.Duration { return o.first }), span(func(o outcome) time.Duration { return o.even }), verdict)
}

// failoverHead is what stands above the table.
func failoverHead(began time.Time, trials, missed int) string {
	var u unix.Utsname
	_ = unix.Uname(&u) // never fails
	return fmt.Sprintf(`# A server dies under load

Made by `+"`test/acceptance/failover-http.sh`"+`; do not edit. %s, in %v, in the user-mode kernel (Linux %s, one processor,
%s, ahead of which it runs by SCHED_RR 1); %s; %s. Targets missed: %d.

Three real servers (LVS-DR) behind one director, a client in the same network that makes %d HTTP requests a second,
each on a connection of its own, from a port not used before, evenly, whatever becomes of the others. One server dies at any moment between two checks,
and comes back a second or two after it was taken out of the table. %d trials a line; times in seconds from the death or the
return, **median (worst)**.

- **killed**: SIGKILL of its process: new connections are refused, open ones are reset. **silent**: its packets are
  dropped, as of a machine that hangs; a request then fails after the client's %v.
- **settings**: lvs_sched, delay_loop, connect_timeout; everything else is as it is without being set.
- **out**: until it was out of the kernel's table. **failed**: requests without a whole reply of status 200.
  **last**: until the last of these began. **late**: answered, but after more than %v (a SYN that was lost is sent again
  after 1 s).
- **first**: until it answered a request again. **even**: until the requests of the next second were shared out to thirds
  within 10 %%; –: not within 3 s. wlc counts what was open when the server died as open for 15 minutes, and spares it.

| the server is | check | daemon | settings | out | failed | last | late | first | even | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`, began.UTC().Format("2 January 2006, 15:04 UTC"), time.Since(began).Round(time.Second), unix.ByteSliceToString(u.Release[:]), hostLoad(),
		firstLine("keepalived", "--version"), firstLine(os.Getenv("VIPD_BIN"), "version")+" ("+runtime.Version()+")", missed,
		failoverRate, trials, failoverWait, lateAfter)
}

// hostLoad says how busy the machine was, as the script has it.
func hostLoad() string { return "load of the machine before it " + os.Getenv("VIPD_LOAD") }

func firstLine(argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return argv[0] + " of unknown version"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// TestEvenly: the judgement of shares.
func TestEvenly(t *testing.T) {
	list := func(a, b, c int) (all []lab.Attempt) {
		for name, n := range map[string]int{"r1": a, "r2": b, "r3": c} {
			for range n {
				all = append(all, lab.Attempt{Server: name})
			}
		}
		return all
	}
	if !evenly(list(160, 170, 170)) || evenly(list(200, 100, 200)) || evenly(list(250, 0, 250)) || evenly(nil) {
		t.Error("shares are judged wrongly")
	}
}
