// Package process runs the short programs that an operator configures: check
// scripts and notifications. Whatever such a program does, the caller gets
// its answer in bounded time: it runs in a process group of its own, which is
// ended as a whole when its time is up, and a child that keeps standard output
// open holds nobody up. No shell is involved.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Grace is the time between SIGTERM and SIGKILL.
	Grace = 2 * time.Second
	// outputDelay is how long after the exit output is still read.
	outputDelay = 50 * time.Millisecond
	// killWait bounds the wait for a killed program when the caller leaves.
	killWait = time.Second
)

// Command is a program to run.
type Command struct {
	Argv    []string
	Env     []string      // nil: none
	Timeout time.Duration // 0: none
	// User is who the program runs as; nil: this process's own. Other users need
	// the capabilities SETUID, SETGID and, to end the program, KILL.
	User *User
	// Secure refuses a program that others than root and the user could change.
	Secure bool
	// Expired is called when the time is up, before the program is ended, and
	// again after each further Timeout that even a killed program (one that
	// hangs in the kernel), or its file system, which does not answer, is still
	// waited for. It must not block. May be nil.
	Expired func()

	look func(program string, secure bool, uid uint32) error // nil: look
}

// Outcome tells how a run ended.
type Outcome struct {
	Started  time.Time
	Duration time.Duration
	Exit     int    // exit status; -1 when there is none
	TimedOut bool   // the time was up
	Stopped  bool   // ended because the context was
	Err      error  // nil only for exit status 0 in time; says what is wrong
	Output   string // last line of standard output and standard error, shortened
}

// OK tells whether the program ended with status 0 in time.
func (o Outcome) OK() bool { return o.Err == nil }

// String is the outcome in words: "exit status 1", "timeout after 3s".
func (o Outcome) String() string {
	if o.Err == nil {
		return "exit status 0"
	}
	return o.Err.Error()
}

// prepare returns the command that runs argv, not started yet.
func (c *Command) prepare(output io.Writer, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.User.credential()}
	return cmd
}

// Run runs the program and waits for it. When ctx ends, its process group is
// killed at once. No process of the group is left after a timeout or the end
// of ctx; what a program that ended by itself left behind is its own affair.
func Run(ctx context.Context, c Command) Outcome {
	out := Outcome{Started: time.Now(), Exit: -1}
	if len(c.Argv) == 0 {
		out.Err = errors.New("running a program: no program given")
		return out
	}
	if ctx.Err() != nil {
		out.Stopped, out.Err = true, ctx.Err()
		return out
	}
	if err := c.ready(ctx, &out); err != nil {
		out.Duration, out.Err = time.Since(out.Started), err
		return out
	}
	var tail tail
	cmd := c.prepare(&tail, c.Argv...)
	err := start(cmd)
	if errors.Is(err, syscall.ENOEXEC) { // a script that does not begin with #!: run it as shells and execvp(3) do
		cmd = c.prepare(&tail, append([]string{"/bin/sh", cmd.Path}, c.Argv[1:]...)...)
		err = start(cmd)
	}
	if err != nil {
		out.Duration = time.Since(out.Started)
		out.Err = fmt.Errorf("starting: %w", err)
		if c.User.credential() != nil && errors.Is(err, os.ErrPermission) {
			out.Err = fmt.Errorf("starting as user %s: %w (vipd needs CAP_SETUID and CAP_SETGID, and the user access to the program)", c.User.Name, err)
		}
		return out
	}
	unlimited(cmd.Process.Pid)
	r := running{pid: cmd.Process.Pid, done: make(chan error, 1)}
	go func() { r.done <- cmd.Wait() }()

	err = r.wait(ctx, c, &out)
	out.Duration = time.Since(out.Started)
	if errors.Is(err, errStuck) { // cmd still belongs to its goroutine
		out.Err = err
		return out
	}
	switch {
	case out.Stopped:
		out.Err = fmt.Errorf("stopped: %w", ctx.Err())
	case out.TimedOut:
		out.Err = fmt.Errorf("timeout after %v", c.Timeout)
	case errors.Is(err, exec.ErrWaitDelay): // only a child still had the output open
		out.Exit = 0
	default:
		out.Err = err
		out.Exit = cmd.ProcessState.ExitCode()
	}
	out.Output = tail.lastLine()
	return out
}

// ready looks at the program before it is started. The answer of a dead file server is waited for as a program that
// hangs in the kernel is: its time passes, and the end of ctx ends it.
func (c *Command) ready(ctx context.Context, out *Outcome) error {
	see, uid := c.look, uint32(os.Geteuid())
	if see == nil {
		see = look
	}
	if c.User != nil {
		uid = c.User.UID
	}
	done := make(chan error, 1)
	go func() { done <- see(c.Argv[0], c.Secure, uid) }()
	var expired <-chan time.Time
	if c.Timeout > 0 {
		again := time.NewTicker(c.Timeout)
		defer again.Stop()
		expired = again.C
	}
	for {
		select {
		case err := <-done:
			if err == nil && out.TimedOut {
				err = fmt.Errorf("timeout after %v: the file system of %s did not answer", c.Timeout, c.Argv[0])
			}
			return err
		case <-ctx.Done():
			out.Stopped = true
			return fmt.Errorf("stopped: %w", ctx.Err())
		case <-expired:
			out.TimedOut = true
			if c.Expired != nil {
				c.Expired()
			}
		}
	}
}

// unlimited takes the limit of real-time computing from a child: it is meant for a
// thread of ours, and would kill a program that gives itself such a priority. A
// program of another user may keep it, without CAP_SYS_RESOURCE.
func unlimited(pid int) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_RTTIME, &limit) == nil && limit.Cur != limit.Max {
		limit.Cur = limit.Max
		_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil) // ended, or not allowed
	}
}

// errStuck is a killed program that did not go away.
var errStuck = errors.New("stopped: killed, but it hangs in the kernel (a dead file server?)")

// running is a started program.
type running struct {
	pid  int
	done chan error
}

// signal reaches all of the group; a group that is gone is fine.
func (r running) signal(s syscall.Signal) { _ = syscall.Kill(-r.pid, s) }

// wait returns when the program has ended, and says in out why it was ended.
func (r running) wait(ctx context.Context, c Command, out *Outcome) error {
	var expired <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return r.stop(out)
	case <-expired:
	}
	out.TimedOut = true
	if c.Expired != nil {
		c.Expired()
	}
	r.signal(syscall.SIGTERM)
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case err := <-r.done:
		r.signal(syscall.SIGKILL) // its children
		return err
	case <-ctx.Done():
		return r.stop(out)
	case <-grace.C:
	}
	r.signal(syscall.SIGKILL)
	again := time.NewTicker(c.Timeout)
	defer again.Stop()
	for {
		select {
		case err := <-r.done:
			return err
		case <-ctx.Done():
			return r.stop(out)
		case <-again.C:
			if c.Expired != nil {
				c.Expired()
			}
		}
	}
}

// stop kills the group. A program that hangs in the kernel is given up after
// killWait: the caller is about to leave.
func (r running) stop(out *Outcome) error {
	out.Stopped = true
	r.signal(syscall.SIGKILL)
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case err := <-r.done:
		return err
	case <-t.C:
		return errStuck
	}
}
