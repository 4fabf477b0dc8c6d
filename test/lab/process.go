package lab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that runs in a node.
type Process struct {
	Name string
	Node *Node

	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when the process has ended
	read chan struct{} // closed when all it printed is in the log
	err  error         // of its end; read after done
}

// Start starts a program in the namespace, as ip netns exec does; the process
// is the program's own. Both its streams go to the log.
func (n *Node) Start(name string, argv ...string) *Process {
	n.lab.t.Helper()
	return n.start(name, exec.Command("ip", append([]string{"netns", "exec", n.NS}, argv...)...))
}

// start starts a command that belongs to the node.
func (n *Node) start(name string, cmd *exec.Cmd) *Process {
	n.lab.t.Helper()
	cmd.Dir = n.lab.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{Name: n.Name + "/" + name, Node: n, cmd: cmd, log: &logBuffer{}, done: make(chan struct{}), read: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		n.lab.t.Fatalf("lab: making a pipe: %v", err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		n.lab.t.Fatalf("lab: starting %s in %s: %v", name, n.Name, err)
	}
	go func() {
		_, _ = io.Copy(p.log, r) // ends when the last process that holds the pipe is gone
		r.Close()
		close(p.read)
	}()
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	n.lab.procs = append(n.lab.procs, p)
	return p
}

// Pid of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running reports whether it has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process alone and returns the time just before.
func (p *Process) Signal(s syscall.Signal) time.Time {
	at := time.Now()
	if p.Running() {
		_ = p.cmd.Process.Signal(s) // ended meanwhile is fine
	}
	return at
}

// Freeze stops the process and its children (SIGSTOP), as a paused machine.
func (p *Process) Freeze() time.Time { return p.signalTree(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (p *Process) Thaw() time.Time { return p.signalTree(syscall.SIGCONT) }

// Kill ends the process and its children at once (SIGKILL) and waits for it.
// All are stopped first: none sees another's death and tidies up.
func (p *Process) Kill() time.Time {
	at := p.signalTree(syscall.SIGSTOP)
	p.signalTree(syscall.SIGKILL)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	return at
}

// KillAlone ends the process at once (SIGKILL), none of those below it, and waits
// until they have ended by themselves, as keepalived's do; after 5 s they are
// killed too.
func (p *Process) KillAlone() time.Time {
	left := below(p.Pid())
	at := p.Signal(syscall.SIGKILL)
	for deadline := at.Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(pid int) bool { return unix.Kill(pid, 0) != nil })
		if len(left) == 0 && !p.Running() {
			return at
		}
		if time.Now().After(deadline) {
			killAll(left)
			return at
		}
	}
}

// Stop asks the process to end (SIGTERM), waits at most limit and fails the
// test when it has not ended by then.
func (p *Process) Stop(limit time.Duration) time.Time {
	p.Node.lab.t.Helper()
	at := p.Signal(syscall.SIGTERM)
	p.Wait(limit)
	return at
}

// Wait waits at most limit for the end, and a moment for the end of the log, and
// returns the exit status.
func (p *Process) Wait(limit time.Duration) int {
	p.Node.lab.t.Helper()
	select {
	case <-p.done:
		select {
		case <-p.read:
		case <-time.After(200 * time.Millisecond): // a child still has the pipe
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.Node.lab.t.Fatalf("lab: %s is still running after %v\n%s", p.Name, limit, tail(p.Log(), 30))
		return -1
	}
}

// signalTree signals the process and all below it; those of a process that has
// ended are no longer below it.
func (p *Process) signalTree(s syscall.Signal) time.Time {
	if !p.Running() {
		return time.Now()
	}
	pids := append([]int{p.Pid()}, below(p.Pid())...)
	at := time.Now()
	if !p.Running() {
		pids = pids[1:]
	}
	// Children first: one that is not stopped yet must not hear of its parent's
	// death before its own.
	for _, pid := range slices.Backward(pids) {
		_ = unix.Kill(pid, s) // ended meanwhile is fine
	}
	return at
}

// below lists the processes below pid, parents before their children.
func below(pid int) []int {
	children := children()
	list := slices.Clone(children[pid])
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// children lists the children of all processes that have some. (The children files
// of /proc would be shorter, but the user-mode kernel has none.)
func children() map[int][]int {
	list := map[int][]int{}
	for _, pid := range processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // ended meanwhile
		}
		// The name, in parentheses, may hold anything; state and parent follow it.
		rest := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(rest) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(rest[1])); err == nil {
			list[parent] = append(list[parent], pid)
		}
	}
	return list
}

