package netlink

import (
	"errors"
	"sync"

	"github.com/mdlayher/netlink"

	"vipd/ipvs"
)

// Kernel is a [Conn] that is opened when it is needed and opened anew after the connection failed, so that a kernel
// without IPVS, or one whose module is loaded again, is an error only until that changes.
type Kernel struct {
	in   func(open func() error) error
	mu   sync.Mutex
	conn *Conn
}

// NewKernel returns a Kernel that has not connected yet. in runs open in the network namespace whose IPVS is meant, on a
// thread of its own; nil: that of the process.
func NewKernel(in func(open func() error) error) *Kernel {
	if in == nil {
		in = func(open func() error) error { return open() }
	}
	return &Kernel{in: in}
}

// Read is [Conn.Read].
func (k *Kernel) Read() (snap ipvs.Snapshot, err error) {
	err = k.with(func(c *Conn) error {
		snap, err = c.Read()
		var refused *netlink.OpError
		if err != nil && errors.As(err, &refused) {
			_ = k.drop() // reading is never refused but when IPVS was unloaded
		}
		return err
	})
	return snap, err
}

// Same is [Conn.Same].
func (k *Kernel) Same(t ipvs.Table) (same bool, err error) {
	err = k.with(func(c *Conn) error {
		same, err = c.Same(t)
		if err != nil {
			_ = k.drop()
		}
		return err
	})
	return same, err
}

// Apply is [Conn.Apply]; without a connection every change fails alike.
func (k *Kernel) Apply(ops []ipvs.Op) (errs []error) {
	err := k.with(func(c *Conn) error {
		errs = c.Apply(ops)
		return nil
	})
	if err != nil {
		errs = make([]error, len(ops))
		for i := range errs {
			errs[i] = &Error{Op: ops[i], Err: err}
		}
	}
	return errs
}

// Daemons is [Conn.Daemons].
func (k *Kernel) Daemons() (out []ipvs.Daemon, err error) {
	err = k.with(func(c *Conn) error { out, err = c.Daemons(); return err })
	return out, err
}

// StartDaemon is [Conn.StartDaemon].
func (k *Kernel) StartDaemon(d ipvs.Daemon) error {
	return k.with(func(c *Conn) error { return c.StartDaemon(d) })
}

// StopDaemon is [Conn.StopDaemon].
func (k *Kernel) StopDaemon(r ipvs.Role) error {
	return k.with(func(c *Conn) error { return c.StopDaemon(r) })
}

// Facts returns the timeouts in force and the number of buckets of the table of connections.
func (k *Kernel) Facts() (t ipvs.Timeouts, buckets int, err error) {
	err = k.with(func(c *Conn) error {
		if t, err = c.Timeouts(); err == nil {
			buckets, err = c.TableSize()
		}
		return err
	})
	return t, buckets, err
}

// SetTimeouts is [Conn.SetTimeouts].
func (k *Kernel) SetTimeouts(t ipvs.Timeouts) error {
	return k.with(func(c *Conn) error { return c.SetTimeouts(t) })
}

// In runs f in the network namespace of this IPVS.
func (k *Kernel) In(f func() error) error { return k.in(f) }

// Close ends the connection; the next call opens another.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.drop()
}

func (k *Kernel) with(call func(*Conn) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		err := k.in(func() (err error) {
			k.conn, err = Open()
			return err
		})
		if err != nil {
			k.conn = nil
			return err
		}
	}
	err := call(k.conn)
	if k.conn != nil && k.conn.broken != nil {
		_ = k.drop()
	}
	return err
}

func (k *Kernel) drop() error {
	if k.conn == nil {
		return nil
	}
	err := k.conn.Close()
	k.conn = nil
	return err
}
