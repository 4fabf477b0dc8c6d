package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// report collects what was measured.
type report struct {
	only     string
	began    time.Time
	load     string // of the machine at the start
	sections []*table
}

// table is what one section measured, a line each.
type table struct {
	title, about string
	rows         []*row
}

// row is one figure of both daemons.
type row struct {
	what, vipd, keepalived string
	target                 string // "" where nothing was promised
	ok                     bool
}

func newReport(only string) *report {
	return &report{only: only, began: time.Now(), load: loadAverage()}
}

// table begins a section. about says how it was measured.
func (r *report) table(title, about string) *table {
	t := &table{title: title, about: about}
	r.sections = append(r.sections, t)
	return t
}

// add adds a line, and prints it at once: a run takes minutes.
func (t *table) add(what, vipd, keepalived string) *row {
	w := &row{what: what, vipd: vipd, keepalived: keepalived}
	t.rows = append(t.rows, w)
	fmt.Printf("  %s: vipd %s, keepalived %s\n", what, vipd, keepalived)
	return w
}

// want sets the target of the line.
func (w *row) want(target string, ok bool) { w.target, w.ok = target, ok }

func (w *row) verdict() string {
	switch {
	case w.target == "":
		return ""
	case w.ok:
		return "PASS"
	}
	return "MISS"
}

// targets counts all targets and those missed.
func (r *report) targets() (all, missed int) {
	for _, t := range r.sections {
		for _, w := range t.rows {
			if w.target != "" {
				all++
				if !w.ok {
					missed++
				}
			}
		}
	}
	return all, missed
}

func (r *report) print(w io.Writer) {
	for _, t := range r.sections {
		fmt.Fprintf(w, "\n%s\n", t.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "  \tvipd\tkeepalived\ttarget for vipd\t")
		for _, l := range t.rows {
			fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", l.what, l.vipd, l.keepalived, l.target, l.verdict())
		}
		tw.Flush()
	}
	fmt.Fprintln(w)
	for _, f := range r.facts() {
		fmt.Fprintf(w, "%s: %s\n", f[0], f[1])
	}
	all, missed := r.targets()
	fmt.Fprintf(w, "\n%d of %d targets reached\n", all-missed, all)
}

// write writes the report as a page.
func (r *report) write(file string) error {
	var b strings.Builder
	b.WriteString("# vipd and keepalived, measured side by side\n\n")
	b.WriteString("This page was written by `make bench-vrrp`: both daemons in one run, on one machine, by the same instruments.\n")
	b.WriteString("Times are taken from packets with the kernel's time stamps, in network namespaces joined by a learning bridge; costs\nare the kernel's accounts of all threads and processes of a daemon.\n\n")
	for _, f := range r.facts() {
		fmt.Fprintf(&b, "- %s: %s\n", f[0], f[1])
	}
	all, missed := r.targets()
	fmt.Fprintf(&b, "\n%d of %d targets were reached. The program ends with an error when one is missed.\n", all-missed, all)
	for _, t := range r.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", t.title, t.about)
		b.WriteString("| | vipd | keepalived | target for vipd | |\n| --- | --- | --- | --- | --- |\n")
		for _, l := range t.rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.what, l.vipd, l.keepalived, l.target, l.verdict())
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// facts describe the machine and the run.
func (r *report) facts() [][2]string {
	var u unix.Utsname
	release := "unknown"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	busy := ""
	var first float64
	if n, _ := fmt.Sscan(r.load, &first); n == 1 && first > float64(runtime.NumCPU())/2 {
		busy = " (the machine was busy with other things: compare the two daemons, do not trust the figures)"
	}
	only := ""
	if r.only != "" {
		only = " -only " + r.only
	}
	return [][2]string{
		{"Command", "make bench-vrrp (go run ./test/bench" + only + ")"},
		{"Date", fmt.Sprintf("%s, %.0f s", r.began.UTC().Format("2006-01-02 15:04 UTC"), time.Since(r.began).Seconds())},
		{"Machine", fmt.Sprintf("%d processors, %s, Linux %s", runtime.NumCPU(), processor(), release)},
		{"Load before the run", r.load + busy},
		{"Versions", fmt.Sprintf("%s (%s), %s", vipdVersion(), runtime.Version(), keepalivedVersion())},
	}
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

func keepalivedVersion() string {
	out, err := exec.Command("keepalived", "--version").CombinedOutput()
	if err != nil {
		return "keepalived of unknown version"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func vipdVersion() string {
	out, err := exec.Command(lab.VipdBin(lab.NewStage("bench", "version")), "version").Output()
	if err != nil {
		return "vipd of unknown version"
	}
	return strings.TrimSpace(string(out))
}

// series is what was measured again and again.
type series []time.Duration

// at is the value that a share of them do not exceed.
func (s series) at(share float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

func (s series) median() time.Duration { return s.at(0.5) }
func (s series) worst() time.Duration  { return s.at(1) }

// ms shows a time in milliseconds.
func ms(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	if math.Abs(v) < 20 {
		return fmt.Sprintf("%.2f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

// spread shows the median and the worst.
func (s series) spread() string { return fmt.Sprintf("%s (worst %s)", ms(s.median()), ms(s.worst())) }
