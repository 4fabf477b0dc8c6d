// Package netlink reads and changes the kernel's IPVS table.
//
// The common path, reading destinations and single changes, goes through cloudflare/ipvs; bulk changes, and services, whose
// persistence engine that library does not know, go through generic netlink of our own. No exchange with the kernel waits
// longer than [Timeout], but for 10 s those about sync daemons, which the kernel waits for itself.
package netlink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	cf "github.com/cloudflare/ipvs"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// Timeout bounds one exchange with the kernel.
const Timeout = 3 * time.Second

// errTimeout ends an exchange that the kernel did not answer.
var errTimeout = fmt.Errorf("no answer from the kernel within %s: %w", Timeout, os.ErrDeadlineExceeded)

// Conn is a connection to the IPVS of the network namespace it was opened in. Its methods may be called from several
// goroutines; they take turns.
type Conn struct {
	mu      sync.Mutex
	client  cf.Client
	batch   *batcher
	control *control
	proc    *os.File // nil when the kernel has no /proc/net/ip_vs
	buf     []byte   // for proc
	hz      int64    // jiffies a second as learned from proc; 0 unknown
	broken  error    // set when a connection had to be given up
}

// Open connects to the IPVS of the calling thread's network namespace; the kernel loads the module if it can. Without
// IPVS the error is [ipvs.ErrAbsent].
func Open() (*Conn, error) {
	client, err := cf.New()
	if err != nil {
		return nil, openError(err)
	}
	c := &Conn{client: client}
	if c.batch, err = openBatcher(); err != nil {
		return nil, errors.Join(openError(err), c.closeClient())
	}
	if c.control, err = openControl(); err != nil {
		return nil, errors.Join(openError(err), c.batch.close(), c.closeClient())
	}
	if c.proc, err = os.Open("/proc/thread-self/net/ip_vs"); err != nil {
		c.proc = nil // only the cheap look is lost: Same then says that it cannot tell
	}
	return c, nil
}

func openError(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("connecting to IPVS: %w", ipvs.ErrAbsent)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("connecting to IPVS: %w: run as root or with CAP_NET_ADMIN", err)
	}
	return fmt.Errorf("connecting to IPVS: %w", err)
}

// Close ends the connection.
func (c *Conn) Close() error {
	err := errors.Join(c.batch.close(), c.control.c.Close(), c.closeClient())
	if c.proc != nil {
		err = errors.Join(err, c.proc.Close())
	}
	return err
}

func (c *Conn) closeClient() error {
	closer, ok := c.client.(io.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil && c.broken == nil {
		return fmt.Errorf("closing the IPVS connection: %w", err)
	}
	return nil
}

// bounded makes one call of the cloudflare client. Its connection has no deadline: when time is up it is closed, which
// ends the call, and this Conn is broken.
func (c *Conn) bounded(call func() error) error {
	if c.broken != nil {
		return c.broken
	}
	t := time.AfterFunc(Timeout, func() { _ = c.client.(io.Closer).Close() })
	err := call()
	if !t.Stop() {
		c.broken = errTimeout
		return errTimeout
	}
	return err
}

// Apply makes the changes in order and returns an error, nil for success, for each. A change that the kernel refuses does
// not keep the following ones from being tried. Errors are [*Error].
func (c *Conn) Apply(ops []ipvs.Op) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	if len(ops) == 1 {
		errs = []error{c.bounded(func() error { return c.single(ops[0]) })}
	} else {
		errs = c.batch.apply(ops)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = &Error{Op: ops[i], Err: err}
		}
	}
	return errs
}
