package track

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestProcessMatch(t *testing.T) {
	p := proc{comm: "nginx", argv: []string{"/usr/sbin/nginx", "-c", "/etc/nginx.conf"}}
	long := proc{comm: "a-very-long-nam", argv: []string{"/bin/a-very-long-name"}}
	for _, c := range []struct {
		match Match
		argv  string
		proc  proc
		want  bool
	}{
		{MatchName, "nginx", p, true},
		{MatchName, "ngin", p, false},
		{MatchName, "/usr/sbin/nginx", p, false},
		{MatchName, "a-very-long-name", long, true},
		{MatchName, "a-very-long-no", long, false},
		{MatchExact, "/usr/sbin/nginx -c /etc/nginx.conf", p, true},
		{MatchExact, "/usr/sbin/nginx -c", p, false},
		{MatchExact, "/usr/sbin/nginx", p, false},
		{MatchPartial, "/usr/sbin/nginx", p, true},
		{MatchPartial, "/usr/sbin/nginx -c", p, true},
		{MatchPartial, "/usr/sbin/nginx -", p, false},
		{MatchPartial, "/usr/sbin/nginx -c /etc/nginx.conf x", p, false},
		{MatchInitial, "/usr/sbin/nginx -c /etc/", p, true},
		{MatchInitial, "/usr/sbin/nginx -", p, true},
		{MatchInitial, "/usr/sbin/nginx -x", p, false},
		{MatchInitial, "/usr/sbin/apache -c", p, false},
		{MatchExact, "kthread", proc{comm: "kthread"}, false},
	} {
		k := ProcessConfig{Argv: strings.Fields(c.argv), Match: c.match}
		if got := k.matches(&c.proc); got != c.want {
			t.Errorf("match %d of %q: %v", c.match, c.argv, got)
		}
	}
}

func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		quorum, most int
		good         string // for 0, 1, 2, 3 processes
	}{{1, -1, "-+++"}, {2, -1, "--++"}, {1, 1, "-+--"}, {0, 0, "+---"}, {0, -1, "++++"}} {
		k, got := ProcessConfig{Quorum: c.quorum, QuorumMax: c.most}, ""
		for n := range 4 {
			got += map[bool]string{true: "+", false: "-"}[k.good(n)]
		}
		if got != c.good {
			t.Errorf("quorum %d, quorum_max %d: %s, want %s", c.quorum, c.most, got, c.good)
		}
	}
}

// A verdict that changes for less than its delay is none.
func TestDelays(t *testing.T) {
	s := &counted{cfg: ProcessConfig{Quorum: 1, QuorumMax: -1, ForkDelay: 2 * time.Second, TerminateDelay: time.Second}, pids: map[int]bool{}}
	start := time.Unix(1000, 0)
	step := func(at float64, n int, told bool, ok bool, waiting string) {
		t.Helper()
		clear(s.pids)
		for i := range n {
			s.pids[i] = true
		}
		if got := s.judge(start.Add(time.Duration(at * float64(time.Second)))); got != told || s.status.OK != ok || s.status.Waiting != waiting {
			t.Errorf("at %v: told %v, status %+v", at, got, s.status)
		}
	}
	step(0, 1, true, true, "") // the first one counts at once
	step(1, 0, false, true, "terminate_delay")
	step(1.9, 0, false, true, "terminate_delay")
	step(1.95, 1, false, true, "") // restarted in time
	step(3, 0, false, true, "terminate_delay")
	step(4, 0, true, false, "")
	step(5, 1, false, false, "fork_delay")
	step(6.9, 1, false, false, "fork_delay")
	step(7, 1, true, true, "")
}

// fakeTable is a list of processes.
type fakeTable struct {
	mu   sync.Mutex
	list []proc
	err  error
}

func (f *fakeTable) all(bool) ([]proc, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, f.err
}

func (f *fakeTable) one(pid int, _ bool) (proc, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.list {
		if p.pid == pid {
			return p, true
		}
	}
	return proc{}, false
}

func (f *fakeTable) set(list []proc, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.err = list, err
}

