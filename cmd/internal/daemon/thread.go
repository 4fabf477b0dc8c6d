package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/conf"
	"vipd/vrrp/socket"
)

// thread gives the goroutine of VRRP a thread with a priority and processors of its
// own. Other threads, and what they start, keep those of the process: the runtime
// makes no thread from one that is locked, and the kernel resets what a real-time
// thread starts (SCHED_RESET_ON_FORK).
type thread struct {
	poller *socket.Poller
	log    *zap.Logger

	mu       sync.Mutex // guards all following fields
	cfg      conf.Thread
	noSwap   bool
	procs    int // of the runtime, before there was a thread of its own
	tid      int // of a thread with real-time priority; 0: none
	problems map[string]string
	signals  chan os.Signal
	done     chan struct{}
}

func newThread(poller *socket.Poller, log *zap.Logger) *thread {
	return &thread{poller: poller, log: log, problems: map[string]string{}}
}

// Configure makes the thread as wanted. What the machine refuses is logged and an
// alarm, and vipd runs on without it.
func (t *thread) Configure(g *conf.Global) {
	t.mu.Lock()
	before, swap := t.cfg, t.noSwap
	t.cfg, t.noSwap = g.Thread, g.NoSwap
	t.mu.Unlock()
	if g.NoSwap != swap {
		t.lockMemory(g.NoSwap)
	}
	if !own(&g.Thread) {
		if own(&before) {
			t.poller.Pin(nil, nil)
			t.release()
		}
		return
	}
	t.prepare(&g.Thread)
	// Anew with each reload: a priority that was lost comes back.
	cfg, undo := g.Thread, func() {}
	t.poller.Pin(func() { undo = t.enter(&cfg) }, func() { undo() })
}

// own reports whether a configuration asks for a thread of its own.
func own(c *conf.Thread) bool { return c.RTPriority > 0 || c.Nice != 0 || len(c.CPUs) > 0 }

// prepare does what concerns the process as a whole.
func (t *thread) prepare(c *conf.Thread) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs == 0 {
		// One more than the runtime would use: a thread that comes back from waiting
		// finds room although all others compute.
		t.procs = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(t.procs + 1)
	}
	if c.RTPriority == 0 {
		return
	}
	if t.signals == nil {
		t.signals, t.done = make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(t.signals, syscall.SIGXCPU)
		go t.watch(t.signals, t.done)
	}
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit)
	if err == nil {
		limit.Cur = min(uint64(c.RTTime), limit.Max)
		err = unix.Setrlimit(unix.RLIMIT_RTTIME, &limit)
	}
	t.told("vrrp_rlimit_rttime", err, "")
}

// release undoes prepare.
func (t *thread) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs > 0 {
		runtime.GOMAXPROCS(t.procs)
		t.procs = 0
	}
}

// Close ends what prepare began.
func (t *thread) Close() {
	t.mu.Lock()
	signals, done := t.signals, t.done
	t.signals = nil
	t.mu.Unlock()
	if signals != nil {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// enter is called on the thread. It returns what is to be called there in the end.
func (t *thread) enter(c *conf.Thread) (undo func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var cpus unix.CPUSet
	oldErr := unix.SchedGetaffinity(0, &cpus)
	nice, niceErr := unix.Getpriority(unix.PRIO_PROCESS, 0)
	var err error
	if len(c.CPUs) > 0 {
		var set unix.CPUSet
		for _, n := range c.CPUs {
			set.Set(n)
		}
		err = unix.SchedSetaffinity(0, &set)
	}
	t.told("vrrp_cpu_affinity", err, "name processors that this machine has")
	err = nil
	if c.Nice != 0 {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, c.Nice)
	}
	t.told("vrrp_priority", err, niceRemedy)
	err = nil
	if c.RTPriority > 0 {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: uint32(c.RTPriority)}
		if err = unix.SchedSetAttr(0, &attr, 0); err == nil {
			t.tid = unix.Gettid()
		}
	}
	t.told("vrrp_rt_priority", err, niceRemedy)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ordinary(0)
		if niceErr == nil && c.Nice != 0 {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-nice) // the system call returns 20 - nice
		}
		if oldErr == nil && len(c.CPUs) > 0 {
			_ = unix.SchedSetaffinity(0, &cpus)
		}
	}
}

const niceRemedy = "vipd needs the capability CAP_SYS_NICE: add it to CapabilityBoundingSet= in the systemd unit"

// ordinary takes the real-time priority back; mu is held.
func (t *thread) ordinary(tid int) {
	if t.tid == 0 {
		return
	}
	t.tid = 0
	// Giving it up is always allowed, but not giving up the reset of children.
	priority := int32(0)
	_, _, _ = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), unix.SCHED_NORMAL|resetOnFork, uintptr(unsafe.Pointer(&priority)))
}

// resetOnFork is SCHED_RESET_ON_FORK of sched.h.
const resetOnFork = 0x40000000

// watch takes the real-time priority from a thread that computes without end: the
// kernel tells by a signal that it is over its limit.
func (t *thread) watch(signals <-chan os.Signal, done chan<- struct{}) {
	defer close(done)
	for range signals {
		t.mu.Lock()
		if t.tid != 0 {
			t.ordinary(t.tid)
			t.told("vrrp_rt_priority", errors.New("VRRP computed for longer than vrrp_rlimit_rttime without waiting, and lost its real-time priority"),
				"raise vrrp_rlimit_rttime if this machine is slow; \"vipd reload\" gives the priority back")
		}
		t.mu.Unlock()
	}
}

// lockMemory keeps the memory of the process from being swapped out, or no longer.
// Pages are locked when they are used first: the runtime reserves much more than it
// uses.
func (t *thread) lockMemory(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !on {
		t.told("vrrp_no_swap", unix.Munlockall(), "")
		return
	}
	err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	t.told("vrrp_no_swap", err, "vipd needs the capability CAP_IPC_LOCK: add it to CapabilityBoundingSet= in the systemd unit")
}

// told notes how a setting went; mu is held.
func (t *thread) told(key string, err error, remedy string) {
	delete(t.problems, key)
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s is not in force: %v", key, err)
	if remedy != "" {
		text += "; " + remedy
	}
	t.problems[key] = text
	t.log.Warn(text)
}

// Problems lists what is not in force.
func (t *thread) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, key := range strings.Fields("vrrp_rt_priority vrrp_rlimit_rttime vrrp_priority vrrp_cpu_affinity vrrp_no_swap") {
		if text, ok := t.problems[key]; ok {
			list = append(list, text)
		}
	}
	return list
}
