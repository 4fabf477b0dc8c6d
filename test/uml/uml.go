// Package uml runs a command, or a whole test binary, inside User Mode Linux:
// a complete Linux kernel with IPVS that is an ordinary process of the host.
//
// Machines whose own kernel has no IPVS (most build machines) test the data
// path this way. A package whose tests need such a kernel has
//
//	func TestMain(m *testing.M) { uml.Main(m, "ip_vs_wlc") }
//
// The guest sees the host's files read-only, with empty file systems in memory
// over /run, /tmp, /var and /root, so a wrong test cannot damage the machine.
// One CPU, real time, network namespaces, some sites of namespaces fit in it.
// The guest boots in one to five seconds. A package of many tests can have them
// spread over several guests, see Code.
//
// Binaries built with -race do not start in it: ThreadSanitizer cannot map its
// shadow memory there.
package uml

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel is the file that Debian's package user-mode-linux installs.
const Kernel = "/usr/bin/linux.uml"

// EnvInside is set to 1 in the environment of everything that runs inside.
const EnvInside = "VIPD_UML"

// Remedy says how to make this package work on a machine where it does not.
const Remedy = "as root: apt-get install user-mode-linux (test/setup.sh does it)"

const moduleDir = "/usr/lib/uml/modules"

// ErrMissing is returned when there is no User Mode Linux on this machine.
var ErrMissing = errors.New("uml: " + Kernel + " or its modules are missing; " + Remedy)

// Options of a run. The zero value is good for most.
type Options struct {
	Dir         string        // working directory inside; "" is the caller's
	Env         []string      // added to the caller's environment, KEY=VALUE
	Modules     []string      // kernel modules loaded besides the usual ones
	Share       []string      // host directories that stay visible, and writable, at their own path
	Memory      string        // of the guest, as in "512M"; "" is 1G
	Timeout     time.Duration // of the whole run, boot included; 0 is 10 minutes
	Nth         int           // of several guests at once: each keeps to a processor of its own
	Stdout      io.Writer     // what the command prints (both streams); nil is os.Stdout
	Interactive bool          // the guest's console is this process's terminal
}

// Inside reports whether this process runs inside User Mode Linux.
func Inside() bool { return os.Getenv(EnvInside) == "1" }

// Run boots a guest, runs argv in it as root and returns the exit status of
// argv. The error is for a run without a status: no kernel, no boot, timeout,
// ctx ended. The guest and all in it are gone when Run returns.
func Run(ctx context.Context, argv []string, o Options) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("uml: nothing to run")
	}
	if err := available(); err != nil {
		return 0, err
	}
	if err := o.complete(); err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp("", "vipd-uml-")
	if err != nil {
		return 0, fmt.Errorf("uml: making the scratch directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	o.Share = append(o.Share, scratch)

	script := filepath.Join(scratch, "init.sh")
	if err := os.WriteFile(script, []byte(initScript(argv, scratch, o)), 0o755); err != nil {
		return 0, fmt.Errorf("uml: writing the init script: %w", err)
	}
	preload, err := xstatePreload(scratch)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	con := &console{out: o.Stdout}
	runErr := boot(ctx, script, preload, scratch, con, o)
	return result(ctx, scratch, con, runErr, o.Timeout)
}

// complete fills in defaults and makes every path absolute.
func (o *Options) complete() error {
	if o.Memory == "" {
		o.Memory = "1G"
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("uml: finding the working directory: %w", err)
	}
	o.Dir = dir
	shares := []string{}
	for _, s := range o.Share {
		abs, err := filepath.Abs(s)
		if err != nil {
			return fmt.Errorf("uml: sharing %s: %w", s, err)
		}
		shares = append(shares, abs)
	}
	if hidden(dir) {
		shares = append(shares, dir)
	}
	o.Share = shares
	return nil
}

// available says what this machine lacks.
func available() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("uml: runs on amd64 only, this is %s", runtime.GOARCH)
	}
	for _, p := range []string{Kernel, moduleDir} {
		if _, err := os.Stat(p); err != nil {
			return ErrMissing
		}
	}
	// The guest mounts its own modules here; the root is read-only, so the
	// directory must be there before.
	if err := os.MkdirAll("/lib/modules", 0o755); err != nil {
		return fmt.Errorf("uml: making /lib/modules for the guest's modules: %w", err)
	}
	return nil
}

// boot starts the kernel and waits for its end. The guest's processes are
// processes of the host; in a pid namespace of their own they all end with the
// first one, whatever ends it, also when this process is killed. The thread is
// kept because a parent-death signal is bound to the thread that started the
// child.
func boot(ctx context.Context, script, preload, scratch string, con *console, o Options) error {
	args := []string{
		"mem=" + o.Memory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"quiet", "loglevel=2", "init=" + script, "con=null", "con0=fd:0,fd:1", "umid=" + filepath.Base(scratch),
		"uml_dir=" + scratch,
	}
	// A kernel that panics sends itself SIGABRT, again and again, which process 1 of a namespace ignores. The shell is
	// that one.
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `ulimit -c 0; "$@"; exit $?`, "sh", Kernel}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+memoryDir())
	if preload != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+preload)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stdout, cmd.Stderr = con, con
	if o.Interactive {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	cmd.WaitDelay = 2 * time.Second
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer keepTo(os.Getpid() + o.Nth)()
	defer giveWay()()
	return cmd.Run()
}

// giveWay makes this thread, and the children that it starts, nicer until the result
// is called: a guest uses a whole processor for long, and beside it run tests on the
// host's own kernel that judge milliseconds.
func giveWay() (restore func()) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return func() {} // as it was
	}
	nice := 20 - raw // what the system call returns is never negative
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(nice+5, 19))
	return func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice) }
}

// keepTo binds this thread, and the children that it starts, to one of the
// processors it may use, until the result is called. A guest is a kernel and
// processes that hand the turn to each other with every system call: on one
// processor that takes a third less time than across two.
func keepTo(nth int) (restore func()) {
	var before, one unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil || before.Count() == 0 {
		return func() {} // slower, no more
	}
	cpu := 0
	for nth %= before.Count(); nth > 0 || !before.IsSet(cpu); cpu++ {
		if before.IsSet(cpu) {
			nth--
		}
	}
	one.Set(cpu)
	_ = unix.SchedSetaffinity(0, &one) // likewise
	return func() { _ = unix.SchedSetaffinity(0, &before) }
}

// memoryDir is where the guest's memory lives: in the host's memory if possible.
func memoryDir() string {
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// result reads the status that the init script left. The kernel's own exit
// status says nothing.
func result(ctx context.Context, scratch string, con *console, runErr error, limit time.Duration) (int, error) {
	con.flush()
	b, err := os.ReadFile(filepath.Join(scratch, statusFile))
	if err == nil {
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil {
			return n, nil
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return 0, fmt.Errorf("uml: no result within %v\n%s", limit, con.tail())
	case ctx.Err() != nil:
		return 0, fmt.Errorf("uml: interrupted: %w", ctx.Err())
	case runErr != nil:
		return 0, fmt.Errorf("uml: the guest ended without a result: %w\n%s", runErr, con.tail())
	}
	return 0, fmt.Errorf("uml: the guest ended without a result\n%s", con.tail())
}
