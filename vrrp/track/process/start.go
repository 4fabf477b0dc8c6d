package process

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// start starts the program so that it does not inherit a real-time priority or a
// nice value below 0 of this process.
func start(cmd *exec.Cmd) error {
	own, err := unix.SchedGetAttr(0, 0)
	if err != nil || own.Policy == unix.SCHED_NORMAL && own.Nice >= 0 {
		return cmd.Start()
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: nobody else gets this thread, which ends with the goroutine.
		runtime.LockOSThread()
		own.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		_ = unix.SchedSetAttr(0, own, 0) // refused: it inherits, and runs all the same
		done <- cmd.Start()
	}()
	return <-done
}