// processes lists all processes.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// namespacePids lists the processes in named namespaces.
func namespacePids(names ...string) []int {
	var wanted []unix.Stat_t
	for _, ns := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join("/run/netns", ns), &st) == nil {
			wanted = append(wanted, st)
		}
	}
	var list []int
	for _, pid := range processes() {
		var have unix.Stat_t
		err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &have)
		if err == nil && pid != os.Getpid() && slices.ContainsFunc(wanted, func(w unix.Stat_t) bool { return w.Ino == have.Ino && w.Dev == have.Dev }) {
			list = append(list, pid)
		}
	}
	return list
}

// killAll ends processes that were found in a namespace of ours.
func killAll(pids []int) {
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL) // ended meanwhile is fine
	}
}

// Log is all that the process has printed so far.
func (p *Process) Log() string { return p.log.String() }

// WaitLog waits at most limit for a line that matches the regular expression,
// and returns it; the test fails when none comes.
func (p *Process) WaitLog(pattern string, limit time.Duration) string {
	p.Node.lab.t.Helper()
	re := regexp.MustCompile("(?m)^.*" + pattern + ".*$")
	deadline := time.Now().Add(limit)
	for {
		if m := re.FindString(p.Log()); m != "" {
			return m
		}
		if time.Now().After(deadline) || !p.Running() {
			p.Node.lab.t.Fatalf("lab: %s: no line like %q within %v (running: %v)\n%s", p.Name, pattern, limit, p.Running(), tail(p.Log(), 30))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Memory is the resident size of the process in bytes.
func (p *Process) Memory() int64 {
	p.Node.lab.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid()))
	if err != nil {
		p.Node.lab.t.Fatalf("lab: %s: reading its memory: %v", p.Name, err)
	}
	fields := strings.Fields(string(b))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		p.Node.lab.t.Fatalf("lab: %s: reading its memory: %v", p.Name, err)
	}
	return pages * int64(os.Getpagesize())
}

// Usage is what a process and its children have used up so far, by the kernel's
// exact accounts.
type Usage struct {
	At      time.Time
	CPU     time.Duration // on a processor, of all threads
	Wakeups int64         // times that a thread had waited
	Waited  time.Duration // ready to run, and kept from a processor by others, of all threads
}

// Usage reads the accounts.
func (p *Process) Usage() Usage {
	u := Usage{At: time.Now()}
	for _, pid := range append([]int{p.Pid()}, p.Children()...) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // the thread has ended
			}
			fields := strings.Fields(string(b))
			ran, _ := strconv.ParseInt(fields[0], 10, 64)
			waited, _ := strconv.ParseInt(fields[1], 10, 64)
			u.CPU, u.Waited = u.CPU+time.Duration(ran), u.Waited+time.Duration(waited)
			u.Wakeups += procField(filepath.Join(filepath.Dir(f), "status"), "voluntary_ctxt_switches")
		}
	}
	return u
}

// Since is the share of one processor, in percent, since an earlier reading, and the
// wake-ups a second.
func (u Usage) Since(before Usage) (cpu, wakeups float64) {
	took := u.At.Sub(before.At).Seconds()
	return 100 * (u.CPU - before.CPU).Seconds() / took, float64(u.Wakeups-before.Wakeups) / took
}

// Delayed returns how long, since now, the process has been ready to run in vain. What it
// does later than it should by no more than that, on a busy machine, is nobody's fault.
func (p *Process) Delayed() func() time.Duration {
	before := p.Usage().Waited
	return func() time.Duration { return max(0, p.Usage().Waited-before) }
}

// AllMemory is Memory of the process and its children.
func (p *Process) AllMemory() int64 {
	sum := int64(0)
	for _, pid := range append([]int{p.Pid()}, p.Children()...) {
		sum += procField(fmt.Sprintf("/proc/%d/status", pid), "VmRSS") << 10
	}
	return sum
}

// procField reads one number of a status file of /proc; 0 if it is not there.
func procField(file, name string) int64 {
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

// logBuffer is a bytes.Buffer for two goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
