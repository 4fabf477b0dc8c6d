package track

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// proc is one process.
type proc struct {
	pid  int
	comm string   // its name, at most 15 bytes
	argv []string // its command line; empty for a kernel thread
}

// table is where processes are looked up.
type table interface {
	all(argv bool) ([]proc, error)
	one(pid int, argv bool) (proc, bool)
}

// procTable reads a proc file system.
type procTable struct{ root string }

// all returns every process that is no zombie; command lines only when asked for.
func (t procTable) all(argv bool) ([]proc, error) {
	dir, err := os.Open(t.root)
	if err != nil {
		return nil, fmt.Errorf("reading the processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("reading the processes: %w", err)
	}
	var list []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := t.one(pid, argv); ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// one looks at one process; false: there is none, or it has ended.
func (t procTable) one(pid int, argv bool) (proc, bool) {
	dir := filepath.Join(t.root, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return proc{}, false
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open || end+2 >= len(stat) || stat[end+2] == 'Z' || stat[end+2] == 'X' {
		return proc{}, false
	}
	p := proc{pid: pid, comm: string(stat[open+1 : end])}
	if argv {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			return proc{}, false
		}
		if text := strings.TrimSuffix(string(line), "\x00"); text != "" {
			p.argv = strings.Split(text, "\x00")
		}
	}
	return p, true
}
