package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vipd/test/lab"
)

// subject is a daemon under test: with keepalived, all of its processes.
type subject struct {
	daemon string // "vipd" or "keepalived"
	role   string
	p      *lab.Process
}

// start starts a daemon on a node with instances written in its own language.
// before are lines of the global section, in keepalived's words.
func start(n *lab.Node, daemon string, before []string, instances ...lab.Instance) *subject {
	s := &subject{daemon: daemon}
	if daemon == "keepalived" {
		s.p = n.KeepalivedBrief(lab.KeepalivedConf("global_defs {\n"+strings.Join(before, "\n")+"\n}", instances...))
		return s
	}
	var global strings.Builder
	global.WriteString("[global_defs]\n")
	for _, w := range before {
		k, v, _ := strings.Cut(w, " ")
		if v == "" {
			v = "true"
		}
		fmt.Fprintf(&global, "%s = %s\n", k, v)
	}
	s.p = n.Vipd(lab.VipdConf(global.String(), instances...)).Process
	return s
}

// pids are the processes of the daemon.
func (s *subject) pids() []int { return append([]int{s.p.Pid()}, s.p.Children()...) }

// usage is what the processes have used up so far.
type usage struct {
	at       time.Time
	cpu      time.Duration // on a processor, of all threads
	switches int64         // times that a thread gave the processor up by itself: one for each wake-up
}

// usage reads the kernel's accounts. They are exact: not samples of a clock.
func (s *subject) usage() usage {
	u := usage{at: time.Now()}
	for _, pid := range s.pids() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // the thread has ended
			}
			ns, _ := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
			u.cpu += time.Duration(ns)
			u.switches += field(filepath.Join(filepath.Dir(f), "status"), "voluntary_ctxt_switches")
		}
	}
	return u
}

// memory is the resident size of all processes in bytes.
func (s *subject) memory() int64 {
	var sum int64
	for _, pid := range s.pids() {
		sum += field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS") << 10
	}
	return sum
}

// field reads one number of a status file of /proc; 0 if it is not there.
func field(file, name string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == name {
			n, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return n
		}
	}
	return 0
}

// since is the share of one processor between two readings, and the wake-ups a second.
func (u usage) since(before usage) (percent, wakeups float64) {
	took := u.at.Sub(before.at).Seconds()
	return 100 * (u.cpu - before.cpu).Seconds() / took, float64(u.switches-before.switches) / took
}
