package checktest

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
)

// Waited makes a Checker of a Waiter that makes its attempts by Begin and End alone, as the
// scheduler does.
func Waited(w healthcheck.Waiter) healthcheck.Checker { return waited{w} }

type waited struct{ on healthcheck.Waiter }

// Check implements healthcheck.Checker.
func (c waited) Check(ctx context.Context) healthcheck.Result {
	limit := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	start := time.Now()
	fd, r := c.on.Begin()
	if fd >= 0 {
		r = c.on.End(fd, wait(ctx, fd), limit)
	}
	r.Latency = time.Since(start)
	return r
}

// wait waits until the descriptor is writable or ctx has ended.
func wait(ctx context.Context, fd int) healthcheck.Reason {
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds, 2); n <= 0 || err != nil {
			continue
		}
		if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return healthcheck.Trouble
		}
		return healthcheck.Ready
	}
	return healthcheck.Over
}
