// Command bench measures vipd and the installed keepalived in one run, on one
// machine, by the same instruments, and compares them: take-overs, the jitter
// of adverts, what many instances cost, a thousand addresses. It prints a table
// and PASS or MISS for each target, and can write the same as a page.
//
//	make bench-vrrp
//	go run ./test/bench -only jitter
//
// Times are taken from packets with the kernel's time stamps, costs from the
// kernel's accounts of the processes. Measurements of the two daemons alternate
// or run side by side, so that whatever else the machine does meets both.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

// daemons are measured in this order, again and again.
var daemons = []string{"vipd", "keepalived"}

// section is one part of the run.
type section struct {
	name string
	run  func(*lab.Stage, *report)
}

var sections = []section{
	{"takeover", takeovers},
	{"jitter", jitter},
	{"load", load},
	{"thousand", thousand},
}

func main() {
	only := flag.String("only", "", "run only these sections, separated by commas: takeover, jitter, load, thousand")
	page := flag.String("page", "", "also write the report to this file, as Markdown")
	flag.Parse()
	if err := run(*only, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(only, page string) error {
	done, err := prepare()
	if err != nil {
		return err
	}
	defer done()
	r := newReport(only)
	var failed []error
	for _, s := range sections {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		began := time.Now()
		fmt.Printf("%s:\n", s.name)
		if err := perform(s, r); err != nil {
			failed = append(failed, fmt.Errorf("section %s: %w", s.name, err))
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

// perform runs a section; what the lab could not do becomes an error.
func perform(s section, r *report) (err error) {
	st := lab.NewStage("bench", s.name)
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
	s.run(st, r)
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
