package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	checksTrials = 2
	// settle is for the warm-up to pass and the first results to come.
	settle = 6 * time.Second
	// checksTime is for how long costs are counted.
	checksTime = 10 * time.Second
	traceTime  = 6 * time.Second
)

// thousand is what is checked: 1,000 servers, every 2 s.
func thousand() farm {
	return farm{services: 50, servers: 20, delay: 2 * time.Second, timeout: time.Second}
}

// checks measures what TCP checks cost in the user-mode kernel.
func checks(st *lab.Stage, r *bench.Report) {
	t := r.Table("1,000 TCP checks every 2 s, in the user-mode kernel", fmt.Sprintf(
		"%d times each daemon in turn, for %v after %v: the median. CPU: of the only processor, user and kernel, by the kernel's accounts, whose unit is a "+
			"hundredth of a second. System calls: of %v, counted by strace, for each connection made. Reading the clock is a system call in the user-mode kernel, "+
			"and none on a real one.", checksTrials, checksTime, settle, traceTime))
	cpu, wakeups := map[string][]float64{}, map[string][]float64{}
	traced := map[string]counts{}
	for trial := range checksTrials {
		for _, d := range bench.Daemons {
			s := newSite(st)
			p := s.start(d, thousand())
			s.full(thousand())
			time.Sleep(settle)
			before := p.Usage()
			time.Sleep(checksTime)
			c, w := p.Usage().Since(before)
			cpu[d], wakeups[d] = append(cpu[d], c), append(wakeups[d], w)
			if trial == 0 {
				traced[d] = s.trace(p)
			}
			p.Stop(30 * time.Second)
			st.Close()
		}
	}
	v, k := median(cpu[bench.Vipd]), median(cpu[bench.Keepalived])
	t.Add("CPU", percent(v), percent(k)).Want("≤ 2 × keepalived's", v <= 2*k)
	t.Add("wake-ups a second", fmt.Sprintf("%.0f", median(wakeups[bench.Vipd])), fmt.Sprintf("%.0f", median(wakeups[bench.Keepalived])))
	a, b := traced[bench.Vipd], traced[bench.Keepalived]
	t.Add("system calls a check, clock apart", a.each(clock), b.each(clock)).Want("≤ keepalived's", a.perCheck(clock) <= b.perCheck(clock))
	t.Add("readings of the clock a check", fmt.Sprintf("%.1f", a.of(clock)), fmt.Sprintf("%.1f", b.of(clock)))
}

// calls counts the system calls of vipd on the machine itself.
func calls(st *lab.Stage, r *bench.Report) {
	t := r.Table("1,000 TCP checks every 2 s, on this machine", fmt.Sprintf(
		"System calls of %v, counted by strace, for each connection made; CPU of one processor for %v before that, user and kernel.", traceTime, checksTime))
	s := newSite(st)
	p := s.start(bench.Vipd, thousand())
	time.Sleep(settle)
	before := p.Usage()
	time.Sleep(checksTime)
	cpu, wakeups := p.Usage().Since(before)
	c := s.trace(p)
	t.Add("system calls a check", c.each(clock), "–")
	t.Add("CPU", percent(cpu), "–")
	t.Add("wake-ups a second", fmt.Sprintf("%.0f", wakeups), "–")
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", v) }

func median(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }

// clock is the system call that only the user-mode kernel has to make.
const clock = "clock_gettime"

// counts are system calls by name.
type counts map[string]int

// trace counts the system calls of a daemon.
func (s *site) trace(p *subject) counts {
	file := filepath.Join(s.Dir(), "strace")
	argv := []string{"timeout", "-s", "INT", fmt.Sprintf("%.0f", traceTime.Seconds()), "strace", "-f", "-c", "-o", file}
	for _, pid := range append([]int{p.Pid()}, p.Children()...) {
		argv = append(argv, "-p", strconv.Itoa(pid))
	}
	// It ends by a signal, so its status tells nothing.
	text := s.d1.Sh(strings.Join(argv, " ") + " 2>/dev/null || true; cat " + file)
	c := counts{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 || f[len(f)-1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			c[f[len(f)-1]] += n
		}
	}
	if c["connect"] == 0 {
		s.st.Fatalf("strace saw no check; it printed:\n%s", text)
	}
	return c
}

// of is how often a call was made for each check.
func (c counts) of(name string) float64 { return float64(c[name]) / float64(c["connect"]) }

// perCheck is how many calls were made for each check, but for one kind.
func (c counts) perCheck(except string) (n float64) {
	for name := range c {
		if name != except {
			n += c.of(name)
		}
	}
	return n
}

// each shows perCheck, and the most frequent calls.
func (c counts) each(except string) string {
	var names []string
	for name := range c {
		if name != except && c.of(name) >= 0.05 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := c[b] - c[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.1f", name, c.of(name))
	}
	return fmt.Sprintf("%.1f (%s)", c.perCheck(except), strings.Join(names, ", "))
}
