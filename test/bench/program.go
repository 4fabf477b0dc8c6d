// Package bench is what the measurements of vipd beside the installed keepalived
// have in common: sections that run one after the other, a table of figures with a
// verdict for each target, printed and written as a page.
package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

// The daemons that are measured.
const (
	Vipd       = "vipd"
	Keepalived = "keepalived"
)

// Daemons are measured in this order, again and again.
var Daemons = []string{Vipd, Keepalived}

// Section is one part of a run.
type Section struct {
	Name string
	Run  func(*lab.Stage, *Report)
	// IPVS: it needs a kernel with IPVS, and runs in the user-mode kernel where this
	// machine's has none.
	IPVS bool
}

// Program is one command that measures.
type Program struct {
	Name         string // of its target in the Makefile, after "bench-", and of its directory
	Title, About string // of its page
	Modules      []string
	Sections     []Section
}

// Main runs the command line, and does not return.
func (p *Program) Main() {
	names := make([]string, len(p.Sections))
	for i, s := range p.Sections {
		names[i] = s.Name
	}
	only := flag.String("only", "", "run only these sections, separated by commas: "+strings.Join(names, ", "))
	page := flag.String("page", "", "also write the report to this file, as Markdown")
	tables := flag.String("tables", "", "write what was measured to this file, for the run that started this one in the user-mode kernel")
	flag.Parse()
	var err error
	if *tables != "" {
		err = p.runInside(*only, *tables)
	} else {
		err = p.run(*only, *page)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench-%s: %v\n", p.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p *Program) run(only, page string) error {
	done, err := prepare()
	if err != nil {
		return err
	}
	defer done()
	r := newReport(p, only)
	var failed []error
	for _, s := range p.chosen(only) {
		began := time.Now()
		fmt.Printf("%s:\n", s.Name)
		do := p.perform
		if s.IPVS && !uml.HostHasIPVS() {
			do = p.performInside
		}
		if err := do(s, r); err != nil {
			failed = append(failed, fmt.Errorf("section %s: %w", s.Name, err))
		}
		fmt.Printf("  (%.0f s)\n", time.Since(began).Seconds())
	}
	r.print(os.Stdout)
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if page != "" {
		if err := r.write(page); err != nil {
			return err
		}
	}
	if all, missed := r.targets(); missed > 0 {
		return fmt.Errorf("%d of %d targets missed", missed, all)
	}
	return nil
}

// chosen are the sections of -only.
func (p *Program) chosen(only string) []Section {
	if only == "" {
		return p.Sections
	}
	var list []Section
	for _, s := range p.Sections {
		if slices.Contains(strings.Split(only, ","), s.Name) {
			list = append(list, s)
		}
	}
	return list
}

// perform runs a section; what the lab could not do becomes an error.
func (p *Program) perform(s Section, r *Report) (err error) {
	st := lab.NewStage("bench-"+p.Name, s.Name)
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case lab.Failure:
			err = errors.New("it could not be measured; the reason is above")
		default:
			panic(p)
		}
	}()
	defer st.Close()
	s.Run(st, r)
	return nil
}

// prepare builds vipd unless the environment names one, and looks for the tools.
func prepare() (done func(), err error) {
	if _, err := exec.LookPath("keepalived"); err != nil {
		return nil, errors.New("keepalived is missing, there is nothing to compare with: apt-get install keepalived (or make setup)")
	}
	if os.Getenv(uml.EnvVipd) != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "vipd")
	if err := lab.Build(bin); err != nil {
		return nil, err
	}
	return func() { os.RemoveAll(dir) }, os.Setenv(uml.EnvVipd, bin)
}
