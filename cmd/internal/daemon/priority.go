package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/conf"
)

// priority gives the process its real-time priority, nice value and processors.
//
// All threads get them, and new ones inherit them. One thread alone would not do:
// the runtime makes a goroutine that is bound to its thread give way now and then,
// and the threads that have to hand it the processor again would wait behind other
// programs. What process.Run starts does not inherit a higher priority.
type priority struct {
	log  *zap.Logger
	cpus unix.CPUSet // of the process at the start
	nice int

	mu       sync.Mutex // guards all following fields
	cfg      conf.Priority
	noSwap   bool
	realTime bool // in force
	problems map[string]string
	signals  chan os.Signal
	done     chan struct{}
}

const (
	niceRemedy = "vipd needs the capability CAP_SYS_NICE: add it to CapabilityBoundingSet= in the systemd unit"
	lockRemedy = "vipd needs the capability CAP_IPC_LOCK: add it to CapabilityBoundingSet= in the systemd unit"
	cpuRemedy  = "name processors that this machine has"
)

func newPriority(log *zap.Logger) *priority {
	p := &priority{log: log, problems: map[string]string{}}
	// What cannot be read is not changed later, either.
	_ = unix.SchedGetaffinity(0, &p.cpus)
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		p.nice = 20 - n // the system call returns 20 - nice
	}
	return p
}

// Configure makes everything as wanted. What the machine refuses is logged and an
// alarm, and vipd runs on without it.
func (p *priority) Configure(g *conf.Global) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, swap := p.cfg, p.noSwap
	p.cfg, p.noSwap = g.Priority, g.NoSwap
	if g.NoSwap != swap {
		p.lockMemory(g.NoSwap)
	}
	if c := g.Priority; len(c.CPUs) > 0 || len(before.CPUs) > 0 {
		set := p.cpus
		if len(c.CPUs) > 0 {
			set.Zero()
			for _, n := range c.CPUs {
				set.Set(n)
			}
		}
		p.told("vrrp_cpu_affinity", everyThread(func(tid int) error { return unix.SchedSetaffinity(tid, &set) }), cpuRemedy)
	}
	if c := g.Priority; c.Nice != 0 || before.Nice != 0 {
		nice := c.Nice
		if nice == 0 {
			nice = p.nice
		}
		p.told("vrrp_priority", everyThread(func(tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, nice) }), niceRemedy)
	}
	p.setRealTime(g.Priority.RTPriority, g.Priority.RTTime)
}

// setRealTime sets the real-time priority, 0 for none; mu is held.
func (p *priority) setRealTime(level, limit int) {
	if level == 0 {
		p.ordinary()
		p.told("vrrp_rt_priority", nil, "")
		p.told("vrrp_rlimit_rttime", nil, "")
		return
	}
	if p.signals == nil {
		p.signals, p.done = make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(p.signals, syscall.SIGXCPU)
		go p.watch(p.signals, p.done)
	}
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_RTTIME, &r)
	if err == nil {
		r.Cur = min(uint64(limit), r.Max)
		err = unix.Setrlimit(unix.RLIMIT_RTTIME, &r)
	}
	p.told("vrrp_rlimit_rttime", err, "")
	err = everyThread(func(tid int) error { return setScheduler(tid, unix.SCHED_RR, level) })
	p.realTime = true // of some threads perhaps
	if err != nil {
		p.ordinary()
	}
	p.told("vrrp_rt_priority", err, niceRemedy)
}

// ordinary takes the real-time priority back; mu is held.
func (p *priority) ordinary() {
	if p.realTime {
		p.realTime = false
		_ = everyThread(func(tid int) error { return setScheduler(tid, unix.SCHED_NORMAL, 0) }) // always allowed
	}
}

// Close ends what Configure began.
func (p *priority) Close() {
	p.mu.Lock()
	signals, done := p.signals, p.done
	p.signals = nil
	p.mu.Unlock()
	if signals != nil {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// watch takes the real-time priority from a process that computes without end: the
// kernel tells by a signal when a thread is over its limit.
func (p *priority) watch(signals <-chan os.Signal, done chan<- struct{}) {
	defer close(done)
	for range signals {
		p.mu.Lock()
		if p.realTime {
			p.ordinary()
			p.told("vrrp_rt_priority", errors.New("a thread computed for longer than vrrp_rlimit_rttime without waiting, so all lost their real-time priority"),
				"raise vrrp_rlimit_rttime if this machine is slow; \"vipd reload\" gives the priority back")
		}
		p.mu.Unlock()
	}
}

// setScheduler is sched_setscheduler(2), which keeps the nice value.
func setScheduler(tid, policy, priority int) error {
	param := int32(priority)
	if _, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(policy), uintptr(unsafe.Pointer(&param))); errno != 0 {
		return errno
	}
	return nil
}

// everyThread calls f for all threads of the process, also those that are made
// meanwhile by one that was not yet called for, and returns the first error.
func everyThread(f func(tid int) error) error {
	done := map[int]bool{}
	for again := true; again; {
		again = false
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil || len(tasks) == 0 {
			return errors.New("the threads of the process cannot be listed: is /proc mounted?")
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(filepath.Base(t))
			if err != nil || done[tid] {
				continue
			}
			done[tid], again = true, true
			if err := f(tid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// lockMemory keeps the memory of the process from being swapped out, or no longer.
// Pages are locked when they are used first: the runtime reserves much more than it
// uses. mu is held.
func (p *priority) lockMemory(on bool) {
	if !on {
		p.told("vrrp_no_swap", unix.Munlockall(), "")
		return
	}
	p.told("vrrp_no_swap", unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT), lockRemedy)
}

// told notes how a setting went; mu is held.
func (p *priority) told(key string, err error, remedy string) {
	delete(p.problems, key)
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s is not in force: %v", key, err)
	if remedy != "" {
		text += "; " + remedy
	}
	p.problems[key] = text
	p.log.Warn(text)
}

// Problems lists what is not in force.
func (p *priority) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, key := range strings.Fields("vrrp_rt_priority vrrp_rlimit_rttime vrrp_priority vrrp_cpu_affinity vrrp_no_swap") {
		if text, ok := p.problems[key]; ok {
			list = append(list, text)
		}
	}
	return list
}
