package bench

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

// Report collects what was measured.
type Report struct {
	program *Program
	only    string
	began   time.Time
	load    string // of the machine at the start
	tables  []*Table
}

// Table is what one section measured, a line each.
type Table struct {
	Title, About string // About says how it was measured
	Rows         []*Row
}

// Row is one figure of both daemons.
type Row struct {
	What, Vipd, Keepalived string
	Target                 string // "" where nothing was promised
	OK                     bool
}

func newReport(p *Program, only string) *Report {
	return &Report{program: p, only: only, began: time.Now(), load: loadAverage()}
}

// Table begins a section. about says how it was measured.
func (r *Report) Table(title, about string) *Table {
	t := &Table{Title: title, About: about}
	r.tables = append(r.tables, t)
	return t
}

// Add adds a line, and prints it at once: a run takes minutes.
func (t *Table) Add(what, vipd, keepalived string) *Row {
	w := &Row{What: what, Vipd: vipd, Keepalived: keepalived}
	t.Rows = append(t.Rows, w)
	fmt.Printf("  %s: vipd %s, keepalived %s\n", what, vipd, keepalived)
	return w
}

// Both adds a line with the medians, and the worst, of both.
func (t *Table) Both(what string, s map[string]Series) *Row {
	return t.Add(what, s[Vipd].Spread(), s[Keepalived].Spread())
}

// Want sets the target of the line.
func (w *Row) Want(target string, ok bool) { w.Target, w.OK = target, ok }

func (w *Row) verdict() string {
	switch {
	case w.Target == "":
		return ""
	case w.OK:
		return "PASS"
	}
	return "MISS"
}

// targets counts all targets and those missed.
func (r *Report) targets() (all, missed int) {
	for _, t := range r.tables {
		for _, w := range t.Rows {
			if w.Target != "" {
				all++
				if !w.OK {
					missed++
				}
			}
		}
	}
	return all, missed
}

func (r *Report) print(w io.Writer) {
	for _, t := range r.tables {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "  \tvipd\tkeepalived\ttarget for vipd\t")
		for _, l := range t.Rows {
			fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", l.What, l.Vipd, l.Keepalived, l.Target, l.verdict())
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
func (r *Report) write(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", r.program.Title, r.program.About)
	for _, f := range r.facts() {
		fmt.Fprintf(&b, "- %s: %s\n", f[0], f[1])
	}
	all, missed := r.targets()
	fmt.Fprintf(&b, "\n%d of %d targets were reached. The program ends with an error when one is missed.\n", all-missed, all)
	for _, t := range r.tables {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", t.Title, t.About)
		b.WriteString("| | vipd | keepalived | target for vipd | |\n| --- | --- | --- | --- | --- |\n")
		for _, l := range t.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.What, l.Vipd, l.Keepalived, l.Target, l.verdict())
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// facts describe the machine and the run.
func (r *Report) facts() [][2]string {
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
		{"Command", fmt.Sprintf("make bench-%s (go run ./test/bench/%[1]s%s)", r.program.Name, only)},
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

// Series is what was measured again and again.
type Series []time.Duration

// At is the value that a share of them do not exceed.
func (s Series) At(share float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// Median is the value in the middle.
func (s Series) Median() time.Duration { return s.At(0.5) }

// Worst is the longest.
func (s Series) Worst() time.Duration { return s.At(1) }

// MS shows a time in milliseconds.
func MS(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	if math.Abs(v) < 20 {
		return fmt.Sprintf("%.2f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

// Spread shows the median and the worst.
func (s Series) Spread() string { return fmt.Sprintf("%s (worst %s)", MS(s.Median()), MS(s.Worst())) }