// Single events change the count without a look at the others; a table that
// cannot be read changes nothing.
func TestProcessEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, table := &values{}, &fakeTable{list: []proc{{pid: 1, comm: "init"}, {pid: 7, comm: "web"}}}
		p := NewProcesses(func(name string, ok bool) { v.take(name, ok) }, zap.NewNop())
		p.table = table
		p.Configure([]ProcessConfig{{Name: "web", Argv: []string{"web"}, Quorum: 1, QuorumMax: -1}})
		p.adopt()
		p.scan()
		table.set(nil, errors.New("no /proc"))
		p.scan()
		v.want(t, "web=true")
		table.set([]proc{{pid: 9, comm: "web"}, {pid: 10, comm: "db"}}, nil)
		p.apply(change{pid: 9})
		p.apply(change{pid: 10})
		p.apply(change{pid: 7, gone: true})
		if st := p.Status()[0]; st.Count != 1 || !st.OK {
			t.Errorf("status %+v", st)
		}
		table.set([]proc{{pid: 9, comm: "other"}}, nil)
		p.apply(change{pid: 9}) // it was executed as something else
		v.want(t, "web=true", "web=false")
		p.Configure(nil)
		if p.adopt() || len(p.Status()) != 0 {
			t.Error("something is still counted")
		}
	})
}

// Real processes, by whichever way this kernel allows.
func TestRealProcesses(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "vipd-probe")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	v := &values{}
	p := NewProcesses(func(name string, ok bool) { v.take(name, ok) }, zap.NewNop())
	running(t, p.Run)
	p.Configure([]ProcessConfig{
		{Name: "name", Argv: []string{"vipd-probe"}, Quorum: 1, QuorumMax: -1},
	})
	v.want(t, "name=false")
	run := func() *exec.Cmd {
		cmd := exec.Command(program, "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	cmd := run()
	v.want(t, "name=false", "name=true")
	t.Logf("source: %s", p.Status()[0].Source)
	p.Configure([]ProcessConfig{
		{Name: "name", Argv: []string{"vipd-probe"}, Quorum: 1, QuorumMax: -1},
		{Name: "line", Argv: []string{program, "60"}, Match: MatchExact, Quorum: 2, QuorumMax: -1},
	})
	v.want(t, "name=false", "name=true", "line=false")
	second := run()
	v.want(t, "name=false", "name=true", "line=false", "line=true")
	// A zombie does not run: killed and not waited for yet.
	_ = second.Process.Kill()
	v.want(t, "name=false", "name=true", "line=false", "line=true", "line=false")
	_ = cmd.Process.Kill()
	v.want(t, "name=false", "name=true", "line=false", "line=true", "line=false", "name=false")
}

func TestParseEvents(t *testing.T) {
	ne := binary.NativeEndian
	message := func(idx, what uint32, words ...uint32) []byte {
		b := make([]byte, 16+cnHeader+procEventHeader+24)
		ne.PutUint32(b, uint32(len(b)))
		ne.PutUint16(b[4:], 3)
		ne.PutUint32(b[16:], idx)
		ne.PutUint32(b[20:], cnValProc)
		ne.PutUint32(b[36:], what)
		for i, w := range words {
			ne.PutUint32(b[52+4*i:], w)
		}
		return b
	}
	var all []byte
	all = append(all, message(cnIdxProc, procEventFork, 1, 1, 50, 50)...)
	all = append(all, message(9, procEventFork, 1, 1, 51, 51)...)
	all = append(all, message(cnIdxProc, procEventExec, 50, 50)...)
	all = append(all, message(cnIdxProc, procEventExit, 50, 50, 9, 9)...)
	all = append(all, message(cnIdxProc, procEventNone, 1)...)
	got := parseEvents(all)
	want := []procEvent{{what: procEventFork, pid: 50, tgid: 50}, {what: procEventExec, pid: 50, tgid: 50},
		{what: procEventExit, pid: 50, tgid: 50}, {what: procEventNone, errno: 1}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	for n := range 80 {
		parseEvents(all[:n]) // cut off: nothing to be had, no panic
	}
}
